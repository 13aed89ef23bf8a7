import { describe, expect, test } from '@jest/globals';
import { deliveryResultOf, type DeliveryResult } from '../../../domain/notifications/delivery.ts';

const now = Date.parse('2026-01-01T00:00:00Z');
const retry = (status: number, afterMs?: number): DeliveryResult => ({
  kind: 'Retry',
  reason: `HTTP ${status}`,
  ...(afterMs !== undefined && { afterMs }),
});

describe('a response of the endpoint', () => {
  test.each<{ when: string; status: number; retryAfter?: string; want: DeliveryResult }>([
    { when: '202 accepts the event', status: 202, want: { kind: 'Delivered' } },
    {
      when: '400 rejects the event',
      status: 400,
      want: { kind: 'Rejected', reason: 'HTTP 400' },
    },
    {
      when: '410 rejects the event',
      status: 410,
      want: { kind: 'Rejected', reason: 'HTTP 410' },
    },
    {
      when: '308 rejects the event, because redirects are not followed',
      status: 308,
      want: { kind: 'Rejected', reason: 'HTTP 308: redirects are not followed, set the final URL' },
    },
    { when: '500 is retried', status: 500, want: retry(500) },
    { when: '408 is retried', status: 408, want: retry(408) },
    { when: '429 is retried', status: 429, want: retry(429) },
    { when: 'Retry-After in seconds is respected', status: 503, retryAfter: '7', want: retry(503, 7_000) },
    {
      when: 'Retry-After as a date is respected',
      status: 429,
      retryAfter: 'Thu, 01 Jan 2026 00:00:09 GMT',
      want: retry(429, 9_000),
    },
    {
      when: 'Retry-After in the past is ignored',
      status: 429,
      retryAfter: 'Wed, 31 Dec 2025 00:00:00 GMT',
      want: retry(429),
    },
    {
      when: 'Retry-After of days is cut to five minutes',
      status: 503,
      retryAfter: '999999',
      want: retry(503, 300_000),
    },
    { when: 'an invalid Retry-After is ignored', status: 503, retryAfter: 'soon', want: retry(503) },
  ])('with $when', ({ status, retryAfter, want }) => {
    expect(deliveryResultOf({ status, retryAfter }, now)).toEqual(want);
  });
});
