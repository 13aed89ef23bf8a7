import { expect, test } from '@jest/globals';
import type { Node } from '../../api/core.ts';
import type { RawPod } from '../../kube/resources.ts';
import { type FinalWorld, leftoversOf } from './leftovers.ts';

const clean: FinalWorld = {
  nodes: [{ metadata: { name: 'n1' }, spec: {}, status: { conditions: [] } }],
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
