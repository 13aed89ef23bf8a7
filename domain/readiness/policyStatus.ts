import type { Condition, Pod, PodTemplate, Taint } from '../../api/core.ts';
import type { NodeReadinessGate } from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy, NodeReadinessPolicyStatus } from '../../api/nodeReadinessPolicy.ts';
import { type ConditionFacts, withCondition } from '../common/conditions.ts';
import { selectorText, selectsLabels } from '../common/labelSelector.ts';
import { compareNames, listed } from '../common/names.ts';
import { numbered } from '../common/text.ts';
import { podName, podTypeOf } from '../common/pod.ts';
import type { Rejection } from './policyGates.ts';
import { isActivePodOf } from './gates.ts';
import { toleratesTaint } from '../common/toleration.ts';

/** A workload in the namespace of a gate. */
export interface Workload {
  kind: string;
  namespace: string;
  name: string;
  template: PodTemplate;
}

/** The pods and pod templates that gates may select. */
export interface GateWorkloads {
  /** Pods in the namespaces of the gates, on any node. */
  pods: readonly Pod[];
  /** Names of the nodes that the policy selects. */
  selected: ReadonlySet<string>;
  /** Workloads in the namespaces of the gates. */
  workloads: readonly Workload[];
  /** Namespaces of gates that do not exist. */
  missingNamespaces: readonly string[];
  taint: Readonly<Pick<Taint, 'key' | 'effect'>>;
}

export interface PolicyStatusInput extends GateWorkloads {
  policy: NodeReadinessPolicy;
  totalNodes: number;
  /** The number of selected nodes whose NodeReadiness does not have all gates yet. */
  pendingNodes: number;
  /** Names of the gates that at least one NodeReadiness has. */
  inEffect: ReadonlySet<string>;
  /** Names of the gates that at least one NodeReadiness has with a previous definition. */
  withPreviousDefinition: ReadonlySet<string>;
  rejections: readonly (Rejection & { node: string })[];
  /** The errors of the apiserver for the latest attempt to apply the gates, by node. */
  failures: readonly { node: string; message: string }[];
  /** Names of the selected nodes that the author of the policy may not gate. */
  denied: { nodes: ReadonlySet<string>; because: string };
}

/** Returns the policy as if it was not evaluated yet: its gates stay on a node as they are. */
export function heldBack({ metadata, spec }: NodeReadinessPolicy): NodeReadinessPolicy {
  return { metadata, spec };
}

/**
 * Computes the status of a policy. `now` is RFC 3339. A gate whose pods could not start behind the taint is suppressed: "if users
 * forget to apply this toleration, they may accidentally gate the readiness of their nodes" (Node Readiness Gates > Tolerating the
 * Readiness Taint). A gate already in effect stays in effect, because otherwise the taint would be removed from nodes that are still waiting for it.
 */
export function computePolicyStatus(input: PolicyStatusInput, now: string): NodeReadinessPolicyStatus {
  const { policy, selected, inEffect } = input;
  const observedGeneration = policy.metadata.generation ?? 0;
  const checks = [
    nodesAuthorized,
    gatesApplied,
    taintTolerated,
    onePodPerNode,
    selectorsMatch,
    notAllNodesSelected,
  ];
  const conditions = checks.reduce<Condition[]>(
    (before, check) => withCondition(before, { ...check(input), observedGeneration }, now),
    policy.status?.conditions ?? [],
  );
  const suppressedGates = policy.spec.readinessGates
    .filter((gate) => workloadsWithoutToleration(gate, input).length > 0 && !inEffect.has(gate.name))
    .map(({ name }) => name)
    .toSorted(compareNames);
  const gates = policy.spec.readinessGates.length;
  const problems = conditions.filter(({ status }) => status === 'False').map(({ reason }) => reason);
  return {
    observedGeneration,
    nodes: selected.size,
    gates,
    problems: problems.join(', '),
    suppressedGates,
    conditions,
  };
}

function condition(
  type: string,
  problems: readonly string[],
  { reason, ok }: { reason: string; ok: string },
): ConditionFacts {
  if (problems.length === 0) return { type, status: 'True', reason: 'AsExpected', message: ok };
  return { type, status: 'False', reason, message: problems.join('; ').slice(0, maxMessageLength) };
}

const maxMessageLength = 4096;

/** The author needs permission for each node, also for those that match later. */
function nodesAuthorized({ denied: { nodes, because } }: PolicyStatusInput): ConditionFacts {
  const names = listed([...nodes].toSorted(compareNames));
  const problem = `the gates are not set on ${nodes.size === 1 ? 'node' : 'nodes'} ${names}: ${because}`;
  return condition('NodesAuthorized', nodes.size === 0 ? [] : [problem], {
    reason: 'NotAuthorized',
    ok: 'the user who changed the policy last may gate all selected nodes',
  });
}

