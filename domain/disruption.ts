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

/** An eviction that was asked for, by the pod's name. */
export interface AskedEviction {
  pod: string;
  /** When a disruption was granted to this pod before: of an eviction that was cut off. */
  grantedBefore: string | undefined;
}

/** An eviction as it is asked for, given the budget's status of that moment. */
export function askedEviction(pod: Pod, { status }: PodDisruptionBudget): AskedEviction {
  const { name } = pod.metadata;
  return { pod: name, grantedBefore: status?.disruptedPods?.[name] };
}

/**
 * Whether the status has the eviction's disruption taken off: the eviction API names the pod in `disruptedPods` in the
 * same write. The name goes again when the pod is seen to go, so this has to be asked of every version of the status.
 */
export function isTakenOff({ pod, grantedBefore }: AskedEviction, { status }: PodDisruptionBudget): boolean {
  const granted = status?.disruptedPods?.[pod];
  return granted !== undefined && granted !== grantedBefore;
}

/** How many more pods of a budget may be evicted now, given evictions that its status does not show yet. */
export function remainingDisruptions(budget: PodDisruptionBudget, unseenEvictions: number): number {
  return isComputed(budget) ? Math.max(0, budget.status.disruptionsAllowed - unseenEvictions) : 0;
}

type Computed = PodDisruptionBudget & { status: NonNullable<PodDisruptionBudget['status']> };

/** Whether the status is of the present rules: until then the eviction API refuses. */
function isComputed(budget: PodDisruptionBudget): budget is Computed {
  const { metadata, status } = budget;
  return status !== undefined && (status.observedGeneration ?? 0) >= (metadata.generation ?? 0);
}

/** Why a budget lets nothing go, for the person who has to act on it: its name, its numbers, and whether waiting helps. */
export function blockedMessage(budget: PodDisruptionBudget, unseenEvictions: number): string {
  const name = `${budget.metadata.namespace}/${budget.metadata.name}`;
  const remedy = remedyOf(budget);
  const hopeless = remedy === undefined ? undefined : ` It can never allow a disruption: ${remedy}.`;
  if (!isComputed(budget))
    return `Blocked by PodDisruptionBudget ${name}: its status is not computed yet.${hopeless ?? ''}`;
  const { disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods } = budget.status;
  const numbers = `disruptionsAllowed ${disruptionsAllowed}, currentHealthy ${currentHealthy}, desiredHealthy ${desiredHealthy}, expectedPods ${expectedPods}`;
  return `Blocked by PodDisruptionBudget ${name} (${numbers}).${hopeless ?? outlook(budget, unseenEvictions)}`;
}

/** The same for machines and Events: it stays as it is while the numbers change. */
export function budgetBlocker(budget: PodDisruptionBudget): Blocker {
  const name = `${budget.metadata.namespace}/${budget.metadata.name}`;
  const remedy = remedyOf(budget);
  if (remedy !== undefined)
    return {
      reason: BlockerReason.DisruptionBudgetNeverAllows,
      message: `PodDisruptionBudget ${name} can never allow a disruption: ${remedy}.`,
    };
  const message = `PodDisruptionBudget ${name} allows no disruption now.`;
  return { reason: BlockerReason.DisruptionBudget, message };
}

/** What a person has to do about a budget that can never allow a disruption; undefined for one that can. */
function remedyOf(budget: PodDisruptionBudget): string | undefined {
  const remedy = 'add a replica or relax the budget';
  if (forbidsAll(budget)) return remedy;
  if (!isComputed(budget)) return undefined;
  const { expectedPods, desiredHealthy, currentHealthy } = budget.status;
  if (expectedPods > 0) return desiredHealthy >= expectedPods ? remedy : undefined;
  // Of such pods the disruption controller does not know how many there should be, unless minAvailable is a number.
  return currentHealthy > 0
    ? 'its pods have no controller, so give it a minAvailable that is a number'
    : undefined;
}

/** Whatever the number of pods. */
function forbidsAll({ spec }: PodDisruptionBudget): boolean {
  const { maxUnavailable, minAvailable } = spec;
  const isNone = maxUnavailable === 0 || percentOf(maxUnavailable) === 0;
  return isNone || (percentOf(minAvailable) ?? 0) >= 100;
}

function percentOf(value: number | string | undefined): number | undefined {
  return typeof value === 'string' && value.endsWith('%') ? Number.parseInt(value, 10) : undefined;
}

/** What to expect of a budget that does allow disruptions at times. */
function outlook({ status }: Computed, unseenEvictions: number): string {
  const granted = Object.keys(status.disruptedPods ?? {}).toSorted();
  if (status.disruptionsAllowed > 0) {
    if (unseenEvictions === 0) return ' Pods that have waited for longer go first.';
    return unseenEvictions === 1
      ? ' 1 eviction is under way.'
      : ` ${unseenEvictions} evictions are under way.`;
  }
  // An eviction that was cut off leaves its pod in place and its disruption granted: Kubernetes takes that back itself.
  if (granted.length === 0) return '';
  return ` It waits for ${listed(granted)} to go, or two minutes for each whose eviction was cut off.`;
}

/** The eviction API refuses such a pod for ever (500), so say it before asking. */
export function ambiguousMessage(budgets: readonly PodDisruptionBudget[]): string {
  const names = budgets.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).toSorted();
  return `Blocked by more than one PodDisruptionBudget (${names.join(', ')}): the eviction API allows one; make their selectors disjoint.`;
}
