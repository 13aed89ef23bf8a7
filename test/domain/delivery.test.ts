import { describe, expect, test } from '@jest/globals';
import { type Delivery, judgeAnswer } from '../../domain/delivery.ts';

const now = Date.parse('2026-01-01T00:00:00Z');
const again = (status: number, afterMs?: number): Delivery => ({
  kind: 'TryAgain',
  because: `HTTP ${status}`,
  ...(afterMs !== undefined && { afterMs }),
});

describe('an answer of the receiver', () => {
  test.each<{ when: string; status: number; retryAfter?: string; want: Delivery }>([
    { when: 'that takes the event ends it', status: 202, want: { kind: 'Delivered' } },
    {
      when: 'that refuses it ends it',
      status: 400,
      want: { kind: 'Refused', because: 'HTTP 400' },
    },
    {
      when: 'that wants no more events ends it',
      status: 410,
      want: { kind: 'Refused', because: 'HTTP 410' },
    },
    {
      when: 'that redirects ends it, and says what to do',
      status: 308,
      want: { kind: 'Refused', because: 'HTTP 308: give the URL that it redirects to' },
    },
    { when: 'that fails is asked for again', status: 500, want: again(500) },
    { when: 'that took too long is asked for again', status: 408, want: again(408) },
    { when: 'of too many is asked for again', status: 429, want: again(429) },
    { when: 'with a time to wait, after it', status: 503, retryAfter: '7', want: again(503, 7_000) },
    {
      when: 'with a date, then',
      status: 429,
      retryAfter: 'Thu, 01 Jan 2026 00:00:09 GMT',
      want: again(429, 9_000),
    },
    {
      when: 'with a date that has passed, when it suits us',
      status: 429,
      retryAfter: 'Wed, 31 Dec 2025 00:00:00 GMT',
      want: again(429),
    },
    {
      when: 'that wants days, after five minutes',
      status: 503,
      retryAfter: '999999',
      want: again(503, 300_000),
    },
    { when: 'with nonsense, when it suits us', status: 503, retryAfter: 'soon', want: again(503) },
  ])('$when', ({ status, retryAfter, want }) => {
    expect(judgeAnswer({ status, retryAfter }, now)).toEqual(want);
  });
});
