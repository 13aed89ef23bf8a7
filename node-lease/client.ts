import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { anySignal } from '../kube/abort.ts';
import { findMissingRules, ruleText } from '../kube/authorization.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import type { KubeConfigChoice } from '../kube/config.ts';
import { type Log, silentLog } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { Semaphore } from '../kube/semaphore.ts';
import { Hold, type HoldOptions, type WhileHeld } from './hold.ts';
import { requireNodeName } from './leaseObjects.ts';
import { type Acquisition, type Lost, NodeLeases, type Release } from './nodeLeases.ts';
import { withRemedy } from './remedy.ts';

export interface NodeLeaseOptions extends KubeConfigChoice {
  /**
   * A human-readable name of the holder: `reboot-daemon/worker-3`. Two processes with the same name are the same holder, so a daemon
   * that restarts keeps its Lease. Processes that may run at the same time need different names.
   */
  readonly holder: string;
  /** Time for which other clients wait for a holder that stopped renewing. 1 to 3600, default 900. */
  readonly leaseDurationSeconds?: number | undefined;
  /** Default: no log. `console` is possible. */
  readonly log?: Log | undefined;
}

interface SignalOption {
  readonly signal?: AbortSignal | undefined;
}

/**
 * Holds the maintenance Leases of nodes. Every method rejects with a one-line Error that contains the problem and the remedy. After a
 * rejection for an invalid name, a missing node or missing permissions nothing was changed.
 */
export interface NodeLeaseClient {
  /** Acquires the Lease for one duration if nobody else holds it; renews it if it is ours. Does not wait. */
  acquire(node: string, options?: SignalOption): Promise<Acquisition>;
  /** Renews the Lease for one more duration if it is still ours. */
  renew(node: string, options?: SignalOption): Promise<Acquisition | Lost>;
  /** Releases the Lease if it is still ours. */
  release(node: string, options?: SignalOption): Promise<Release>;
  /**
   * Waits until it acquires the Lease, calls `act` while it renews the Lease, and releases it afterwards. Resolves with the result of
   * `act`. Rejects with the error of `act`, or with a NodeLeaseLostError if the Lease was lost before `act` returned. Calls for the
   * same node run one after the other.
   */
  hold<T>(node: string, act: WhileHeld<T>, options?: HoldOptions): Promise<T>;
  /** Cancels waiting calls, aborts the signals of running ones and waits for them, releases their Leases, and closes connections. */
  close(): Promise<void>;
}

const remedy = 'grant the rules in node-lease/rbac.yaml';

/** Creates a client. Throws a one-line Error for an invalid holder, an invalid duration, or a missing kubeconfig. */
export function nodeLeases(options: NodeLeaseOptions): NodeLeaseClient {
  const { holder, leaseDurationSeconds = 900, log = silentLog } = options;
  const kube = connectKube({ ...options, userAgent: 'node-lease', log });
  return new Client(kube, new NodeLeases({ kube, holder, leaseDurationSeconds }), log);
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
    this.#requirePermissions = once((signal) => requireRules(kube, signal));
  }

  acquire(node: string, { signal }: SignalOption = {}): Promise<Acquisition> {
    return withRemedy(this.#leases.acquire(node, { signal }), remedy);
  }

  renew(node: string, { signal }: SignalOption = {}): Promise<Acquisition | Lost> {
    return withRemedy(this.#leases.renew(node, { signal }), remedy);
  }

  release(node: string, { signal }: SignalOption = {}): Promise<Release> {
    return withRemedy(this.#leases.release(node, { signal }), remedy);
  }

  async hold<T>(node: string, act: WhileHeld<T>, { signal, onWaiting }: HoldOptions = {}): Promise<T> {
    const stop = anySignal(this.#closing.signal, signal);
    const result = this.#hold(node, act, { signal: stop.signal, onWaiting });
    this.#holds.add(result);
    return result.finally(() => {
      stop.dispose();
      this.#holds.delete(result);
    });
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('the client of node Leases was closed'));
    await Promise.allSettled(this.#holds);
    await this.#kube.close();
  }

  async #hold<T>(node: string, act: WhileHeld<T>, options: HoldOptions): Promise<T> {
    requireNodeName(node);
    options.signal?.throwIfAborted();
    const lock = this.#locks.get(node) ?? new Semaphore(1);
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

/** Checks the permissions before a hold: without watch, a lost Lease would go unnoticed. */
async function requireRules(kube: Kube, signal: AbortSignal | undefined): Promise<void> {
  const { group, plural: resource } = resources.leases;
  const verbs = ['get', 'list', 'watch', 'create', 'patch'];
  const missing = await findMissingRules(
    kube,
    [{ group, resource, verbs, namespace: NODE_LEASE_NAMESPACE }],
    {
      signal,
    },
  );
  if (missing.length === 0) return;
  throw new Error(`missing RBAC permissions to hold a node: add ${missing.map(ruleText).join(' and ')}`);
}

/** Repeats the work on each call until it has succeeded once. */
function once(work: (signal: AbortSignal | undefined) => Promise<void>): typeof work {
  let isDone = false;
  return async (signal) => {
    if (!isDone) await work(signal);
    isDone = true;
  };
}
