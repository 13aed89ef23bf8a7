import { expect, test } from '@jest/globals';
import { imperativeStep } from '../../../domain/evictionRequests/imperative.ts';
import { daemonPod, mirrorPod, pod } from '../../kit/builders.ts';

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
  expect(imperativeStep({ pod: of, wasEvicted: false, evacuation: undefined }).kind).toBe(kind);
});

test('The imperative responder evicts no pod twice', () => {
  expect(imperativeStep({ pod: pod(), wasEvicted: true, evacuation: undefined })).toEqual({
    kind: 'Report',
    message: 'The pod is terminating.',
  });
});

test('The imperative responder leaves a pod to its Evacuation', () => {
  expect(imperativeStep({ pod: pod(), wasEvicted: false, evacuation: 'uid-web' })).toEqual({
    kind: 'Report',
    message: 'Evacuation uid-web of the pod is in progress.',
  });
});
