import { hostname } from 'node:os';
import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { anySignal } from '../kube/abort.ts';
import { findMissingRules, ruleText } from '../kube/authorization.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import type { KubeConfigChoice } from '../kube/config.ts';
import { errorMessage } from '../kube/errors.ts';
import { type Log, silentLog } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { Semaphore } from '../kube/semaphore.ts';
import { NodeHeldError, NodeLeaseError, typed } from './errors.ts';
import { Hold } from './hold.ts';
import { requireNodeName } from './leaseObjects.ts';
import { NodeLeases } from './nodeLeases.ts';
import { stateOf, watchStates } from './reader.ts';
import type { Acquisition, HoldOptions, Lost, NodeLeaseState, Release, WhileHeld } from './types.ts';

export interface NodeLeaseOptions extends KubeConfigChoice {
  /**
   * A human-readable name of the holder: `reboot-daemon/worker-3`. Two processes with the same name are the same holder, so a daemon
   * that restarts keeps its Lease. Processes that may run at the same time need different names. Default: `node-lease/<host>_<UUID>`, another
   * one for each client, which after a restart waits until the Lease of its predecessor has expired.
   */
  readonly holder?: string | undefined;
  /** Time for which other clients wait for a holder that stopped renewing. 1 to 3600, default 900. */
  readonly leaseDurationSeconds?: number | undefined;
  /** Default: no log. `console` is possible. */
  readonly log?: Log | undefined;
}

interface SignalOption {
  readonly signal?: AbortSignal | undefined;
}

export interface WatchOptions extends SignalOption {
  /** Only this node. Default: all nodes. */
  readonly node?: string | undefined;
}

/**
 * Reads and holds the maintenance Leases of nodes. Every method rejects with a NodeLeaseError, or with the reason of an aborted signal. After a
 * rejection for an invalid name, a missing node or missing permissions nothing was changed.
 */
export interface NodeLeaseClient {
  /** The name under which this client holds Leases. */
  readonly holder: string;
  /** Reads the Lease of a node, as a client does that acts only on nodes that nobody holds. */
  get(node: string, options?: SignalOption): Promise<NodeLeaseState>;
  /**
   * Yields the state of every node that has a Lease, then each state that changes, also by expiry. Of several changes of a node during one step of
   * the consumer it yields the last one. Ends when the signal aborts or the client is closed; outlasts failures of the apiserver.
   */
  watch(options?: WatchOptions): AsyncIterable<NodeLeaseState>;
  /** Acquires the Lease for one duration if nobody else holds it; renews it if it is ours. Does not wait. */
  acquire(node: string, options?: SignalOption): Promise<Acquisition>;
  /** Renews the Lease for one more duration if it is still ours. */
  renew(node: string, options?: SignalOption): Promise<Acquisition | Lost>;
  /** Releases the Lease if it is still ours. */
  release(node: string, options?: SignalOption): Promise<Release>;
  /**
   * Waits until it acquires the Lease, calls `act` while it renews the Lease, and releases it afterwards. Resolves with the result of
   * `act`. Rejects with the error of `act`, or with a NodeLeaseLostError if the Lease was lost before `act` returned. Calls for the
   * same node run one after the other. With `wait: false`, rejects with a NodeHeldError instead of waiting.
   */
  hold<T>(node: string, act: WhileHeld<T>, options?: HoldOptions): Promise<T>;
  /** Ends watches, cancels waiting calls, aborts the signals of running ones and waits for them, releases their Leases, and closes connections. */
  close(): Promise<void>;
}

const remedy = 'grant the rules in node-lease/rbac.yaml';

const readVerbs = ['get', 'list', 'watch'];

/** Creates a client. Throws a NodeLeaseError for an invalid holder, an invalid duration, or a missing kubeconfig. */
export function nodeLeases(options: NodeLeaseOptions = {}): NodeLeaseClient {
  const { holder = uniqueHolder(), leaseDurationSeconds = 900, log = silentLog } = options;
  const kube = connect(options, log);
  return new Client(kube, new NodeLeases({ kube, holder, leaseDurationSeconds }), log);
}

/** Returns a holder that no other process has. Its prefix says what it is, and is none that KEP-1411 reserves, whatever the name of the host. */
function uniqueHolder(): string {
  return `node-lease/${hostname()}_${crypto.randomUUID()}`;
}

function connect(options: NodeLeaseOptions, log: Log): Kube {
  try {
    return connectKube({ ...options, userAgent: 'node-lease', log });
  } catch (cause) {
    throw new NodeLeaseError(errorMessage(cause), { kind: 'InvalidArgument', cause });
  }
}

