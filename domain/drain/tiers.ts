import type { Pod } from '../../api/core.ts';
import type { DrainPlanEntry, DrainTier, NodeMaintenanceStatus } from '../../api/nodeMaintenance.ts';
import { indexOfTargeting } from './targets.ts';

/**
 * Returns the position of the tier that evacuates the pod: the first entry of the plan that selects it. A pod of an earlier tier, which
 * appeared late, leaves in the tier at `position`.
 */
export function tierPositionOf(plan: readonly DrainPlanEntry[], position: number, pod: Pod): number {
  return Math.max(position, indexOfTargeting(plan, pod));
}

/** Returns the positions of the tiers of a complete plan that contain these pods, from `position` on, in order. */
export function tiersWithPods(
  plan: readonly DrainPlanEntry[],
  position: number,
  pods: readonly Pod[],
): number[] {
  const positions = pods.map((pod) => tierPositionOf(plan, position, pod));
  return [...new Set(positions)].toSorted((a, b) => a - b);
}

/** Formats a tier: `tier 2 of 3`. */
export function tierText({ number, total }: DrainTier): string {
  return `tier ${number} of ${total}`;
}

/**
 * Returns the tier that a drain has reached at `position`, counting only tiers that contain pods, or contained some before they were
 * drained. `tiers` are those that still contain pods. The number grows by one with each such tier that is reached, and never decreases:
 * it is derived from the previous status. Undefined until a tier with pods is reached.
 */
export function drainTierAt(
  before: Pick<NodeMaintenanceStatus, 'drainPosition' | 'drainTier'>,
  position: number,
  tiers: readonly number[],
): DrainTier | undefined {
  const isReached = before.drainTier === undefined || position > before.drainPosition;
  const hasPods = tiers.some((tier) => tier <= position);
  const number = (before.drainTier?.number ?? 0) + (isReached && hasPods ? 1 : 0);
  if (number === 0) return undefined;
  return { number, total: number + tiers.filter((tier) => tier > position).length };
}

/** Returns the last tier that was drained; undefined if there is none. `tiers` are the positions of those that still contain pods. */
export function lastDrainedTier(
  { drainPosition, drainTier }: Pick<NodeMaintenanceStatus, 'drainPosition' | 'drainTier'>,
  tiers: readonly number[],
): DrainTier | undefined {
  if (drainTier === undefined) return undefined;
  const hasPods = tiers.some((tier) => tier <= drainPosition);
  const number = hasPods ? drainTier.number - 1 : drainTier.number;
  return number === 0 ? undefined : { ...drainTier, number };
}
