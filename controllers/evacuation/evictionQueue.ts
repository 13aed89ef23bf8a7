import type { Pod, PodDisruptionBudget } from '../../api/core.ts';
import { type Blocker, BlockerReason } from '../../domain/evacuation/blocker.ts';
import {
  blockedMessage,
  budgetBlocker,
  budgetsOf,
  bypassesAllBudgets,
  bypassesBudget,
  isCounted,
  multipleBudgetsMessage,
  type PendingEviction,
  pendingEviction,
  remainingDisruptions,
} from '../../domain/evacuation/budgets.ts';
import { byNamespace } from '../../kube/cluster.ts';
import type { Informer } from '../../kube/informer.ts';
import { keyOf } from '../../kube/store.ts';

type BudgetInformer = Pick<Informer<PodDisruptionBudget>, 'get' | 'byIndex'>;

export type Admission = { kind: 'Admitted' } | Waiting;

export interface Waiting {
  kind: 'Waiting';
  /** Contains the current numbers of the budget. */
  message: string;
  blocker: Blocker;
}

/** A pod that waits for its eviction. */
interface WaitingPod {
  pod: Pod;
  /** It has no other budget: the eviction API evicts no pod that has several, so others of this budget need not wait for it. */
  isEvictable: boolean;
}

/** An admitted eviction, until its response has arrived and the budget counts it, or its pod is terminating. */
interface InFlightEviction extends PendingEviction {
  /** The version of the budget when the eviction was admitted. */
  resourceVersion: string | undefined;
  /** The response is pending, and is not slow yet. */
  isResponsePending: boolean;
  isResponseReceived: boolean;
  /** The observed status of the budget counts the eviction. */
  isCounted: boolean;
}

/** An eviction that a budget did not allow, although its observed status did. */
interface Rejection {
  /** The version of the budget when the eviction was admitted. */
  resourceVersion: string | undefined;
}

/**
 * Evictions of one budget run one after the other: each writes the status of the budget, and an eviction that conflicts
 * with another write sleeps in the apiserver for half a second. A response that takes longer than this indicates such a
 * conflict, and the next eviction is admitted. Measured against other delays and degrees of parallelism, for budgets that
 * allow 10 and 200 disruptions.
 */
const slowResponseMs = 100;
/** After a rejection, no eviction of the budget is admitted until the budget changes, or for this long. */
const rejectionBackOffMs = 10_000;

/** The part of the queue that a controller needs to evict pods. The key is that of the object that requests the eviction. */
export interface EvictionSlots {
  admit(key: string, pod: Pod): Admission;
  accepted(key: string): void;
  done(key: string): void;
  rejected(key: string, pod: Pod): boolean;
}

/**
 * Admits evictions per PodDisruptionBudget, instead of one retry loop per pod. An eviction is admitted when it is the first
 * in the queue and the status of the budget, less the evictions it does not count yet, allows a disruption. The others wait
 * for the watch of that budget. A woken key must call `admit` again or `done`, because the others of the budget wait behind it.
 */
export class EvictionQueue implements EvictionSlots {
  readonly #budgets: BudgetInformer;
  readonly #wakeOwn: (key: string) => void;
  /** Prefix of keys -> whom to wake. */
  readonly #scopes = new Map<string, (key: string) => void>();
  /** Key of a budget -> key -> pod, oldest request first. */
  readonly #waiting = new Map<string, Map<string, WaitingPod>>();
  /** Key of a budget -> key -> eviction. */
  readonly #inFlight = new Map<string, Map<string, InFlightEviction>>();
  /** Key of a budget -> its latest rejection, until its back-off ends. */
  readonly #rejected = new Map<string, Rejection>();

  constructor(budgets: BudgetInformer, wake: (key: string) => void) {
    this.#budgets = budgets;
    this.#wakeOwn = wake;
  }

  /**
   * Returns the same queue for other keys, which are those of another controller: a pod has one place in the queue of its budget, no matter who evicts it.
   * No key of this queue may begin with the prefix. At most one scope of each prefix is in use.
   */
  scoped(prefix: string, wake: (key: string) => void): EvictionSlots {
    this.#scopes.set(prefix, wake);
    return {
      admit: (key, pod) => this.admit(prefix + key, pod),
      accepted: (key) => this.accepted(prefix + key),
      done: (key) => this.done(prefix + key),
      rejected: (key, pod) => this.rejected(prefix + key, pod),
    };
  }

