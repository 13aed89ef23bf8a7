import type { PodDisruptionBudget } from '../api/core.ts';
import type { Kube } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';

/** How long the disruptions that a budget allows lie idle, as a watch of its own sees every version of its status. */
export class FreedDisruptions {
  /** Since when each disruption that is allowed now has been so, oldest first. Milliseconds. */
  readonly #free: number[] = [];
  readonly #waits: number[] = [];
  readonly #starts: number[] = [];
  #began = 0;
  #granted: ReadonlySet<string> = new Set();

  /**
   * The next version of the status. The eviction API notes the pods that it grants a disruption in `disruptedPods`, in
   * the same write in which it takes the disruption away; the controller of budgets never adds to them.
   */
  seen({ status }: PodDisruptionBudget, at: number): void {
    const names = Object.keys(status?.disruptedPods ?? {});
    const accepted = names.filter((name) => !this.#granted.has(name));
    this.#granted = new Set(names);
    for (const since of this.#free.splice(0, accepted.length))
      (since > this.#began ? this.#waits : this.#starts).push(at - Math.max(since, this.#began));
    const allowed = status?.disruptionsAllowed ?? 0;
    while (this.#free.length < allowed) this.#free.push(at);
    this.#free.length = allowed;
  }

  /** The order is given. What is allowed by now has not become free while pods wait. */
  begin(at: number): void {
    this.#began = at;
  }

  /** Seconds from when a disruption became free until an eviction was granted it, shortest first. */
  get waits(): number[] {
    return inSeconds(this.#waits);
  }

  /** Seconds from the order until an eviction was granted each disruption that was free before. */
  get starts(): number[] {
    return inSeconds(this.#starts);
  }
}

function inSeconds(times: readonly number[]): number[] {
  return times.map((ms) => ms / 1000).toSorted((a, b) => a - b);
}

/** Follows the one budget of the namespace until the signal aborts. */
export async function watchFreed(
  kube: Kube,
  namespace: string,
  { log, signal }: { log: Log; signal: AbortSignal },
): Promise<FreedDisruptions> {
  const budgets = new Informer({ kube, resource: resources.podDisruptionBudgets, namespace, log });
  const freed = new FreedDisruptions();
  budgets.start(signal);
  await budgets.synced(signal);
  budgets.subscribe(({ type, object }) => {
    if (type !== 'Deleted') freed.seen(object, performance.now());
  });
  return freed;
}
