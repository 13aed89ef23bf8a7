import type { Pod, PodDisruptionBudget } from '../api/core.ts';
import { type Blocker, BlockerReason } from '../domain/blocker.ts';
import {
  ambiguousMessage,
  type AskedEviction,
  askedEviction,
  blockedMessage,
  budgetBlocker,
  budgetsOf,
  isTakenOff,
  leavesUnguarded,
  remainingDisruptions,
} from '../domain/disruption.ts';
import { byNamespace } from '../kube/cluster.ts';
import type { Informer } from '../kube/informer.ts';

/** The budgets as their informer has them. */
type Budgets = Pick<Informer<PodDisruptionBudget>, 'get' | 'byIndex'>;

export type Answer = { kind: 'Go' } | Waiting;

export interface Waiting {
  kind: 'Wait';
  /** With the numbers of the moment. */
  message: string;
  blocker: Blocker;
}

/** An eviction that was tried, until it is both answered and taken off, or its pod is seen to go. */
interface Eviction extends AskedEviction {
  /** Of the budget, as it was when the eviction was tried. */
  resourceVersion: string | undefined;
  /** Neither answered nor late. */
  isCurrent: boolean;
  isAnswered: boolean;
  /** The budget's status that we see takes it into account. */
  isTakenOff: boolean;
}

/**
 * The evictions of a budget go one after the other: each is a write to the budget's status, and one that meets another
 * write sleeps in the apiserver for half a second. When an answer is later than this, it does, and the next one goes.
 * Milliseconds; measured beside other times and numbers at once, for budgets that allow 10 and 200.
 */
const answersWithin = 100;
/** After a refusal nothing more is asked of a budget until it changes, or for this long. Milliseconds. */
const refusalHolds = 10_000;

/**
 * Whoever is woken asks again or settles: the others of the budget wait behind it.
 *
 * One queue per PodDisruptionBudget, in place of one retry loop per pod: an eviction is only tried when the budget's
 * status, less what we evicted since, allows it, and it is its turn; the others wait for the watch of that budget.
 */
export class DisruptionGate {
  readonly #budgets: Budgets;
  readonly #wake: (key: string) => void;
  /** Budget -> key -> pod, in the order of their asking. */
  readonly #waiting = new Map<string, Map<string, Pod>>();
  /** Budget -> key -> eviction. */
  readonly #underWay = new Map<string, Map<string, Eviction>>();
  readonly #refused = new Map<string, { resourceVersion: string | undefined; until: number }>();

  constructor(budgets: Budgets, wake: (key: string) => void) {
    this.#budgets = budgets;
    this.#wake = wake;
  }

