import type { Lease } from '../api/core.ts';
import { anySignal, sleep } from './abort.ts';
import type { Kube } from './client.ts';
import { Informer } from './informer.ts';
import { type Observation, observe } from './leaseRecord.ts';
import type { Log } from './log.ts';
import { isAtLeast, resources } from './resources.ts';

export interface LeaseObserverOptions {
  readonly kube: Kube;
  readonly namespace: string;
  /** Name of the Lease. */
  readonly name: string;
  readonly log: Log;
  /** Ends the observation. */
  readonly signal: AbortSignal;
}

export interface LeaseChange {
  /** Undefined if the Lease is deleted or has none. */
  readonly holder: string | undefined;
  readonly resourceVersion: string | undefined;
}

type ChangeHandler = (change: LeaseChange) => void;

/**
 * Observes since when one Lease has not changed, by a watch and by what requests return. A process that will be a candidate starts it before
 * anything else: when it is ready to lead, it has waited for a dead leader already.
 */
export class LeaseObserver {
  readonly #handlers = new Set<ChangeHandler>();
  #current: Observation | undefined;

  constructor({ kube, namespace, name, log, signal }: LeaseObserverOptions) {
    // Without the watch a candidate takes longer; the election itself logs the requests that fail.
    const debug: Log['debug'] = (message, fields) => log.debug(message, fields);
    const quiet = { debug, info: debug, warn: debug, error: debug };
    const fieldSelector = `metadata.name=${name}`;
    const resource = resources.leases;
    const informer = new Informer({ kube, resource, namespace, fieldSelector, log: quiet });
    informer.subscribe(({ type, object }) => this.#follow(object, type === 'Deleted'));
    informer.start(signal);
  }

  /** The last observed state; undefined if there is no Lease. */
  get current(): Observation | undefined {
    return this.#current;
  }

  /** Records the response to a request. It counts even if its version is lower: the apiserver's data may have been restored. */
  record(lease: Lease | undefined): void {
    this.#current = lease && observe(this.#current, lease, performance.now());
  }

  /** Calls back with every change that the watch reports. Returns the function that unsubscribes. */
  subscribe(handler: ChangeHandler): () => void {
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }

  /** Resolves with true after a change that the watch reports, with false when the time has passed or the signal aborts. */
  async changesWithin(ms: number, signal: AbortSignal): Promise<boolean> {
    const change = new AbortController();
    const unsubscribe = this.subscribe(() => change.abort());
    const wake = anySignal(change.signal, signal);
    await sleep(ms, wake.signal);
    wake.dispose();
    unsubscribe();
    return change.signal.aborted;
  }

  #follow(lease: Lease, isDeleted: boolean): void {
    const { resourceVersion } = lease.metadata;
    // A request has returned a newer version.
    if (!isAtLeast(resourceVersion, this.#current?.resourceVersion)) return;
    this.record(isDeleted ? undefined : lease);
    const holder = isDeleted ? undefined : lease.spec.holderIdentity || undefined;
    for (const handler of this.#handlers) handler({ holder, resourceVersion });
  }
}