  /** Admits the eviction of the pod of `key`, or queues it; a queued key is woken when it may be admitted. */
  admit(key: string, pod: Pod): Admission {
    const budgets = this.#budgetsOf(pod);
    const [budget, ...others] = budgets;
    if (budget === undefined) return this.#admitted(key);
    if (others.length === 0) {
      if (bypassesBudget(pod, budget)) return this.#admitted(key);
      if (this.#isNext(key, budget)) {
        this.#track(key, pendingEviction(pod, budget), keyOf(budget));
        return this.#admitted(key);
      }
    }
    this.#dequeue(key, budgets);
    const waiting = { pod, isEvictable: others.length === 0 };
    for (const one of budgets) nestedMap(this.#waiting, keyOf(one)).set(key, waiting);
    if (!waiting.isEvictable) for (const one of budgets) this.#wakeNext(keyOf(one));
    return this.#waitingFor(budgets);
  }

  /** Returns what `key` waits for now; undefined when it is not queued. */
  reasonOf(key: string): Waiting | undefined {
    const budgetKeys = [...this.#waiting].filter(([, keys]) => keys.has(key)).map(([budgetKey]) => budgetKey);
    const budgets = budgetKeys.flatMap((budgetKey) => this.#budgets.get(budgetKey) ?? []);
    return budgets.length === 0 ? undefined : this.#waitingFor(budgets);
  }

  /** Records that the apiserver accepted the eviction. */
  accepted(key: string): void {
    for (const [budgetKey, evictions] of this.#inFlight) {
      const eviction = evictions.get(key);
      if (eviction === undefined) continue;
      eviction.isResponseReceived = true;
      eviction.isResponsePending = false;
      this.#dropCounted(budgetKey);
      this.#wakeNext(budgetKey);
    }
  }

  /** Removes `key`: its pod is terminating, its eviction never took place, or it is no longer requested. */
  done(key: string): void {
    this.#dequeue(key);
    for (const [budgetKey, evictions] of this.#inFlight) {
      if (!evictions.delete(key)) continue;
      this.#dropCounted(budgetKey);
      this.#wakeNext(budgetKey);
    }
  }

  /**
   * Records that the budget does not allow the eviction, whatever its observed status is. The key stays the first. Returns false if no budget is
   * known that could wake it.
   */
  rejected(key: string, pod: Pod): boolean {
    const budgets = this.#budgetsOf(pod);
    const waiting = { pod, isEvictable: budgets.length === 1 };
    for (const budget of budgets) {
      const budgetKey = keyOf(budget);
      const { resourceVersion } = this.#inFlight.get(budgetKey)?.get(key) ?? budget.metadata;
      const rejection = { resourceVersion };
      this.#rejected.set(budgetKey, rejection);
      setTimeout(() => this.#endBackOff(budgetKey, rejection), rejectionBackOffMs).unref();
      this.#waiting.set(budgetKey, new Map([[key, waiting], ...(this.#waiting.get(budgetKey) ?? [])]));
    }
    for (const [budgetKey, evictions] of this.#inFlight) {
      // The budget may have changed since, and allow a disruption now.
      if (evictions.delete(key)) this.#wakeNext(budgetKey);
    }
    return budgets.length > 0;
  }

  #endBackOff(budgetKey: string, rejection: Rejection): void {
    if (this.#rejected.get(budgetKey) === rejection) this.#rejected.delete(budgetKey);
    this.#wakeNext(budgetKey);
  }

  /** Must be called for every change of a budget. `previous` is its last version, unless the budget is new or deleted. */
  budgetChanged(budget: PodDisruptionBudget, previous: PodDisruptionBudget | undefined): void {
    const budgetKey = keyOf(budget);
    for (const eviction of this.#inFlight.get(budgetKey)?.values() ?? [])
      eviction.isCounted ||= isCounted(eviction, budget);
    this.#dropCounted(budgetKey);
    if (previous !== undefined && onlyNumbersChanged(previous, budget)) this.#wakeNext(budgetKey);
    else for (const key of this.#waiting.get(budgetKey)?.keys() ?? []) this.#wake(key);
  }

  #wake(key: string): void {
    for (const [prefix, wake] of this.#scopes)
      if (key.startsWith(prefix)) {
        wake(key.slice(prefix.length));
        return;
      }
    this.#wakeOwn(key);
  }

  #admitted(key: string): Admission {
    this.#dequeue(key);
    return { kind: 'Admitted' };
  }

  #track(key: string, pending: PendingEviction, budgetKey: string): void {
    const { resourceVersion } = this.#budgets.get(budgetKey)?.metadata ?? {};
    const eviction = {
      ...pending,
      resourceVersion,
      isResponsePending: true,
      isResponseReceived: false,
      isCounted: false,
    };
    nestedMap(this.#inFlight, budgetKey).set(key, eviction);
    const onSlow = () => {
      eviction.isResponsePending = false;
      this.#wakeNext(budgetKey);
    };
    setTimeout(onSlow, slowResponseMs).unref();
  }

  /** Wakes the first of the queue if the budget allows a disruption, and all pods that bypass the budget. */
  #wakeNext(budgetKey: string): void {
    const budget = this.#budgets.get(budgetKey);
    const waiting = this.#waiting.get(budgetKey);
    if (budget === undefined || waiting === undefined) return;
    for (const [key, { pod, isEvictable }] of waiting)
      if (isEvictable && bypassesBudget(pod, budget)) this.#wake(key);
    const first = this.#firstOf(budgetKey);
    if (first !== undefined && this.#allowsEviction(budget)) this.#wake(first);
  }

  /** Reports whether `key` may be evicted next. A key that is not queued comes after all that are. */
  #isNext(key: string, budget: PodDisruptionBudget): boolean {
    const first = this.#firstOf(keyOf(budget)) ?? key;
    return first === key && this.#allowsEviction(budget);
  }

  #firstOf(budgetKey: string): string | undefined {
    for (const [key, { isEvictable }] of this.#waiting.get(budgetKey) ?? []) if (isEvictable) return key;
    return undefined;
  }

  #allowsEviction(budget: PodDisruptionBudget): boolean {
    const evictions = this.#inFlight.get(keyOf(budget))?.values() ?? [];
    if ([...evictions].some(({ isResponsePending }) => isResponsePending) || this.#isBackingOff(budget))
      return false;
    return remainingDisruptions(budget, this.#uncounted(budget)) > 0;
  }

  #isBackingOff(budget: PodDisruptionBudget): boolean {
    const rejected = this.#rejected.get(keyOf(budget));
    if (rejected === undefined) return false;
    if (rejected.resourceVersion === budget.metadata.resourceVersion) return true;
    this.#rejected.delete(keyOf(budget));
    return false;
  }

  /** Returns the number of evictions that the status of the budget does not count yet. */
  #uncounted(budget: PodDisruptionBudget): number {
    const evictions = this.#inFlight.get(keyOf(budget))?.values() ?? [];
    return [...evictions].filter((eviction) => !eviction.isCounted).length;
  }

  /** Forgets evictions whose response has arrived and that the budget counts. */
  #dropCounted(budgetKey: string): void {
    const evictions = this.#inFlight.get(budgetKey);
    for (const [key, eviction] of evictions ?? [])
      if (eviction.isResponseReceived && eviction.isCounted) evictions?.delete(key);
    if (evictions?.size === 0) this.#inFlight.delete(budgetKey);
  }

  #budgetsOf(pod: Pod): PodDisruptionBudget[] {
    if (bypassesAllBudgets(pod)) return [];
    return budgetsOf(pod, this.#budgets.byIndex(byNamespace, pod.metadata.namespace ?? ''));
  }

  #waitingFor(budgets: readonly PodDisruptionBudget[]): Waiting {
    const [budget, ...others] = budgets;
    if (budget !== undefined && others.length === 0)
      return {
        kind: 'Waiting',
        message: blockedMessage(budget, this.#uncounted(budget)),
        blocker: budgetBlocker(budget),
      };
    const message = multipleBudgetsMessage(budgets);
    return {
      kind: 'Waiting',
      message,
      blocker: { reason: BlockerReason.MultipleDisruptionBudgets, message },
    };
  }

  /** Removes `key` from the queues of all budgets except these, where it keeps its position. */
  #dequeue(key: string, except: readonly PodDisruptionBudget[] = []): void {
    const exceptKeys = new Set(except.map(keyOf));
    for (const [budgetKey, keys] of this.#waiting) {
      if (exceptKeys.has(budgetKey) || !keys.delete(key)) continue;
      if (keys.size === 0) this.#waiting.delete(budgetKey);
      else this.#wakeNext(budgetKey);
    }
  }
}

/** Reports whether the spec of a budget and the reason why it blocks are unchanged. */
function onlyNumbersChanged(previous: PodDisruptionBudget, budget: PodDisruptionBudget): boolean {
  const hasSameSpec = previous.metadata.generation === budget.metadata.generation;
  return hasSameSpec && budgetBlocker(previous).reason === budgetBlocker(budget).reason;
}

/** Returns the inner map of a key, and creates it when it is missing. */
function nestedMap<T>(maps: Map<string, Map<string, T>>, key: string): Map<string, T> {
  const existing = maps.get(key);
  if (existing !== undefined) return existing;
  const created = new Map<string, T>();
  maps.set(key, created);
  return created;
}
