import type { Condition, Node, Pod, PodTemplate, Taint } from '../api/core.ts';
import type { NodeReadinessGate, SeenReadiness } from '../api/nodeReadiness.ts';
import type { NodeReadinessPolicy, NodeReadinessPolicyStatus } from '../api/nodeReadinessPolicy.ts';
import { type ConditionFacts, withCondition } from './conditions.ts';
import { selectorText, selectsLabels } from './labelSelector.ts';
import { compareNames, listed } from './names.ts';
import { podName, podTypeOf } from './pod.ts';
import { isPodOf, policiesOf } from './readiness.ts';
import { toleratesTaint } from './toleration.ts';

/** What one policy writes into the NodeReadiness of one node. */
export interface GatesOfPolicy {
  policy: string;
  gates: NodeReadinessGate[];
  /** Gates of it that another writer has otherwise, by name -> that writer. */
  refused: Readonly<Record<string, string>>;
}

/**
 * Who writes what into a NodeReadiness. A gate that somebody else than a policy wrote is theirs: a policy that says another thing
 * about it leaves it out. So does a policy that is younger than another one that says another thing.
 */
export function gatesOfPolicies(
  node: Pick<Node, 'metadata'>,
  policies: readonly NodeReadinessPolicy[],
  seen: SeenReadiness | undefined,
  manager: string,
): GatesOfPolicy[] {
  const taken = new Map<string, { gate: NodeReadinessGate; by: string }>();
  for (const gate of seen?.spec.readinessGates ?? []) {
    const stranger = seen?.gateOwners[gate.name]?.find((owner) => !owner.startsWith(manager));
    if (stranger !== undefined) taken.set(gate.name, { gate, by: `field manager ${stranger}` });
  }
  return policiesOf(node, policies).map(({ metadata: { name: policy }, spec }) => {
    const gates: NodeReadinessGate[] = [];
    const refused: Record<string, string> = {};
    for (const gate of spec.readinessGates) {
      const other = taken.get(gate.name);
      if (other !== undefined && !isSameGate(other.gate, gate)) {
        refused[gate.name] = other.by;
        continue;
      }
      gates.push(gate);
      if (other === undefined) taken.set(gate.name, { gate, by: `NodeReadinessPolicy ${policy}` });
    }
    return { policy, gates, refused };
  });
}

/** Whether what is wrong with the policy, as it is now, has been published. */
export function isChecked({ metadata, status }: NodeReadinessPolicy): boolean {
  return status !== undefined && status.observedGeneration === metadata.generation;
}

/** Whether the NodeReadiness has exactly these gates of the policy. */
export function isWritten(
  seen: SeenReadiness,
  gates: readonly NodeReadinessGate[],
  manager: string,
): boolean {
  const owned = Object.keys(seen.gateOwners).filter((name) => seen.gateOwners[name]?.includes(manager));
  if (owned.length !== gates.length) return false;
  return gates.every((gate) => {
    const written = seen.spec.readinessGates.find(({ name }) => name === gate.name);
    return owned.includes(gate.name) && written !== undefined && isSameGate(written, gate);
  });
}

function isSameGate(a: NodeReadinessGate, b: NodeReadinessGate): boolean {
  return canonical(a) === canonical(b);
}

/** The same whatever the order in which its fields were written. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => compareNames(a, b)))
      : part,
  );
}

/** A controller of pods that runs in a namespace of a gate. */
export interface Workload {
  kind: string;
  namespace: string;
  name: string;
  template: PodTemplate;
}

export interface PolicyFacts {
  policy: NodeReadinessPolicy;
  /** Those that it selects, and how many there are in all. */
  nodes: readonly Node[];
  nodesInAll: number;
  /** Those that run on these nodes. */
  pods: readonly Pod[];
  workloads: readonly Workload[];
  taint: Readonly<Pick<Taint, 'key' | 'effect'>>;
  /** Selected nodes whose NodeReadiness has not all of its gates yet. */
  unwritten: number;
  /** Node -> gate -> who has it otherwise. */
  refusals: readonly { node: string; gate: string; by: string }[];
}

