import type { Condition, Pod, PodTemplate, Taint } from '../api/core.ts';
import type { NodeReadinessGate } from '../api/nodeReadiness.ts';
import type { NodeReadinessPolicy, NodeReadinessPolicyStatus } from '../api/nodeReadinessPolicy.ts';
import { type ConditionFacts, withCondition } from './conditions.ts';
import { selectorText, selectsLabels } from './labelSelector.ts';
import { compareNames, listed } from './names.ts';
import { podName, podTypeOf } from './pod.ts';
import type { Refusal } from './policyGates.ts';
import { isPodOf } from './readiness.ts';
import { toleratesTaint } from './toleration.ts';

/** A controller of pods that runs in a namespace of a gate. */
export interface Workload {
  kind: string;
  namespace: string;
  name: string;
  template: PodTemplate;
}

/** What the pods of gates are, as far as it is known. */
export interface GatePods {
  /** In the namespaces of the gates, on whatever node. */
  pods: readonly Pod[];
  /** Names of the nodes that the policy selects. */
  selected: ReadonlySet<string>;
  /** In the namespaces of the gates. */
  workloads: readonly Workload[];
  /** Namespaces of gates that do not exist. */
  missingNamespaces: readonly string[];
  taint: Readonly<Pick<Taint, 'key' | 'effect'>>;
}

export interface PolicyFacts extends GatePods {
  policy: NodeReadinessPolicy;
  nodesInAll: number;
  /** Selected nodes whose NodeReadiness has not all of its gates yet. */
  unwritten: number;
  /** Gates of it that a NodeReadiness has already. */
  inEffect: ReadonlySet<string>;
  /** Gates of it that a NodeReadiness has as they were before they were edited. */
  former: ReadonlySet<string>;
  refusals: readonly (Refusal & { node: string })[];
  /** What the apiserver said to the last try to write its gates, by node. */
  failures: readonly { node: string; message: string }[];
}

/**
 * What kubectl shows of a policy. `now` is RFC 3339. A gate whose pods could not start behind the taint is withheld: "if users
 * forget to apply this toleration, they may accidentally gate the readiness of their nodes" (Node Readiness Gates > Tolerating the
 * Readiness Taint). One that is in effect already stays so, because its absence would open nodes that wait for it.
 */
export function policyStatus(facts: PolicyFacts, now: string): NodeReadinessPolicyStatus {
  const { policy, selected, inEffect } = facts;
  const observedGeneration = policy.metadata.generation ?? 0;
  const checks = [gatesWritten, gatesTolerated, selectorsNarrow, selectorsMatch, nodesLimited];
  const conditions = checks.reduce<Condition[]>(
    (before, check) => withCondition(before, { ...check(facts), observedGeneration }, now),
    policy.status?.conditions ?? [],
  );
  const withheldGates = policy.spec.readinessGates
    .filter((gate) => intolerantOf(gate, facts).length > 0 && !inEffect.has(gate.name))
    .map(({ name }) => name)
    .toSorted(compareNames);
  const gates = policy.spec.readinessGates.length;
  const problems = conditions.filter(({ status }) => status === 'False').map(({ reason }) => reason);
  return {
    observedGeneration,
    nodes: selected.size,
    gates,
    problems: problems.join(', '),
    withheldGates,
    conditions,
  };
}

function condition(
  type: string,
  problems: readonly string[],
  { reason, well }: { reason: string; well: string },
): ConditionFacts {
  if (problems.length === 0) return { type, status: 'True', reason: 'AsExpected', message: well };
  return { type, status: 'False', reason, message: problems.join('; ').slice(0, longestMessage) };
}

const longestMessage = 4096;

