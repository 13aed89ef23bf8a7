import type { Pod } from '../../api/core.ts';
import type { NodeMaintenanceNodeStatus } from '../../api/nodeMaintenance.ts';
import { decideDeletions, type DeadlineDecision, type PodDeletion } from './deadline.ts';
import type { PodSnapshot } from './podSnapshot.ts';
import type { Blocker } from '../evacuation/blocker.ts';
import { isDenied, isRejected, type WaitingNode, waitingMessage } from '../leases/nodeLease.ts';
import {
  type ContestedNode,
  type Contention,
  type DrainingMaintenance,
  conflictCycleOf,
  divided,
  grantDesiredTargets,
  type NodeContention,
  type NodeSnapshot,
  nodeContentionsOf,
  resolveContention,
} from './contention.ts';
import { drainMessages, fastForwardedBy, isFastForwarded } from './message.ts';
import type { RemainingPod } from './remaining.ts';
import { desiredTargetsAt, type DrainTargets, exceeds, join, targetsPod } from './targets.ts';
import { tierPositionOf, tiersWithPods } from './tiers.ts';

/** The input of a drain decision, observed at one moment. */
export interface DrainSnapshot {
  /** Name of the maintenance that the decision is for. */
  maintenance: string;
  /** This maintenance, and all that share nodes with it, directly or through others. */
  maintenances: readonly DrainingMaintenance[];
  /** The nodes of all of them. */
  nodes: readonly NodeSnapshot[];
  /** Selected nodes that must not be changed: their Leases are held by someone else, or the requester may not maintain them. `nodes` does not contain them. */
  waiting: readonly WaitingSnapshot[];
  /** Node name -> the drain targets in the status of this maintenance. */
  published: ReadonlyMap<string, DrainTargets>;
  /** The deadline at which this maintenance deletes what is left, in milliseconds since the epoch. It deletes nothing unless given. */
  deletion?: { timeMs: number; nowMs: number } | undefined;
  /** Other maintenances are about to cordon their nodes: no pod is evacuated before they have. */
  awaitsCordons?: boolean;
}

export type WaitingSnapshot = WaitingNode &
  Pick<NodeSnapshot, 'pods' | 'agent'> & {
    /** `unschedulableBefore` is recorded for the node. */
    hasCordonRecord: boolean;
  };

export interface DrainDecision {
  /** The pods that the drain targets select. */
  targeted: readonly Pod[];
  /** Targeted pods that have no Evacuation yet, in a stable order; none while it awaits cordons. */
  evacuate: readonly Pod[];
  /** Other maintenances are to cordon their nodes before the targeted pods are evacuated. */
  awaitsCordons: boolean;
  nodeStatuses: readonly NodeMaintenanceNodeStatus[];
  /** The first position, from the current one, whose desired targets select a pod; the length of the plan if none does. */
  position: number;
  /** Positions of the tiers that still contain pods, on waiting nodes too, in order. */
  tiers: readonly number[];
  /** Static pods that nothing may stop. They keep running and are reported. */
  remaining: readonly RemainingPod[];
  /** Targeted pods that cannot leave, and why. */
  blocked: readonly BlockedPod[];
  /** Pods that terminate, and that nothing else blocks. */
  terminating: readonly Pod[];
  /** Nodes that this decision fast-forwards: their drain targets exceed what this maintenance wants, because of maintenance `by`. */
  fastForwarded: readonly { node: string; by: string }[];
  waiting: readonly WaitingNode[];
  /** The waiting nodes that are still to be drained. */
  undrained: readonly WaitingNode[];
  /** Names of the younger maintenances that this one, the oldest of a cycle, overrules so that all of them can proceed. */
  overruled: readonly string[];
  /** Pods that are deleted now because of the deadline, in their order. The drain targets of their nodes select them. */
  deletions: readonly PodDeletion[];
  /** When the next pod is deleted, in milliseconds since the epoch. */
  nextDeletionAtMs: number | undefined;
}

export interface BlockedPod {
  pod: Pod;
  blocker: Blocker;
}

/**
 * Decides the next step of a drain (KEP-4212 > Pod Selection). The next entry in the plan is selected "once all the nodes of a
 * NodeMaintenance have finished evacuation"; because other maintenances limit the drain targets of each node, their plans are respected, too
 * (ADR 67). The result does not depend on the order of maintenances, nodes and pods.
 */
