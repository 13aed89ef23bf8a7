import type {
  NodeMaintenanceNodeStatus,
  NodeMaintenanceStage,
  NodeMaintenanceStatus,
} from '../../api/nodeMaintenance.ts';
import { CAPACITY_AVAILABLE, capacityCondition, type CapacityFacts } from '../capacity/condition.ts';
import { type ConditionFacts, withCondition } from '../common/conditions.ts';
import { compareNames, listed } from '../common/names.ts';
import { podName } from '../common/pod.ts';
import { numbered, oneLine } from '../common/text.ts';
import type { BlockedPod, DrainDecision } from '../drain/decide.ts';
import { type RemainingPod, remainingText } from '../drain/remaining.ts';
import { join } from '../drain/targets.ts';
import { drainTierAt } from '../drain/tiers.ts';
import { requiresIntervention } from '../evacuation/blocker.ts';
import { NODES_AUTHORIZED, nodesAuthorizedCondition } from '../common/nodePermission.ts';
import {
  isDenied,
  lacksLease,
  NODE_LEASES_HELD,
  nodeLeasesCondition,
  nodeLeasesReleased,
  type NodeWithoutLease,
  type WaitingNode,
  waitingMessage,
} from '../leases/nodeLease.ts';

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

/** Returns the status of a node of which nothing is recorded. */
export function newNodeStatus(name: string): NodeMaintenanceNodeStatus {
  return {
    nodeRef: { name },
    drainTargets: [],
    drainMessage: '',
    podsPendingEvacuation: 0,
    podsEvacuating: 0,
  };
}

/** "Amended when a new stage is selected" (KEP-4212 > Status): a stage keeps the time of its first start. */
export function withStage(
  status: NodeMaintenanceStatus,
  name: NodeMaintenanceStage,
  now: string,
): NodeMaintenanceStatus {
  if (status.stageStatuses.some((stage) => stage.name === name)) return status;
  return { ...status, stageStatuses: [...status.stageStatuses, { name, startTimestamp: now }] };
}

/**
 * Returns the status with these nodes, and their sums for `kubectl get`. A node that was cordoned keeps its record when the selector no longer
 * matches it, because Complete uncordons it like the others. The record of a node that does not exist (`existing` lacks its name) is
 * dropped: a node that returns under that name is treated as a new one. The record of a node that was only waited for is dropped too.
 */
export function withNodes(
  status: NodeMaintenanceStatus,
  nodeStatuses: readonly NodeMaintenanceNodeStatus[],
  existing: ReadonlySet<string>,
): NodeMaintenanceStatus {
  const before = new Map(status.nodeStatuses.map((node) => [node.nodeRef.name, node] as const));
  const merged = nodeStatuses.map((node) => mergedWith(before.get(node.nodeRef.name), node));
  const selected = new Set(merged.map((node) => node.nodeRef.name));
  const noLongerSelected = status.nodeStatuses
    .filter(({ nodeRef: { name } }) => !selected.has(name) && existing.has(name))
    .filter(wasCordonedByMaintenance)
    .map(deselected);
  return {
    ...status,
    nodeStatuses: [...merged, ...noLongerSelected].toSorted((a, b) =>
      compareNames(a.nodeRef.name, b.nodeRef.name),
    ),
    nodes: merged.length,
    podsPendingEvacuation: sum(merged.map((node) => node.podsPendingEvacuation)),
    podsEvacuating: sum(merged.map((node) => node.podsEvacuating)),
  };
}

/** "DrainTargets cannot backtrack", even if a worker that was suspended writes an old decision late. */
function mergedWith(
  before: NodeMaintenanceNodeStatus | undefined,
  node: NodeMaintenanceNodeStatus,
): NodeMaintenanceNodeStatus {
  const podsToEvacuate = node.podsPendingEvacuation + node.podsEvacuating;
  const podsPeak = Math.max(before?.podsPeak ?? 0, node.podsPeak ?? 0, podsToEvacuate);
  const counted = { ...node, ...(podsPeak > 0 && { podsPeak }) };
  if (before === undefined) return counted;
  const recorded = node.unschedulableBefore ?? before.unschedulableBefore;
  const annotations = node.autoscalerAnnotationsBefore ?? before.autoscalerAnnotationsBefore;
  return {
    ...counted,
    drainTargets: [...join([before.drainTargets, node.drainTargets])],
    ...(recorded === undefined ? {} : { unschedulableBefore: recorded }),
    ...(annotations === undefined ? {} : { autoscalerAnnotationsBefore: annotations }),
  };
}

