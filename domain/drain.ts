import type { Pod } from '../api/core.ts';
import type { DrainPlanEntry, NodeMaintenanceNodeStatus } from '../api/nodeMaintenance.ts';
import { type DrainTargets, resolveDrainTargets, targetsPod, wishAt } from './drainTargets.ts';
import { podName, podTypeOf } from './pod.ts';

/** What the drain of one maintenance is decided from: everything that was seen, at one moment. */
export interface DrainSnapshot {
  /** The complete plan (see completeDrainPlan) and where the maintenance stands in it. */
  plan: readonly DrainPlanEntry[];
  position: number;
  nodes: readonly NodeSnapshot[];
}

export interface NodeSnapshot {
  name: string;
  pods: readonly PodSnapshot[];
  /** What this node reached while any of its maintenances has been draining it. */
  reached: DrainTargets;
  /** The other maintenances in the Drain stage that select the node. */
  others: readonly { maintenance: string; wish: DrainTargets }[];
}

export interface PodSnapshot {
  pod: Pod;
  /** Whether the pod has a matching Evacuation that we instigate. */
  evacuating: boolean;
}

export interface DrainDecision {
  /** Pods that are targeted and have no Evacuation yet, in a stable order. */
  evacuate: readonly Pod[];
  nodeStatuses: readonly NodeMaintenanceNodeStatus[];
  /** The first position from the present one on at which a living pod is wanted; the plan's length when there is none. */
  position: number;
  /** DaemonSet and static pods, which nothing evacuates yet: they are left running and reported. */
  remaining: readonly Pod[];
}

/**
 * Decides the next step of a drain (KEP-4212 > Pod Selection): "The next entry in the plan can be selected once all
 * the nodes of a NodeMaintenance have finished evacuation". Total, and the same for any order of nodes and pods.
 */
export function decideDrain(snapshot: DrainSnapshot): DrainDecision {
  const nodes = snapshot.nodes
    .toSorted((a, b) => compareNames(a.name, b.name))
    .map((node) => resolveNode(node, snapshot));
  const unfinished = nodes.filter((node) => node.wanted > 0).map((node) => node.name);
  return {
    evacuate: nodes.flatMap((node) => node.evacuate),
    nodeStatuses: nodes.map((node) => statusOf(node, unfinished)),
    position: firstWantedPosition(snapshot),
    remaining: nodes.flatMap((node) => node.remaining),
  };
}

interface ResolvedNode {
  name: string;
  targets: DrainTargets;
  evacuate: readonly Pod[];
  evacuating: number;
  pending: number;
  /** Living pods that match this maintenance's own wish, and those of them that the drain targets hold back. */
  wanted: number;
  heldBack: number;
  limitedBy: readonly string[];
  remaining: readonly Pod[];
}

function resolveNode(node: NodeSnapshot, { plan, position }: DrainSnapshot): ResolvedNode {
  const wish = wishAt(plan, position);
  const targets = resolveDrainTargets(node.reached, [wish, ...node.others.map((other) => other.wish)]);
  const pods = node.pods.toSorted((a, b) => compareNames(podName(a.pod), podName(b.pod)));
  const evacuable = pods.filter(({ pod }) => isEvacuable(pod));
  const wanted = evacuable.filter(({ pod }) => targetsPod(wish, pod));
  const heldBack = wanted.filter(({ pod }) => !targetsPod(targets, pod));
  return {
    name: node.name,
    targets,
    evacuate: evacuable
      .filter(({ pod, evacuating }) => !evacuating && targetsPod(targets, pod))
      .map(({ pod }) => pod),
    evacuating: evacuable.filter(({ evacuating }) => evacuating).length,
    pending: evacuable.filter(({ evacuating }) => !evacuating).length,
    wanted: wanted.length,
    heldBack: heldBack.length,
    limitedBy: limiters(node, heldBack),
    remaining: pods.filter(({ pod }) => !isEvacuable(pod)).map(({ pod }) => pod),
  };
}

/** DaemonSet and static pods leave only by evacuators of their own; evicting them would start them again at once. */
function isEvacuable(pod: Pod): boolean {
  return podTypeOf(pod) === 'Default';
}

function limiters(node: NodeSnapshot, heldBack: readonly PodSnapshot[]): string[] {
  return node.others
    .filter(({ wish }) => heldBack.some(({ pod }) => !targetsPod(wish, pod)))
    .map(({ maintenance }) => maintenance)
    .toSorted(compareNames);
}

function statusOf(node: ResolvedNode, unfinished: readonly string[]): NodeMaintenanceNodeStatus {
  return {
    nodeRef: { name: node.name },
    drainTargets: [...node.targets],
    drainMessage: drainMessage(node, unfinished),
    podsPendingEvacuation: node.pending,
    podsEvacuating: node.evacuating,
  };
}

/** The messages of KEP-4212 > Pod Selection and DrainTargets Example. */
function drainMessage(node: ResolvedNode, unfinished: readonly string[]): string {
  if (node.heldBack > 0) return `Evacuating (limited by ${node.limitedBy.join(', ')})`;
  if (node.wanted > 0) return 'Evacuating';
  const others = unfinished.filter((name) => name !== node.name);
  if (others.length > 0) return `Waiting for ${others.length > 1 ? 'nodes' : 'node'} ${listed(others)}.`;
  if (node.pending > 0) return 'Evacuating';
  return node.remaining.length > 0
    ? `Drained, left running: ${listed(node.remaining.map(podName))}.`
    : 'Drained';
}

function firstWantedPosition({ plan, position, nodes }: DrainSnapshot): number {
  const evacuable = nodes.flatMap((node) => node.pods.map(({ pod }) => pod).filter(isEvacuable));
  for (let next = position; next < plan.length; next++) {
    const wish = wishAt(plan, next);
    if (evacuable.some((pod) => targetsPod(wish, pod))) return next;
  }
  return plan.length;
}

/** At most this many names in a message, so that the status of a large maintenance stays small. */
const namesInMessage = 5;

export function listed(names: readonly string[]): string {
  const shown = names.slice(0, namesInMessage).join(', ');
  return names.length > namesInMessage ? `${shown} and ${names.length - namesInMessage} more` : shown;
}

/** By code unit, so that the same world gives the same bytes in every locale. */
export function compareNames(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
