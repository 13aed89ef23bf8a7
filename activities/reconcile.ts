import { Context } from '@temporalio/activity';
import type { Lease, Node, Pod } from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { selectsNode } from '../domain/common/nodeSelector.ts';
import { renewalCheckMs } from '../domain/leases/renewal.ts';
import type { Change } from '../kube/informer.ts';
import type { Pace } from './contract.ts';
import type { Deps } from './deps.ts';
import { nodeStatusOf } from './view.ts';

/** Delay between the first change and the next pass, so that changes that arrive together need one pass. */
export const debounceMs = 40;
/** A pass that computed for some time is followed by at least four times as long for everything else that this process does. */
const idlePerComputation = 4;
/** Longest time between two passes without any change, unless the worker sets another. */
export const defaultResyncMs = 10_000;

/** Longest delay before the next pass of an activity that waits, after a change that hardly concerns it. */
const idleDelayMs = 2_000;

/** A source of changes. The next pass starts within the given time after one. */
export interface Watched {
  subscribe(handler: (withinMs: number) => void): () => void;
}

interface Informer<T> {
  subscribe(handler: (change: Change<Readonly<T>>) => void): () => void;
}

/** Returns the time within which the next pass starts; undefined if the change does not concern the activity. */
type DelayOf<T> = (change: Change<Readonly<T>>) => number | undefined;

/** Returns the delay of an activity after a change that may concern it. */
export function otherDelayMs(pace: Pace): number {
  return pace === 'Waiting' ? idleDelayMs : debounceMs;
}

/** The changes that start the next pass of an activity, and how soon. */
export interface ReconcileOptions {
  /** Name of its maintenance. */
  maintenance: string;
  /** The time within which a change of a pod, or of an Evacuation, starts the next pass. None does unless given. */
  podDelayMs?: DelayOf<Pod>;
  evacuationDelayMs?: DelayOf<Evacuation>;
  /**
   * Returns the time within which a change of another maintenance, or of its nodes, starts the next pass. It is longer for activities that wait:
   * there may be hundreds, and each change would start a pass of all of them at once.
   */
  otherMs: () => number;
  /** Reports whether a change of another maintenance may concern it; any unless given. */
  isShared?: (change: Change<Readonly<NodeMaintenance>>) => boolean;
  /** Returns the milliseconds that the last pass computed; 0 unless given. */
  computedMs?: () => number;
  /** Returns the time within which the next pass has facts to read that no watch reports; unlimited unless given. */
  dueInMs?: () => number;
  /** Further sources of changes. */
  others?: readonly Watched[];
}

/**
 * Runs `pass` now and after every change of nodes, holders of node Leases, maintenances, and the pods and Evacuations that concern the activity, until
 * it resolves with a result; and often enough for the Leases of the nodes, which it renews.
 */
export function reconcile<T>(
  { cluster, leases, resyncMs }: Pick<Deps, 'cluster' | 'leases' | 'resyncMs'>,
  {
    maintenance,
    podDelayMs = () => undefined,
    evacuationDelayMs = () => undefined,
    otherMs,
    isShared = () => true,
    computedMs = () => 0,
    dueInMs = () => Infinity,
    others = [],
  }: ReconcileOptions,
  pass: () => Promise<T | undefined>,
): Promise<T> {
  const { nodes, maintenances, evacuations, pods } = cluster;
  const whenOwn = (isOwn: boolean) => (isOwn ? debounceMs : otherMs());
  const own = () => maintenances.get(maintenance);
  return reconcileOn(
    [
      within(nodes, ({ object }) => whenOwn(selectsOrRecords(own(), object))),
      within(maintenances, (change) => {
        const isOwn = change.object.metadata.name === maintenance;
        return isOwn || isShared(change) ? whenOwn(isOwn) : undefined;
      }),
      within(evacuations, evacuationDelayMs),
      withinNewHolder(cluster.leases),
      within(pods, podDelayMs),
      ...others,
    ],
    pass,
    {
      withinMs: () => Math.min(resyncMs, renewalCheckMs(leases.leaseDurationSeconds), dueInMs()),
      minIdleMs: () => idlePerComputation * computedMs(),
    },
  );
}

