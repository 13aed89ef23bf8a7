import { Context } from '@temporalio/activity';
import type { Lease, Pod } from '../api/core.ts';
import type { Cluster } from '../kube/cluster.ts';

/** Interval of heartbeats. The server can cancel an activity only in its answer to one. */
const heartbeatEveryMs = 1_000;
/** Delay between the first change and the next pass, so that changes that arrive together need one pass. */
const debounceMs = 40;
/** Longest time between two passes without any change. */
export const resyncEveryMs = 10_000;

/** Sends heartbeats until the returned function is called. */
export function startHeartbeat(): () => void {
  const context = Context.current();
  const timer = setInterval(() => context.heartbeat(), heartbeatEveryMs);
  return () => clearInterval(timer);
}

/** A source of changes. */
interface Watched {
  subscribe(handler: () => void): () => void;
}

/**
 * Runs `pass` now and after every change of nodes, holders of node Leases, maintenances, Evacuations and relevant pods, until it resolves
 * with a result.
 */
export function reconcile<T>(
  cluster: Cluster,
  isRelevant: (pod: Pod) => boolean,
  pass: () => Promise<T | undefined>,
): Promise<T> {
  const { nodes, maintenances, evacuations } = cluster;
  return reconcileOn(
    [nodes, maintenances, evacuations, leaseHolders(cluster), relevantPods(cluster, isRelevant)],
    pass,
  );
}

/**
 * Runs `pass` now and after every change of the watched sources, until it resolves with a result. Level-triggered: a change starts a
 * pass and carries no instruction. The next pass starts after `withinMs()` even if nothing changed, because some facts have no watch.
 * Rejects at once when the activity is cancelled.
 */
export async function reconcileOn<T>(
  watched: readonly Watched[],
  pass: () => Promise<T | undefined>,
  withinMs: () => number = () => resyncEveryMs,
): Promise<T> {
  const context = Context.current();
  const changes = new Changes(watched);
  // One listener for the whole activity: a race against `cancelled` in every pass would add up over days.
  context.cancelled.catch((error: unknown) => changes.end(error));
  try {
    for (;;) {
      changes.reset();
      const result = await pass();
      if (result !== undefined) return result;
      await changes.next(withinMs());
    }
  } finally {
    changes.stop();
  }
}

/** Reports changes of holders only: every Lease is renewed every few minutes. */
function leaseHolders({ leases }: Cluster): Watched {
  return {
    subscribe: (handler) =>
      leases.subscribe((change) => {
        if (
          change.type !== 'Updated' ||
          holderIdentityOf(change.object) !== holderIdentityOf(change.previous)
        )
          handler();
      }),
  };
}

function relevantPods({ pods }: Cluster, isRelevant: (pod: Pod) => boolean): Watched {
  return {
    subscribe: (handler) =>
      pods.subscribe(({ object }) => {
        if (isRelevant(object)) handler();
      }),
  };
}

function holderIdentityOf({ spec }: Readonly<Lease>): string | undefined {
  return spec.holderIdentity;
}

/** Remembers whether a source has changed, so that a change during a pass is not missed. */
class Changes {
  readonly #unsubscribe: (() => void)[];
  #changed = false;
  #ended: { because: unknown } | undefined;
  #wake: () => void = () => undefined;

  constructor(watched: readonly Watched[]) {
    this.#unsubscribe = watched.map((one) => one.subscribe(() => this.#markChanged()));
  }

  /** Forgets the changes so far: the pass that starts now sees them. */
  reset(): void {
    this.#changed = false;
  }

  /** Resolves shortly after a change, or after `withinMs`. Rejects when the activity was cancelled. */
  async next(withinMs: number): Promise<void> {
    const timers: NodeJS.Timeout[] = [];
    await new Promise<void>((resolve) => {
      this.#wake = () => timers.push(setTimeout(resolve, debounceMs));
      timers.push(setTimeout(resolve, withinMs));
      if (this.#changed || this.#ended !== undefined) this.#wake();
    });
    this.#wake = () => undefined;
    for (const timer of timers) clearTimeout(timer);
    if (this.#ended !== undefined) throw this.#ended.because;
  }

  end(because: unknown): void {
    this.#ended = { because };
    this.#wake();
  }

  stop(): void {
    for (const stop of this.#unsubscribe) stop();
  }

  #markChanged(): void {
    if (this.#changed) return;
    this.#changed = true;
    this.#wake();
  }
}
