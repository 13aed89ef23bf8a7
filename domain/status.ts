import type { Pod } from '../api/core.ts';
import type {
  NodeMaintenanceNodeStatus,
  NodeMaintenanceStage,
  NodeMaintenanceStatus,
} from '../api/nodeMaintenance.ts';
import { needsAPerson } from './blocker.ts';
import { type ConditionFacts, withCondition } from './conditions.ts';
import type { BlockedPod, DrainDecision } from './drain.ts';
import { join } from './drainTargets.ts';
import { compareNames, listed } from './names.ts';
import {
  NODE_LEASES_HELD,
  nodeLeasesCondition,
  nodeLeasesReleased,
  type WaitingNode,
  waitingMessage,
} from './nodeHold.ts';
import { podName } from './pod.ts';

export const emptyStatus: NodeMaintenanceStatus = {
  stageStatuses: [],
  nodeStatuses: [],
  conditions: [],
  observedGeneration: 0,
  drainPosition: 0,
  nodes: 0,
  podsPendingEvacuation: 0,
  podsEvacuating: 0,
};

/** "Amended when a new stage is selected" (KEP-4212 > Status): a stage keeps the time at which it first began. */
export function withStage(
  status: NodeMaintenanceStatus,
  name: NodeMaintenanceStage,
  now: string,
): NodeMaintenanceStatus {
  if (status.stageStatuses.some((stage) => stage.name === name)) return status;
  return { ...status, stageStatuses: [...status.stageStatuses, { name, startTimestamp: now }] };
}

/**
 * The status with these nodes, and their sums for `kubectl get`. What was recorded of a node before stays with it, also
 * when the node is no longer selected: it is given back on Complete like the others. A node that is no more (`existing`
 * lacks its name) is forgotten: one that comes back under its name is another machine, as far as anybody knows. So is one
 * that was only waited for.
 */
export function withNodes(
  status: NodeMaintenanceStatus,
  nodeStatuses: readonly NodeMaintenanceNodeStatus[],
  existing: ReadonlySet<string>,
): NodeMaintenanceStatus {
  const before = new Map(status.nodeStatuses.map((node) => [node.nodeRef.name, node] as const));
  const merged = nodeStatuses.map((node) => continued(node, before.get(node.nodeRef.name)));
  const selected = new Set(merged.map((node) => node.nodeRef.name));
  const left = status.nodeStatuses
    .filter(({ nodeRef: { name } }) => !selected.has(name) && existing.has(name))
    .filter(isTouched)
    .map(deselected);
  return {
    ...status,
    nodeStatuses: [...merged, ...left].toSorted((a, b) => compareNames(a.nodeRef.name, b.nodeRef.name)),
    nodes: merged.length,
    podsPendingEvacuation: sum(merged.map((node) => node.podsPendingEvacuation)),
    podsEvacuating: sum(merged.map((node) => node.podsEvacuating)),
  };
}

/** "DrainTargets cannot backtrack": not even when a worker that was paused writes late what it decided long ago. */
function continued(
  node: NodeMaintenanceNodeStatus,
  before: NodeMaintenanceNodeStatus | undefined,
): NodeMaintenanceNodeStatus {
  const left = node.podsPendingEvacuation + node.podsEvacuating;
  const podsPeak = Math.max(before?.podsPeak ?? 0, node.podsPeak ?? 0, left);
  const counted = { ...node, ...(podsPeak > 0 && { podsPeak }) };
  if (before === undefined) return counted;
  const recorded = node.unschedulableBefore ?? before.unschedulableBefore;
  return {
    ...counted,
    drainTargets: [...join([before.drainTargets, node.drainTargets])],
    ...(recorded === undefined ? {} : { unschedulableBefore: recorded }),
  };
}

/** Whether the node was cordoned for the maintenance: what it was before is on record first. */
export function isTouched(node: NodeMaintenanceNodeStatus | undefined): boolean {
  return node?.unschedulableBefore !== undefined;
}

/** Nothing on it is targeted any more, so that nothing is kept away from it either. Pods that were left stay, and have not left. */
function deselected(node: NodeMaintenanceNodeStatus): NodeMaintenanceNodeStatus {
  const { podsPeak, podsPendingEvacuation, podsEvacuating } = node;
  return {
    ...node,
    ...(podsPeak !== undefined && {
      podsPeak: Math.max(0, podsPeak - podsPendingEvacuation - podsEvacuating),
    }),
    drainTargets: [],
    drainMessage: 'No longer selected: stays unschedulable until the maintenance is complete.',
    podsPendingEvacuation: 0,
    podsEvacuating: 0,
  };
}

/** The others are told by their Evacuations, and counted. */
const blockedPodsShown = 20;
const longestReason = 1_024;

function blockedPod({ pod: { metadata, spec }, blocker }: BlockedPod) {
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    node: spec.nodeName ?? '',
    reason: blocker.reason,
    message: blocker.message.slice(0, longestReason),
  };
}

/** What somebody has to act on is shown first. */
function byUrgency(a: BlockedPod, b: BlockedPod): number {
  return Number(needsAPerson(b.blocker)) - Number(needsAPerson(a.blocker));
}

