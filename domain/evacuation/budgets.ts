import type { Pod, PodDisruptionBudget } from '../../api/core.ts';
import { type Blocker, BlockerReason } from './blocker.ts';
import { selectsLabels } from '../common/labelSelector.ts';
import { listed } from '../common/names.ts';

/**
 * Returns the PodDisruptionBudgets that select a pod: "a null selector will match no pods, while an empty ({}) selector
 * will select all".
 */
export function budgetsOf(pod: Pod, budgets: readonly PodDisruptionBudget[]): PodDisruptionBudget[] {
  return budgets.filter(
    (budget) =>
      budget.metadata.namespace === pod.metadata.namespace &&
      budget.spec.selector !== undefined &&
      selectsLabels(budget.spec.selector, pod.metadata.labels ?? {}),
  );
}

/** "Pods that do not run bypass their budgets", even when there is more than one. A pod whose node has been lost is Unknown, and may run. */
export function bypassesAllBudgets({ status: { phase } }: Pod): boolean {
  return phase === 'Pending' || phase === 'Succeeded' || phase === 'Failed';
}

/**
 * Reports whether the eviction API evicts a pod regardless of its budget: a pod that does not run, or a pod that is not
 * ready while the application is healthy without it.
 */
export function bypassesBudget(pod: Pod, budget: PodDisruptionBudget): boolean {
  if (bypassesAllBudgets(pod)) return true;
  if (pod.status.ready) return false;
  if (budget.spec.unhealthyPodEvictionPolicy === 'AlwaysAllow') return true;
  const { currentHealthy = 0, desiredHealthy = 0 } = budget.status ?? {};
  return desiredHealthy > 0 && currentHealthy >= desiredHealthy;
}

/** An eviction that was requested. */
export interface PendingEviction {
  /** Name of the pod. */
  pod: string;
  /** The time in `disruptedPods` when the eviction was requested: an earlier eviction of the pod was interrupted. */
  disruptedBefore: string | undefined;
}

/** Returns the eviction of a pod, as requested while the budget has its current status. */
export function pendingEviction(pod: Pod, { status }: PodDisruptionBudget): PendingEviction {
  const { name } = pod.metadata;
  return { pod: name, disruptedBefore: disruptedAt(name, status) };
}

/**
 * Reports whether `disruptionsAllowed` already accounts for the eviction: the eviction API adds the pod to `disruptedPods`
 * in the same write. The entry is removed again when the pod is gone, so this must be checked for every version of the status.
 */
export function isCounted(
  { pod, disruptedBefore }: PendingEviction,
  { status }: PodDisruptionBudget,
): boolean {
  const time = disruptedAt(pod, status);
  return time !== undefined && time !== disruptedBefore;
}

/** Pods may have names such as `constructor`. */
function disruptedAt(pod: string, status: PodDisruptionBudget['status']): string | undefined {
  const { disruptedPods = {} } = status ?? {};
  return Object.hasOwn(disruptedPods, pod) ? disruptedPods[pod] : undefined;
}

/** Returns how many more pods of a budget may be evicted now, given the evictions that its status does not count yet. */
export function remainingDisruptions(budget: PodDisruptionBudget, uncountedEvictions: number): number {
  return isComputed(budget) ? Math.max(0, budget.status.disruptionsAllowed - uncountedEvictions) : 0;
}

type Computed = PodDisruptionBudget & { status: NonNullable<PodDisruptionBudget['status']> };

/** Reports whether the status matches the current spec. Until it does, the eviction API rejects evictions. */
function isComputed(budget: PodDisruptionBudget): budget is Computed {
  const { metadata, status } = budget;
  return status !== undefined && (status.observedGeneration ?? 0) >= (metadata.generation ?? 0);
}

/** Returns why a budget allows no eviction: its name, its numbers, and whether waiting helps. */
export function blockedMessage(budget: PodDisruptionBudget, uncountedEvictions: number): string {
  const name = `${budget.metadata.namespace}/${budget.metadata.name}`;
  const remedy = remedyOf(budget);
  const neverText = remedy === undefined ? undefined : ` It can never allow a disruption: ${remedy}.`;
  if (!isComputed(budget))
    return `Blocked by PodDisruptionBudget ${name}: its status is not computed yet.${neverText ?? ''}`;
  const { disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods } = budget.status;
  const numbers = `disruptionsAllowed ${disruptionsAllowed}, currentHealthy ${currentHealthy}, desiredHealthy ${desiredHealthy}, expectedPods ${expectedPods}`;
  return `Blocked by PodDisruptionBudget ${name} (${numbers}).${neverText ?? outlook(budget, uncountedEvictions)}`;
}