export function decideDrain(observed: DrainSnapshot): DrainDecision {
  const { maintenance, awaitsCordons = false } = observed;
  const deletions = deletionsOf(observed);
  const snapshot = withDeadlineTargets(observed, deletions);
  const resolved = resolveContention(snapshot.maintenances, snapshot.nodes);
  const [oldest, ...younger] = conflictCycleOf(resolved, maintenance);
  const breaksConflict = oldest?.name === maintenance;
  const contention = breaksConflict ? grantDesiredTargets(resolved, maintenance) : resolved;
  const contentions = nodeContentionsOf(contention, maintenance);
  const tiers = tiersOf(
    snapshot,
    contentions.flatMap(({ node }) => node.evacuable),
  );
  const position = nextPosition(snapshot, contentions.length > 0, tiers[0]);
  const messages = messagesAt(snapshot, contention, position);
  const targeted = contentions.flatMap(({ node }) =>
    node.evacuable.filter(({ pod }) => targetsPod(node.targets, pod)),
  );
  return {
    targeted: targeted.map(({ pod }) => pod),
    evacuate: awaitsCordons ? [] : targeted.filter(({ evacuating }) => !evacuating).map(({ pod }) => pod),
    awaitsCordons,
    nodeStatuses: [
      ...contentions.map(({ node }) => statusOf(node, messages.get(node.name) ?? '')),
      ...snapshot.waiting.map((node) => statusOfWaiting(node, snapshot)),
    ],
    waiting: snapshot.waiting,
    undrained: snapshot.waiting.filter(isUndrained),
    position,
    tiers: union(tiers, tiersOf(snapshot, snapshot.waiting.flatMap(evacuableOf))),
    remaining: contentions.flatMap(({ node }) => node.remaining.map(({ pod, cause }) => ({ pod, cause }))),
    blocked: targeted.flatMap(({ pod, blocker }) => (blocker === undefined ? [] : [{ pod, blocker }])),
    terminating: contentions.flatMap(({ node }) =>
      node.evacuable
        .filter(({ pod, blocker }) => blocker === undefined && pod.metadata.deletionTimestamp !== undefined)
        .map(({ pod }) => pod),
    ),
    fastForwarded: contentions
      .filter((own) => isNewlyFastForwarded(own, snapshot))
      .map((own) => ({ node: own.node.name, by: fastForwardedBy(own) })),
    overruled: breaksConflict ? younger.map(({ name }) => name) : [],
    deletions: deletions.due,
    nextDeletionAtMs: deletions.nextAtMs,
  };
}

/** Decides which pods the deadline deletes, on all nodes of the maintenance that it may change. */
function deletionsOf({ maintenance, maintenances, nodes, deletion }: DrainSnapshot): DeadlineDecision {
  const own = maintenances.find(({ name }) => name === maintenance);
  if (deletion === undefined || own === undefined) return { due: [], nextAtMs: undefined };
  const selected = new Set(own.nodes);
  const pods = nodes.filter(({ name }) => selected.has(name)).flatMap((node) => divided(node).evacuable);
  return decideDeletions(
    pods.map(({ pod, forbidsCancellation = false }) => ({
      pod,
      tier: tierPositionOf(own.plan, own.position, pod),
      forbidsCancellation,
    })),
    deletion,
  );
}

/**
 * Returns the snapshot with drain targets on the nodes of the maintenance that reach the last tier in which the deadline deletes pods: no pod
 * is deleted that the targets do not select, and DaemonSets do not return pods to targeted nodes. The position does not change: pods of the current tier may be stuck.
 */
function withDeadlineTargets(snapshot: DrainSnapshot, { due }: DeadlineDecision): DrainSnapshot {
  const own = snapshot.maintenances.find(({ name }) => name === snapshot.maintenance);
  // In the order of their tiers.
  const last = due.at(-1);
  if (own === undefined || last === undefined) return snapshot;
  const selected = new Set(own.nodes);
  const targets = desiredTargetsAt(own.plan, last.tier);
  return {
    ...snapshot,
    nodes: snapshot.nodes.map((node) =>
      selected.has(node.name) ? { ...node, reached: join([node.reached, targets]) } : node,
    ),
  };
}

