import type { Pod, PodDisruptionBudget } from '../api/core.ts';
import { type Blocker, BlockerReason } from './blocker.ts';
import { selectsLabels } from './labelSelector.ts';
import { listed } from './names.ts';

/** The budgets that guard a pod: "a null selector will match no pods, while an empty ({}) selector will select all". */
export function budgetsOf(pod: Pod, budgets: readonly PodDisruptionBudget[]): PodDisruptionBudget[] {
  return budgets.filter(
    (budget) =>
      budget.metadata.namespace === pod.metadata.namespace &&
      budget.spec.selector !== undefined &&
      selectsLabels(budget.spec.selector, pod.metadata.labels ?? {}),
  );
}

/**
 * Whether the eviction API lets a pod go whatever its budget says: pods that do not run, and pods that are not ready
 * while the application is healthy without them.
 */
export function leavesUnguarded(pod: Pod, budget: PodDisruptionBudget): boolean {
  if (pod.status.phase !== 'Running') return true;
  if (pod.status.ready) return false;
  if (budget.spec.unhealthyPodEvictionPolicy === 'AlwaysAllow') return true;
  const { currentHealthy = 0, desiredHealthy = 0 } = budget.status ?? {};
  return desiredHealthy > 0 && currentHealthy >= desiredHealthy;
}

/** How many more pods of a budget may be evicted now, given evictions that its status does not show yet. */
export function remainingDisruptions(budget: PodDisruptionBudget, unseenEvictions: number): number {
  return Math.max(0, (budget.status?.disruptionsAllowed ?? 0) - unseenEvictions);
}

/** Why a budget lets nothing go, for the person who has to act on it: its name, its numbers, and whether waiting helps. */
export function blockedMessage(budget: PodDisruptionBudget, unseenEvictions: number): string {
  const name = `${budget.metadata.namespace}/${budget.metadata.name}`;
  if (budget.status === undefined)
    return `Blocked by PodDisruptionBudget ${name}: its status is not computed yet.`;
  const { disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods } = budget.status;
  const numbers = `disruptionsAllowed ${disruptionsAllowed}, currentHealthy ${currentHealthy}, desiredHealthy ${desiredHealthy}, expectedPods ${expectedPods}`;
  return `Blocked by PodDisruptionBudget ${name} (${numbers}).${outlook(budget, disruptionsAllowed, unseenEvictions)}`;
}

/** The same for machines and Events: it stays as it is while the numbers change. */
export function budgetBlocker(budget: PodDisruptionBudget): Blocker {
  const name = `${budget.metadata.namespace}/${budget.metadata.name}`;
  if (neverAllows(budget))
    return {
      reason: BlockerReason.DisruptionBudgetNeverAllows,
      message: `PodDisruptionBudget ${name} can never allow a disruption: add a replica or relax the budget.`,
    };
  const message = `PodDisruptionBudget ${name} allows no disruption now.`;
  return { reason: BlockerReason.DisruptionBudget, message };
}

function neverAllows({ status }: PodDisruptionBudget): boolean {
  return status !== undefined && status.expectedPods > 0 && status.desiredHealthy >= status.expectedPods;
}

/** What to expect: nothing, for a budget that leaves no room; its next change, when our own evictions have used it up. */
function outlook(budget: PodDisruptionBudget, disruptionsAllowed: number, unseenEvictions: number): string {
  if (neverAllows(budget)) return ' It can never allow a disruption: add a replica or relax the budget.';
  const granted = Object.keys(budget.status?.disruptedPods ?? {}).toSorted();
  // An eviction that was cut off leaves its pod in place and its disruption granted: Kubernetes takes that back itself.
  if (disruptionsAllowed === 0 && granted.length > 0)
    return ` It waits for ${listed(granted)} to go, or two minutes for each whose eviction was cut off.`;
  if (disruptionsAllowed === 0 || unseenEvictions === 0) return '';
  return unseenEvictions === 1 ? ' 1 eviction is under way.' : ` ${unseenEvictions} evictions are under way.`;
}

/** The eviction API refuses such a pod for ever (500), so say it before asking. */
export function ambiguousMessage(budgets: readonly PodDisruptionBudget[]): string {
  const names = budgets.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).toSorted();
  return `Blocked by more than one PodDisruptionBudget (${names.join(', ')}): the eviction API allows one; make their selectors disjoint.`;
}