/** Returns the blocker for the Blocked condition and for Events. It does not change while only the numbers change. */
export function budgetBlocker(budget: PodDisruptionBudget): Blocker {
  const name = `${budget.metadata.namespace}/${budget.metadata.name}`;
  const remedy = remedyOf(budget);
  if (remedy !== undefined)
    return {
      reason: BlockerReason.DisruptionBudgetNeverAllows,
      message: `PodDisruptionBudget ${name} can never allow a disruption: ${remedy}.`,
    };
  const message = isComputed(budget)
    ? `PodDisruptionBudget ${name} allows no disruption now.`
    : `PodDisruptionBudget ${name} has no current status yet, and the apiserver rejects evictions until then: if this lasts, check that kube-controller-manager runs.`;
  return { reason: BlockerReason.DisruptionBudget, message };
}

/** Returns why the eviction API does not evict the pod now; at most one blocker. */
export function budgetBlockers(pod: Pod, budgets: readonly PodDisruptionBudget[]): Blocker[] {
  const own = bypassesAllBudgets(pod) ? [] : budgetsOf(pod, budgets);
  if (own.length > 1)
    return [{ reason: BlockerReason.MultipleDisruptionBudgets, message: multipleBudgetsMessage(own) }];
  return own
    .filter((budget) => remainingDisruptions(budget, 0) === 0 && !bypassesBudget(pod, budget))
    .map((budget) => budgetBlocker(budget));
}

export function allowedBy({ status }: PodDisruptionBudget): number {
  return status?.disruptionsAllowed ?? 0;
}

/** Reports whether a budget can never allow a disruption, however long one waits. */
export function neverAllowsDisruption(budget: PodDisruptionBudget): boolean {
  return remedyOf(budget) !== undefined;
}

/** Returns how to fix a budget that can never allow a disruption; undefined for a budget that can. */
function remedyOf(budget: PodDisruptionBudget): string | undefined {
  const remedy = 'add a replica or relax the budget';
  if (neverAllows(budget)) return remedy;
  if (!isComputed(budget)) return undefined;
  const { expectedPods, desiredHealthy, currentHealthy } = budget.status;
  if (expectedPods > 0) return desiredHealthy >= expectedPods ? remedy : undefined;
  // The disruption controller cannot calculate how many pods without a controller to expect, unless minAvailable is a number.
  return currentHealthy > 0
    ? 'its pods have no controller, so set minAvailable to an absolute number'
    : undefined;
}

/** Reports whether the spec forbids every disruption, however many pods there are. */
function neverAllows({ spec }: PodDisruptionBudget): boolean {
  const { maxUnavailable, minAvailable } = spec;
  const isNone = maxUnavailable === 0 || percentOf(maxUnavailable) === 0;
  return isNone || (percentOf(minAvailable) ?? 0) >= 100;
}

function percentOf(value: number | string | undefined): number | undefined {
  return typeof value === 'string' && value.endsWith('%') ? Number.parseInt(value, 10) : undefined;
}

/** Returns what the next evictions wait for, as a sentence after a space; empty when the numbers say it all. */
function outlook({ status }: Computed, uncountedEvictions: number): string {
  const disrupted = Object.keys(status.disruptedPods ?? {}).toSorted();
  if (status.disruptionsAllowed > 0) {
    if (uncountedEvictions === 0) return ' Pods that have waited longer are evicted first.';
    return uncountedEvictions === 1
      ? ' 1 eviction is in progress.'
      : ` ${uncountedEvictions} evictions are in progress.`;
  }
  if (disrupted.length === 0) return '';
  // The disruption of an interrupted eviction stays counted although its pod remains; Kubernetes expires it after two minutes.
  return ` Waiting for ${listed(disrupted)} to terminate; an interrupted eviction stops counting after two minutes.`;
}

/** Returns the message for a pod that several budgets select: the eviction API rejects it with status 500 every time. */
export function multipleBudgetsMessage(budgets: readonly PodDisruptionBudget[]): string {
  const names = budgets.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).toSorted();
  return `Blocked by more than one PodDisruptionBudget (${listed(names)}): the eviction API supports only one; make their selectors disjoint.`;
}