function gatesWritten({ unwritten, refusals, failures }: PolicyFacts): ConditionFacts {
  const taken = refusals.filter(({ by }) => by !== undefined);
  const crowded = refusals.filter(({ by }) => by === undefined);
  const causes = [
    failures.length > 0 && {
      reason: 'Refused',
      problem: `the apiserver refuses the gates of ${failures.length} nodes, such as ${failures[0]?.node}: ${failures[0]?.message}`,
    },
    crowded.length > 0 && {
      reason: 'TooManyGates',
      problem: `there is no room for ${crowded.length} gates beside those of older policies and other writers, who come first: ${listed(crowded.map(({ node, gate }) => `${gate} on ${node}`))}`,
    },
    taken.length > 0 && {
      reason: 'Conflict',
      problem: `another writer says another thing about ${taken.length} gates, which stay as they are: ${listed(taken.map(({ node, gate, by }) => `${gate} on ${node} (${by})`))}`,
    },
  ].filter((cause) => cause !== false);
  if (causes.length === 0 && unwritten > 0)
    causes.push({ reason: 'InProgress', problem: `${unwritten} nodes do not have all gates yet` });
  const problems = causes.map(({ problem }) => problem);
  const well = 'every selected node has every gate that is in effect';
  return condition('GatesWritten', problems, { reason: causes[0]?.reason ?? '', well });
}

/** "All system critical pods that should gate the readiness of a node must be updated to tolerate the readiness taint." */
function gatesTolerated(facts: PolicyFacts): ConditionFacts {
  const { policy, taint } = facts;
  const problems = policy.spec.readinessGates.flatMap((gate) => {
    const names = intolerantOf(gate, facts);
    if (names.length === 0) return [];
    return [`gate ${gate.name} ${fateOf(gate, facts)}: ${listed(names)}`];
  });
  return condition(
    'GatesTolerated',
    problems.length === 0 ? [] : [`${problems.join('; ')}; ${remedyFor(taint)}`],
    {
      reason: 'TaintNotTolerated',
      well: 'all known pods and pod templates of the gates tolerate the taint',
    },
  );
}

function fateOf({ name }: NodeReadinessGate, { inEffect, former }: PolicyFacts): string {
  if (inEffect.has(name)) return 'stays in effect';
  return former.has(name) ? 'is withheld, and stays as it was on nodes that have it' : 'is withheld';
}

/** What to do about workloads that do not tolerate the taint. */
export function remedyFor({ key, effect }: GatePods['taint']): string {
  return `add the toleration {key: ${key}, operator: Exists, effect: ${effect}}, or such pods cannot start on a node that waits for them`;
}

/** The workloads and pods of a gate that do not tolerate the taint; none for a gate that does not block. */
export function intolerantOf(gate: NodeReadinessGate, known: GatePods): string[] {
  if (!gate.blocksReadiness) return [];
  const { workloads, taint } = known;
  const templates = workloads.filter((workload) => isTemplateOf(gate, workload));
  // A template speaks for its pods: the next one will be as it says. Static pods need no scheduler.
  const speaking = new Set(templates.map(nameOf));
  const telling = templates.length === 0 ? known.pods : podsHere(known);
  const lone = telling.filter(
    (pod) => isPodOf(gate, pod) && podTypeOf(pod) !== 'Static' && !speaking.has(makerOf(pod)),
  );
  return [
    ...templates
      .filter(({ template }) => !toleratesTaint(template.tolerations, taint))
      .map(({ kind, namespace, name }) => `${kind} ${namespace}/${name}`)
      .toSorted(compareNames),
    ...lone
      .filter(({ spec }) => !toleratesTaint(spec.tolerations, taint))
      .map((pod) => `pod ${podName(pod)}`)
      .toSorted(compareNames),
  ];
}

/** Whether there is a pod, or what will make one, for a gate. */
export function selectsAnything(
  gate: NodeReadinessGate,
  { pods, workloads }: Pick<GatePods, 'pods' | 'workloads'>,
): boolean {
  return pods.some((pod) => isPodOf(gate, pod)) || workloads.some((workload) => isTemplateOf(gate, workload));
}

function isTemplateOf(gate: NodeReadinessGate, { namespace, template }: Workload): boolean {
  return namespace === gate.namespace && selectsLabels(gate.selector, template.labels ?? {});
}

