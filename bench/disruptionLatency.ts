import type { PodDisruptionBudget } from '../api/core.ts';
import type { Kube } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';

/** Measures how long disruptions that a PodDisruptionBudget allows stay unused, from every version of its status. */
export class DisruptionLatency {
  /** Times in milliseconds since when each disruption that is allowed now has been allowed, oldest first. */
  readonly #allowedSince: number[] = [];
  readonly #waitsMs: number[] = [];
  readonly #startsMs: number[] = [];
  #startedAt = 0;
  #disrupted: ReadonlySet<string> = new Set();

  /**
   * Takes the next version of the status. When the eviction API grants a disruption, one write adds the pod to
   * `disruptedPods` and lowers `disruptionsAllowed`; the disruption controller never adds to `disruptedPods`.
   */
  observe({ status }: PodDisruptionBudget, at: number): void {
    const names = Object.keys(status?.disruptedPods ?? {});
    const granted = names.filter((name) => !this.#disrupted.has(name));
    this.#disrupted = new Set(names);
    for (const since of this.#allowedSince.splice(0, granted.length))
      (since > this.#startedAt ? this.#waitsMs : this.#startsMs).push(at - Math.max(since, this.#startedAt));
    const allowed = status?.disruptionsAllowed ?? 0;
    while (this.#allowedSince.length < allowed) this.#allowedSince.push(at);
    this.#allowedSince.length = allowed;
  }

  /** Notes when the drain starts: disruptions that were allowed before did not become available during it. */
  start(at: number): void {
    this.#startedAt = at;
  }

  /** Seconds from when a disruption became allowed during the drain until an eviction used it, shortest first. */
  get waits(): number[] {
    return inSeconds(this.#waitsMs);
  }

  /** Seconds from the start of the drain until an eviction used each disruption allowed before, shortest first. */
  get starts(): number[] {
    return inSeconds(this.#startsMs);
  }
}

function inSeconds(times: readonly number[]): number[] {
  return times.map((ms) => ms / 1000).toSorted((a, b) => a - b);
}

/** Watches the one PodDisruptionBudget of the namespace until the signal aborts. */
export async function watchDisruptionLatency(
  kube: Kube,
  namespace: string,
  { log, signal }: { log: Log; signal: AbortSignal },
): Promise<DisruptionLatency> {
  const budgets = new Informer({ kube, resource: resources.podDisruptionBudgets, namespace, log });
  const latency = new DisruptionLatency();
  budgets.start(signal);
  await budgets.synced(signal);
  budgets.subscribe(({ type, object }) => {
    if (type !== 'Deleted') latency.observe(object, performance.now());
  });
  return latency;
}
