import { describe, expect, test } from '@jest/globals';
import type { NodeSelector } from '../../../api/core.ts';
import type { NodeReadinessGate } from '../../../api/nodeReadiness.ts';
import { policyWarnings, type PolicyContext } from '../../../domain/admission/readinessPolicy.ts';
import { gate, pod } from '../../kit/builders.ts';

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
const cluster: PolicyContext = {
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
  const waits =
    'is not ready until such a pod is ready; check the namespace and the labels, or remove the gate';
  test.each<{
    when: string;
    selector?: NodeSelector;
    gates?: NodeReadinessGate[];
    differs?: Partial<PolicyContext>;
    want: string[];
  }>([
    { when: 'without a warning when there is no problem', want: [] },
    {
      when: 'with one when it selects every node',
      selector: exists('os'),
      want: [
        'spec.nodeSelector matches all 2 nodes: a gate that never becomes ready keeps new pods off all of them',
      ],
    },
    {
      when: 'with one when it selects the control plane',
      selector: exists(controlPlane),
      want: [
        'spec.nodeSelector matches all 1 control plane nodes: a gate that never becomes ready keeps new pods off all of them',
      ],
    },
    {
      when: 'without one when none of its gates blocks',
      selector: exists('os'),
      gates: [gate('cni', { blocksReadiness: false })],
      want: [],
    },
    {
      when: 'with one when no pod and no pod template has the labels',
      gates: [gate('cni'), gate('csi')],
      want: [
        `spec.readinessGates[1].selector: no pod or pod template in namespace kube-system has app=csi: gate csi ${waits}`,
      ],
    },
    {
      when: 'with one when a namespace does not exist',
      gates: [gate('csi', { namespace: 'x' })],
      differs: { missingNamespaces: ['x'] },
      want: [`spec.readinessGates[0].namespace: namespace x does not exist: gate csi ${waits}`],
    },
    {
      when: 'with one when its pod templates, or pods without a template, do not tolerate the taint',
      gates: [gate('cni'), gate('csi')],
      differs: {
        workloads: [workload('cni', [])],
        pods: [pod({ name: 'csi-1', namespace: 'kube-system', labels: { app: 'csi' } })],
      },
      want: ['DaemonSet kube-system/cni', 'pod kube-system/csi-1'].map(
        (names, i) =>
          `spec.readinessGates[${i}]: gate ${['cni', 'csi'][i]} is suppressed on nodes that do not have it yet: ${names}; add the toleration {key: readiness.k8s.io/gates, operator: Exists, effect: NoSchedule}, otherwise these pods cannot start on a node that waits for them`,
      ),
    },
  ])('$when', ({ selector = exists('pool'), gates = [gate('cni')], differs, want }) => {
    const spec = { nodeSelector: selector, readinessGates: gates };
    expect(policyWarnings(spec, { ...cluster, ...differs })).toEqual(want);
  });
});
