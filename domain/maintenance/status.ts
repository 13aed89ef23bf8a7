import type { Condition, Pod } from '../../api/core.ts';
import type { DrainDeadline } from '../../api/drainDeadline.ts';
import type {
  DrainDeadlineStatus,
  NodeMaintenanceNodeStatus,
  NodeMaintenanceStage,
  NodeMaintenanceStatus,
} from '../../api/nodeMaintenance.ts';
import { CAPACITY_AVAILABLE, capacityCondition, type CapacityFacts } from '../capacity/condition.ts';
import { type ConditionFacts, DRAIN_DEADLINE_EXCEEDED, withCondition } from '../common/conditions.ts';
import { compareNames, listed, shortened } from '../common/names.ts';
import { podName } from '../common/pod.ts';
import { cut, jsonBytes, numbered, oneLine } from '../common/text.ts';
import { awaitedCordonsText } from '../drain/awaitedCordons.ts';
import type { BlockedPod, DrainDecision } from '../drain/decide.ts';
import { drainDeadlineOf } from '../drain/escalation.ts';
import { type RemainingPod, remainingText } from '../drain/remaining.ts';
import { pendingVerification, type Verification, volumesText, workText } from '../drain/verification.ts';
import { join } from '../drain/targets.ts';
import { drainTierAt } from '../drain/tiers.ts';
import { requiresIntervention } from '../evacuation/blocker.ts';
import type { EvictionApiSettings } from '../common/evictionApi.ts';
import { EVICTION_REQUESTS_SERVED, type ServingState, servingCondition } from '../evacuation/serving.ts';
import { terminationText } from '../evacuation/termination.ts';
import { NODES_AUTHORIZED, nodesAuthorizedCondition } from '../common/nodePermission.ts';
import {
  cordonRejected,
  isDenied,
  isRejected,
  isWithoutLease,
  NODE_LEASES_HELD,
  nodeLeasesCondition,
  nodeLeasesReleased,
  type UnreturnedNode,
  unreturnedCondition,
  unreturnedMessage,
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

/** Returns the status with the deadline that is in effect once Drain has started. */
export function withDrainDeadline(
  status: NodeMaintenanceStatus,
  deadline: DrainDeadline | undefined,
): NodeMaintenanceStatus {
  const drainDeadline = drainDeadlineOf(deadline, status);
  return drainDeadline === undefined ? status : { ...status, drainDeadline };
}

/**
 * Returns the status with these nodes, and their sums for `kubectl get`. A node that was cordoned keeps its record when the selector no longer
 * matches it, because Complete uncordons it like the others. The record of a node that does not exist or was released (`existing` lacks its name) is
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
    .filter(hasCordonRecord)
    .map(deselected);
  return {
    ...status,
    nodeStatuses: withBoundedMessages([...merged, ...noLongerSelected]).toSorted((a, b) =>
      compareNames(a.nodeRef.name, b.nodeRef.name),
    ),
    nodes: merged.length,
    podsPendingEvacuation: sum(merged.map((node) => node.podsPendingEvacuation)),
    podsEvacuating: sum(merged.map((node) => node.podsEvacuating)),
  };
}

/** The length of a node's message, in UTF-16 units. */
const maxMessageLength = 512;
/** Even in the largest status, a message has this length. */
const minMessageLength = 96;
/** Size of all node statuses. An object must be smaller than 1 MiB, of which conditions, blocked pods and the spec need some. */
const maxNodeStatusesBytes = 960 * 1024;

/**
 * Limits the messages so that all node statuses together fit into the object. Only a status of many hundred nodes with the longest names makes
 * them shorter than usual.
 */
function withBoundedMessages(nodes: readonly NodeMaintenanceNodeStatus[]): NodeMaintenanceNodeStatus[] {
  const limited = nodes.map((node) => ({ ...node, drainMessage: cut(node.drainMessage, maxMessageLength) }));
  const excess = jsonBytes(limited) - maxNodeStatusesBytes;
  if (excess <= 0) return limited;
  const messageBytes = limited.map(({ drainMessage }) => jsonBytes(drainMessage));
  const most = Math.max(minMessageLength, largestLimit(messageBytes, sum(messageBytes) - excess));
  return limited.map((node) => ({ ...node, drainMessage: cutToBytes(node.drainMessage, most) }));
}

/** Returns the largest limit for which sizes that are cut to it have this sum at most. */
function largestLimit(sizes: readonly number[], total: number): number {
  let left = total;
  let limit = 0;
  for (const [i, size] of sizes.toSorted((a, b) => a - b).entries()) {
    limit = Math.floor(left / (sizes.length - i));
    if (size > limit) return limit;
    left -= size;
  }
  return limit;
}

function cutToBytes(text: string, bytes: number): string {
  let length = text.length;
  while (jsonBytes(cut(text, length)) > bytes && length > 0)
    length -= Math.max(1, Math.floor((jsonBytes(cut(text, length)) - bytes) / 6));
  return cut(text, length);
}

/** "DrainTargets cannot backtrack", and the record of a cordon never changes, even if a worker that was suspended writes an old decision late. */
function mergedWith(
  before: NodeMaintenanceNodeStatus | undefined,
  node: NodeMaintenanceNodeStatus,
): NodeMaintenanceNodeStatus {
  const podsToEvacuate = node.podsPendingEvacuation + node.podsEvacuating;
  const podsPeak = Math.max(before?.podsPeak ?? 0, node.podsPeak ?? 0, podsToEvacuate);
  const counted = { ...node, ...(podsPeak > 0 && { podsPeak }) };
  if (before === undefined) return counted;
  const recorded = before.unschedulableBefore ?? node.unschedulableBefore;
  const annotations = node.autoscalerAnnotationsBefore ?? before.autoscalerAnnotationsBefore;
  return {
    ...counted,
    drainTargets: [...join([before.drainTargets, node.drainTargets])],
    ...(recorded === undefined ? {} : { unschedulableBefore: recorded }),
    ...(annotations === undefined ? {} : { autoscalerAnnotationsBefore: annotations }),
  };
}

/** Returns true if `unschedulableBefore` is recorded: the maintenance has cordoned the node, or was about to. */
export function hasCordonRecord(node: NodeMaintenanceNodeStatus | undefined): boolean {
  return node?.unschedulableBefore !== undefined;
}

/** Returns the names of the nodes that the maintenance holds, or has held: those with a record of their cordon. */
export function heldNodesOf({ status }: { status?: NodeMaintenanceStatus | undefined }): string[] {
  return status?.nodeStatuses.filter(hasCordonRecord).map(({ nodeRef }) => nodeRef.name) ?? [];
}

/** The policy `cordon-warnings` knows it by its first words. */
const noLongerSelected =
  'No longer selected: stays unschedulable until the maintenance is complete, or someone uncordons it.';

/** Clears the targets, so that pods may return to the node. The pods that are still there stay, and do not count as evacuated. */
function deselected(node: NodeMaintenanceNodeStatus): NodeMaintenanceNodeStatus {
  const { agentVersion: _version, agentCapabilities: _capabilities, ...recorded } = node;
  const { podsPeak, podsPendingEvacuation, podsEvacuating } = node;
  return {
    ...recorded,
    ...(podsPeak !== undefined && {
      podsPeak: Math.max(0, podsPeak - podsPendingEvacuation - podsEvacuating),
    }),
    drainTargets: [],
    drainMessage: noLongerSelected,
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
  /** `.spec.drainDeadline` of the maintenance. */
  deadline?: DrainDeadline | undefined;
  /** The `.metadata.generation` of the object that the decision is for. */
  generation?: number | undefined;
  /** Pending unless given. */
  verification?: Verification;
  /** The write fails if the object has changed since the verification read it. Only such a write makes the condition Drained True. */
  mayBecomeDrained?: boolean;
  /**
   * Whether the condition Drained was True when the decision was made. If not, it stays True: another worker, which has continued the activity, has
   * verified it since. True unless given.
   */
  wasDrained?: boolean;
}

/** Returns the status that follows from a drain decision: targets, messages, counts, position, tier and the Drained condition. */
export function withDrain(
  status: NodeMaintenanceStatus,
  decision: DrainDecision,
  input: DrainStatusInput,
): NodeMaintenanceStatus {
  const { planLength, now, existing, isPaused = false, deadline } = input;
  const drained = drainedCondition(status, decision, input);
  const next = withNodes(status, nodeStatusesOf(decision, input), existing);
  const reached = isPaused ? 0 : Math.min(decision.position, planLength - 1);
  // "DrainTargets cannot backtrack": a published position never decreases.
  const drainPosition = Math.max(status.drainPosition, reached);
  const drainTier = drainTierAt(status, drainPosition, decision.tiers);
  const drainDeadline = deadlineAfter(drainDeadlineOf(deadline, status), drained, now);
  const conditions = withCondition(withWaiting(next, decision.waiting, now).conditions, drained, now);
  return {
    ...next,
    drainPosition,
    ...(drainTier !== undefined && { drainTier }),
    ...(drainDeadline !== undefined && { drainDeadline }),
    podsRemaining: decision.remaining.length,
    podsBlocked: decision.blocked.length,
    blockedPods: decision.blocked.toSorted(byUrgency).slice(0, maxBlockedPods).map(blockedPod),
    conditions: withDeadlineExceeded(conditions, { drainDeadline, now }),
  };
}

/** A deadline ends with the first time that the nodes are drained. */
function deadlineAfter(
  deadline: DrainDeadlineStatus | undefined,
  drained: ConditionFacts,
  now: string,
): DrainDeadlineStatus | undefined {
  if (deadline === undefined || deadline.drainedAt !== undefined || drained.status !== 'True')
    return deadline;
  return { ...deadline, drainedAt: now };
}

/** Updates the condition DrainDeadlineExceeded. A maintenance whose nodes were drained in time does not have it. */
function withDeadlineExceeded(
  conditions: readonly Condition[],
  { drainDeadline, now }: { drainDeadline: DrainDeadlineStatus | undefined; now: string },
): Condition[] {
  const type = DRAIN_DEADLINE_EXCEEDED;
  if (drainDeadline === undefined) return [...conditions];
  const { time, drainedAt } = drainDeadline;
  if (drainedAt !== undefined) {
    if (!conditions.some((one) => one.type === type)) return [...conditions];
    const message = `The nodes were drained at ${drainedAt}; the deadline was ${time}.`;
    return withCondition(conditions, { type, status: 'False', reason: 'Drained', message }, now);
  }
  if (!(Date.parse(now) >= Date.parse(time))) return [...conditions];
  const message = `The nodes are not drained, and the deadline was ${time}. The condition Drained says what is left.`;
  return withCondition(conditions, { type, status: 'True', reason: 'PodsRemain', message }, now);
}

/**
 * Returns the status with the condition CapacityAvailable. A maintenance whose pods neither wait nor failed to fit does not have it, and none says that
 * pods fit before all of them were compared with the nodes.
 */
export function withCapacity(
  status: NodeMaintenanceStatus,
  facts: CapacityFacts,
  now: string,
): NodeMaintenanceStatus {
  const condition = capacityCondition(facts);
  if (condition.status === 'True' && !facts.isComplete) return status;
  if (condition.status === 'True' && !facts.waits && !hasCondition(status, CAPACITY_AVAILABLE)) return status;
  return { ...status, conditions: withCondition(status.conditions, condition, now) };
}

/** Returns the status with the condition EvictionRequestsServed. What is known stays until something else is known. */
export function withServing(
  status: NodeMaintenanceStatus,
  { serving, ...settings }: EvictionApiSettings & { serving: ServingState },
  now: string,
): NodeMaintenanceStatus {
  if (serving === 'Unknown' && hasCondition(status, EVICTION_REQUESTS_SERVED)) return status;
  return {
    ...status,
    conditions: withCondition(status.conditions, servingCondition(serving, settings), now),
  };
}

/** Updates the conditions NodeLeasesHeld and NodesAuthorized. A maintenance whose nodes were never waiting for it does not have them. */
function withWaiting(
  status: NodeMaintenanceStatus,
  waiting: readonly WaitingNode[],
  now: string,
): NodeMaintenanceStatus {
  const withoutLease = waiting.filter(isWithoutLease);
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
  const nodes = withNodes(status, withMessages(nodeStatuses, waiting, waitingMessage), existing);
  return withWaiting(nodes, waiting, now);
}

/** Returns the status in Complete. It differs only for a maintenance that waits, or has waited, for its nodes. */
export function withUncordon(
  status: NodeMaintenanceStatus,
  waiting: readonly UnreturnedNode[],
  now: string,
): NodeMaintenanceStatus {
  if (waiting.length === 0 && !hasWaited(status)) return status;
  const facts = waiting.length === 0 ? nodeLeasesReleased : unreturnedCondition(waiting);
  return {
    ...status,
    nodeStatuses: withBoundedMessages(withMessages(status.nodeStatuses, waiting, unreturnedMessage)),
    conditions: withCondition(status.conditions, facts, now),
  };
}

function withMessages<Node extends WaitingNode | UnreturnedNode>(
  nodeStatuses: readonly NodeMaintenanceNodeStatus[],
  waiting: readonly Node[],
  messageOf: (node: Node) => string,
): NodeMaintenanceNodeStatus[] {
  const waitingNodes = new Map(waiting.map((node) => [node.name, node] as const));
  return nodeStatuses.map(({ authorized: _before, ...node }) => {
    const own = waitingNodes.get(node.nodeRef.name);
    if (own === undefined) return { ...node, drainMessage: '' };
    return { ...node, drainMessage: messageOf(own), ...(isDenied(own) && { authorized: false }) };
  });
}

/** Returns the node statuses, with what a node without pods waits for. */
function nodeStatusesOf(
  decision: DrainDecision,
  { planLength, verification = pendingVerification }: DrainStatusInput,
): readonly NodeMaintenanceNodeStatus[] {
  if (!isEmptied(decision, planLength)) return decision.nodeStatuses;
  const messageOf = (node: string): string | undefined => {
    const isOn = (one: { node: string }) => one.node === node;
    switch (verification.kind) {
      case 'Working': {
        const work = verification.work.filter(isOn);
        return work.length === 0 ? undefined : `Waiting for Job ${workText(work)}.`;
      }
      case 'Attached': {
        const volumes = verification.volumes.filter(isOn);
        return volumes.length === 0
          ? undefined
          : `Waiting for volumes to be detached: ${volumesText(volumes)}.`;
      }
      default:
        return undefined;
    }
  };
  return decision.nodeStatuses.map((node) => {
    const message = messageOf(node.nodeRef.name);
    return message === undefined ? node : { ...node, drainMessage: message };
  });
}

/** Reports whether no pod to evacuate is left on any node of the maintenance, according to what the decision was made from. */
export function isEmptied(decision: DrainDecision, planLength: number): boolean {
  return decision.nodeStatuses.length > 0 && !isWaitingOnly(decision) && decision.position >= planLength;
}

/** Reports whether the condition Drained is True, and for this generation of the object. */
export function isDrainedAt(
  { conditions }: Pick<NodeMaintenanceStatus, 'conditions'>,
  generation: number | undefined,
): boolean {
  const drained = conditions.find(({ type }) => type === 'Drained');
  return drained?.status === 'True' && drained.observedGeneration === generation;
}

/** "Set to true if all pods pending evacuation/termination have terminated on all target nodes" (KEP-4212 > Status). */
function drainedCondition(
  status: NodeMaintenanceStatus,
  decision: DrainDecision,
  {
    planLength,
    generation,
    verification = pendingVerification,
    mayBecomeDrained = false,
    wasDrained = true,
  }: DrainStatusInput,
): ConditionFacts {
  const drained = {
    type: 'Drained',
    ...(generation !== undefined && { observedGeneration: generation }),
  };
  const previous = status.conditions.find(({ type }) => type === 'Drained');
  if (!wasDrained && previous !== undefined && isDrainedAt(status, generation)) return previous;
  const facts = undrainedFacts(decision, planLength) ?? unverifiedFacts(verification);
  if (facts !== undefined) return { ...drained, status: 'False', ...facts };
  if (verification.kind === 'Verified' && (mayBecomeDrained || isDrainedAt(status, generation)))
    return { ...drained, status: 'True', ...drainedReason(decision.remaining, verification) };
  // kubectl wait takes a condition of an earlier generation for outdated.
  if (previous?.status === 'True') return previous;
  const message = 'No pod is left to evacuate; the worker verifies this in the apiserver.';
  return { ...drained, status: 'False', reason: 'Draining', message };
}

type Reason = Pick<ConditionFacts, 'reason' | 'message'>;

/** Returns why the nodes are not drained, according to the decision; undefined if no pod is left. */
function undrainedFacts(decision: DrainDecision, planLength: number): Reason | undefined {
  if (decision.nodeStatuses.length === 0)
    return { reason: 'NoNodeMatches', message: 'No node matches .spec.nodeSelector.' };
  if (isWaitingOnly(decision)) {
    const withoutLease = decision.undrained.filter(isWithoutLease);
    if (withoutLease.length > 0)
      return { reason: 'WaitingForNodeLease', message: nodeLeasesCondition(withoutLease).message };
    const rejected = decision.undrained.filter(isRejected);
    if (rejected.length > 0) return cordonRejected(rejected);
    const { reason, message } = nodesAuthorizedCondition(decision.undrained.filter(isDenied));
    return { reason, message };
  }
  if (isEmptied(decision, planLength)) return undefined;
  const podsToEvacuate = sum(
    decision.nodeStatuses.map((node) => node.podsPendingEvacuation + node.podsEvacuating),
  );
  const isBlocked = decision.blocked.some(({ blocker }) => requiresIntervention(blocker));
  const parts = `${blockedPart(decision.blocked)}${terminatingPart(decision.terminating)}`;
  const left = `${numbered(podsToEvacuate, 'pod')} left to evacuate${parts}.`;
  const message = decision.awaitsCordons ? `${left} ${awaitedCordonsText}` : left;
  return { reason: isBlocked ? 'Blocked' : 'Draining', message };
}

/** Returns what nodes without pods wait for. */
function unverifiedFacts(verification: Verification): Reason | undefined {
  switch (verification.kind) {
    case 'Working': {
      const { work } = verification;
      const subject = work.length === 1 ? 'a Job works' : 'Jobs work';
      const message = `No pod is left to evacuate, but ${subject} on ${nodesText(work)}: ${workText(work)}.`;
      return { reason: 'WorkInProgress', message };
    }
    case 'Attached': {
      const { volumes } = verification;
      const subject = `${numbered(volumes.length, 'volume')} ${volumes.length === 1 ? 'is' : 'are'}`;
      const message = `No pod is left to evacuate, but ${subject} still attached to ${nodesText(volumes)}: ${volumesText(volumes)}. If this lasts, check the CSI driver, and describe the VolumeAttachments.`;
      return { reason: 'VolumesAttached', message };
    }
    default:
      return undefined;
  }
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

function nodesText(all: readonly { node: string }[]): string {
  const nodes = [...new Set(all.map(({ node }) => node))];
  return `${nodes.length === 1 ? 'node' : 'nodes'} ${listed(nodes.map(shortened))}`;
}

/** Formats `; 1 terminating: shop/db-0 (its grace period of 3600 s ends at ...; finalizers ...)`: the last to end first. */
function terminatingPart(terminating: readonly Pod[]): string {
  if (terminating.length === 0) return '';
  const named = terminating
    .toSorted(
      (a, b) =>
        compareNames(b.metadata.deletionTimestamp ?? '', a.metadata.deletionTimestamp ?? '') ||
        compareNames(podName(a), podName(b)),
    )
    .map((pod) => `${podName(pod)} (${terminationText(pod)})`);
  return `; ${terminating.length} terminating: ${listed(named)}`;
}

function drainedReason(
  remaining: readonly RemainingPod[],
  { volumes, volumesUnknown }: Extract<Verification, { kind: 'Verified' }>,
): Reason {
  const notes = [
    ...(volumes.length > 0
      ? [
          `The deadline has passed, and ${numbered(volumes.length, 'volume')} ${volumes.length === 1 ? 'is' : 'are'} still attached: ${volumesText(volumes)}.`,
        ]
      : []),
    ...(remaining.length > 0 ? [`Static pods keep running: ${remainingText(remaining)}.`] : []),
    ...(volumesUnknown === undefined
      ? []
      : [`It is not known whether volumes are attached: ${volumesUnknown}.`]),
  ];
  const reason =
    volumes.length > 0 ? 'VolumesRemain' : remaining.length > 0 ? 'StaticPodsRemain' : 'AllPodsTerminated';
  const isStatic = remaining.length > 0;
  return { reason, message: [...(isStatic ? [] : ['No pod is left on the nodes.']), ...notes].join(' ') };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
