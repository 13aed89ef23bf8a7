import type { Node, Pod, PodDisruptionBudget } from '../../api/core.ts';
import { compareNames, listed } from '../common/names.ts';
import { podName } from '../common/pod.ts';
import { numbered } from '../common/text.ts';
import type { Steps } from '../common/steps.ts';
import { selectsLabels } from '../common/labelSelector.ts';
import { type ClusterFacts, ClusterState } from './clusterState.ts';
import { fittingNodes } from './placement.ts';
import { isWaitingForNode } from './replacement.ts';

/**
 * Pods that wait for a node, each of whose nodes a maintenance has cordoned, while the budget that selects them allows no disruption until
 * they run: the drains wait for the pods, and the pods for the drains.
 */
export interface CapacityDeadlock {
  /** Name of the budget, with its namespace. */
  readonly budget: string;
  /** Pods of the budget that the drains cannot evict. */
  readonly blocked: readonly Pod[];
  /** Pods of the budget that wait for a node. */
  readonly pending: readonly Pod[];
  /** The cordoned node on which most of them fit. */
  readonly node: string;
  /** Names of the maintenances that hold this node. */
  readonly holders: readonly string[];
}

interface DeadlockFacts {
  readonly budgets: readonly PodDisruptionBudget[];
  /** The pods of drains that their budgets do not allow to be evicted. */
  readonly blocked: readonly Pod[];
  /** Node -> names of the maintenances that hold it. */
  readonly holders: ReadonlyMap<string, readonly string[]>;
}

/** A pod that waits for a node, while all nodes on which it fits are cordoned by maintenances. */
export interface StrandedPod {
  readonly pod: Pod;
  /** Names of the held nodes on which it fits. */
  readonly nodes: readonly string[];
}

/** Pending pods that are compared with the nodes, which is enough to name the cause. */
const maxPending = 20;

/**
 * Returns the first of the pods that wait for nothing but a node that a maintenance holds, in steps, two for each pod. In a cluster where many pods are
 * Pending, those that can be part of a deadlock are compared first.
 */
export function* strandedPods(facts: ClusterFacts & DeadlockFacts): Steps<StrandedPod[]> {
  const waiting = facts.pods
    .filter(isWaitingForNode)
    .toSorted((a, b) => compareNames(podName(a), podName(b)));
  if (waiting.length === 0) return [];
  const pending = [...new Set([...awaitedByBudgets(waiting, facts), ...waiting])].slice(0, maxPending);
  const { holders } = facts;
  const today = new ClusterState(facts);
  const released = new ClusterState({
    ...facts,
    nodes: facts.nodes.map((node) => (holders.has(node.metadata.name) ? uncordoned(node) : node)),
  });
  const stranded: StrandedPod[] = [];
  for (const pod of pending) {
    yield;
    if (fittingNodes(pod, today).length > 0) continue;
    yield;
    const nodes = fittingNodes(pod, released).map(({ node }) => node.metadata.name);
    if (nodes.length > 0) stranded.push({ pod, nodes });
  }
  return stranded;
}

/** Returns the pods that budgets with blocked pods select: the first one of each budget, then the second ones. */
function awaitedByBudgets(waiting: readonly Pod[], facts: DeadlockFacts): Pod[] {
  const byBudget = exhaustedBudgets(facts).map(({ budget }) =>
    waiting.filter((pod) => isSelected(pod, budget)).slice(0, maxPending),
  );
  return Array.from({ length: maxPending }, (_, index) => byBudget.flatMap((own) => own[index] ?? [])).flat();
}

/** Returns the budgets that allow no disruption, each with the pods that the drains therefore cannot evict. */
function exhaustedBudgets({
  budgets,
  blocked,
}: DeadlockFacts): { budget: PodDisruptionBudget; blocked: Pod[] }[] {
  return budgets
    .filter(({ status }) => (status?.disruptionsAllowed ?? 0) === 0)
    .toSorted((a, b) => compareNames(nameOf(a), nameOf(b)))
    .map((budget) => ({ budget, blocked: blocked.filter((pod) => isSelected(pod, budget)) }))
    .filter((one) => one.blocked.length > 0);
}

/** Returns the deadlocks of stranded pods, one for each budget. */
export function capacityDeadlocks(
  stranded: readonly StrandedPod[],
  facts: DeadlockFacts,
): CapacityDeadlock[] {
  return exhaustedBudgets(facts).flatMap(({ budget, blocked }) => {
    const pending = stranded.filter(({ pod }) => isSelected(pod, budget));
    const node = mostFitting(pending);
    if (node === undefined) return [];
    const holders = (facts.holders.get(node) ?? []).toSorted(compareNames);
    const pods = pending.map(({ pod }) => pod);
    return [{ budget: nameOf(budget), blocked, pending: pods, node, holders }];
  });
}

const maxNames = 3;

/** Names the deadlock and its remedy. */
export function deadlockMessage({ budget, blocked, pending, node, holders }: CapacityDeadlock): string {
  const [pods, isOne] = [listed(pending.map(podName).toSorted(compareNames), maxNames), pending.length === 1];
  const nodes = [...new Set(blocked.map(({ spec }) => spec.nodeName ?? ''))].toSorted(compareNames);
  const [are, fit, run] = isOne ? ['is', 'it fits', 'it runs'] : ['are', 'they fit', 'they run'];
  return `Deadlock: ${pods} ${are} Pending because maintenances have cordoned every node on which ${fit}, and until ${run}, PodDisruptionBudget ${budget} allows no eviction of ${numbered(blocked.length, 'pod')} on ${listed(nodes, maxNames)}. To resolve it, uncordon node ${node}: complete NodeMaintenance ${listed(holders, maxNames)}, or change its nodeSelector and then uncordon the node; or add a node.`;
}

/** Returns the node on which most of the pods fit: the first by name among equals. */
function mostFitting(pods: readonly StrandedPod[]): string | undefined {
  const counts = new Map<string, number>();
  for (const name of pods.flatMap(({ nodes }) => nodes)) counts.set(name, (counts.get(name) ?? 0) + 1);
  const [best] = [...counts].toSorted(([a, most], [b, least]) => least - most || compareNames(a, b));
  return best?.[0];
}

/** Returns the node as it would be after its maintenances. */
function uncordoned(node: Node): Node {
  const { unschedulable: _, taints = [], ...spec } = node.spec;
  return {
    ...node,
    spec: { ...spec, taints: taints.filter(({ key }) => key !== 'node.kubernetes.io/unschedulable') },
  };
}

function isSelected({ metadata }: Pod, { metadata: { namespace }, spec: { selector } }: PodDisruptionBudget) {
  return (
    metadata.namespace === namespace &&
    selector !== undefined &&
    selectsLabels(selector, metadata.labels ?? {})
  );
}

function nameOf({ metadata }: PodDisruptionBudget): string {
  return `${metadata.namespace}/${metadata.name}`;
}