/** Returns true if the maintenance has cordoned the node, or was about to: `unschedulableBefore` is recorded before the first change. */
export function wasCordonedByMaintenance(node: NodeMaintenanceNodeStatus | undefined): boolean {
  return node?.unschedulableBefore !== undefined;
}

/** Clears the targets, so that pods may return to the node. The pods that are still there stay, and do not count as evacuated. */
function deselected(node: NodeMaintenanceNodeStatus): NodeMaintenanceNodeStatus {
  const { agentVersion: _notRead, ...recorded } = node;
  const { podsPeak, podsPendingEvacuation, podsEvacuating } = node;
  return {
    ...recorded,
    ...(podsPeak !== undefined && {
      podsPeak: Math.max(0, podsPeak - podsPendingEvacuation - podsEvacuating),
    }),
    drainTargets: [],
    drainMessage: 'No longer selected: stays unschedulable until the maintenance is complete.',
    podsPendingEvacuation: 0,
    podsEvacuating: 0,
  };
}

/** Limits the size of the status. The Evacuations of all blocked pods have the same condition, and `podsBlocked` counts them. */
const maxBlockedPods = 20;
const maxReasonLength = 1_024;

function blockedPod({ pod: { metadata, spec }, blocker }: BlockedPod) {
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    node: spec.nodeName ?? '',
    reason: blocker.reason,
    message: oneLine(blocker.message, maxReasonLength),
  };
}

/** Sorts the pods that require intervention first. */
function byUrgency(a: BlockedPod, b: BlockedPod): number {
  return Number(requiresIntervention(b.blocker)) - Number(requiresIntervention(a.blocker));
}

export interface DrainStatusInput {
  planLength: number;
  now: string;
  /** Names of the nodes that exist. */
  existing: ReadonlySet<string>;
  /** A paused drain reaches no new tier. */
  isPaused?: boolean;
}

/** Returns the status that follows from a drain decision: targets, messages, counts, position, tier and the Drained condition. */
export function withDrain(
  status: NodeMaintenanceStatus,
  decision: DrainDecision,
  { planLength, now, existing, isPaused = false }: DrainStatusInput,
): NodeMaintenanceStatus {
  const next = withNodes(status, decision.nodeStatuses, existing);
  const reached = isPaused ? 0 : Math.min(decision.position, planLength - 1);
  // "DrainTargets cannot backtrack": a published position never decreases.
  const drainPosition = Math.max(status.drainPosition, reached);
  const drainTier = drainTierAt(status, drainPosition, decision.tiers);
  return {
    ...next,
    drainPosition,
    ...(drainTier !== undefined && { drainTier }),
    podsRemaining: decision.remaining.length,
    podsBlocked: decision.blocked.length,
    blockedPods: decision.blocked.toSorted(byUrgency).slice(0, maxBlockedPods).map(blockedPod),
    conditions: withCondition(
      withWaiting(next, decision.waiting, now).conditions,
      drainedCondition(decision, planLength),
      now,
    ),
  };
}

/** Returns the status with the condition CapacityAvailable. A maintenance whose pods neither wait nor failed to fit does not have it. */
export function withCapacity(
  status: NodeMaintenanceStatus,
  facts: CapacityFacts,
  now: string,
): NodeMaintenanceStatus {
  const condition = capacityCondition(facts);
  if (condition.status === 'True' && !facts.waits && !hasCondition(status, CAPACITY_AVAILABLE)) return status;
  return { ...status, conditions: withCondition(status.conditions, condition, now) };
}

/** Updates the conditions NodeLeasesHeld and NodesAuthorized. A maintenance whose nodes were never waiting for it does not have them. */
function withWaiting(
  status: NodeMaintenanceStatus,
  waiting: readonly WaitingNode[],
  now: string,
): NodeMaintenanceStatus {
  const withoutLease = waiting.filter(lacksLease);
  const denied = waiting.filter(isDenied);
  const facts = [
    ...(withoutLease.length > 0 || hasWaited(status) ? [nodeLeasesCondition(withoutLease)] : []),
    ...(denied.length > 0 || hasCondition(status, NODES_AUTHORIZED)
      ? [nodesAuthorizedCondition(denied)]
      : []),
  ];
  const conditions = facts.reduce((all, one) => withCondition(all, one, now), status.conditions);
  return { ...status, conditions };
}