function gatesApplied({ pendingNodes, rejections, failures }: PolicyStatusInput): ConditionFacts {
  const conflicts = rejections.filter(({ by }) => by !== undefined);
  const excess = rejections.filter(({ by }) => by === undefined);
  const causes = [
    failures.length > 0 && {
      reason: 'Rejected',
      problem: `the apiserver rejected the gates of ${numbered(failures.length, 'node')}, for example ${failures[0]?.node}: ${failures[0]?.message}`,
    },
    excess.length > 0 && {
      reason: 'TooManyGates',
      problem: `${excess.length === 1 ? '1 gate exceeds' : `${excess.length} gates exceed`} the limit of gates per node; other field managers and older policies take precedence: ${listed(excess.map(({ node, gate }) => `${gate} on ${node}`))}`,
    },
    conflicts.length > 0 && {
      reason: 'Conflict',
      problem: `${conflicts.length === 1 ? '1 gate is' : `${conflicts.length} gates are`} defined differently by another field manager and left unchanged: ${listed(conflicts.map(({ node, gate, by }) => `${gate} on ${node} (${by})`))}`,
    },
  ].filter((cause) => cause !== false);
  if (causes.length === 0 && pendingNodes > 0)
    causes.push({
      reason: 'InProgress',
      problem: `${pendingNodes === 1 ? '1 node does' : `${pendingNodes} nodes do`} not have all gates yet`,
    });
  const problems = causes.map(({ problem }) => problem);
  const ok = 'every selected node has every gate that is not suppressed';
  return condition('GatesApplied', problems, { reason: causes[0]?.reason ?? '', ok });
}

/** "All system critical pods that should gate the readiness of a node must be updated to tolerate the readiness taint." */
function taintTolerated(input: PolicyStatusInput): ConditionFacts {
  const { policy, taint } = input;
  const problems = policy.spec.readinessGates.flatMap((gate) => {
    const names = workloadsWithoutToleration(gate, input);
    if (names.length === 0) return [];
    return [`gate ${gate.name} ${effectOf(gate, input)}: ${listed(names)}`];
  });
  return condition(
    'TaintTolerated',
    problems.length === 0 ? [] : [`${problems.join('; ')}; ${tolerationRemedy(taint)}`],
    {
      reason: 'TaintNotTolerated',
      ok: 'all known pods and pod templates of the gates tolerate the taint',
    },
  );
}

function effectOf(
  { name }: NodeReadinessGate,
  { inEffect, withPreviousDefinition }: PolicyStatusInput,
): string {
  if (inEffect.has(name)) return 'stays in effect';
  return withPreviousDefinition.has(name)
    ? 'is suppressed, and keeps its previous definition on nodes that have it'
    : 'is suppressed';
}

/** Describes how to fix workloads that do not tolerate the taint. */
export function tolerationRemedy({ key, effect }: GateWorkloads['taint']): string {
  return `add the toleration {key: ${key}, operator: Exists, effect: ${effect}}, otherwise these pods cannot start on a node that waits for them`;
}

/** Returns the workloads and pods of a gate that do not tolerate the taint; none for a gate that does not block. */
export function workloadsWithoutToleration(gate: NodeReadinessGate, known: GateWorkloads): string[] {
  if (!gate.blocksReadiness) return [];
  const { workloads, taint } = known;
  const templates = workloads.filter((workload) => isTemplateOf(gate, workload));
  // The template counts rather than its existing pods: the next pod is created from it. Static pods bypass the scheduler.
  const controllers = new Set(templates.map(nameOf));
  const candidates = templates.length === 0 ? known.pods : podsOnSelectedNodes(known);
  const others = candidates.filter(
    (pod) => isActivePodOf(gate, pod) && podTypeOf(pod) !== 'Static' && !controllers.has(controllerOf(pod)),
  );
  return [
    ...templates
      .filter(({ template }) => !toleratesTaint(template.tolerations, taint))
      .map(({ kind, namespace, name }) => `${kind} ${namespace}/${name}`)
      .toSorted(compareNames),
    ...others
      .filter(({ spec }) => !toleratesTaint(spec.tolerations, taint))
      .map((pod) => `pod ${podName(pod)}`)
      .toSorted(compareNames),
  ];
}

/** Reports whether a gate selects a pod or a pod template. */
export function selectsAnyPod(
  gate: NodeReadinessGate,
  { pods, workloads }: Pick<GateWorkloads, 'pods' | 'workloads'>,
): boolean {
  return (
    pods.some((pod) => isActivePodOf(gate, pod)) || workloads.some((workload) => isTemplateOf(gate, workload))
  );
}

function isTemplateOf(gate: NodeReadinessGate, { namespace, template }: Workload): boolean {
  return namespace === gate.namespace && selectsLabels(gate.selector, template.labels ?? {});
}

