import type { Pod, PodDisruptionBudget } from '../api/core.ts';
import { type Blocker, BlockerReason } from '../domain/blocker.ts';
import {
  ambiguousMessage,
  blockedMessage,
  budgetBlocker,
  budgetsOf,
  leavesUnguarded,
  remainingDisruptions,
} from '../domain/disruption.ts';
import { byNamespace } from '../kube/cluster.ts';
import type { Informer } from '../kube/informer.ts';

/** The budgets as their informer has them. */
type Budgets = Pick<Informer<PodDisruptionBudget>, 'get' | 'byIndex'>;

export type Answer = { kind: 'Go' } | Waiting;

interface Waiting {
  kind: 'Wait';
  /** With the numbers of the moment. */
  message: string;
  blocker: Blocker;
}

/** After a refusal nothing more is asked of a budget until it changes, or for this long. Milliseconds. */
const refusalHolds = 10_000;

/**
 * One queue per PodDisruptionBudget, in place of one retry loop per pod: an eviction is only tried when the budget's
 * status, less what we evicted since, allows it; the others wait for the watch of that budget.
 */
export class DisruptionGate {
  readonly #budgets: Budgets;
  readonly #wake: (key: string) => void;
  readonly #waiting = new Map<string, Set<string>>();
  /** Budget -> evictions that its status may not show yet. */
  readonly #underWay = new Map<string, Set<string>>();
  readonly #refused = new Map<string, { resourceVersion: string | undefined; until: number }>();

  constructor(budgets: Budgets, wake: (key: string) => void) {
    this.#budgets = budgets;
    this.#wake = wake;
  }

  /** Whether the eviction of `key`'s pod may be tried now; if not, it is woken when its budget changes. */
  ask(key: string, pod: Pod): Answer {
    const budgets = this.#guardsOf(pod);
    const [budget] = budgets;
    if (budget === undefined) return { kind: 'Go' };
    if (budgets.length > 1) return this.#waitInVain(key, budgets);
    if (leavesUnguarded(pod, budget)) return { kind: 'Go' };
    if (this.#remaining(budget) === 0) {
      const message = blockedMessage(budget, this.#unseenEvictions(budget));
      return this.#wait(key, [budget], { message, blocker: budgetBlocker(budget) });
    }
    this.#stopWaiting(key);
    member(this.#underWay, keyOf(budget)).add(key);
    return { kind: 'Go' };
  }

  /** The eviction of `key`'s pod is visible (the pod is going), or never took place. */
  settled(key: string): void {
    this.#stopWaiting(key);
    for (const [budgetKey, keys] of this.#underWay) {
      if (!keys.delete(key)) continue;
      if (keys.size === 0) this.#underWay.delete(budgetKey);
      const budget = this.#budgets.get(budgetKey);
      if (budget !== undefined) this.#admit(budget);
    }
  }

  /** The apiserver knew better than our view of the budget. */
  refused(key: string, pod: Pod): void {
    for (const budget of this.#guardsOf(pod)) {
      const { resourceVersion } = budget.metadata;
      this.#refused.set(keyOf(budget), { resourceVersion, until: Date.now() + refusalHolds });
      setTimeout(() => this.#admit(budget), refusalHolds).unref();
      member(this.#waiting, keyOf(budget)).add(key);
    }
    for (const keys of this.#underWay.values()) keys.delete(key);
  }

  /** To be called for every change of a budget. */
  changed(
    type: 'Added' | 'Updated' | 'Deleted',
    budget: PodDisruptionBudget,
    previous?: PodDisruptionBudget,
  ): void {
    const sameRules = type === 'Updated' && previous?.metadata.generation === budget.metadata.generation;
    if (sameRules) this.#admit(budget);
    else this.#wakeFirst(keyOf(budget), Number.POSITIVE_INFINITY);
  }

  #admit(budget: PodDisruptionBudget): void {
    const current = this.#budgets.get(keyOf(budget));
    if (current !== undefined) this.#wakeFirst(keyOf(budget), this.#remaining(current));
  }

  #wakeFirst(budgetKey: string, count: number): void {
    const waiting = this.#waiting.get(budgetKey);
    let left = count;
    for (const key of waiting ?? []) {
      if (left <= 0) return;
      left -= 1;
      this.#wake(key);
    }
  }

  #remaining(budget: PodDisruptionBudget): number {
    const key = keyOf(budget);
    const refused = this.#refused.get(key);
    if (refused !== undefined) {
      if (refused.resourceVersion === budget.metadata.resourceVersion && Date.now() < refused.until) return 0;
      this.#refused.delete(key);
    }
    return remainingDisruptions(budget, this.#unseenEvictions(budget));
  }

  #unseenEvictions(budget: PodDisruptionBudget): number {
    return this.#underWay.get(keyOf(budget))?.size ?? 0;
  }

  #guardsOf(pod: Pod): PodDisruptionBudget[] {
    // "Pods that do not run bypass their budgets", even when there is more than one.
    if (pod.status.phase !== 'Running') return [];
    return budgetsOf(pod, this.#budgets.byIndex(byNamespace, pod.metadata.namespace ?? ''));
  }

  #waitInVain(key: string, budgets: readonly PodDisruptionBudget[]): Answer {
    const message = ambiguousMessage(budgets);
    return this.#wait(key, budgets, {
      message,
      blocker: { reason: BlockerReason.SeveralDisruptionBudgets, message },
    });
  }

  #wait(key: string, budgets: readonly PodDisruptionBudget[], why: Omit<Waiting, 'kind'>): Answer {
    for (const budget of budgets) member(this.#waiting, keyOf(budget)).add(key);
    return { kind: 'Wait', ...why };
  }

  #stopWaiting(key: string): void {
    for (const [budgetKey, keys] of this.#waiting) {
      if (keys.delete(key) && keys.size === 0) this.#waiting.delete(budgetKey);
    }
  }
}

function keyOf({ metadata }: PodDisruptionBudget): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function member(sets: Map<string, Set<string>>, key: string): Set<string> {
  const existing = sets.get(key);
  if (existing !== undefined) return existing;
  const created = new Set<string>();
  sets.set(key, created);
  return created;
}