/** Returns true if the maintenance selects the node, or has held it. */
function selectsOrRecords(maintenance: Readonly<NodeMaintenance> | undefined, node: Readonly<Node>): boolean {
  return (
    maintenance !== undefined &&
    (selectsNode(maintenance.spec.nodeSelector, node) || nodeStatusOf(maintenance, node) !== undefined)
  );
}

/** Reports Leases that get another holder. */
export function withinNewHolder(leases: Informer<Lease>): Watched {
  return within(leases, (change) => (isNewHolder(change) ? debounceMs : undefined));
}

/** Every Lease is renewed every few minutes, which concerns nobody. */
function isNewHolder(change: Change<Readonly<Lease>>): boolean {
  if (change.type !== 'Updated') return true;
  return change.object.spec.holderIdentity !== change.previous.spec.holderIdentity;
}

/** Reports the changes of an informer, each with the time within which the next pass starts; none if that is undefined. */
export function within<T>(informer: Informer<T>, delayOf: DelayOf<T> = () => debounceMs): Watched {
  return {
    subscribe: (handler) =>
      informer.subscribe((change) => {
        const withinMs = delayOf(change);
        if (withinMs !== undefined) handler(withinMs);
      }),
  };
}

/**
 * Runs `pass` now and after every change of the watched sources, until it resolves with a result. Level-triggered: a change starts a
 * pass and carries no instruction. The next pass starts after `withinMs()`, at least the debounce, even if nothing changed, because some facts have no
 * watch, and not before `minIdleMs()` whatever changes.
 * Rejects at once when the activity is cancelled.
 */
export async function reconcileOn<T>(
  watched: readonly Watched[],
  pass: () => Promise<T | undefined>,
  {
    withinMs = () => defaultResyncMs,
    minIdleMs = () => 0,
  }: { withinMs?: () => number; minIdleMs?: () => number } = {},
): Promise<T> {
  const { cancellationSignal } = Context.current();
  const changes = new Changes(watched);
  const onCancelled = () => changes.end(cancellationSignal.reason);
  if (cancellationSignal.aborted) onCancelled();
  // One listener for the whole activity: a race against `cancelled` in every pass would add up over days.
  else cancellationSignal.addEventListener('abort', onCancelled, { once: true });
  try {
    for (;;) {
      changes.reset();
      const result = await pass();
      if (result !== undefined) return result;
      await changes.next(withinMs(), minIdleMs());
    }
  } finally {
    // A connection that was opened in an activity keeps the activity's context, and with it the signal, until it closes.
    cancellationSignal.removeEventListener('abort', onCancelled);
    changes.stop();
  }
}

/** Remembers when the next pass is due, so that a change during a pass is not missed. */
class Changes {
  readonly #unsubscribe: (() => void)[];
  /** Time at which the next pass is due, by performance.now(). */
  #dueAt = Infinity;
  #ended: { because: unknown } | undefined;
  #wake: () => void = () => undefined;

  constructor(watched: readonly Watched[]) {
    this.#unsubscribe = watched.map((one) => one.subscribe((withinMs) => this.#markChanged(withinMs)));
  }

  /** Forgets the changes so far: the pass that starts now sees them. */
  reset(): void {
    this.#dueAt = Infinity;
  }

  /** Resolves when a change is due, or after `withinMs`, but not before `minIdleMs`. Rejects when the activity was cancelled. */
  async next(withinMs: number, minIdleMs: number): Promise<void> {
    const earliestAt = performance.now() + Math.max(debounceMs, minIdleMs);
    const latestAt = performance.now() + Math.max(debounceMs, withinMs);
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = () => {
        clearTimeout(timer);
        const at = this.#ended ? 0 : Math.min(Math.max(this.#dueAt, earliestAt), latestAt);
        timer = setTimeout(resolve, Math.max(0, at - performance.now()));
      };
      this.#wake();
    });
    this.#wake = () => undefined;
    clearTimeout(timer);
    if (this.#ended !== undefined) throw this.#ended.because;
  }

  end(because: unknown): void {
    this.#ended = { because };
    this.#wake();
  }

  stop(): void {
    for (const stop of this.#unsubscribe) stop();
  }

  #markChanged(withinMs: number): void {
    const at = performance.now() + withinMs;
    if (at >= this.#dueAt) return;
    this.#dueAt = at;
    this.#wake();
  }
}
