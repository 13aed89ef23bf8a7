import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../../api/core.ts';
import { evictionApis } from '../../../domain/common/evictionApi.ts';
import type { RequestState } from '../../../domain/evacuation/evictionRequest.ts';
import { evacuationOnlyReason, type RouteFacts, routeOf } from '../../../domain/evacuation/route.ts';
import { daemonPod, mirrorPod, pod } from '../../kit/builders.ts';

const annotated = { annotations: { 'evacuation.coordination.k8s.io/priority_a.io': '1/x' } };
const evictionResponders = [{ name: 'acme.io/migrate', priority: 2000 }];
const withSpec = (spec: Partial<Pod['spec']>, differs: Parameters<typeof pod>[0] = {}): Pod => {
  const one = pod(differs);
  return { ...one, spec: { ...one.spec, ...spec } };
};
const nowMs = Date.parse('2026-01-01T12:00:00Z');
const responseMs = 30_000;

const plain: RouteFacts = {
  pod: pod(),
  hasEvacuation: false,
  request: { kind: 'None' },
  api: 'auto',
  serving: 'Served',
  responseMs,
  nowMs,
};
const withdrawn = (wasAnswered: boolean, isSettled = true): RequestState => ({
  kind: 'Withdrawn',
  wasAnswered,
  isSettled,
});
const deleted = (
  forMs: number,
  differs: { wasAnswered?: boolean; isSettled?: boolean } = {},
): RequestState => ({
  kind: 'Withdrawn',
  wasAnswered: true,
  isSettled: true,
  deleted: { atMs: nowMs - forMs, finalizers: ['x/y'] },
  ...differs,
});
const inProgress: RequestState = { kind: 'InProgress', responder: undefined };
const unanswered = (forMs: number): RequestState => ({ kind: 'Unanswered', sinceMs: nowMs - forMs });
const failed = (forMs: number): RequestState => ({ kind: 'Failed', atMs: nowMs - forMs, message: 'no' });

describe('a pod leaves by', () => {
  test.each<{ when: string; facts: Partial<RouteFacts>; want: ReturnType<typeof routeOf> }>([
    { when: 'Evacuations are chosen', facts: { api: 'evacuation' }, want: 'Evacuation' },
    { when: 'EvictionRequests are chosen', facts: { api: 'lifecycle' }, want: 'Request' },
    {
      when: 'EvictionRequests are chosen, and nobody serves them: it waits',
      facts: { api: 'lifecycle', serving: 'Unanswered' },
      want: 'Request',
    },
    {
      when: 'EvictionRequests are chosen, and the apiserver does not serve them',
      facts: { api: 'lifecycle', serving: 'NotServed' },
      want: 'Wait',
    },
    {
      when: 'EvictionRequests are chosen and not served, and do not support it',
      facts: { api: 'lifecycle', serving: 'NotServed', pod: daemonPod() },
      want: 'Evacuation',
    },
    { when: 'a controller serves EvictionRequests', facts: {}, want: 'Request' },
    { when: 'it is not known whether one does', facts: { serving: 'Unknown' }, want: 'Probe' },
    { when: 'no controller has answered', facts: { serving: 'Unanswered' }, want: 'Evacuation' },
    { when: 'the API is not served', facts: { serving: 'NotServed' }, want: 'Evacuation' },
    {
      when: 'it has an Evacuation already',
      facts: { api: 'lifecycle', hasEvacuation: true },
      want: 'Evacuation',
    },
    { when: 'its request is in progress', facts: { request: inProgress }, want: 'Requested' },
    {
      when: 'its request is in progress, and a later one of another pod was not answered',
      facts: { request: inProgress, serving: 'Unanswered' },
      want: 'Requested',
    },
    {
      when: 'its request is in progress, and Evacuations were chosen since',
      facts: { request: inProgress, api: 'evacuation' },
      want: 'Withdraw',
    },
    {
      when: 'its request is young',
      facts: { request: unanswered(1), serving: 'Unknown' },
      want: 'Requested',
    },
    {
      when: 'its request is not answered in time',
      facts: { request: unanswered(responseMs) },
      want: 'Withdraw',
    },
    {
      when: 'its request is not answered in time, and only EvictionRequests are chosen',
      facts: { request: unanswered(10 * responseMs), api: 'lifecycle', serving: 'Unanswered' },
      want: 'Requested',
    },
    {
      when: 'its request was withdrawn without an answer',
      facts: { request: withdrawn(false) },
      want: 'Evacuation',
    },
    { when: 'its request was withdrawn by another drain', facts: { request: withdrawn(true) }, want: 'Wait' },
    {
      when: 'its request was withdrawn, and its responder has not stopped yet',
      facts: { request: withdrawn(true, false), api: 'evacuation' },
      want: 'Wait',
    },
    {
      when: 'its request was withdrawn in favour of an Evacuation',
      facts: { request: withdrawn(true), api: 'evacuation' },
      want: 'Evacuation',
    },
    { when: 'its request was deleted a moment ago', facts: { request: deleted(10_000) }, want: 'Wait' },
    {
      when: 'finalizers of others keep its request, which was deleted',
      facts: { request: deleted(10_001) },
      want: 'Request',
    },
    {
      when: 'finalizers of others keep its request, and no controller has answered it',
      facts: { request: deleted(10_001, { wasAnswered: false }), api: 'lifecycle', serving: 'Unanswered' },
      want: 'Request',
    },
    {
      when: 'finalizers of others keep its request, and its responder has not stopped yet',
      facts: { request: deleted(10_001, { isSettled: false }) },
      want: 'Wait',
    },
    {
      when: 'the controller refuses it',
      facts: { request: { kind: 'Refused', message: '' } },
      want: 'Evacuation',
    },
    { when: 'its eviction has just failed', facts: { request: failed(1_000) }, want: 'Wait' },
    { when: 'its eviction failed a while ago', facts: { request: failed(30_000) }, want: 'Renew' },
    { when: 'it is being deleted', facts: { request: { kind: 'Evicted' } }, want: 'Requested' },
    {
      when: 'it has terminated, and remains',
      facts: { request: { kind: 'Evicted' }, pod: pod({ phase: 'Succeeded', ready: false }) },
      want: 'Evacuation',
    },
  ])('$want when $when', ({ facts, want }) => {
    expect(routeOf({ ...plain, ...facts })).toBe(want);
  });
});

