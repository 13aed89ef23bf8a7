import type { Node } from '../../api/core.ts';
import { FIELD_MANAGER } from '../../api/names.ts';
import type { NodeMaintenanceNodeStatus } from '../../api/nodeMaintenance.ts';
import { isManagedBy, isManagedByOthers, type Managed } from './managedFields.ts';

/** Returns true if the node accepts no new pods. */
export function isCordoned(node: Node): boolean {
  return node.spec.unschedulable === true;
}

/**
 * Reports whether a maintenance has cordoned the node, as the apiserver knows: nobody else has set the field since. The record of the maintenance
 * is lost if its object was removed by force, or restored from a backup without its status.
 */
export function isCordonedByMaintenance(node: Node & Managed): boolean {
  return isCordoned(node) && isManagedBy(node, FIELD_MANAGER, unschedulable);
}

const unschedulable = ['f:spec', 'f:unschedulable'];

/** Reports whether another client has cordoned the node, as the apiserver knows. False for a node from an informer, which has no managed fields. */
export function isCordonedByAnother(node: Node & Managed): boolean {
  return isCordoned(node) && isManagedByOthers(node, FIELD_MANAGER, unschedulable);
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

/** Why a completed maintenance leaves a node as it is. */
export type NotUncordoned =
  /** The node was cordoned before the maintenance. The client that cordoned it must uncordon it. */
  | 'CordonedBefore'
  /** Another client has cordoned the node after the maintenance had returned it to service, or a moment before it was to be cordoned. */
  | 'CordonedByAnother'
  /** The maintenance never cordoned the node, for example because it waited for its Lease: the cordon belongs to someone else. */
  | 'NeverCordoned';

export type UncordonDecision =
  | { kind: 'Uncordon' }
  | { kind: 'AlreadySchedulable' }
  /** Other maintenances in Cordon or Drain hold the node. */
  | { kind: 'HeldBy'; maintenances: readonly string[] }
  | { kind: NotUncordoned };

interface Uncordoning {
  /** The status of the node in the maintenance. */
  readonly own: NodeMaintenanceNodeStatus | undefined;
  /** Other maintenances that hold the node. */
  readonly heldBy: readonly string[];
  /** The maintenance goes from Idle to Complete, which makes every node schedulable. */
  readonly isFromIdle: boolean;
}

/**
 * Decides whether a completed maintenance uncordons the node (KEP-4212 > Uncordon (Complete)). Also one that has never cordoned it: another maintenance that
 * was completed before has left its cordon to this one.
 */
export function decideUncordon(
  node: Node & Managed,
  { own, heldBy, isFromIdle }: Uncordoning,
): UncordonDecision {
  if (!isCordoned(node)) return { kind: 'AlreadySchedulable' };
  const isRecorded = own?.unschedulableBefore !== undefined;
  const isForeign = !isFromIdle || own !== undefined;
  if (!isRecorded && isForeign && !isCordonedByMaintenance(node)) return { kind: 'NeverCordoned' };
  if (heldBy.length > 0) return { kind: 'HeldBy', maintenances: heldBy.toSorted() };
  if (own?.unschedulableBefore === true) return { kind: 'CordonedBefore' };
  return isRecorded && isCordonedByAnother(node) ? { kind: 'CordonedByAnother' } : { kind: 'Uncordon' };
}

/** Number of foreign uncordons within `raceWindowMs` that count as a race. */
export const raceCount = 3;
const raceWindowMs = 60_000;

/** "It should alert via events if too many occur ... and a race to change this field is detected" (KEP-4212 > Cordon). */
export function isRace(undoneAt: readonly number[], now: number): boolean {
  return undoneAt.filter((time) => now - time < raceWindowMs).length >= raceCount;
}
