import { describe, expect, test } from '@jest/globals';
import type { Pod } from '../../api/core.ts';
import type { NodeReadinessGate } from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { type PolicyFacts, policyStatus, type Workload } from '../../domain/readinessPolicy.ts';
import { daemonPod, gate, mirrorPod, pod } from '../kit/builders.ts';

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
  const onNode = (name: string, nodeName: string, make = daemonPod): Pod => {
    const made = make({ name: `${name}-${nodeName}`, namespace: 'kube-system', labels: { app: name } });
    return { ...made, spec: { nodeName, tolerations } };
  };
  /** A pod of a Deployment, whose owner is the ReplicaSet of one revision. */
  const revision = (replicaSet: string, nodeName: string, hash: string): Pod => {
    const owner = {
      apiVersion: 'apps/v1',
      kind: 'ReplicaSet',
      name: replicaSet,
      uid: hash,
      controller: true,
    };
    const labels = { app: 'web', 'pod-template-hash': hash };
    const made = pod({ namespace: 'kube-system', labels, ownerReferences: [owner] });
    return { ...made, spec: { nodeName, tolerations } };
  };
  const facts = (differs: Partial<PolicyFacts> = {}): PolicyFacts => ({
    policy: policy('a', [gate('cni')]),
    selected: new Set(['n1', 'n2']),
    nodesInAll: 3,
    pods: [onNode('cni', 'n1'), onNode('cni', 'n2')],
    workloads: [workload('cni')],
    missingNamespaces: [],
    taint,
    unwritten: 0,
    inEffect: new Set(),
    former: new Set(),
    refusals: [],
    failures: [],
    ...differs,
  });
  const problemsOf = (differs: Partial<PolicyFacts>) =>
    policyStatus(facts(differs), '2026-01-01T00:00:00Z')
      .conditions.filter(({ status }) => status === 'False')
      .map(({ type, reason, message }) => `${type} ${reason}: ${message}`);

  test('are True when all is well', () => {
    const { conditions, ...counts } = policyStatus(facts(), '2026-01-01T00:00:00Z');
    expect(counts).toEqual({ observedGeneration: 2, nodes: 2, gates: 1, problems: '', withheldGates: [] });
    expect(conditions.map(({ type, status }) => `${type} ${status}`)).toEqual([
      'GatesWritten True',
      'GatesTolerated True',
      'SelectorsNarrow True',
      'SelectorsMatch True',
      'NodesLimited True',
    ]);
  });

  const remedy =
    '; add the toleration {key: readiness.k8s.io/gates, operator: Exists, effect: NoSchedule}, or such pods cannot start on a node that waits for them';
  test.each<{ when: string; differs: Partial<PolicyFacts>; want: string[] }>([
    {
      when: 'a pod template does not tolerate the taint',
      differs: { workloads: [workload('cni', { tolerations: [] })] },
      want: [`GatesTolerated TaintNotTolerated: gate cni is withheld: DaemonSet kube-system/cni${remedy}`],
    },
    {
      when: 'a pod does not that nobody else speaks for',
      differs: {
        pods: [{ ...onNode('cni', 'n1'), spec: { nodeName: 'n1' } }],
        workloads: [],
      },
      want: [`GatesTolerated TaintNotTolerated: gate cni is withheld: pod kube-system/cni-n1${remedy}`],
    },
    {
      when: 'a pod template no longer tolerates the taint, and nodes have the gate already',
      differs: { workloads: [workload('cni', { tolerations: [] })], inEffect: new Set(['cni']) },
      want: [
        `GatesTolerated TaintNotTolerated: gate cni stays in effect: DaemonSet kube-system/cni${remedy}`,
      ],
    },
    {
      when: 'a gate was edited, and its new pods do not tolerate the taint',
      differs: { workloads: [workload('cni', { tolerations: [] })], former: new Set(['cni']) },
      want: [
        `GatesTolerated TaintNotTolerated: gate cni is withheld, and stays as it was on nodes that have it: DaemonSet kube-system/cni${remedy}`,
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
        'SelectorsNarrow TooManyPods: gate cni selects 2 pods: more than one pod on 1 nodes, such as kube-system/cni-n1, kube-system/cni-n1 on n1',
      ],
    },
    {
      when: 'a selector matches pods of several controllers',
      differs: { pods: [onNode('cni', 'n1'), onNode('cni', 'n2', pod)] },
      want: [
        'SelectorsNarrow TooManyPods: gate cni selects the pods of 2 controllers, 2 of them now, such as DaemonSet d, pod kube-system/cni-n2',
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
      when: 'pods that do not run on selected nodes do not tolerate the taint, and nothing else is known',
      differs: { pods: [{ ...onNode('cni', 'n3'), spec: { nodeName: 'n3' } }], workloads: [] },
      want: [`GatesTolerated TaintNotTolerated: gate cni is withheld: pod kube-system/cni-n3${remedy}`],
    },
    {
      when: 'such pods are others than those of the pod template',
      differs: { pods: [onNode('cni', 'n1'), { ...onNode('cni', 'n3', pod), spec: { nodeName: 'n3' } }] },
      want: [],
    },
    {
      when: 'no node is there yet, and a selector matches several pods of a node elsewhere',
      differs: {
        selected: new Set(),
        pods: [onNode('cni', 'n3'), onNode('cni', 'n3')],
      },
      want: [
        'SelectorsNarrow TooManyPods: gate cni selects 2 pods: more than one pod on 1 nodes, such as kube-system/cni-n3, kube-system/cni-n3 on n3',
      ],
    },
    {
      when: 'no pod is there yet, and a selector matches several pod templates',
      differs: { pods: [], workloads: [workload('cni'), workload('other', { labels: { app: 'cni' } })] },
      want: [
        'SelectorsNarrow TooManyPods: gate cni selects the pods of 2 controllers, 0 of them now, such as DaemonSet cni, DaemonSet other',
      ],
    },
    {
      when: 'a selector matches a workload too whose pods may come to any node',
      differs: {
        pods: [onNode('d', 'n1')],
        policy: policy('a', [gate('d')]),
        workloads: [
          workload('d'),
          workload('d-of-others', { labels: { app: 'd' } }),
          { ...workload('web', { labels: { app: 'd' } }), kind: 'Deployment' },
        ],
      },
      want: [
        'SelectorsNarrow TooManyPods: gate d selects the pods of 2 controllers, 1 of them now, such as DaemonSet d, Deployment web',
      ],
    },
    {
      when: 'a namespace does not exist',
      differs: { pods: [], workloads: [], missingNamespaces: ['kube-system'] },
      want: [
        'SelectorsMatch NoPods: gate cni: namespace kube-system does not exist; check the namespace and the labels: the nodes wait until there is such a pod',
      ],
    },
    {
      when: 'nothing matches a gate that does not block',
      differs: { policy: policy('a', [gate('cni', { blocksReadiness: false })]), pods: [], workloads: [] },
      want: [
        'SelectorsMatch NoPods: gate cni: nothing in namespace kube-system has app=cni; check the namespace and the labels',
      ],
    },
    {
      when: 'nothing matches',
      differs: { pods: [], workloads: [workload('csi')] },
      want: [
        'SelectorsMatch NoPods: gate cni: nothing in namespace kube-system has app=cni; check the namespace and the labels: the nodes wait until there is such a pod',
      ],
    },
    {
      when: 'every node is selected',
      differs: { nodesInAll: 2 },
      want: [
        'NodesLimited EveryNode: all 2 nodes are selected, the control plane too: a gate that never opens keeps new pods from the whole cluster',
      ],
    },
    {
      when: 'somebody else has a gate otherwise',
      differs: { refusals: [{ node: 'n1', gate: 'cni', by: 'field manager kubectl' }], unwritten: 1 },
      want: [
        'GatesWritten Conflict: another writer says another thing about 1 gates, which stay as they are: cni on n1 (field manager kubectl)',
      ],
    },
    {
      when: 'a node has no room for a gate',
      differs: { refusals: [{ node: 'n1', gate: 'cni' }] },
      want: [
        'GatesWritten TooManyGates: there is no room for 1 gates beside those of older policies and other writers, who come first: cni on n1',
      ],
    },
    {
      when: 'the apiserver does not take its gates',
      differs: { failures: [{ node: 'n2', message: 'denied by a webhook' }], unwritten: 1 },
      want: [
        'GatesWritten Refused: the apiserver refuses the gates of 1 nodes, such as n2: denied by a webhook',
      ],
    },
  ])('tell when $when', ({ differs, want }) => {
    expect(problemsOf(differs)).toEqual(want);
  });

  test('are summed up by the reasons of those that are False', () => {
    const missing = facts({ pods: [], workloads: [], nodesInAll: 2 });
    expect(policyStatus(missing, '2026-01-01T00:00:00Z').problems).toBe('NoPods, EveryNode');
  });

  test('withhold a gate that no pod could open, until its workload tolerates the taint or while nodes have it', () => {
    const withheld = (differs: Partial<PolicyFacts>) =>
      policyStatus(
        facts({ policy: policy('a', [gate('cni'), gate('csi')]), ...differs }),
        '2026-01-01T00:00:00Z',
      ).withheldGates;
    const workloads = [workload('cni', { tolerations: [] }), workload('csi')];
    expect(withheld({ workloads })).toEqual(['cni']);
    expect(withheld({ workloads, inEffect: new Set(['cni']) })).toEqual([]);
    expect(withheld({})).toEqual([]);
  });
});