/**
 * Returns the drain messages by node. If the maintenance is about to reach its next position, they are the messages of that position: no pod
 * is left at the current one.
 */
function messagesAt(snapshot: DrainSnapshot, current: Contention, next: number): Map<string, string> {
  const own = current.maintenances.get(snapshot.maintenance);
  const isAdvancing = own !== undefined && next > own.position && next < own.plan.length;
  const contention = isAdvancing
    ? resolveContention(
        snapshot.maintenances.map((one) => (one.name === own.name ? { ...one, position: next } : one)),
        snapshot.nodes,
      )
    : current;
  return drainMessages(contention, snapshot.maintenance);
}

function statusOf(node: ContestedNode, message: string): NodeMaintenanceNodeStatus {
  const evacuating = node.evacuable.filter((pod) => pod.evacuating).length;
  return {
    nodeRef: { name: node.name },
    drainTargets: [...node.targets],
    drainMessage: message,
    podsPendingEvacuation: node.evacuable.length - evacuating,
    podsEvacuating: evacuating,
    ...agentOf(node),
  };
}

function agentOf({
  agent,
}: Pick<NodeSnapshot, 'agent'>): Pick<NodeMaintenanceNodeStatus, 'agentVersion' | 'agentCapabilities'> {
  if (agent?.kind !== 'Live') return {};
  return { agentVersion: agent.version, agentCapabilities: [...agent.capabilities] };
}

/** Keeps the published targets: no new pod is evacuated, and Evacuations in progress continue. */
function statusOfWaiting(node: WaitingSnapshot, { published }: DrainSnapshot): NodeMaintenanceNodeStatus {
  const evacuable = evacuableOf(node);
  const evacuating = evacuable.filter((pod) => pod.evacuating).length;
  return {
    nodeRef: { name: node.name },
    drainTargets: [...(published.get(node.name) ?? [])],
    drainMessage: waitingMessage(node),
    podsPendingEvacuation: evacuable.length - evacuating,
    podsEvacuating: evacuating,
    ...agentOf(node),
    ...(isDenied(node) && { authorized: false }),
  };
}

/**
 * Returns false for a node that was drained before someone else acquired its Lease: a technician may acquire it for the work itself. One that cannot be
 * cordoned is never drained, because pods can be scheduled to it.
 */
function isUndrained(node: WaitingSnapshot): boolean {
  return isRejected(node) || !node.hasCordonRecord || evacuableOf(node).length > 0;
}

function evacuableOf(node: WaitingSnapshot): readonly PodSnapshot[] {
  return divided(node).evacuable;
}

function isNewlyFastForwarded(own: NodeContention, { published }: DrainSnapshot): boolean {
  const before = published.get(own.node.name) ?? [];
  return isFastForwarded(own) && !exceeds(before, own.desired);
}

/** Returns the positions of the tiers of the maintenance that contain these pods. */
function tiersOf({ maintenance, maintenances }: DrainSnapshot, pods: readonly PodSnapshot[]): number[] {
  const own = maintenances.find(({ name }) => name === maintenance);
  if (own === undefined) return [];
  return tiersWithPods(
    own.plan,
    own.position,
    pods.map(({ pod }) => pod),
  );
}

function union(a: readonly number[], b: readonly number[]): number[] {
  return [...new Set([...a, ...b])].toSorted((one, other) => one - other);
}

/** `firstTier`: position of the first tier that contains pods on nodes that may be changed. */
function nextPosition(
  { maintenance, maintenances, waiting }: DrainSnapshot,
  hasNodes: boolean,
  firstTier: number | undefined,
): number {
  const own = maintenances.find(({ name }) => name === maintenance);
  if (own === undefined) return 0;
  const isWaiting = waiting.some(isUndrained);
  // Without nodes the position stays, so that a node that is selected later is drained from here, tier by tier.
  if (!hasNodes && (isWaiting || waiting.length === 0)) return own.position;
  if (firstTier !== undefined) return firstTier;
  // The other nodes are drained, but the waiting nodes are not: stay at the last position.
  return isWaiting ? Math.max(own.position, own.plan.length - 1) : own.plan.length;
}
