import type { EvictionRequest, LifecycleEviction } from '../api/lifecycle.ts';
import type { Kube } from './client.ts';
import { Informer } from './informer.ts';
import type { Log } from './log.ts';
import { resources } from './resources.ts';

/** Name of the index of both informers: `<namespace>/<UID of the pod>`. */
const byTarget = 'target';

/**
 * A pod by its namespace and UID. A user who may create requests in one namespace may name any UID, also that of a pod of another namespace: the UID
 * alone says nothing.
 */
export interface PodIdentity {
  readonly namespace?: string | undefined;
  readonly uid?: string | undefined;
}

/** Returns the pod that is to be evicted: one of the namespace of the object. */
export function targetOf({ metadata, spec }: EvictionRequest | LifecycleEviction): PodIdentity {
  return { namespace: metadata.namespace, uid: spec.target.pod.uid };
}

/** Returns `<namespace>/<UID>`. */
export function identityKey({ namespace = '', uid = '' }: PodIdentity): string {
  return `${namespace}/${uid}`;
}

/**
 * The informers of lifecycle.k8s.io. They run from the first `use` on: few clusters serve these kinds, and an installation that evacuates pods by
 * Evacuations sends no request for them.
 */
export class EvictionInformers {
  readonly requests: Informer<EvictionRequest>;
  readonly evictions: Informer<LifecycleEviction>;
  #isUsed = false;
  #signal: AbortSignal | undefined;

  constructor({ kube, log }: { kube: Kube; log: Log }) {
    const options = {
      kube,
      log,
      mayBeUnserved: true,
      optionalFor: 'drains by EvictionRequests (deploy/rbac)',
      indexes: {
        [byTarget]: (object: EvictionRequest | LifecycleEviction) => [identityKey(targetOf(object))],
      },
    };
    this.requests = new Informer<EvictionRequest>({ ...options, resource: resources.evictionRequests });
    this.evictions = new Informer<LifecycleEviction>({ ...options, resource: resources.evictions });
  }

  /** Runs the informers, now or when they are started. May be called again. */
  use(): void {
    if (this.#isUsed) return;
    this.#isUsed = true;
    if (this.#signal !== undefined) this.#run(this.#signal);
  }

  start(signal: AbortSignal): void {
    this.#signal = signal;
    if (this.#isUsed) this.#run(signal);
  }

  get isUsed(): boolean {
    return this.#isUsed;
  }

  /** True also while they are not used. */
  get hasSynced(): boolean {
    return !this.#isUsed || (this.requests.hasSynced && this.evictions.hasSynced);
  }

  async synced(signal?: AbortSignal): Promise<void> {
    if (this.#isUsed) await Promise.all([this.requests.synced(signal), this.evictions.synced(signal)]);
  }

  /** Whether the apiserver serves both kinds, and this process may list them. */
  get isServed(): boolean {
    return this.requests.isServed && this.evictions.isServed;
  }

  /** Returns the EvictionRequests of a pod, of all requesters. */
  requestsOf(pod: PodIdentity): Readonly<EvictionRequest>[] {
    return this.requests.byIndex(byTarget, identityKey(pod));
  }

  evictionsOf(pod: PodIdentity): Readonly<LifecycleEviction>[] {
    return this.evictions.byIndex(byTarget, identityKey(pod));
  }

  #run(signal: AbortSignal): void {
    this.requests.start(signal);
    this.evictions.start(signal);
  }
}
