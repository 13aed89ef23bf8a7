import { describe, expect, test } from '@jest/globals';
import { isRecreated, placeOf, recreatedBlocker } from '../../../domain/evacuation/recreation.ts';
import { daemonPod, pod } from '../../kit/builders.ts';

const deleted = { uid: 'old', deletedAt: new Date('2026-01-01T12:00:00.700Z'), gracePeriodSeconds: 5 };

describe('a pod was recreated in place of a deleted one', () => {
  test.each([
    {
      when: 'in the second of the deletion',
      uid: 'new',
      creationTimestamp: '2026-01-01T12:00:00Z',
      want: true,
    },
    {
      when: 'ten seconds after that was gone',
      uid: 'new',
      creationTimestamp: '2026-01-01T12:00:15Z',
      want: true,
    },
    { when: 'later', uid: 'new', creationTimestamp: '2026-01-01T12:00:16Z', want: false },
    { when: 'before the deletion', uid: 'new', creationTimestamp: '2026-01-01T11:59:59Z', want: false },
    { when: 'the same pod', uid: 'old', creationTimestamp: '2026-01-01T12:00:01Z', want: false },
  ])('$when: $want', ({ uid, creationTimestamp, want }) => {
    expect(isRecreated(pod({ uid, creationTimestamp }), deleted)).toBe(want);
  });
});

test('a pod without a controller is not recreated', () => {
  expect(placeOf(pod())).toBeUndefined();
  expect(placeOf(daemonPod())).toBe('d/node-1');
});

test.each([
  {
    of: 'a DaemonSet',
    given: daemonPod(),
    want: 'DaemonSet d recreated this pod on node node-1 right after the previous one was deleted: check that the policy daemonset-gate.nodemaintenance.k8s.io is installed and that the pod template of the DaemonSet does not set spec.nodeName.',
  },
  {
    of: 'a ReplicaSet',
    given: pod({
      ownerReferences: [
        { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'r', controller: true },
      ],
    }),
    want: 'ReplicaSet web recreated this pod on node node-1 right after the previous one was deleted: check that its pod template does not tolerate the cordon, and does not set spec.nodeName.',
  },
])('the message names $of and the remedy', ({ given, want }) => {
  expect(recreatedBlocker(given).message).toBe(want);
});
