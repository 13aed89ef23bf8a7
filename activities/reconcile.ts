import { Context } from '@temporalio/activity';
import type { Lease, Pod } from '../api/core.ts';
import type { Cluster } from '../kube/cluster.ts';

/** How often the server hears from a lasting activity, and can tell it to stop. Milliseconds. */
const heartbeatEvery = 1_000;
/** Changes that come together are decided together. Milliseconds. */
const settleFor = 40;
/** Looked again at this often even when no change was seen. Milliseconds. */
export const resyncEvery = 10_000;

/** What a turn was decided on is not so any more, and the informers will show it: nothing of it may be done. */
export class LookAgain extends Error {
  override readonly name = 'LookAgain';
}

/** Lets the server hear from the activity until the returned function is called. */
export function beat(): () => void {
  const context = Context.current();
  const timer = setInterval(() => context.heartbeat(), heartbeatEvery);
  return () => clearInterval(timer);
}

/** Something whose changes are of concern. */
interface Watched {
  subscribe(handler: () => void): () => void;
}

/** Runs `turn` now and after every change of nodes, their Leases' holders, maintenances, Evacuations and the pods of concern. */
export function reconcile<T>(
  cluster: Cluster,
  concerns: (pod: Pod) => boolean,
  turn: () => Promise<T | undefined>,
): Promise<T> {
  const { nodes, maintenances, evacuations } = cluster;
  return lookAgainAfter(
    [nodes, maintenances, evacuations, holders(cluster), podsOf(cluster, concerns)],
    turn,
  );
}

/**
 * Runs `turn` now and after every change of what is watched, until it resolves with a result. Level-triggered: a change says "look
 * again", never what to do. What no watch tells is seen after `within` milliseconds. Ends at once when the activity is cancelled.
 */
export async function lookAgainAfter<T>(
  watched: readonly Watched[],
  turn: () => Promise<T | undefined>,
  within: () => number = () => resyncEvery,
): Promise<T> {
  const context = Context.current();
  const changes = new Changes(watched);
  // One listener for the whole activity: a race against `cancelled` in every turn would pile up for days.
  context.cancelled.catch((error: unknown) => changes.end(error));
  try {
    for (;;) {
      changes.begin();
      const result = await turn().catch(unlessOutdated);
      if (result !== undefined) return result;
      await changes.next(within());
    }
  } finally {
    changes.stop();
  }
}

function unlessOutdated(error: unknown): undefined {
  if (!(error instanceof LookAgain)) throw error;
}

/** A renewal is no news. */
function holders({ leases }: Cluster): Watched {
  return {
    subscribe: (handler) =>
      leases.subscribe((change) => {
        if (change.type !== 'Updated' || holderOf(change.object) !== holderOf(change.previous)) handler();
      }),
  };
}

function podsOf({ pods }: Cluster, concerns: (pod: Pod) => boolean): Watched {
  return {
    subscribe: (handler) =>
      pods.subscribe(({ object }) => {
        if (concerns(object)) handler();
      }),
  };
}

function holderOf({ spec }: Readonly<Lease>): string | undefined {
  return spec.holderIdentity;
}

/** Remembers whether anything of concern changed, so that a change during a turn is not missed. */
class Changes {
  readonly #unsubscribe: (() => void)[];
  #changed = false;
  #ended: { because: unknown } | undefined;
  #wake: () => void = () => undefined;

  constructor(watched: readonly Watched[]) {
    this.#unsubscribe = watched.map((one) => one.subscribe(() => this.#note()));
  }

  /** What changes from here on is for the next turn. */
  begin(): void {
    this.#changed = false;
  }

  /** Resolves soon after a change, or after `within` milliseconds; rejects when the activity was cancelled. */
  async next(within: number): Promise<void> {
    const timers: NodeJS.Timeout[] = [];
    await new Promise<void>((resolve) => {
      this.#wake = () => timers.push(setTimeout(resolve, settleFor));
      timers.push(setTimeout(resolve, within));
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

  #note(): void {
    if (this.#changed) return;
    this.#changed = true;
    this.#wake();
  }
}