describe('an EvictionRequest', () => {
  test.each<{ which: string; one: Pod; supported: boolean }>([
    { which: 'a plain pod', one: pod(), supported: true },
    { which: 'a DaemonSet pod', one: daemonPod(), supported: false },
    { which: 'a static pod', one: mirrorPod(), supported: false },
    { which: 'a pod of a group', one: withSpec({ hasSchedulingGroup: true }), supported: false },
    { which: 'a pod that has evacuators but no responders', one: pod(annotated), supported: false },
    { which: 'a pod with responders', one: withSpec({ evictionResponders }), supported: true },
    {
      which: 'a pod with evacuators and responders',
      one: withSpec({ evictionResponders }, annotated),
      supported: true,
    },
    {
      which: 'a pod that has terminated',
      one: pod({ phase: 'Failed', ready: false }),
      supported: false,
    },
  ])('of $which: supported $supported', ({ one, supported }) => {
    expect(evacuationOnlyReason(one) === undefined).toBe(supported);
  });
});

describe('whatever is observed', () => {
  const states = fc.oneof<fc.Arbitrary<RequestState>[]>(
    fc.constant({ kind: 'None' }),
    fc.record(
      {
        kind: fc.constant('Withdrawn' as const),
        wasAnswered: fc.boolean(),
        isSettled: fc.boolean(),
        deleted: fc.record({ atMs: fc.constantFrom(0, nowMs), finalizers: fc.constant(['x/y']) }),
      },
      { requiredKeys: ['kind', 'wasAnswered', 'isSettled'] },
    ),
    fc.record({ kind: fc.constant('Unanswered' as const), sinceMs: fc.integer({ min: 0, max: nowMs }) }),
    fc.constant(inProgress),
    fc.constant({ kind: 'Evicted' }),
    fc.constant({ kind: 'Refused', message: '' }),
    fc.record({
      kind: fc.constant('Failed' as const),
      atMs: fc.integer({ min: 0, max: nowMs }),
      message: fc.constant(''),
    }),
  );
  const allFacts = fc.record({
    pod: fc.constantFrom(pod(), daemonPod(), mirrorPod(), pod(annotated), withSpec({ evictionResponders })),
    hasEvacuation: fc.boolean(),
    request: states,
    api: fc.constantFrom(...evictionApis),
    serving: fc.constantFrom('Served', 'Unknown', 'Unanswered', 'NotServed'),
    responseMs: fc.constant(responseMs),
    nowMs: fc.constant(nowMs),
  }) as fc.Arbitrary<RouteFacts>;
  const requests: readonly string[] = ['Request', 'Probe', 'Renew', 'Requested'];

  test('no pod gets an Evacuation while its EvictionRequest can still have an effect', () => {
    fc.assert(
      fc.property(allFacts, (facts) => {
        fc.pre(routeOf(facts) === 'Evacuation' && !facts.hasEvacuation);
        const { kind } = facts.request;
        expect(['None', 'Withdrawn', 'Refused', 'Evicted']).toContain(kind);
        if (facts.request.kind === 'Withdrawn') expect(facts.request.isSettled).toBe(true);
      }),
    );
  });

  test('a pod with an Evacuation gets no EvictionRequest', () => {
    fc.assert(
      fc.property(allFacts, (facts) => {
        expect(routeOf({ ...facts, hasEvacuation: true })).toBe('Evacuation');
      }),
    );
  });

  test('a pod that EvictionRequests do not support, or whose choice is Evacuations, gets none', () => {
    fc.assert(
      fc.property(allFacts, (facts) => {
        fc.pre(facts.api === 'evacuation' || evacuationOnlyReason(facts.pod) !== undefined);
        fc.pre(facts.request.kind !== 'Evicted');
        expect(requests).not.toContain(routeOf(facts));
      }),
    );
  });

  test('no EvictionRequest is created where the apiserver does not serve them', () => {
    fc.assert(
      fc.property(allFacts, (facts) => {
        expect(['Request', 'Probe']).not.toContain(routeOf({ ...facts, serving: 'NotServed' }));
      }),
    );
  });

  test('a pod that is not answered gets an Evacuation, in two steps', () => {
    fc.assert(
      fc.property(allFacts, (facts) => {
        const silent: RouteFacts = {
          ...facts,
          api: 'auto',
          hasEvacuation: false,
          request: unanswered(responseMs),
        };
        expect(routeOf(silent)).toBe('Withdraw');
        expect(routeOf({ ...silent, request: withdrawn(false) })).toBe('Evacuation');
      }),
    );
  });
});