class Client implements NodeLeaseClient {
  readonly #kube: Kube;
  readonly #leases: NodeLeases;
  readonly #log: Log;
  readonly #closing = new AbortController();
  readonly #holds = new Set<Promise<unknown>>();
  readonly #locks = new Map<string, Semaphore>();
  readonly #requirePermissions: (signal: AbortSignal | undefined) => Promise<void>;

  constructor(kube: Kube, leases: NodeLeases, log: Log) {
    this.#kube = kube;
    this.#leases = leases;
    this.#log = log;
    // Without watch, a lost Lease would go unnoticed.
    const verbs = [...readVerbs, 'create', 'patch'];
    this.#requirePermissions = once((signal) => requireRules(kube, { verbs, to: 'hold a node' }, signal));
  }

  get holder(): string {
    return this.#leases.holder;
  }

  async get(node: string, { signal }: SignalOption = {}): Promise<NodeLeaseState> {
    const lease = await typed(this.#leases.read(node, { signal }), node, remedy);
    return stateOf(node, lease, this.#kube.now());
  }

  async *watch({ node, signal }: WatchOptions = {}): AsyncGenerator<NodeLeaseState> {
    if (node !== undefined) requireNodeName(node);
    const [kube, log] = [this.#kube, this.#log];
    const stop = anySignal(this.#closing.signal, signal);
    try {
      if (stop.signal.aborted) return;
      await untilAborted(
        typed(requireRules(kube, { verbs: readVerbs, to: 'watch Leases' }, stop.signal), node, remedy),
        stop.signal,
      );
      yield* watchStates({ kube, log, node, signal: stop.signal });
    } finally {
      stop.dispose();
    }
  }

  acquire(node: string, { signal }: SignalOption = {}): Promise<Acquisition> {
    return typed(this.#leases.acquire(node, { signal }), node, remedy);
  }

  renew(node: string, { signal }: SignalOption = {}): Promise<Acquisition | Lost> {
    return typed(this.#leases.renew(node, { signal }), node, remedy);
  }

  release(node: string, { signal }: SignalOption = {}): Promise<Release> {
    return typed(this.#leases.release(node, { signal }), node, remedy);
  }

  async hold<T>(node: string, act: WhileHeld<T>, { signal, ...options }: HoldOptions = {}): Promise<T> {
    const stop = anySignal(this.#closing.signal, signal);
    const result = this.#hold(node, act, { ...options, signal: stop.signal });
    this.#holds.add(result);
    return result.finally(() => {
      stop.dispose();
      this.#holds.delete(result);
    });
  }

  async close(): Promise<void> {
    this.#closing.abort(new NodeLeaseError('the client of node Leases was closed', { kind: 'Closed' }));
    await Promise.allSettled(this.#holds);
    await this.#kube.close();
  }

  async #hold<T>(node: string, act: WhileHeld<T>, options: HoldOptions): Promise<T> {
    requireNodeName(node);
    options.signal?.throwIfAborted();
    // A call of this client holds the node, or waits for it.
    const known = this.#locks.get(node);
    if (known !== undefined && options.wait === false) throw new NodeHeldError(node, this.holder, undefined);
    const lock = known ?? new Semaphore(1);
    this.#locks.set(node, lock);
    const unlock = await lock.acquire(options.signal);
    const [kube, leases, log, requirePermissions] = [
      this.#kube,
      this.#leases,
      this.#log,
      this.#requirePermissions,
    ];
    try {
      return await new Hold({ kube, leases, node, log, requirePermissions, remedy }).run(act, options);
    } finally {
      unlock();
      if (lock.isIdle) this.#locks.delete(node);
    }
  }
}

/** Rejects with a NodeLeaseError that has the missing rules. */
async function requireRules(
  kube: Kube,
  { verbs, to }: { verbs: readonly string[]; to: string },
  signal: AbortSignal | undefined,
): Promise<void> {
  const { group, plural: resource } = resources.leases;
  const rules = [{ group, resource, verbs, namespace: NODE_LEASE_NAMESPACE }];
  const missing = await findMissingRules(kube, rules, { signal });
  if (missing.length === 0) return;
  const message = `missing RBAC permissions to ${to}: add ${missing.map(ruleText).join(' and ')}`;
  throw new NodeLeaseError(message, { kind: 'Forbidden' });
}

/** Resolves also when the work rejects because the signal aborted. */
async function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  await work.catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
}

/** Repeats the work on each call until it has succeeded once. */
function once(work: (signal: AbortSignal | undefined) => Promise<void>): typeof work {
  let isDone = false;
  return async (signal) => {
    if (!isDone) await work(signal);
    isDone = true;
  };
}
