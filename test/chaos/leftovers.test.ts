import { describe, expect, test } from '@jest/globals';
import type { Node } from '../../api/core.ts';
import type { NodeReadiness } from '../../api/nodeReadiness.ts';
import type { RawPod } from '../../kube/resources.ts';
import { selectNodes } from '../kit/resources.ts';
import { type FinalWorld, leftoversOf, podsToDrain } from './leftovers.ts';

const readiness = (name: string, gates: readonly string[] = []) =>
  ({ metadata: { name }, spec: { readinessGates: gates.map((gate) => ({ name: gate })) } }) as NodeReadiness;

const clean: FinalWorld = {
  nodes: [{ metadata: { name: 'n1' }, spec: {}, status: { conditions: [] } }],
  readinesses: [readiness('n1')],
  pods: [{ metadata: { namespace: 'x', name: 'p' }, spec: {} }],
  objects: [],
  leaseHolders: new Map([['n1', '']]),
  reserved: [],
  openRuns: [],
  schedules: [],
  webhookProblems: [],
};
const node = (differs: Partial<Node>): Partial<FinalWorld> => ({
  nodes: [{ metadata: { name: 'n1' }, spec: {}, ...differs }],
});
const condition = {
  type: 'DrainInProgress',
  status: 'True',
  lastTransitionTime: '',
  reason: '',
  message: '',
} as const;
const gated = {
  metadata: { namespace: 'x', name: 'p' },
  spec: { schedulingGates: [{ name: 'nodemaintenance.k8s.io/maintenance' }] },
};

test('nothing is left of a run that kept its promises', () => expect(leftoversOf(clean)).toEqual([]));

test.each<{ left: string; differs: Partial<FinalWorld> }>([
  { left: 'n1 is cordoned', differs: node({ spec: { unschedulable: true } }) },
  {
    left: 'n1 has the taint readiness.k8s.io/gates',
    differs: node({ spec: { taints: [{ key: 'readiness.k8s.io/gates', effect: 'NoSchedule' }] } }),
  },
  { left: 'n1 has the condition DrainInProgress', differs: node({ status: { conditions: [condition] } }) },
  {
    left: 'n1 has the condition readiness.k8s.io/GatesReady',
    differs: node({ status: { conditions: [{ ...condition, type: 'readiness.k8s.io/GatesReady' }] } }),
  },
  {
    left: 'the NodeReadiness of gone exists, and the node does not',
    differs: { readinesses: [readiness('n1'), readiness('gone')] },
  },
  {
    left: 'n1 has readiness gates of a policy that is gone: a, b',
    differs: { readinesses: [readiness('n1', ['a', 'b'])] },
  },
  {
    left: 'n1 has the annotation karpenter.sh/do-not-disrupt',
    differs: node({ metadata: { name: 'n1', annotations: { 'karpenter.sh/do-not-disrupt': 'true' } } }),
  },
  { left: 'pod x/p is gated', differs: { pods: [gated as RawPod] } },
  { left: 'evacuations x/e exists', differs: { objects: ['evacuations x/e'] } },
  { left: 'the maintenance Lease of n1 is held by me', differs: { leaseHolders: new Map([['n1', 'me']]) } },
  { left: 'n1 is reserved by a window', differs: { reserved: ['n1'] } },
  { left: 'run node-maintenance-m is open', differs: { openRuns: ['node-maintenance-m'] } },
  {
    left: 'the serving certificate of the webhooks has expired',
    differs: { webhookProblems: ['the serving certificate of the webhooks has expired'] },
  },
  { left: 'Schedule maintenance-window-w exists', differs: { schedules: ['maintenance-window-w'] } },
])('$left', ({ left, differs }) => expect(leftoversOf({ ...clean, ...differs })).toEqual([left]));

describe('the pods that a maintenance still has to drain', () => {
  const spec = { nodeSelector: selectNodes(['n1', 'n2']), stage: 'Drain' as const };
  const mirror = { annotations: { 'kubernetes.io/config.mirror': 'x' } };
  const pod = (nodeName: string, { phase = 'Running', metadata = {} } = {}) =>
    ({ metadata: { name: 'p', ...metadata }, spec: { nodeName }, status: { phase } }) as object as RawPod;

  test.each([
    { where: 'on its nodes', pods: [pod('n1'), pod('n2')], left: 2 },
    { where: 'on other nodes, or on none', pods: [pod('n3'), pod('')], left: 0 },
    { where: 'there, that have ended', pods: [pod('n1', { phase: 'Succeeded' })], left: 0 },
    { where: 'there, of manifests of the kubelet', pods: [pod('n1', { metadata: mirror })], left: 0 },
  ])('$left of those $where', ({ pods, left }) => expect(podsToDrain({ spec }, pods)).toHaveLength(left));
});