/** "If too many pods are selected for node readiness, the readiness for a node may flap as non-critical pods are rescheduled." */
function onePodPerNode(input: PolicyStatusInput): ConditionFacts {
  const problems = input.policy.spec.readinessGates.flatMap((gate) => {
    const { pods, controllers } = selectionOf(gate, input);
    const placed = pods.filter(({ spec }) => spec.nodeName !== undefined);
    const [crowd, ...more] = [...Map.groupBy(placed, ({ spec }) => spec.nodeName)].filter(
      ([, onNode]) => onNode.length > 1,
    );
    if (crowd !== undefined) {
      const examples = listed(crowd[1].map(podName).toSorted(compareNames));
      return [
        `gate ${gate.name} selects more than one pod on ${numbered(1 + more.length, 'node')}, for example ${examples} on ${crowd[0]} (${pods.length} pods in total)`,
      ];
    }
    if (controllers.length <= 1) return [];
    return [
      `gate ${gate.name} selects ${numbered(pods.length, 'pod')} of ${controllers.length} controllers: ${listed(controllers)}`,
    ];
  });
  return condition('OnePodPerNode', problems, {
    reason: 'TooManyPods',
    ok: 'each gate selects at most one pod per node, and pods of a single controller',
  });
}

/**
 * Returns the pods that a gate selects on the nodes of its policy, and the controllers that create such pods. If these nodes have no
 * such pods, for example in an empty node pool, the pods on all other nodes are returned.
 */
function selectionOf(gate: NodeReadinessGate, known: GateWorkloads): { pods: Pod[]; controllers: string[] } {
  const local = podsOnSelectedNodes(known).filter((pod) => isActivePodOf(gate, pod));
  const pods = local.length > 0 ? local : known.pods.filter((pod) => isActivePodOf(gate, pod));
  const templates = known.workloads
    .filter((workload) => isTemplateOf(gate, workload))
    .filter(({ kind }) => local.length === 0 || kind !== 'DaemonSet');
  const controllers = new Set([...pods.map(controllerOf), ...templates.map(nameOf)]);
  return { pods, controllers: [...controllers].toSorted(compareNames) };
}

function podsOnSelectedNodes({ pods, selected }: GateWorkloads): Pod[] {
  return pods.filter(({ spec }) => spec.nodeName !== undefined && selected.has(spec.nodeName));
}

/** Returns the workload in the notation of `controllerOf`. */
function nameOf({ kind, name }: Workload): string {
  return `${kind} ${name}`;
}

/** Returns the controller of a pod as `kind name`, the same for its replicas on other nodes. */
function controllerOf(pod: Pod): string {
  const { name, labels = {}, ownerReferences = [] } = pod.metadata;
  // A static pod is owned by its node, whose name ends the name of the pod.
  if (podTypeOf(pod) === 'Static') return `static pod ${name.replace(`-${pod.spec.nodeName}`, '')}`;
  const owner = ownerReferences.find(({ controller }) => controller === true);
  if (owner === undefined) return `pod ${podName(pod)}`;
  const hash = labels['pod-template-hash'];
  // A Deployment has one ReplicaSet per revision.
  if (owner.kind === 'ReplicaSet' && hash !== undefined)
    return `Deployment ${owner.name.replace(`-${hash}`, '')}`;
  return `${owner.kind} ${owner.name}`;
}

function selectorsMatch(input: PolicyStatusInput): ConditionFacts {
  const empty = input.policy.spec.readinessGates.filter((gate) => !selectsAnyPod(gate, input));
  const problems = empty.map((gate) => `gate ${gate.name}: ${noPodsMessage(gate, input)}`).join('; ');
  const blocked = empty.some((gate) => gate.blocksReadiness) ? '; nodes wait until such a pod is ready' : '';
  const remedy = `; check the namespace and the labels${blocked}`;
  return condition('SelectorsMatch', empty.length === 0 ? [] : [problems + remedy], {
    reason: 'NoPods',
    ok: 'each gate selects a pod or a pod template',
  });
}

/** Describes why a gate selects no pod and no pod template. */
export function noPodsMessage(
  { namespace, selector }: NodeReadinessGate,
  { missingNamespaces }: GateWorkloads,
): string {
  if (missingNamespaces.includes(namespace)) return `namespace ${namespace} does not exist`;
  return `no pod or pod template in namespace ${namespace} has ${selectorText(selector)}`;
}

function notAllNodesSelected({ selected, totalNodes }: PolicyStatusInput): ConditionFacts {
  const isEveryNode = totalNodes > 1 && selected.size === totalNodes;
  const problem = `all ${totalNodes} nodes are selected, including the control plane: a gate that never becomes ready keeps new pods off the whole cluster`;
  return condition('NotAllNodesSelected', isEveryNode ? [problem] : [], {
    reason: 'EveryNode',
    ok: 'some nodes are not selected',
  });
}
