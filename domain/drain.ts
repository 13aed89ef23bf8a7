import type { Pod } from '../api/core.ts';
import type { NodeMaintenanceNodeStatus } from '../api/nodeMaintenance.ts';
import type { Blocker } from './blocker.ts';
import {
  type ContestedNode,
  type Contention,
  type DrainingMaintenance,
  deadlockOf,
  type NodeSnapshot,
  resolveContention,
  type StandingOnNode,
  standingsOf,
  withWishGranted,
} from './contention.ts';
import { drainMessages, fastForwardedBy, isFastForwarded } from './drainMessage.ts';
import { type DrainTargets, exceeds, targetsPod, wishAt } from './drainTargets.ts';
import { type WaitingNode, waitingMessage } from './nodeHold.ts';
import { type PodSnapshot, podTypeOf } from './pod.ts';

/** What the drain of one maintenance is decided from: everything that was seen, at one moment. */
export interface DrainSnapshot {
  /** Name of the maintenance that is decided for. */
  maintenance: string;
  /** This one, and all that share nodes with it, directly or through others. */
  maintenances: readonly DrainingMaintenance[];
  /** The nodes of all of them. */
  nodes: readonly NodeSnapshot[];
  /** Nodes that this maintenance selects and must not touch; no maintenance's `nodes` has them. */
  waiting: readonly WaitingSnapshot[];
  /** What this maintenance's own status says so far, by name of the node. */
  published: ReadonlyMap<string, DrainTargets>;
}

export interface WaitingSnapshot extends WaitingNode, Pick<NodeSnapshot, 'pods'> {
  /** It was ours and is cordoned for the maintenance, until somebody else took it. */
  isTouched: boolean;
}

export interface DrainDecision {
  /** Pods that are targeted and have no Evacuation yet, in a stable order. */
  evacuate: readonly Pod[];
  nodeStatuses: readonly NodeMaintenanceNodeStatus[];
  /** The first position from the present one on at which a living pod is wanted; the plan's length when there is none. */
  position: number;
  /** Static pods, which nothing evacuates: they are left running and reported. */
  remaining: readonly Pod[];
  /** Targeted pods that cannot leave, and why. */
  blocked: readonly BlockedPod[];
  /** Nodes that are only now beyond what this maintenance asks for, and through whom. */
  fastForwarded: readonly { node: string; by: string }[];
  waiting: readonly WaitingNode[];
  /** Of these, the ones that have still to be drained. */
  undrained: readonly WaitingNode[];
  /** The younger maintenances that this one, the oldest of a cycle, passes so that all of them go on. */
  overruled: readonly string[];
}

export interface BlockedPod {
  pod: Pod;
  blocker: Blocker;
}

/**
 * Decides the next step of a drain (KEP-4212 > Pod Selection): "The next entry in the plan can be selected once all
 * the nodes of a NodeMaintenance have finished evacuation and all the NodeMaintenances of intersecting nodes have finished
 * evacuation for the current drain targets". Total, and the same for any order of maintenances, nodes and pods.
 */
export function decideDrain(snapshot: DrainSnapshot): DrainDecision {
  const { maintenance } = snapshot;
  const seen = resolveContention(snapshot.maintenances, snapshot.nodes);
  const [oldest, ...younger] = deadlockOf(seen, maintenance);
  const breaksDeadlock = oldest?.name === maintenance;
  const contention = breaksDeadlock ? withWishGranted(seen, maintenance) : seen;
  const standings = standingsOf(contention, maintenance);
  const position = firstWantedPosition(snapshot, standings);
  const messages = messagesAt(snapshot, contention, position);
  const targeted = standings.flatMap(({ node }) =>
    node.evacuable.filter(({ pod }) => targetsPod(node.targets, pod)),
  );
  return {
    evacuate: targeted.filter(({ evacuating }) => !evacuating).map(({ pod }) => pod),
    nodeStatuses: [
      ...standings.map(({ node }) => statusOf(node, messages.get(node.name) ?? '')),
      ...snapshot.waiting.map((node) => statusOfWaiting(node, snapshot)),
    ],
    waiting: snapshot.waiting,
    undrained: snapshot.waiting.filter(isUndrained),
    position,
    remaining: standings.flatMap(({ node }) => node.remaining.map(({ pod }) => pod)),
    blocked: targeted.flatMap(({ pod, blocker }) => (blocker === undefined ? [] : [{ pod, blocker }])),
    fastForwarded: standings
      .filter((standing) => isNewlyFastForwarded(standing, snapshot))
      .map((standing) => ({ node: standing.node.name, by: fastForwardedBy(standing) })),
    overruled: breaksDeadlock ? younger.map(({ name }) => name) : [],
  };
}

/**
 * The drain messages, by node. When the maintenance is about to go on they are those of the position that comes next: at
 * the present one there is nothing left to say.
 */
function messagesAt(snapshot: DrainSnapshot, now: Contention, next: number): Map<string, string> {
  const own = now.maintenances.get(snapshot.maintenance);
  const isMoving = own !== undefined && next > own.position && next < own.plan.length;
  const contention = isMoving
    ? resolveContention(
        snapshot.maintenances.map((one) => (one.name === own.name ? { ...one, position: next } : one)),
        snapshot.nodes,
      )
    : now;
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
  };
}

/** Its targets stay what they were: nothing new is asked of it, what was asked goes on. */
function statusOfWaiting(node: WaitingSnapshot, { published }: DrainSnapshot): NodeMaintenanceNodeStatus {
  const evacuable = evacuableOf(node);
  const evacuating = evacuable.filter((pod) => pod.evacuating).length;
  return {
    nodeRef: { name: node.name },
    drainTargets: [...(published.get(node.name) ?? [])],
    drainMessage: waitingMessage(node),
    podsPendingEvacuation: evacuable.length - evacuating,
    podsEvacuating: evacuating,
  };
}

/** One that was emptied is drained, whoever has it now: so a technician may take it over for the work itself. */
function isUndrained(node: WaitingSnapshot): boolean {
  return !node.isTouched || evacuableOf(node).length > 0;
}

function evacuableOf({ pods }: WaitingSnapshot): PodSnapshot[] {
  return pods.filter(({ pod }) => podTypeOf(pod) !== 'Static');
}

function isNewlyFastForwarded(standing: StandingOnNode, { published }: DrainSnapshot): boolean {
  const before = published.get(standing.node.name) ?? [];
  return isFastForwarded(standing) && !exceeds(before, standing.wish);
}

function firstWantedPosition(
  { maintenance, maintenances, waiting }: DrainSnapshot,
  standings: readonly StandingOnNode[],
): number {
  const own = maintenances.find(({ name }) => name === maintenance);
  if (own === undefined) return 0;
  const isAwaited = waiting.some(isUndrained);
  // Without a node nothing is done: whoever comes later is drained in order.
  if (standings.length === 0 && (isAwaited || waiting.length === 0)) return own.position;
  const evacuable: readonly PodSnapshot[] = standings.flatMap(({ node }) => node.evacuable);
  for (let next = own.position; next < own.plan.length; next++) {
    const wish = wishAt(own.plan, next);
    if (evacuable.some(({ pod }) => targetsPod(wish, pod))) return next;
  }
  // The other nodes go on, but it is not over.
  return isAwaited ? Math.max(own.position, own.plan.length - 1) : own.plan.length;
}
