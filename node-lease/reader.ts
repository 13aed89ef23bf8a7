import type { Lease } from '../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { leaseStateOf } from '../domain/leases/lease.ts';
import type { Kube } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import type { NodeLeaseState } from './types.ts';

/** Returns the state of a Lease. `now` is the time of the apiserver. */
export function stateOf(node: string, lease: Readonly<Lease> | undefined, now: Date): NodeLeaseState {
  const state = leaseStateOf(lease, now.getTime());
  if (lease === undefined || state.kind === 'Missing') return { node, kind: 'Missing' };
  const copy = structuredClone(lease) as Lease;
  switch (state.kind) {
    case 'Free':
      return { node, kind: state.kind, lease: copy };
    case 'Expired':
      return { node, ...state, at: state.at === undefined ? undefined : new Date(state.at), lease: copy };
    case 'Held':
      return { node, ...state, until: new Date(state.until), lease: copy };
    case 'HeldByAdministrator':
      return { node, ...state, lease: copy };
  }
}

interface Watched {
  readonly kube: Kube;
  readonly log: Log;
  /** Undefined: all nodes. */
  readonly node: string | undefined;
  readonly signal: AbortSignal;
}

/** Timers of Node.js cannot wait as long as a Lease may last. */
const maxDelayMs = 60_000;

/**
 * Yields the state of every Lease, then each state that changes: because its Lease was written or deleted, or because it expired. Ends when the signal
 * aborts. Of several changes of one node while the consumer is busy, it yields the last one.
 */
export async function* watchStates({ kube, log, node, signal }: Watched): AsyncGenerator<NodeLeaseState> {
  const watching = new AbortController();
  const changes = new Changes();
  const stop = () => {
    watching.abort();
    changes.wakeUp();
  };
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  const informer = new Informer({
    kube,
    resource: resources.leases,
    namespace: NODE_LEASE_NAMESPACE,
    fieldSelector: node === undefined ? undefined : `metadata.name=${node}`,
    log,
  });
  informer.subscribe(({ object }) => changes.add(object.metadata.name));
  informer.start(watching.signal);
  informer.synced(watching.signal).then(
    () => node !== undefined && informer.size === 0 && changes.add(node),
    () => undefined,
  );
  try {
    while (!watching.signal.aborted) {
      const name = await changes.next();
      if (name === undefined) continue;
      const now = kube.now();
      const state = stateOf(name, informer.get(`${NODE_LEASE_NAMESPACE}/${name}`), now);
      const isNew = changes.isNew(state);
      if (state.kind === 'Held') changes.addLater(name, state.until.getTime() - now.getTime() + 1);
      // Autoscalers remove nodes and their names for good.
      if (state.kind === 'Missing' && node === undefined) changes.forget(name);
      if (isNew) yield state;
    }
  } finally {
    signal.removeEventListener('abort', stop);
    changes.dispose();
    watching.abort();
  }
}

/** The nodes whose state may have changed. */
class Changes {
  readonly #nodes = new Set<string>();
  readonly #timers = new Map<string, NodeJS.Timeout>();
  /** Node -> kind of the state that was yielded last, and version of its Lease. */
  readonly #yielded = new Map<string, string>();
  #wake = Promise.withResolvers<void>();

  add(node: string): void {
    this.#nodes.add(node);
    this.wakeUp();
  }

  /** Adds the node after the time, or earlier: another look does no harm. */
  addLater(node: string, ms: number): void {
    clearTimeout(this.#timers.get(node));
    this.#timers.set(
      node,
      setTimeout(
        () => {
          this.#timers.delete(node);
          this.add(node);
        },
        Math.max(Math.min(ms, maxDelayMs), 0),
      ),
    );
  }

  wakeUp(): void {
    this.#wake.resolve();
  }

  /** Removes a node. Waits if there is none, and resolves with undefined after it was woken up. */
  async next(): Promise<string | undefined> {
    if (this.#nodes.size === 0) {
      await this.#wake.promise;
      this.#wake = Promise.withResolvers();
    }
    const [node] = this.#nodes;
    if (node !== undefined) this.#nodes.delete(node);
    return node;
  }

  isNew(state: NodeLeaseState): boolean {
    const version = state.kind === 'Missing' ? '' : state.lease.metadata.resourceVersion;
    const text = `${state.kind} ${version}`;
    if (this.#yielded.get(state.node) === text) return false;
    this.#yielded.set(state.node, text);
    return true;
  }

  forget(node: string): void {
    clearTimeout(this.#timers.get(node));
    this.#timers.delete(node);
    this.#yielded.delete(node);
  }

  dispose(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }
}
