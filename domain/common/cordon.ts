import type { Node } from '../../api/core.ts';
import { FIELD_MANAGER } from '../../api/names.ts';
import type { NodeMaintenanceNodeStatus } from '../../api/nodeMaintenance.ts';
import { isManagedBy, type Managed } from './managedFields.ts';

/** Returns true if the node accepts no new pods. */
export function isCordoned(node: Node): boolean {
  return node.spec.unschedulable === true;
}

/**
 * Reports whether a maintenance has cordoned the node, as the apiserver knows: nobody else has set the field since. The record of the maintenance
 * is lost if its object was removed by force, or restored from a backup without its status.
 */
export function isCordonedByMaintenance(node: Node & Managed): boolean {
  return isCordoned(node) && isManagedBy(node, FIELD_MANAGER, ['f:spec', 'f:unschedulable']);
}

/**
 * Returns whether the node was unschedulable before the first maintenance cordoned it. A recorded value never changes. A maintenance that
 * joins a node of another maintenance inherits the record of that one; otherwise it would take our own cordon for a user's. Without a record,
 * the managed fields of the node show whose the cordon is.
 */
export function unschedulableBefore(
  node: Node & Managed,
  own: NodeMaintenanceNodeStatus | undefined,
  holders: readonly (NodeMaintenanceNodeStatus | undefined)[],
): boolean {
  const recorded = [own, ...holders].find((status) => status?.unschedulableBefore !== undefined);
  return recorded?.unschedulableBefore ?? (isCordoned(node) && !isCordonedByMaintenance(node));
}

export type UncordonDecision =
  | { kind: 'Uncordon' }
  | { kind: 'AlreadySchedulable' }
  /** Other maintenances in Cordon or Drain hold the node. */
  | { kind: 'HeldBy'; maintenances: readonly string[] }
  /** The maintenance waited for the node and never cordoned it: the cordon belongs to someone else. */
  | { kind: 'NeverCordoned' }
  /** The node was cordoned before the maintenance. The client that cordoned it must uncordon it. */
  | { kind: 'CordonedBefore' };

/** Decides whether a completed maintenance uncordons the node (KEP-4212 > Uncordon (Complete)). */
export function decideUncordon(
  node: Node,
  own: NodeMaintenanceNodeStatus | undefined,
  heldBy: readonly string[],
): UncordonDecision {
  if (!isCordoned(node)) return { kind: 'AlreadySchedulable' };
  if (own !== undefined && own.unschedulableBefore === undefined) return { kind: 'NeverCordoned' };
  if (heldBy.length > 0) return { kind: 'HeldBy', maintenances: heldBy.toSorted() };
  return own?.unschedulableBefore === true ? { kind: 'CordonedBefore' } : { kind: 'Uncordon' };
}

/** Number of foreign uncordons within `raceWindowMs` that count as a race. */
export const raceCount = 3;
const raceWindowMs = 60_000;

/** "It should alert via events if too many occur ... and a race to change this field is detected" (KEP-4212 > Cordon). */
export function isRace(undoneAt: readonly number[], now: number): boolean {
  return undoneAt.filter((time) => now - time < raceWindowMs).length >= raceCount;
}
