import type { EvictionRequest } from '../../api/lifecycle.ts';
import type { EvictionApiSettings } from '../../domain/common/evictionApi.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isLive, isObserved, isOurs } from '../../domain/evacuation/evictionRequest.ts';
import {
  mayHaveRequests,
  type ServingState,
  servingOf,
  unansweredIn,
} from '../../domain/evacuation/serving.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { targetOf } from '../../kube/evictionInformers.ts';
import { keyOf } from '../../kube/store.ts';

/**
 * Observes whether a controller serves EvictionRequests, for all drains of this process. Another process comes to the same result: it finds what
 * none has answered in the conditions of the maintenances.
 */
export class ServingMonitor {
  readonly settings: EvictionApiSettings;
  readonly #cluster: Pick<Cluster, 'kube' | 'lifecycle'>;
  /** Key of a live request of ours that none has answered -> its creation, in milliseconds since the epoch. */
  readonly #waiting = new Map<string, number>();
  readonly #handlers = new Set<() => void>();
  #answeredMs: number | undefined;
  #unansweredMs: number | undefined;

  constructor({ cluster, evictionApi }: { cluster: Cluster; evictionApi: EvictionApiSettings }) {
    this.settings = evictionApi;
    this.#cluster = cluster;
    if (evictionApi.api !== 'evacuation') cluster.lifecycle.use();
    // Requests may be left from before another API was chosen.
    cluster.maintenances.subscribe(({ object }) => {
      if (mayHaveRequests(object)) cluster.lifecycle.use();
    });
    cluster.lifecycle.requests.subscribe(({ type, key, object }) => this.#observe(type, key, object));
    cluster.lifecycle.evictions.subscribe(({ object }) => {
      for (const request of cluster.lifecycle.requestsOf(targetOf(object)))
        this.#observe('Updated', keyOf(request), request);
    });
  }

  /** Whether pods of any maintenance can have EvictionRequests. */
  get isUsed(): boolean {
    return this.#cluster.lifecycle.isUsed;
  }

  /** Calls the handler after each answer, and when a request that waited for one is gone, until the returned function is called. */
  subscribe(handler: () => void): () => void {
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }

  get responseMs(): number {
    return this.settings.responseSeconds * 1_000;
  }

  /** Whether a request of ours waits for its answer, and does not count as unanswered yet. */
  isWaiting(now = this.#cluster.kube.now()): boolean {
    return [...this.#waiting.values()].some((createdMs) => now.getTime() - createdMs < this.responseMs);
  }

  serving({ status }: NodeMaintenance, now: Date): ServingState {
    const nowMs = now.getTime();
    for (const createdMs of this.#waiting.values())
      if (nowMs - createdMs >= this.responseMs) this.#unansweredMs = latest(this.#unansweredMs, createdMs);
    return servingOf({
      isServed: this.#cluster.lifecycle.isServed,
      answeredMs: this.#answeredMs,
      unansweredMs: latest(this.#unansweredMs, unansweredIn(status?.conditions, this.responseMs)),
      nowMs,
    });
  }

  /** Returns the time until the next request counts as unanswered. */
  dueInMs(): number {
    const nowMs = this.#cluster.kube.now().getTime();
    let dueInMs = Infinity;
    for (const createdMs of this.#waiting.values()) {
      const leftMs = createdMs + this.responseMs - nowMs;
      if (leftMs >= 0) dueInMs = Math.min(dueInMs, leftMs + 1);
    }
    return dueInMs;
  }

  #observe(type: 'Added' | 'Updated' | 'Deleted', key: string, request: Readonly<EvictionRequest>): void {
    const createdMs = Date.parse(request.metadata.creationTimestamp ?? '');
    const hasEviction = this.#cluster.lifecycle.evictionsOf(targetOf(request)).length > 0;
    const isAnswered = isObserved(request) || hasEviction;
    const answeredMs = isAnswered ? latest(this.#answeredMs, createdMs) : this.#answeredMs;
    const isWaiting = type !== 'Deleted' && isOurs(request) && isLive(request) && !isAnswered;
    const hasChanged = answeredMs !== this.#answeredMs || (!isWaiting && this.#waiting.has(key));
    this.#answeredMs = answeredMs;
    if (isWaiting) this.#waiting.set(key, createdMs);
    else this.#waiting.delete(key);
    if (hasChanged) for (const handler of this.#handlers) handler();
  }
}

function latest(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Math.max(a, b);
}
