import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Condition } from '../../../api/core.ts';
import type { EvictionRequest, LifecycleEviction } from '../../../api/lifecycle.ts';
import { MAINTENANCE_REQUESTER } from '../../../api/names.ts';
import {
  evictionRequestName,
  evictionRequestOf,
  requestedEviction,
  requestStateOf,
} from '../../../domain/evacuation/evictionRequest.ts';
import { pod } from '../../kit/builders.ts';

const uid = '11111111-2222-4333-8444-555555555555';
const created = '2026-01-01T12:00:00Z';
const target = { pod: { name: 'p', uid } };

const request = (differs: Partial<EvictionRequest> = {}): EvictionRequest => ({
  metadata: { name: 'r', namespace: 'shop', uid: 'uid-r', generation: 1, creationTimestamp: created },
  spec: { target, requester: MAINTENANCE_REQUESTER, intent: 'Eviction' },
  ...differs,
});
const condition = (type: string, reason: string, at = created): Condition => ({
  type,
  status: 'True',
  reason,
  message: '',
  lastTransitionTime: at,
});
const eviction = (
  status: LifecycleEviction['status'],
  metadata: Partial<LifecycleEviction['metadata']> = {},
): LifecycleEviction => ({
  metadata: { name: 'e', namespace: 'shop', creationTimestamp: created, ...metadata },
  spec: { target },
  ...(status && { status }),
});
const active = eviction({
  targetResponders: [
    { name: 'acme.io/a', priority: 2000, state: 'Completed' },
    { name: 'acme.io/b', priority: 1000, state: 'Active' },
  ],
  responders: [
    { name: 'acme.io/a', message: 'done' },
    { name: 'acme.io/b', message: 'copying' },
  ],
});
const owned = { ownerReferences: [{ apiVersion: '', kind: '', name: 'r', uid: 'uid-r' }] };

