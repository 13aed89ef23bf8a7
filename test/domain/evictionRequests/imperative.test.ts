import { describe, expect, test } from '@jest/globals';
import type { Evacuation } from '../../../api/evacuation.ts';
import { MAINTENANCE_FINALIZER, MAINTENANCE_REQUESTER } from '../../../api/names.ts';
import { imperativeStep, isAboutToBeCancelled } from '../../../domain/evictionRequests/imperative.ts';
import { daemonPod, mirrorPod, pod } from '../../kit/builders.ts';

const now = new Date('2026-11-25T12:00:00Z');

const situation = (differs: Partial<Parameters<typeof imperativeStep>[0]>) => ({
  pod: undefined,
  wasEvicted: false,
  isCancelled: false,
  evacuations: [],
  now,
  ...differs,
});

const withEvacuators = () =>
  pod({
    name: 'web',
    uid: 'uid',
    annotations: { 'evacuation.coordination.k8s.io/priority_example.com': '10/mover' },
  });

function evacuation({
  name = 'uid-web',
  deletedAgoMs,
  policy,
  finalizers,
}: {
  name?: string;
  deletedAgoMs?: number;
  policy?: 'Forbid';
  finalizers?: string[];
}): Evacuation {
  const deletionTimestamp =
    deletedAgoMs === undefined ? undefined : new Date(now.getTime() - deletedAgoMs).toISOString();
  return {
    metadata: { name, uid: '01234567-89ab', deletionTimestamp, finalizers },
    spec: { podRef: { name: 'web', uid: 'uid' } },
    status: { evacuationCancellationPolicy: policy },
  } as Evacuation;
}

test.each([
  { when: 'a running pod is evicted', of: pod(), kind: 'Evict' },
  {
    when: 'a pod with evacuators is evacuated',
    of: pod({ annotations: { 'evacuation.coordination.k8s.io/priority_example.com': '10/mover' } }),
    kind: 'Evacuate',
  },
  { when: 'a pod that does not exist is done', of: undefined, kind: 'Complete' },
  { when: 'a pod that has terminated is done', of: pod({ phase: 'Succeeded' }), kind: 'Complete' },
  { when: 'a pod of a DaemonSet is left', of: daemonPod(), kind: 'Complete' },
  { when: 'a static pod is left', of: mirrorPod(), kind: 'Complete' },
  {
    when: 'a terminating pod is waited for',
    of: pod({ deletionTimestamp: '2026-11-25T12:00:00Z' }),
    kind: 'Report',
  },
])('The imperative responder: $when', ({ of, kind }) => {
  expect(imperativeStep(situation({ pod: of })).kind).toBe(kind);
});

test('The imperative responder evicts no pod twice', () => {
  expect(imperativeStep(situation({ pod: pod(), wasEvicted: true }))).toEqual({
    kind: 'Report',
    message: 'The pod is terminating.',
  });
});

test('The imperative responder leaves a pod to its Evacuation', () => {
  const evacuations = [evacuation({ deletedAgoMs: 60_000 }), evacuation({ name: 'uid-web-2' })];
  expect(imperativeStep(situation({ pod: withEvacuators(), evacuations }))).toEqual({
    kind: 'Report',
    message: 'Evacuation uid-web-2 of the pod is in progress.',
  });
});

test('The imperative responder leaves a pod to an Evacuation that was deleted, and cannot be cancelled', () => {
  const evacuations = [evacuation({ deletedAgoMs: 60_000, policy: 'Forbid' })];
  expect(imperativeStep(situation({ pod: withEvacuators(), evacuations })).kind).toBe('Report');
});

test.each([
  { when: 'none is left', evacuations: [], step: { kind: 'Evacuate', name: 'uid-web' } },
  {
    when: 'the cancelled one is about to go',
    evacuations: [evacuation({ deletedAgoMs: 5_000, finalizers: ['example.com/audit'] })],
    step: { kind: 'Report', againInMs: 10_000 },
  },
  {
    when: 'finalizers keep the cancelled one',
    evacuations: [evacuation({ deletedAgoMs: 10_001, finalizers: ['example.com/audit'] })],
    step: { kind: 'Evacuate', name: 'uid-web-01234567' },
  },
])('The imperative responder requests another Evacuation when $when', ({ evacuations, step }) => {
  expect(imperativeStep(situation({ pod: withEvacuators(), evacuations }))).toMatchObject(step);
});

test.each([{ of: pod() }, { of: withEvacuators() }])(
  'The imperative responder begins nothing for a maintenance that was cancelled',
  ({ of }) => {
    expect(imperativeStep(situation({ pod: of, isCancelled: true }))).toEqual({
      kind: 'Report',
      message: 'The maintenance of the node was cancelled; its request is about to be withdrawn.',
    });
  },
);

describe('A cancelled maintenance', () => {
  const node = { metadata: { name: 'node-1' } };
  const maintenance = (stage: 'Complete' | 'Drain', on = 'node-1') => ({
    metadata: { name: stage, finalizers: [MAINTENANCE_FINALIZER] },
    spec: {
      stage,
      nodeSelector: {
        nodeSelectorTerms: [
          { matchFields: [{ key: 'metadata.name', operator: 'In' as const, values: [on] }] },
        ],
      },
    },
  });
  const ours = { name: MAINTENANCE_REQUESTER, intent: 'Eviction' as const };
  const theirs = { name: 'example.com/descheduler', intent: 'Eviction' as const };
  const complete = maintenance('Complete');

  test.each([
    { when: 'ends the eviction that it alone requests', requesters: [ours], given: [complete], want: true },
    {
      when: 'ends none that another requester wants, too',
      requesters: [ours, theirs],
      given: [complete],
      want: false,
    },
    {
      when: 'ends one that the others have withdrawn',
      requesters: [ours, { ...theirs, intent: 'Withdrawn' as const }],
      given: [complete],
      want: true,
    },
    { when: 'ends none of others', requesters: [theirs], given: [complete], want: false },
    { when: 'ends none without requesters', requesters: [], given: [complete], want: false },
    {
      when: 'ends none while another maintenance drains the node',
      requesters: [ours],
      given: [complete, maintenance('Drain')],
      want: false,
    },
    {
      when: 'ends none of another node',
      requesters: [ours],
      given: [maintenance('Complete', 'node-2')],
      want: false,
    },
  ])('$when', ({ requesters, given, want }) => {
    expect(isAboutToBeCancelled({ status: { requesters } }, node, given)).toBe(want);
  });

  test('ends it also if the maintenance is removed before it is completed, until another one drains the node', () => {
    const eviction = { status: { requesters: [ours] } };
    expect(isAboutToBeCancelled(eviction, node, [], true)).toBe(true);
    expect(isAboutToBeCancelled(eviction, node, [maintenance('Drain')], true)).toBe(false);
    expect(isAboutToBeCancelled({ status: { requesters: [ours, theirs] } }, node, [], true)).toBe(false);
  });
});
