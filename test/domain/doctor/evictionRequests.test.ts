import { describe, expect, test } from '@jest/globals';
import type { EvictionRequest, LifecycleEviction } from '../../../api/lifecycle.ts';
import { MAINTENANCE_REQUESTER } from '../../../api/names.ts';
import { evictionRequestFindings, responderFindings } from '../../../domain/doctor/evictionRequests.ts';
import { pod } from '../../kit/builders.ts';

const now = Date.parse('2026-01-01T12:00:00Z');
const timing = { now, stuckAfterMs: 600_000 };
const ago = (seconds: number) => new Date(now - seconds * 1_000).toISOString();
const one = pod({ name: 'p', namespace: 'shop', uid: 'u' });
const target = { pod: { name: 'p', uid: 'u' } };
const request = (seconds: number, differs: Partial<EvictionRequest> = {}): EvictionRequest => ({
  metadata: { name: 'r', namespace: 'shop', creationTimestamp: ago(seconds) },
  spec: { target, requester: MAINTENANCE_REQUESTER, intent: 'Eviction' },
  ...differs,
});
const eviction = (startedSeconds: number, heartbeatTime?: string): LifecycleEviction => ({
  metadata: { name: 'e', namespace: 'shop' },
  spec: { target },
  status: {
    targetResponders: [{ name: 'acme.io/a', priority: 1000, state: 'Active' }],
    responders: [
      { name: 'acme.io/a', startTime: ago(startedSeconds), ...(heartbeatTime && { heartbeatTime }) },
    ],
  },
});

describe('doctor', () => {
  test.each([
    {
      says: 'nothing without EvictionRequests of node maintenance',
      requests: [],
      evictions: [],
      pods: [],
      want: [],
    },
    {
      says: 'ok while a request is young',
      requests: [request(10)],
      evictions: [],
      pods: [one],
      want: ['ok'],
    },
    {
      says: 'that no controller answers',
      requests: [request(61)],
      evictions: [],
      pods: [one],
      want: ['error'],
    },
    {
      says: 'ok while one is served',
      requests: [request(61)],
      evictions: [eviction(1)],
      pods: [one],
      want: ['ok'],
    },
    {
      says: 'that a request is left without its pod',
      requests: [request(601, { status: { observedGeneration: 1 } })],
      evictions: [],
      pods: [],
      want: ['warning'],
    },
  ])('says $says', ({ requests, evictions, pods, want }) => {
    const findings = evictionRequestFindings({ requests, evictions, pods }, timing);
    expect(findings.map(({ result }) => result)).toEqual(want);
  });

  test('names a responder that does not report', () => {
    expect(responderFindings([eviction(61)], timing)).toMatchObject([
      { result: 'error', object: 'responder/acme.io/a' },
    ]);
    expect(responderFindings([eviction(61, ago(5)), eviction(10)], timing)).toEqual([]);
    const waiting = eviction(61);
    const [responder] = waiting.status?.responders ?? [];
    if (responder !== undefined) responder.message = 'waits for its backup';
    expect(responderFindings([waiting], timing)).toEqual([]);
  });
});