/** The status that a drain decision leads to: targets, messages, counts, position and the Drained condition. */
export function withDrain(
  status: NodeMaintenanceStatus,
  decision: DrainDecision,
  { planLength, now, existing }: { planLength: number; now: string; existing: ReadonlySet<string> },
): NodeMaintenanceStatus {
  const drained = withNodes(status, decision.nodeStatuses, existing);
  return {
    ...drained,
    // "DrainTargets cannot backtrack": a position that was published once is never taken back.
    drainPosition: Math.max(status.drainPosition, Math.min(decision.position, planLength - 1)),
    podsRemaining: decision.remaining.length,
    podsBlocked: decision.blocked.length,
    blockedPods: decision.blocked.toSorted(byUrgency).slice(0, blockedPodsShown).map(blockedPod),
    conditions: withCondition(
      withNodeLeases(drained, decision.waiting, now).conditions,
      drainedCondition(decision, planLength),
      now,
    ),
  };
}

/** Says for which nodes the maintenance waits; says nothing where it has never waited. */
function withNodeLeases(
  status: NodeMaintenanceStatus,
  waiting: readonly WaitingNode[],
  now: string,
): NodeMaintenanceStatus {
  if (waiting.length === 0 && !hasWaited(status)) return status;
  return { ...status, conditions: withCondition(status.conditions, nodeLeasesCondition(waiting), now) };
}

function hasWaited({ conditions }: NodeMaintenanceStatus): boolean {
  return conditions.some(({ type }) => type === NODE_LEASES_HELD);
}

/** The status in Cordon: there is nothing to say of a node but that it is waited for. */
export function withCordon(
  status: NodeMaintenanceStatus,
  nodeStatuses: readonly NodeMaintenanceNodeStatus[],
  { waiting, now, existing }: { waiting: readonly WaitingNode[]; now: string; existing: ReadonlySet<string> },
): NodeMaintenanceStatus {
  const nodes = withNodes(status, withMessages(nodeStatuses, waiting), existing);
  return withNodeLeases(nodes, waiting, now);
}

/** The status in Complete, for one that has waited for nodes. */
export function withGivingBack(
  status: NodeMaintenanceStatus,
  waiting: readonly WaitingNode[],
  now: string,
): NodeMaintenanceStatus {
  if (waiting.length === 0 && !hasWaited(status)) return status;
  const facts = waiting.length === 0 ? nodeLeasesReleased : nodeLeasesCondition(waiting);
  return {
    ...status,
    nodeStatuses: withMessages(status.nodeStatuses, waiting),
    conditions: withCondition(status.conditions, facts, now),
  };
}

function withMessages(
  nodeStatuses: readonly NodeMaintenanceNodeStatus[],
  waiting: readonly WaitingNode[],
): NodeMaintenanceNodeStatus[] {
  const messages = new Map(waiting.map((node) => [node.name, waitingMessage(node)] as const));
  return nodeStatuses.map((node) => ({ ...node, drainMessage: messages.get(node.nodeRef.name) ?? '' }));
}

/** "Set to true if all pods pending evacuation/termination have terminated on all target nodes" (KEP-4212 > Status). */
function drainedCondition(decision: DrainDecision, planLength: number): ConditionFacts {
  const type = 'Drained';
  if (decision.nodeStatuses.length === 0) {
    return { type, status: 'False', reason: 'NoNodeMatches', message: 'No node matches .spec.nodeSelector.' };
  }
  if (isWaitingOnly(decision)) {
    const { message } = nodeLeasesCondition(decision.undrained);
    return { type, status: 'False', reason: 'WaitingForNodeLease', message };
  }
  if (decision.position < planLength) {
    const left = sum(decision.nodeStatuses.map((node) => node.podsPendingEvacuation + node.podsEvacuating));
    const stuck = decision.blocked.filter(({ blocker }) => needsAPerson(blocker));
    const message = `${left} pods are left to evacuate${blockedPart(decision.blocked)}.`;
    return { type, status: 'False', reason: stuck.length > 0 ? 'Blocked' : 'Draining', message };
  }
  return { type, status: 'True', ...drainedReason(decision.remaining) };
}

/** Whether nothing is left to do but on nodes that must not be touched. */
function isWaitingOnly({ undrained, waiting, nodeStatuses }: DrainDecision): boolean {
  const names = new Set(waiting.map(({ name }) => name));
  const ours = nodeStatuses.filter(({ nodeRef }) => !names.has(nodeRef.name));
  return undrained.length > 0 && ours.every((node) => node.podsPendingEvacuation + node.podsEvacuating === 0);
}

/** `, of which 2 cannot leave: shop/db-0 (...), ...`; one pod for each cause, those that need a person first. */
function blockedPart(blocked: readonly BlockedPod[]): string {
  if (blocked.length === 0) return '';
  const causes = new Map(blocked.toReversed().map((one) => [one.blocker.message, one] as const));
  const named = [...causes.values()]
    .toReversed()
    .toSorted((a, b) => Number(needsAPerson(b.blocker)) - Number(needsAPerson(a.blocker)))
    .map(({ pod, blocker }) => `${podName(pod)} (${blocker.message.slice(0, longestReason)})`);
  return `, of which ${blocked.length} cannot leave: ${listed(named)}`;
}

function drainedReason(remaining: readonly Pod[]): { reason: string; message: string } {
  if (remaining.length === 0) return { reason: 'AllPodsTerminated', message: 'No pod is left on the nodes.' };
  return { reason: 'StaticPodsRemain', message: `Left running: ${listed(remaining.map(podName))}.` };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