/** What kubectl shows of a policy. `now` is RFC 3339. */
export function policyStatus(facts: PolicyFacts, now: string): NodeReadinessPolicyStatus {
  const { policy, nodes } = facts;
  const observedGeneration = policy.metadata.generation ?? 0;
  const checks = [gatesWritten, gatesTolerated, selectorsNarrow, selectorsMatch, nodesLimited];
  const conditions = checks.reduce<Condition[]>(
    (before, check) => withCondition(before, { ...check(facts), observedGeneration }, now),
    policy.status?.conditions ?? [],
  );
  return { observedGeneration, nodes: nodes.length, gates: policy.spec.readinessGates.length, conditions };
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

function gatesWritten({ unwritten, refusals }: PolicyFacts): ConditionFacts {
  const type = 'GatesWritten';
  const refused = refusals.map(({ node, gate, by }) => `${gate} on ${node} (${by})`);
  if (refused.length > 0)
    return condition(
      type,
      [
        `another writer says another thing about ${refused.length} gates, which stay as they are: ${listed(refused)}`,
      ],
      { reason: 'Conflict', well: '' },
    );
  const problems = unwritten === 0 ? [] : [`${unwritten} nodes do not have all gates yet`];
  return condition(type, problems, { reason: 'InProgress', well: 'every selected node has every gate' });
}

/** "All system critical pods that should gate the readiness of a node must be updated to tolerate the readiness taint." */
function gatesTolerated({ policy, pods, workloads, taint }: PolicyFacts): ConditionFacts {
  const problems = policy.spec.readinessGates.filter(blocks).flatMap((gate) => {
    const templates = workloads.filter((workload) => isTemplateOf(gate, workload));
    const intolerant = templates.filter(({ template }) => !toleratesTaint(template.tolerations, taint));
    // Pods of these workloads say the same; static pods need no scheduler.
    const lone = pods.filter(
      (pod) =>
        isPodOf(gate, pod) && podTypeOf(pod) !== 'Static' && !toleratesTaint(pod.spec.tolerations, taint),
    );
    const names =
      intolerant.length > 0
        ? intolerant.map(({ kind, namespace, name }) => `${kind} ${namespace}/${name}`)
        : lone.map((pod) => `pod ${podName(pod)}`);
    return names.length === 0 ? [] : [`gate ${gate.name}: ${listed(names.toSorted(compareNames))}`];
  });
  const remedy = `; add the toleration {key: ${taint.key}, operator: Exists, effect: ${taint.effect}}, or such pods cannot start on a node that waits for them`;
  return condition('GatesTolerated', problems.length === 0 ? [] : [`${problems.join('; ')}${remedy}`], {
    reason: 'TaintNotTolerated',
    well: 'all known pods and pod templates of the gates tolerate the taint',
  });
}

function blocks({ blocksReadiness }: NodeReadinessGate): boolean {
  return blocksReadiness;
}

function isTemplateOf(gate: NodeReadinessGate, { namespace, template }: Workload): boolean {
  return namespace === gate.namespace && selectsLabels(gate.selector, template.labels ?? {});
}

/** "If too many pods are selected for node readiness, the readiness for a node may flap as non-critical pods are rescheduled." */
function selectorsNarrow({ policy, pods }: PolicyFacts): ConditionFacts {
  const problems = policy.spec.readinessGates.flatMap((gate) => {
    const own = pods.filter((pod) => isPodOf(gate, pod));
    const crowds = [...Map.groupBy(own, ({ spec }) => spec.nodeName ?? '')].filter(
      ([, onNode]) => onNode.length > 1,
    );
    const controllers = new Set(own.map(controllerOf));
    const examples = (crowds[0]?.[1] ?? own).map(podName).toSorted(compareNames);
    const problem =
      crowds.length > 0
        ? `more than one pod on ${crowds.length} nodes, such as ${listed(examples)} on ${crowds[0]?.[0]}`
        : controllers.size > 1
          ? `pods of ${controllers.size} controllers, such as ${listed([...controllers].toSorted(compareNames))}`
          : undefined;
    return problem === undefined ? [] : [`gate ${gate.name} selects ${own.length} pods: ${problem}`];
  });
  return condition('SelectorsNarrow', problems, {
    reason: 'TooManyPods',
    well: 'each gate selects at most one pod on a node, and pods of one controller',
  });
}

function controllerOf(pod: Pod): string {
  const owner = pod.metadata.ownerReferences?.find(({ controller }) => controller === true);
  return owner === undefined ? `pod ${podName(pod)}` : `${owner.kind} ${owner.name}`;
}

function selectorsMatch({ policy, pods, workloads }: PolicyFacts): ConditionFacts {
  const problems = policy.spec.readinessGates
    .filter(
      (gate) =>
        !pods.some((pod) => isPodOf(gate, pod)) &&
        !workloads.some((workload) => isTemplateOf(gate, workload)),
    )
    .map(
      ({ name, namespace, selector }) =>
        `gate ${name}: nothing in namespace ${namespace} has ${selectorText(selector)}`,
    );
  const remedy = '; check the namespace and the labels: the nodes wait until there is such a pod';
  return condition('SelectorsMatch', problems.length === 0 ? [] : [`${problems.join('; ')}${remedy}`], {
    reason: 'NoPods',
    well: 'each gate selects a pod or a pod template',
  });
}

function nodesLimited({ nodes, nodesInAll }: PolicyFacts): ConditionFacts {
  const isEveryNode = nodesInAll > 1 && nodes.length === nodesInAll;
  const problem = `all ${nodesInAll} nodes are selected, the control plane too: a gate that never opens keeps new pods from the whole cluster`;
  return condition('NodesLimited', isEveryNode ? [problem] : [], {
    reason: 'EveryNode',
    well: 'some nodes are not selected',
  });
}