  /** Whether the eviction of `key`'s pod may be tried now; if not, it is woken when it is its turn. */
  ask(key: string, pod: Pod): Answer {
    const budgets = this.#guardsOf(pod);
    const [budget, ...others] = budgets;
    if (budget === undefined) return this.#go(key);
    if (others.length === 0) {
      if (leavesUnguarded(pod, budget)) return this.#go(key);
      if (this.#isNext(key, budget)) {
        this.#begin(key, askedEviction(pod, budget), keyOf(budget));
        return this.#go(key);
      }
    }
    this.#stopWaiting(key, budgets);
    for (const guard of budgets) entry(this.#waiting, keyOf(guard)).set(key, pod);
    return this.#reasonToWait(budgets);
  }

  /** What `key`'s pod waits for now; undefined when it does not wait. */
  reasonOf(key: string): Waiting | undefined {
    const guards = [...this.#waiting].filter(([, keys]) => keys.has(key)).map(([budgetKey]) => budgetKey);
    const budgets = guards.flatMap((budgetKey) => this.#budgets.get(budgetKey) ?? []);
    return budgets.length === 0 ? undefined : this.#reasonToWait(budgets);
  }

  /** The eviction of `key`'s pod was accepted. */
  accepted(key: string): void {
    for (const [budgetKey, evictions] of this.#underWay) {
      const eviction = evictions.get(key);
      if (eviction === undefined) continue;
      eviction.isAnswered = true;
      eviction.isCurrent = false;
      this.#tidy(budgetKey);
      this.#admit(budgetKey);
    }
  }

  /** The eviction of `key`'s pod is visible (the pod is going), never took place, or is not wanted any more. */
  settled(key: string): void {
    this.#stopWaiting(key);
    for (const [budgetKey, evictions] of this.#underWay) {
      if (!evictions.delete(key)) continue;
      this.#tidy(budgetKey);
      this.#admit(budgetKey);
    }
  }

  /** The apiserver knew better than our view of the budget. The refused one stays the first. */
  refused(key: string, pod: Pod): void {
    for (const budget of this.#guardsOf(pod)) {
      const budgetKey = keyOf(budget);
      const { resourceVersion } = this.#underWay.get(budgetKey)?.get(key) ?? budget.metadata;
      this.#refused.set(budgetKey, { resourceVersion, until: Date.now() + refusalHolds });
      setTimeout(() => this.#admit(budgetKey), refusalHolds).unref();
      this.#waiting.set(budgetKey, new Map([[key, pod], ...(this.#waiting.get(budgetKey) ?? [])]));
    }
    for (const [budgetKey, evictions] of this.#underWay) {
      // Meanwhile another version of the budget may have room.
      if (evictions.delete(key)) this.#admit(budgetKey);
    }
  }

  /** To be called for every change of a budget; `previous` is its last version, unless it is new or gone. */
  changed(budget: PodDisruptionBudget, previous: PodDisruptionBudget | undefined): void {
    const budgetKey = keyOf(budget);
    for (const eviction of this.#underWay.get(budgetKey)?.values() ?? [])
      eviction.isTakenOff ||= isTakenOff(eviction, budget);
    this.#tidy(budgetKey);
    if (previous !== undefined && holdsUpLikewise(previous, budget)) this.#admit(budgetKey);
    else for (const key of this.#waiting.get(budgetKey)?.keys() ?? []) this.#wake(key);
  }

  #go(key: string): Answer {
    this.#stopWaiting(key);
    return { kind: 'Go' };
  }

  #begin(key: string, asked: AskedEviction, budgetKey: string): void {
    const { resourceVersion } = this.#budgets.get(budgetKey)?.metadata ?? {};
    const eviction = { ...asked, resourceVersion, isCurrent: true, isAnswered: false, isTakenOff: false };
    entry(this.#underWay, budgetKey).set(key, eviction);
    const goOn = () => {
      eviction.isCurrent = false;
      this.#admit(budgetKey);
    };
    setTimeout(goOn, answersWithin).unref();
  }

  /** Wakes those whose turn it is. */
  #admit(budgetKey: string): void {
    const budget = this.#budgets.get(budgetKey);
    const waiting = this.#waiting.get(budgetKey);
    if (budget === undefined || waiting === undefined) return;
    for (const [key, pod] of waiting) if (leavesUnguarded(pod, budget)) this.#wake(key);
    const [first] = waiting.keys();
    if (first !== undefined && this.#hasRoom(budget)) this.#wake(first);
  }

  /** Whoever is not waiting yet comes after all that are. */
  #isNext(key: string, budget: PodDisruptionBudget): boolean {
    const [first = key] = this.#waiting.get(keyOf(budget))?.keys() ?? [];
    return first === key && this.#hasRoom(budget);
  }

  #hasRoom(budget: PodDisruptionBudget): boolean {
    const evictions = this.#underWay.get(keyOf(budget))?.values() ?? [];
    if ([...evictions].some(({ isCurrent }) => isCurrent) || this.#isRefused(budget)) return false;
    return remainingDisruptions(budget, this.#unseen(budget)) > 0;
  }

  #isRefused(budget: PodDisruptionBudget): boolean {
    const refused = this.#refused.get(keyOf(budget));
    if (refused === undefined) return false;
    if (refused.resourceVersion === budget.metadata.resourceVersion && Date.now() < refused.until)
      return true;
    this.#refused.delete(keyOf(budget));
    return false;
  }

  /** Evictions that the budget's status does not take into account. */
  #unseen(budget: PodDisruptionBudget): number {
    const evictions = this.#underWay.get(keyOf(budget))?.values() ?? [];
    return [...evictions].filter((eviction) => !eviction.isTakenOff).length;
  }

  /** Forgets the evictions of which nothing more is to be learnt. */
  #tidy(budgetKey: string): void {
    const evictions = this.#underWay.get(budgetKey);
    for (const [key, { isAnswered, isTakenOff: isSeen }] of evictions ?? [])
      if (isAnswered && isSeen) evictions?.delete(key);
    if (evictions?.size === 0) this.#underWay.delete(budgetKey);
  }

  #guardsOf(pod: Pod): PodDisruptionBudget[] {
    // "Pods that do not run bypass their budgets", even when there is more than one.
    if (pod.status.phase !== 'Running') return [];
    return budgetsOf(pod, this.#budgets.byIndex(byNamespace, pod.metadata.namespace ?? ''));
  }

  #reasonToWait(budgets: readonly PodDisruptionBudget[]): Waiting {
    const [budget, ...others] = budgets;
    if (budget !== undefined && others.length === 0)
      return {
        kind: 'Wait',
        message: blockedMessage(budget, this.#unseen(budget)),
        blocker: budgetBlocker(budget),
      };
    const message = ambiguousMessage(budgets);
    return { kind: 'Wait', message, blocker: { reason: BlockerReason.SeveralDisruptionBudgets, message } };
  }

  /** But for these budgets, in whose lines it keeps its place. */
  #stopWaiting(key: string, except: readonly PodDisruptionBudget[] = []): void {
    const kept = new Set(except.map(keyOf));
    for (const [budgetKey, keys] of this.#waiting) {
      if (kept.has(budgetKey) || !keys.delete(key)) continue;
      if (keys.size === 0) this.#waiting.delete(budgetKey);
      else this.#admit(budgetKey);
    }
  }
}

/** Whether nothing but numbers has changed. */
function holdsUpLikewise(previous: PodDisruptionBudget, budget: PodDisruptionBudget): boolean {
  const haveSameRules = previous.metadata.generation === budget.metadata.generation;
  return haveSameRules && budgetBlocker(previous).reason === budgetBlocker(budget).reason;
}

function keyOf({ metadata }: PodDisruptionBudget): string {
  return `${metadata.namespace}/${metadata.name}`;
}

/** The map's own map for a key. */
function entry<T>(maps: Map<string, Map<string, T>>, key: string): Map<string, T> {
  const existing = maps.get(key);
  if (existing !== undefined) return existing;
  const created = new Map<string, T>();
  maps.set(key, created);
  return created;
}