/** "If too many pods are selected for node readiness, the readiness for a node may flap as non-critical pods are rescheduled." */
function selectorsNarrow(facts: PolicyFacts): ConditionFacts {
  const problems = facts.policy.spec.readinessGates.flatMap((gate) => {
    const { pods, makers } = selectionOf(gate, facts);
    const placed = pods.filter(({ spec }) => spec.nodeName !== undefined);
    const [crowd, ...more] = [...Map.groupBy(placed, ({ spec }) => spec.nodeName)].filter(
      ([, onNode]) => onNode.length > 1,
    );
    if (crowd !== undefined) {
      const examples = listed(crowd[1].map(podName).toSorted(compareNames));
      return [
        `gate ${gate.name} selects ${pods.length} pods: more than one pod on ${1 + more.length} nodes, such as ${examples} on ${crowd[0]}`,
      ];
    }
    if (makers.length <= 1) return [];
    const count = `${pods.length} of them now, such as ${listed(makers)}`;
    return [`gate ${gate.name} selects the pods of ${makers.length} controllers, ${count}`];
  });
  return condition('SelectorsNarrow', problems, {
    reason: 'TooManyPods',
    well: 'each gate selects at most one pod on a node, and pods of one controller',
  });
}

/**
 * What a gate selects on the nodes of its policy: the pods there, and of the workloads those that make pods on any node. Of nodes
 * without such pods, as of a pool that is still empty, the rest of the cluster tells what to expect.
 */
function selectionOf(gate: NodeReadinessGate, known: GatePods): { pods: Pod[]; makers: string[] } {
  const here = podsHere(known).filter((pod) => isPodOf(gate, pod));
  const pods = here.length > 0 ? here : known.pods.filter((pod) => isPodOf(gate, pod));
  const templates = known.workloads
    .filter((workload) => isTemplateOf(gate, workload))
    .filter(({ kind }) => here.length === 0 || kind !== 'DaemonSet');
  const makers = new Set([...pods.map(makerOf), ...templates.map(nameOf)]);
  return { pods, makers: [...makers].toSorted(compareNames) };
}

function podsHere({ pods, selected }: GatePods): Pod[] {
  return pods.filter(({ spec }) => spec.nodeName !== undefined && selected.has(spec.nodeName));
}

/** As the maker of its pods. */
function nameOf({ kind, name }: Workload): string {
  return `${kind} ${name}`;
}

/** What makes the pod, and its like on other nodes, as `kind name`. */
function makerOf(pod: Pod): string {
  const { name, labels = {}, ownerReferences = [] } = pod.metadata;
  // Its owner is its node, and its name ends with that.
  if (podTypeOf(pod) === 'Static') return `static pod ${name.replace(`-${pod.spec.nodeName}`, '')}`;
  const owner = ownerReferences.find(({ controller }) => controller === true);
  if (owner === undefined) return `pod ${podName(pod)}`;
  const hash = labels['pod-template-hash'];
  // A Deployment has a ReplicaSet for each of its revisions.
  if (owner.kind === 'ReplicaSet' && hash !== undefined)
    return `Deployment ${owner.name.replace(`-${hash}`, '')}`;
  return `${owner.kind} ${owner.name}`;
}

function selectorsMatch(facts: PolicyFacts): ConditionFacts {
  const idle = facts.policy.spec.readinessGates.filter((gate) => !selectsAnything(gate, facts));
  const problems = idle.map((gate) => `gate ${gate.name}: ${missingPods(gate, facts)}`).join('; ');
  const wait = idle.some((gate) => gate.blocksReadiness) ? ': the nodes wait until there is such a pod' : '';
  const remedy = `; check the namespace and the labels${wait}`;
  return condition('SelectorsMatch', idle.length === 0 ? [] : [problems + remedy], {
    reason: 'NoPods',
    well: 'each gate selects a pod or a pod template',
  });
}

/** Why a gate selects nothing. */
export function missingPods(
  { namespace, selector }: NodeReadinessGate,
  { missingNamespaces }: GatePods,
): string {
  if (missingNamespaces.includes(namespace)) return `namespace ${namespace} does not exist`;
  return `nothing in namespace ${namespace} has ${selectorText(selector)}`;
}

function nodesLimited({ selected, nodesInAll }: PolicyFacts): ConditionFacts {
  const isEveryNode = nodesInAll > 1 && selected.size === nodesInAll;
  const problem = `all ${nodesInAll} nodes are selected, the control plane too: a gate that never opens keeps new pods from the whole cluster`;
  return condition('NodesLimited', isEveryNode ? [problem] : [], {
    reason: 'EveryNode',
    well: 'some nodes are not selected',
  });
}
