import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { firstOf } from '../kube/abort.ts';
import { missingRules, ruleText } from '../kube/authorization.ts';
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
   * Who holds the Leases, for people to read: `reboot-daemon/worker-3`. Two processes that give the same name count as one,
   * so that a daemon that starts again has its Lease back; make it unique for whatever may run at the same time.
   */
  readonly holder: string;
  /** How long others wait for a holder that went silent. 1 to 3600, default 900. */
  readonly leaseDurationSeconds?: number | undefined;
  /** Default: silent. `console` will do. */
  readonly log?: Log | undefined;
}

interface SignalOption {
  readonly signal?: AbortSignal | undefined;
}

/**
 * The maintenance Leases of nodes. Every method rejects with an Error of one line that says what is wrong and what to do;
 * after a rejection for a bad name, a missing node or missing rights nothing was changed.
 */
export interface NodeLeaseClient {
  /** Takes the Lease if nobody else holds it, for one duration; renews it if it is ours. Does not wait. */
  acquire(node: string, options?: SignalOption): Promise<Acquisition>;
  /** For one more duration, if it is still ours. */
  renew(node: string, options?: SignalOption): Promise<Acquisition | Lost>;
  /** If it is still ours. */
  release(node: string, options?: SignalOption): Promise<Release>;
  /**
   * Waits until the node is ours, calls `act`, renews the Lease meanwhile and releases it at the end. Resolves with what `act`
   * returns; rejects with what it throws, or with a NodeLeaseLostError when the Lease was lost before it had returned. Calls for
   * the same node take turns.
   */
  hold<T>(node: string, act: WhileHeld<T>, options?: HoldOptions): Promise<T>;
  /** Ends every wait, tells what runs to stop, waits for its end, and releases what is held; then ends the connections. */
  close(): Promise<void>;
}

const remedy = 'the rules that are needed are in node-lease/rbac.yaml';

/** Throws an Error of one line for a bad holder, a bad duration, or when there is no kubeconfig. */
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
  readonly #turns = new Map<string, Semaphore>();
  readonly #requireRights: (signal: AbortSignal | undefined) => Promise<void>;

  constructor(kube: Kube, leases: NodeLeases, log: Log) {
    this.#kube = kube;
    this.#leases = leases;
    this.#log = log;
    this.#requireRights = once((signal) => requireRules(kube, signal));
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
    const stop = firstOf(this.#closing.signal, signal);
    const held = this.#held(node, act, { signal: stop.signal, onWaiting });
    this.#holds.add(held);
    return held.finally(() => {
      stop.done();
      this.#holds.delete(held);
    });
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('the client of node Leases was closed'));
    await Promise.allSettled(this.#holds);
    await this.#kube.close();
  }

  async #held<T>(node: string, act: WhileHeld<T>, options: HoldOptions): Promise<T> {
    requireNodeName(node);
    options.signal?.throwIfAborted();
    const turn = this.#turns.get(node) ?? new Semaphore(1);
    this.#turns.set(node, turn);
    const done = await turn.acquire(options.signal);
    const [kube, leases, log, requireRights] = [this.#kube, this.#leases, this.#log, this.#requireRights];
    try {
      return await new Hold({ kube, leases, node, log, requireRights, remedy }).run(act, options);
    } finally {
      done();
      if (turn.isIdle) this.#turns.delete(node);
    }
  }
}

/** Without the right to watch, a hold would not see that its Lease is taken. */
async function requireRules(kube: Kube, signal: AbortSignal | undefined): Promise<void> {
  const { group, plural: resource } = resources.leases;
  const verbs = ['get', 'list', 'watch', 'create', 'patch'];
  const missing = await missingRules(kube, [{ group, resource, verbs, namespace: NODE_LEASE_NAMESPACE }], {
    signal,
  });
  if (missing.length === 0) return;
  throw new Error(`RBAC does not allow to hold a node: add ${missing.map(ruleText).join(' and ')}`);
}

/** Does it until it has succeeded. */
function once(work: (signal: AbortSignal | undefined) => Promise<void>): typeof work {
  let isDone = false;
  return async (signal) => {
    if (!isDone) await work(signal);
    isDone = true;
  };
}
