import { describe, expect, test } from '@jest/globals';
import type { NodeSelector } from '../../api/core.ts';
import type { NodeReadinessGate } from '../../api/nodeReadiness.ts';
import { policyWarnings, type PolicySurroundings } from '../../domain/readinessAdmission.ts';
import { pod } from '../kit/builders.ts';

const gate = (name: string, differs: Partial<NodeReadinessGate> = {}): NodeReadinessGate => ({
  name,
  namespace: 'kube-system',
  selector: { matchLabels: { app: name } },
  blocksReadiness: true,
  ...differs,
});
const exists = (key: string): NodeSelector => ({
  nodeSelectorTerms: [{ matchExpressions: [{ key, operator: 'Exists' }] }],
});
const controlPlane = 'node-role.kubernetes.io/control-plane';
const workload = (name: string, tolerations: object[] = [{ operator: 'Exists' }]) => ({
  kind: 'DaemonSet',
  namespace: 'kube-system',
  name,
  template: { labels: { app: name }, tolerations },
});
const cluster: PolicySurroundings = {
  nodes: [
    { metadata: { name: 'c1', labels: { os: 'linux', [controlPlane]: '' } } },
    { metadata: { name: 'n1', labels: { os: 'linux', pool: 'gpu' } } },
  ],
  pods: [],
  workloads: [workload('cni')],
  missingNamespaces: [],
  taint: { key: 'readiness.k8s.io/gates', effect: 'NoSchedule' },
};

describe('a readiness policy is admitted', () => {
  const waits = 'is closed until there is such a pod, or until you remove it';
  test.each<{
    when: string;
    selector?: NodeSelector;
    gates?: NodeReadinessGate[];
    differs?: Partial<PolicySurroundings>;
    want: string[];
  }>([
    { when: 'without a warning when all is well', want: [] },
    {
      when: 'with one when it selects every node',
      selector: exists('os'),
      want: [
        'spec.nodeSelector matches all 2 nodes: a gate that never opens keeps new pods from all of them',
      ],
    },
    {
      when: 'with one when it selects the control plane',
      selector: exists(controlPlane),
      want: [
        'spec.nodeSelector matches all 1 control plane nodes: a gate that never opens keeps new pods from all of them',
      ],
    },
    {
      when: 'without one when none of its gates blocks',
      selector: exists('os'),
      gates: [gate('cni', { blocksReadiness: false })],
      want: [],
    },
    {
      when: 'with one when nothing has the labels',
      gates: [gate('cni'), gate('csi')],
      want: [
        `spec.readinessGates[1].selector: nothing in namespace kube-system has app=csi: gate csi ${waits}`,
      ],
    },
    {
      when: 'with one when a namespace does not exist',
      gates: [gate('csi', { namespace: 'x' })],
      differs: { missingNamespaces: ['x'] },
      want: [`spec.readinessGates[0].namespace: namespace x does not exist: gate csi ${waits}`],
    },
    {
      when: 'with one when its pods do not tolerate the taint, be it that nothing but pods is known',
      gates: [gate('cni'), gate('csi')],
      differs: {
        workloads: [workload('cni', [])],
        pods: [pod({ name: 'csi-1', namespace: 'kube-system', labels: { app: 'csi' } })],
      },
      want: ['DaemonSet kube-system/cni', 'pod kube-system/csi-1'].map(
        (names, i) =>
          `spec.readinessGates[${i}]: gate ${['cni', 'csi'][i]} is withheld from nodes that do not have it yet: ${names}; add the toleration {key: readiness.k8s.io/gates, operator: Exists, effect: NoSchedule}, or such pods cannot start on a node that waits for them`,
      ),
    },
  ])('$when', ({ selector = exists('pool'), gates = [gate('cni')], differs, want }) => {
    const spec = { nodeSelector: selector, readinessGates: gates };
    expect(policyWarnings(spec, { ...cluster, ...differs })).toEqual(want);
  });
});