describe('the state of an EvictionRequest', () => {
  test.each<{ when: string; requests: EvictionRequest[]; evictions: LifecycleEviction[]; want: object }>([
    { when: 'there is none', requests: [], evictions: [active], want: { kind: 'None' } },
    {
      when: 'others request the eviction',
      requests: [request({ spec: { target, requester: 'acme.io/other', intent: 'Eviction' } })],
      evictions: [active],
      want: { kind: 'None' },
    },
    {
      when: 'nobody has observed it',
      requests: [request()],
      evictions: [],
      want: { kind: 'Unanswered', sinceMs: Date.parse(created) },
    },
    {
      when: 'a controller has observed it',
      requests: [request({ status: { observedGeneration: 1 } })],
      evictions: [],
      want: { kind: 'InProgress', responder: undefined },
    },
    {
      when: 'a responder is active',
      requests: [request()],
      evictions: [active],
      want: { kind: 'InProgress', responder: { name: 'acme.io/b', message: 'copying' } },
    },
    {
      when: 'the pod was evicted',
      requests: [request()],
      evictions: [eviction({ conditions: [condition('TargetEvicted', 'PodDeleted')] }, owned)],
      want: { kind: 'Evicted' },
    },
    {
      when: 'the controller refuses the pod',
      requests: [request()],
      evictions: [eviction({ conditions: [condition('Failed', 'EvictionInvalid')] }, owned)],
      want: { kind: 'Refused', message: '' },
    },
    {
      when: 'the controller says so on the request alone',
      requests: [
        request({ status: { observedGeneration: 1, conditions: [condition('Failed', 'EvictionInvalid')] } }),
      ],
      evictions: [],
      want: { kind: 'Refused', message: '' },
    },
    {
      when: 'no responder is left',
      requests: [request()],
      evictions: [eviction({ conditions: [condition('Failed', 'NoFurtherResponder')] }, owned)],
      want: { kind: 'Failed', atMs: Date.parse(created), message: 'NoFurtherResponder' },
    },
    {
      when: 'an Eviction had failed before it was created',
      requests: [request()],
      evictions: [
        eviction({ conditions: [condition('Failed', 'NoFurtherResponder', '2026-01-01T11:00:00Z')] }),
      ],
      want: { kind: 'Unanswered', sinceMs: Date.parse(created) },
    },
    {
      when: 'it was withdrawn, and the Eviction still counts it',
      requests: [request({ spec: { target, requester: MAINTENANCE_REQUESTER, intent: 'Withdrawn' } })],
      evictions: [eviction({ requesters: [{ name: MAINTENANCE_REQUESTER, intent: 'Eviction' }] })],
      want: { kind: 'Withdrawn', wasAnswered: true, isSettled: false },
    },
    {
      when: 'it was withdrawn, and others still request the Eviction',
      requests: [request({ spec: { target, requester: MAINTENANCE_REQUESTER, intent: 'Withdrawn' } })],
      evictions: [
        eviction({
          requesters: [
            { name: 'acme.io/other', intent: 'Eviction' },
            { name: MAINTENANCE_REQUESTER, intent: 'Withdrawn' },
          ],
        }),
      ],
      want: { kind: 'Withdrawn', wasAnswered: true, isSettled: true },
    },
    {
      when: 'it is being deleted, and nobody has observed it',
      requests: [
        request({ metadata: { ...request().metadata, deletionTimestamp: created, finalizers: ['x/y'] } }),
      ],
      evictions: [],
      want: {
        kind: 'Withdrawn',
        wasAnswered: false,
        isSettled: true,
        deleted: { atMs: Date.parse(created), finalizers: ['x/y'] },
      },
    },
  ])('is $want.kind when $when', ({ requests, evictions, want }) => {
    expect(requestStateOf(requestedEviction(requests, evictions))).toEqual(want);
  });

  const [earlier, later] = ['2026-01-01T11:00:00Z', '2026-01-01T13:00:00Z'];
  const evicted = (at: string) => condition('TargetEvicted', 'Evicted', at);
  test.each<{ when: string; conditions: Condition[]; serves: boolean }>([
    { when: 'had ended before the request', conditions: [evicted(earlier)], serves: false },
    { when: 'ended when the request was made', conditions: [evicted(created)], serves: false },
    { when: 'ended after the request was made', conditions: [evicted(later)], serves: true },
    {
      when: 'failed after the request was made',
      conditions: [condition('Failed', 'NoFurtherResponder', later)],
      serves: true,
    },
    {
      when: 'had ended before the request, and reports something else since',
      conditions: [
        evicted(earlier),
        condition('Progressing', 'Responding', later),
        { ...condition('Failed', 'None', later), status: 'False' },
      ],
      serves: false,
    },
  ])('counts an Eviction of others that $when: $serves', ({ conditions, serves }) => {
    const { eviction: found } = requestedEviction([request()], [eviction({ conditions })]);
    expect(found !== undefined).toBe(serves);
  });

  test('is that of the Eviction in progress, else of the newest', () => {
    const ended = eviction({ conditions: [evicted(later)] }, { name: 'ended', creationTimestamp: later });
    const running = eviction(undefined, { name: 'running', creationTimestamp: earlier });
    const newer = eviction(undefined, { name: 'newer', creationTimestamp: created });
    const nameOf = (...evictions: LifecycleEviction[]) =>
      requestedEviction([request()], evictions).eviction?.metadata.name;
    expect(nameOf(ended, running)).toBe('running');
    expect(nameOf(running, newer)).toBe('newer');
    expect(nameOf({ ...newer, metadata: { ...newer.metadata, name: 'a' } }, newer)).toBe('a');
  });

  test('does not depend on the order of requests and Evictions', () => {
    const requests = [
      request(),
      request({
        metadata: { ...request().metadata, name: 'older', creationTimestamp: '2026-01-01T10:00:00Z' },
      }),
      request({ spec: { target, requester: MAINTENANCE_REQUESTER, intent: 'Withdrawn' } }),
    ];
    const evictions = [active, eviction({ conditions: [condition('Failed', 'NoFurtherResponder')] }, owned)];
    const want = requestStateOf(requestedEviction(requests, evictions));
    fc.assert(
      fc.property(
        fc.shuffledSubarray(requests, { minLength: 3 }),
        fc.shuffledSubarray(evictions, { minLength: 2 }),
        (some, others) => {
          expect(requestStateOf(requestedEviction(some, others))).toEqual(want);
        },
      ),
    );
  });
});

describe('the EvictionRequest of a pod', () => {
  const owner = {
    name: 'rack-7',
    uid: 'uid-nm',
    apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
    kind: 'NodeMaintenance',
  };

  test('names the pod by UID, and is owned by the maintenance', () => {
    const made = evictionRequestOf(pod({ name: 'p', uid, namespace: 'shop' }), 'r', owner);
    expect(made).toMatchObject({
      metadata: { name: 'r', namespace: 'shop', ownerReferences: [{ name: 'rack-7', uid: 'uid-nm' }] },
      spec: { target, requester: 'node-maintenance.dev/nodemaintenance', intent: 'Eviction' },
    });
  });

  test('has the same name in every process, a valid one, and another one if an object of another has it', () => {
    const name = fc.stringMatching(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/);
    fc.assert(
      fc.property(name, (podName) => {
        const own = evictionRequestName({ uid, name: podName });
        const other = evictionRequestName({ uid, name: podName }, { name: own, uid: 'abcdefgh-1' });
        for (const one of [own, other]) expect(one).toMatch(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/);
        expect(own).toContain(uid);
        expect(other).not.toBe(own);
      }),
    );
  });
});
