import { describe, expect, test } from '@jest/globals';
import type { Node, Pod } from '../../api/core.ts';
import type { NodeReadinessGate, SeenReadiness } from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import {
  gatesOfPolicies,
  isWritten,
  type PolicyFacts,
  policyStatus,
  type Workload,
} from '../../domain/readinessPolicy.ts';
import { daemonPod, pod } from '../kit/builders.ts';

const manager = 'node-readiness-policy/';
const gate = (name: string, differs: Partial<NodeReadinessGate> = {}): NodeReadinessGate => ({
  name,
  namespace: 'kube-system',
  selector: { matchLabels: { app: name } },
  blocksReadiness: true,
  ...differs,
});
const everyNode = { nodeSelectorTerms: [{ matchExpressions: [{ key: 'os', operator: 'Exists' as const }] }] };
const policy = (name: string, gates: NodeReadinessGate[], created = '2026'): NodeReadinessPolicy => ({
  metadata: { name, creationTimestamp: created, generation: 2 },
  spec: { nodeSelector: everyNode, readinessGates: gates },
});
const node = (name: string): Node => ({ metadata: { name, labels: { os: 'linux' } }, spec: {} });
const seen = (gates: NodeReadinessGate[], gateOwners: SeenReadiness['gateOwners']): SeenReadiness => ({
  metadata: { name: 'n1' },
  spec: { readinessGates: gates },
  gateOwners,
});

describe('a policy writes', () => {
  const other = gate('cni', { namespace: 'other' });
  test.each([
    {
      when: 'nobody else has its gate',
      written: undefined,
      policies: [policy('a', [gate('cni')])],
      want: ['a: cni'],
    },
    {
      when: 'another one says the same',
      written: undefined,
      policies: [policy('a', [gate('cni')]), policy('b', [gate('cni'), gate('csi')])],
      want: ['a: cni', 'b: cni,csi'],
    },
    {
      when: 'an older one says another thing: all but that gate',
      written: undefined,
      policies: [policy('a', [gate('cni'), gate('csi')], '2027'), policy('b', [other])],
      want: ['b: cni', 'a: csi, not cni (NodeReadinessPolicy b)'],
    },
    {
      when: 'somebody wrote another thing: all but that gate',
      written: seen([other], { cni: ['kubectl'] }),
      policies: [policy('a', [gate('cni'), gate('csi')])],
      want: ['a: csi, not cni (field manager kubectl)'],
    },
    {
      when: 'it wrote another thing before itself',
      written: seen([other], { cni: [`${manager}a`, `${manager}b`] }),
      policies: [policy('a', [gate('cni')])],
      want: ['a: cni'],
    },
  ])('when $when', ({ written, policies, want }) => {
    const decided = gatesOfPolicies(node('n1'), policies, written, manager).map(
      ({ policy: name, gates, refused }) => {
        const not = Object.entries(refused).map(([gateName, by]) => `, not ${gateName} (${by})`);
        return `${name}: ${gates.map((one) => one.name).join()}${not.join('')}`;
      },
    );
    expect(decided).toEqual(want);
  });

  test('only what is not written yet, in whatever order the fields stand', () => {
    const own = `${manager}a`;
    const stored = {
      selector: { matchLabels: { app: 'cni' } },
      blocksReadiness: true,
      namespace: 'kube-system',
      name: 'cni',
    };
    const readiness = seen([stored, gate('csi')], { cni: [own, 'kubectl'], csi: ['kubectl'] });
    expect(isWritten(readiness, [gate('cni')], own)).toBe(true);
    expect(isWritten(readiness, [gate('cni'), gate('csi')], own)).toBe(false);
    expect(isWritten(readiness, [], own)).toBe(false);
    expect(isWritten(readiness, [gate('cni', { blocksReadiness: false })], own)).toBe(false);
  });
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
  const facts = (differs: Partial<PolicyFacts> = {}): PolicyFacts => ({
    policy: policy('a', [gate('cni')]),
    nodes: [node('n1'), node('n2')],
    nodesInAll: 3,
    pods: [onNode('cni', 'n1'), onNode('cni', 'n2')],
    workloads: [workload('cni')],
    taint,
    unwritten: 0,
    refusals: [],
    ...differs,
  });
  const problemsOf = (differs: Partial<PolicyFacts>) =>
    policyStatus(facts(differs), '2026-01-01T00:00:00Z')
      .conditions.filter(({ status }) => status === 'False')
      .map(({ type, reason, message }) => `${type} ${reason}: ${message}`);

  test('are True when all is well', () => {
    const { conditions, ...counts } = policyStatus(facts(), '2026-01-01T00:00:00Z');
    expect(counts).toEqual({ observedGeneration: 2, nodes: 2, gates: 1 });
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
      want: [`GatesTolerated TaintNotTolerated: gate cni: DaemonSet kube-system/cni${remedy}`],
    },
    {
      when: 'a pod does not that nobody else speaks for',
      differs: {
        pods: [{ ...onNode('cni', 'n1'), spec: { nodeName: 'n1' } }],
        workloads: [],
      },
      want: [`GatesTolerated TaintNotTolerated: gate cni: pod kube-system/cni-n1${remedy}`],
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
        'SelectorsNarrow TooManyPods: gate cni selects 2 pods: pods of 2 controllers, such as DaemonSet d, pod kube-system/cni-n2',
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
  ])('tell when $when', ({ differs, want }) => {
    expect(problemsOf(differs)).toEqual(want);
  });
});