function hasWaited(status: NodeMaintenanceStatus): boolean {
  return hasCondition(status, NODE_LEASES_HELD);
}

function hasCondition({ conditions }: NodeMaintenanceStatus, wanted: string): boolean {
  return conditions.some(({ type }) => type === wanted);
}

/** Returns the status in Cordon, where the only message of a node is that it waits. */
export function withCordon(
  status: NodeMaintenanceStatus,
  nodeStatuses: readonly NodeMaintenanceNodeStatus[],
  { waiting, now, existing }: { waiting: readonly WaitingNode[]; now: string; existing: ReadonlySet<string> },
): NodeMaintenanceStatus {
  const nodes = withNodes(status, withMessages(nodeStatuses, waiting), existing);
  return withWaiting(nodes, waiting, now);
}

/** Returns the status in Complete. It differs only for a maintenance that waits, or has waited, for Leases. */
export function withUncordon(
  status: NodeMaintenanceStatus,
  waiting: readonly NodeWithoutLease[],
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
  const waitingNodes = new Map(waiting.map((node) => [node.name, node] as const));
  return nodeStatuses.map(({ authorized: _before, ...node }) => {
    const own = waitingNodes.get(node.nodeRef.name);
    if (own === undefined) return { ...node, drainMessage: '' };
    return { ...node, drainMessage: waitingMessage(own), ...(isDenied(own) && { authorized: false }) };
  });
}

/** "Set to true if all pods pending evacuation/termination have terminated on all target nodes" (KEP-4212 > Status). */
function drainedCondition(decision: DrainDecision, planLength: number): ConditionFacts {
  const type = 'Drained';
  if (decision.nodeStatuses.length === 0) {
    return { type, status: 'False', reason: 'NoNodeMatches', message: 'No node matches .spec.nodeSelector.' };
  }
  if (isWaitingOnly(decision)) {
    const withoutLease = decision.undrained.filter(lacksLease);
    return withoutLease.length > 0
      ? {
          type,
          status: 'False',
          reason: 'WaitingForNodeLease',
          message: nodeLeasesCondition(withoutLease).message,
        }
      : { ...nodesAuthorizedCondition(decision.undrained.filter(isDenied)), type };
  }
  if (decision.position < planLength) {
    const podsToEvacuate = sum(
      decision.nodeStatuses.map((node) => node.podsPendingEvacuation + node.podsEvacuating),
    );
    const isBlocked = decision.blocked.some(({ blocker }) => requiresIntervention(blocker));
    const message = `${numbered(podsToEvacuate, 'pod')} left to evacuate${blockedPart(decision.blocked)}.`;
    return { type, status: 'False', reason: isBlocked ? 'Blocked' : 'Draining', message };
  }
  return { type, status: 'True', ...drainedReason(decision.remaining) };
}

/** Returns true if the only pods left are on nodes that the maintenance does not change at present. */
function isWaitingOnly({ undrained, waiting, nodeStatuses }: DrainDecision): boolean {
  const names = new Set(waiting.map(({ name }) => name));
  const ours = nodeStatuses.filter(({ nodeRef }) => !names.has(nodeRef.name));
  return undrained.length > 0 && ours.every((node) => node.podsPendingEvacuation + node.podsEvacuating === 0);
}

/** Formats `, of which 2 cannot leave: shop/db-0 (...), ...`: one pod for each cause, causes that require intervention first. */
function blockedPart(blocked: readonly BlockedPod[]): string {
  if (blocked.length === 0) return '';
  const causes = new Map(blocked.toReversed().map((one) => [one.blocker.message, one] as const));
  const named = [...causes.values()]
    .toReversed()
    .toSorted(byUrgency)
    .map(({ pod, blocker }) => `${podName(pod)} (${oneLine(blocker.message, maxReasonLength)})`);
  return `, of which ${blocked.length} cannot leave: ${listed(named)}`;
}

function drainedReason(remaining: readonly RemainingPod[]): { reason: string; message: string } {
  if (remaining.length === 0) return { reason: 'AllPodsTerminated', message: 'No pod is left on the nodes.' };
  return {
    reason: 'StaticPodsRemain',
    message: `Static pods keep running: ${remainingText(remaining)}.`,
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
