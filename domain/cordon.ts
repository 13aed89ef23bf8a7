import type { Node } from '../api/core.ts';
import type { NodeMaintenanceNodeStatus } from '../api/nodeMaintenance.ts';

/** Whether the node takes no new pods. */
export function isCordoned(node: Node): boolean {
  return node.spec.unschedulable === true;
}

/**
 * Whether a node was unschedulable before the first maintenance cordoned it. A record, once made, stays; a maintenance
 * that joins a node which another one holds inherits that one's, or it would take our own cordon for a foreign one.
 */
export function unschedulableBefore(
  node: Node,
  own: NodeMaintenanceNodeStatus | undefined,
  holders: readonly (NodeMaintenanceNodeStatus | undefined)[],
): boolean {
  const recorded = [own, ...holders].find((status) => status?.unschedulableBefore !== undefined);
  return recorded?.unschedulableBefore ?? isCordoned(node);
}

export type GiveBack =
  | { kind: 'Uncordon' }
  | { kind: 'AlreadySchedulable' }
  /** Other maintenances in Cordon or Drain still want the node. */
  | { kind: 'HeldBy'; maintenances: readonly string[] }
  /** It was waited for, and never ours: whoever cordoned it, it was not this maintenance. */
  | { kind: 'NeverTouched' }
  /** Somebody else had cordoned the node before we did: theirs to undo. */
  | { kind: 'CordonedBefore' };

/** What becomes of a node's cordon when a maintenance completes (KEP-4212 > Uncordon (Complete)). */
export function giveBack(
  node: Node,
  own: NodeMaintenanceNodeStatus | undefined,
  heldBy: readonly string[],
): GiveBack {
  if (!isCordoned(node)) return { kind: 'AlreadySchedulable' };
  if (own !== undefined && own.unschedulableBefore === undefined) return { kind: 'NeverTouched' };
  if (heldBy.length > 0) return { kind: 'HeldBy', maintenances: heldBy.toSorted() };
  return own?.unschedulableBefore === true ? { kind: 'CordonedBefore' } : { kind: 'Uncordon' };
}

/** Somebody makes a node schedulable as often as we make it unschedulable: so often, within so long (milliseconds). */
const raceCount = 3;
const raceWithin = 60_000;

/** "It should alert via events if too many occur ... and a race to change this field is detected" (KEP-4212 > Cordon). */
export function isRace(undoneAt: readonly number[], now: number): boolean {
  return undoneAt.filter((time) => now - time < raceWithin).length >= raceCount;
}
