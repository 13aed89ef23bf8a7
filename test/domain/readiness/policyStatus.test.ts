import { describe, expect, test } from '@jest/globals';
import type { Pod } from '../../../api/core.ts';
import type { NodeReadinessGate } from '../../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../../api/nodeReadinessPolicy.ts';
import {
  type PolicyStatusInput,
  computePolicyStatus,
  type Workload,
} from '../../../domain/readiness/policyStatus.ts';
import { daemonPod, gate, mirrorPod, pod } from '../../kit/builders.ts';

const everyNode = { nodeSelectorTerms: [{ matchExpressions: [{ key: 'os', operator: 'Exists' as const }] }] };
const policy = (name: string, gates: NodeReadinessGate[], created = '2026'): NodeReadinessPolicy => ({
  metadata: { name, creationTimestamp: created, generation: 2 },
  spec: { nodeSelector: everyNode, readinessGates: gates },
});

describe('the conditions of a policy', () => {
  const taint = { key: 'readiness.k8s.io/gates', effect: 'NoSchedule' } as const;
  const tolerations = [{ operator: 'Exists' as const }];
  const workload = (name: string, differs: Partial<Workload['template']> = {}): Workload => ({
    kind: 'DaemonSet',
    namespace: 'kube-system',
    name,
    template: { labels: { app: name }, tolerations, ...differs },
  });
  const onNode = (name: string, nodeName: string, newPod = daemonPod): Pod => {
    const created = newPod({ name: `${name}-${nodeName}`, namespace: 'kube-system', labels: { app: name } });
    return { ...created, spec: { nodeName, tolerations } };
  };
  /** A pod of a Deployment, owned by the ReplicaSet of one revision. */
  const revision = (replicaSet: string, nodeName: string, hash: string): Pod => {
    const owner = {
      apiVersion: 'apps/v1',
      kind: 'ReplicaSet',
      name: replicaSet,
      uid: hash,
      controller: true,
    };
    const labels = { app: 'web', 'pod-template-hash': hash };
    const created = pod({ namespace: 'kube-system', labels, ownerReferences: [owner] });
    return { ...created, spec: { nodeName, tolerations } };
  };
  const inputWith = (differs: Partial<PolicyStatusInput> = {}): PolicyStatusInput => ({
    policy: policy('a', [gate('cni')]),
    selected: new Set(['n1', 'n2']),
    totalNodes: 3,
    pods: [onNode('cni', 'n1'), onNode('cni', 'n2')],
    workloads: [workload('cni')],
    missingNamespaces: [],
    taint,
    pendingNodes: 0,
    inEffect: new Set(),
    withPreviousDefinition: new Set(),
    rejections: [],
    failures: [],
    denied: { nodes: new Set(), because: '' },
    ...differs,
  });
  const problemsOf = (differs: Partial<PolicyStatusInput>) =>
    computePolicyStatus(inputWith(differs), '2026-01-01T00:00:00Z')
      .conditions.filter(({ status }) => status === 'False')
      .map(({ type, reason, message }) => `${type} ${reason}: ${message}`);

  test('are True when there is no problem', () => {
    const { conditions, ...counts } = computePolicyStatus(inputWith(), '2026-01-01T00:00:00Z');
    expect(counts).toEqual({ observedGeneration: 2, nodes: 2, gates: 1, problems: '', suppressedGates: [] });
    expect(conditions.map(({ type, status }) => `${type} ${status}`)).toEqual([
      'NodesAuthorized True',
      'GatesApplied True',
      'TaintTolerated True',
      'OnePodPerNode True',
      'SelectorsMatch True',
      'NotAllNodesSelected True',
    ]);
  });

  const remedy =
    '; add the toleration {key: readiness.k8s.io/gates, operator: Exists, effect: NoSchedule}, otherwise these pods cannot start on a node that waits for them';
  test.each<{ when: string; differs: Partial<PolicyStatusInput>; want: string[] }>([
    {
      when: 'a pod template does not tolerate the taint',
      differs: { workloads: [workload('cni', { tolerations: [] })] },
      want: [`TaintTolerated TaintNotTolerated: gate cni is suppressed: DaemonSet kube-system/cni${remedy}`],
    },
    {
      when: 'a pod without a pod template does not tolerate the taint',
      differs: {
        pods: [{ ...onNode('cni', 'n1'), spec: { nodeName: 'n1' } }],
        workloads: [],
      },
      want: [`TaintTolerated TaintNotTolerated: gate cni is suppressed: pod kube-system/cni-n1${remedy}`],
    },
    {
      when: 'a pod template no longer tolerates the taint, and nodes have the gate already',
      differs: { workloads: [workload('cni', { tolerations: [] })], inEffect: new Set(['cni']) },
      want: [
        `TaintTolerated TaintNotTolerated: gate cni stays in effect: DaemonSet kube-system/cni${remedy}`,
      ],
    },
    {
      when: 'a gate was edited, and its new pods do not tolerate the taint',
      differs: {
        workloads: [workload('cni', { tolerations: [] })],
        withPreviousDefinition: new Set(['cni']),
      },
      want: [
        `TaintTolerated TaintNotTolerated: gate cni is suppressed, and keeps its previous definition on nodes that have it: DaemonSet kube-system/cni${remedy}`,
      ],
    },
    {
      when: 'pods are older than the toleration in their template',
      differs: {
        pods: [{ ...onNode('d', 'n1'), spec: { nodeName: 'n1' } }],
        policy: policy('a', [gate('d')]),
        workloads: [workload('d')],
      },
      want: [],
    },
    {
      when: 'the gate does not block',
      differs: {
        policy: policy('a', [gate('cni', { blocksReadiness: false })]),
        workloads: [workload('cni', { tolerations: [] })],
      },
      want: [],
    },
    {
      when: 'a selector matches several pods of a node',
      differs: {
        pods: [onNode('cni', 'n1'), { ...onNode('cni', 'n1'), spec: { nodeName: 'n1', tolerations } }],
      },
      want: [
        'OnePodPerNode TooManyPods: gate cni selects more than one pod on 1 node, for example kube-system/cni-n1, kube-system/cni-n1 on n1 (2 pods in total)',
      ],
    },
    {
      when: 'a selector matches pods of several controllers',
      differs: { pods: [onNode('cni', 'n1'), onNode('cni', 'n2', pod)] },
      want: [
        'OnePodPerNode TooManyPods: gate cni selects 2 pods of 2 controllers: DaemonSet d, pod kube-system/cni-n2',
      ],
    },
    {
      when: 'a selector matches the static pods of several nodes, or revisions of one Deployment',
      differs: {
        policy: policy('a', [gate('cni'), gate('web')]),
        pods: [
          onNode('cni', 'n1', mirrorPod),
          onNode('cni', 'n2', mirrorPod),
          ...['1a2b', '3c4d'].map((hash, i) => revision(`web-${hash}`, `n${i + 1}`, hash)),
        ],
      },
      want: [],
    },
    {
      when: 'pods on nodes that are not selected do not tolerate the taint, and there is no pod template',
      differs: { pods: [{ ...onNode('cni', 'n3'), spec: { nodeName: 'n3' } }], workloads: [] },
      want: [`TaintTolerated TaintNotTolerated: gate cni is suppressed: pod kube-system/cni-n3${remedy}`],
    },
    {
      when: 'such pods exist, and the pod template tolerates the taint',
      differs: { pods: [onNode('cni', 'n1'), { ...onNode('cni', 'n3', pod), spec: { nodeName: 'n3' } }] },
      want: [],
    },
    {
      when: 'no node is selected yet, and a selector matches several pods of a node elsewhere',
      differs: {
        selected: new Set(),
        pods: [onNode('cni', 'n3'), onNode('cni', 'n3')],
      },
      want: [
        'OnePodPerNode TooManyPods: gate cni selects more than one pod on 1 node, for example kube-system/cni-n3, kube-system/cni-n3 on n3 (2 pods in total)',
      ],
    },
    {
      when: 'there is no pod yet, and a selector matches several pod templates',
      differs: { pods: [], workloads: [workload('cni'), workload('other', { labels: { app: 'cni' } })] },
      want: [
        'OnePodPerNode TooManyPods: gate cni selects 0 pods of 2 controllers: DaemonSet cni, DaemonSet other',
      ],
    },
    {
      when: 'a selector also matches a workload whose pods may run on any node',
      differs: {
        pods: [onNode('d', 'n1')],
        policy: policy('a', [gate('d')]),
        workloads: [
          workload('d'),
          workload('other-d', { labels: { app: 'd' } }),
          { ...workload('web', { labels: { app: 'd' } }), kind: 'Deployment' },
        ],
      },
      want: ['OnePodPerNode TooManyPods: gate d selects 1 pod of 2 controllers: DaemonSet d, Deployment web'],
    },
    {
      when: 'a namespace does not exist',
      differs: { pods: [], workloads: [], missingNamespaces: ['kube-system'] },
      want: [
        'SelectorsMatch NoPods: gate cni: namespace kube-system does not exist; check the namespace and the labels; nodes wait until such a pod is ready',
      ],
    },
    {
      when: 'nothing matches a gate that does not block',
      differs: { policy: policy('a', [gate('cni', { blocksReadiness: false })]), pods: [], workloads: [] },
      want: [
        'SelectorsMatch NoPods: gate cni: no pod or pod template in namespace kube-system has app=cni; check the namespace and the labels',
      ],
    },
    {
      when: 'nothing matches',
      differs: { pods: [], workloads: [workload('csi')] },
      want: [
        'SelectorsMatch NoPods: gate cni: no pod or pod template in namespace kube-system has app=cni; check the namespace and the labels; nodes wait until such a pod is ready',
      ],
    },
    {
      when: 'every node is selected',
      differs: { totalNodes: 2 },
      want: [
        'NotAllNodesSelected EveryNode: all 2 nodes are selected, including the control plane: a gate that never becomes ready keeps new pods off the whole cluster',
      ],
    },
    {
      when: 'another field manager defines a gate differently',
      differs: { rejections: [{ node: 'n1', gate: 'cni', by: 'field manager kubectl' }], pendingNodes: 1 },
      want: [
        'GatesApplied Conflict: 1 gate is defined differently by another field manager and left unchanged: cni on n1 (field manager kubectl)',
      ],
    },
    {
      when: 'a node has too many gates',
      differs: { rejections: [{ node: 'n1', gate: 'cni' }] },
      want: [
        'GatesApplied TooManyGates: 1 gate exceeds the limit of gates per node; other field managers and older policies take precedence: cni on n1',
      ],
    },
    {
      when: 'the apiserver rejects its gates',
      differs: { failures: [{ node: 'n2', message: 'denied by a webhook' }], pendingNodes: 1 },
      want: [
        'GatesApplied Rejected: the apiserver rejected the gates of 1 node, for example n2: denied by a webhook',
      ],
    },
  ])('report that $when', ({ differs, want }) => {
    expect(problemsOf(differs)).toEqual(want);
  });

  test('are summarized by the reasons of those that are False', () => {
    const missing = inputWith({ pods: [], workloads: [], totalNodes: 2 });
    expect(computePolicyStatus(missing, '2026-01-01T00:00:00Z').problems).toBe('NoPods, EveryNode');
  });

  test('a gate whose pods could not start is suppressed, until its workload tolerates the taint and unless nodes have it', () => {
    const suppressed = (differs: Partial<PolicyStatusInput>) =>
      computePolicyStatus(
        inputWith({ policy: policy('a', [gate('cni'), gate('csi')]), ...differs }),
        '2026-01-01T00:00:00Z',
      ).suppressedGates;
    const workloads = [workload('cni', { tolerations: [] }), workload('csi')];
    expect(suppressed({ workloads })).toEqual(['cni']);
    expect(suppressed({ workloads, inEffect: new Set(['cni']) })).toEqual([]);
    expect(suppressed({})).toEqual([]);
  });
});
