import type { Evacuation } from '../../api/evacuation.ts';
import { FIELD_MANAGER } from '../../api/names.ts';
import { finalizersOfOthers, isInstigated } from '../../domain/evacuation/evacuation.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { byNamespace, type FencedCluster } from '../../kube/cluster.ts';
import { errorMessage, ignoreNotFound, isKubeError, isRejection } from '../../kube/errors.ts';
import { setFinalizers } from '../../kube/evacuationFinalizers.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { keyOf } from '../../kube/store.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import { podOf } from './podOf.ts';

interface Deps {
  cluster: FencedCluster;
  log: Log;
  /** Reports whether pods are being evicted. */
  isEvicting: () => boolean;
  timing: CleanupTiming;
}

export interface CleanupTiming {
  /** Evacuations of a namespace are kept, to be deleted together, until no pod of one has gone for this long. */
  readonly quietPeriodMs: number;
}

export const defaultCleanupTiming: CleanupTiming = { quietPeriodMs: 3_000 };

/** Number of Evacuations that are deleted or released in parallel. */
const workers = 16;
/** Number of namespaces in which Evacuations are deleted in parallel. */
const namespaceWorkers = 4;
/** Clean-up yields to evictions for at most this long. */
const maxDelayMs = 120_000;
const retryMs = 200;
/** Longer than a retry, so that all Evacuations that were waiting for the last eviction are deleted together. */
const collectMs = 300;

/**
 * Deletes Evacuations whose pods are gone, with one request if nothing else is left in the namespace, and then removes the instigator finalizer of
 * each. Evictions have priority over it.
 */
export class EvacuationCleanup {
  readonly #cluster: FencedCluster;
  readonly #log: Log;
  readonly #isEvicting: () => boolean;
  readonly #timing: CleanupTiming;
  readonly #queue = new WorkQueue('evacuation-cleanup');
  readonly #namespaces = new WorkQueue('evacuation-deletion');
  /** UID of a deleted pod that still has an Evacuation -> when the informer showed its deletion. */
  readonly #podDeletedAtMs = new Map<string, number>();
  /** Keys of Evacuations that wait for the end of evictions. One timer serves all of them: there are as many as pods. */
  readonly #yielding = new Set<string>();
  #yieldTimer: NodeJS.Timeout | undefined;
  /** Key of an Evacuation that is to be deleted -> since when, until the informer shows that it is gone. */
  readonly #due = new Map<string, number>();

  constructor({ cluster, log, isEvicting, timing }: Deps) {
    this.#cluster = cluster;
    this.#log = log;
    this.#isEvicting = isEvicting;
    this.#timing = timing;
  }

  async run(signal: AbortSignal): Promise<void> {
    const options = { signal, log: this.#log, observer: this.#cluster.queues };
    const reconcile = (key: string) => this.#reconcile(key);
    const deleteDue = (namespace: string) => this.#deleteDue(namespace);
    try {
      await Promise.all([
        this.#queue.run({ workers, reconcile, ...options }),
        this.#namespaces.run({ workers: namespaceWorkers, reconcile: deleteDue, ...options }),
      ]);
    } finally {
      clearTimeout(this.#yieldTimer);
      this.#yieldTimer = undefined;
    }
  }

  enqueue(key: string): void {
    this.#queue.add(key);
  }

  podDeleted(podUid: string): void {
    this.#podDeletedAtMs.set(podUid, Date.now());
  }

  forget(evacuation: Evacuation): void {
    this.#podDeletedAtMs.delete(evacuation.spec.podRef.uid);
    this.#due.delete(keyOf(evacuation));
  }

  async #reconcile(key: string): Promise<Requeue | undefined> {
    const evacuation = this.#cluster.evacuations.get(key);
    if (evacuation === undefined || podOf(this.#cluster, evacuation) !== undefined) return undefined;
    const deletedAtMs = this.#podDeletedAtMs.get(evacuation.spec.podRef.uid);
    if (this.#yields(evacuation)) {
      this.#yielding.add(key);
      this.#yieldTimer ??= setTimeout(() => this.#endYielding(), retryMs);
      return undefined;
    }
    // A pod whose deletion the informer did not show may be missing because the informer has not seen it yet.
    if (deletedAtMs === undefined && (await this.#podExists(evacuation))) return { requeueAfterMs: retryMs };
    // A policy in the apiserver rejects the deletion while cancellation is forbidden. Each of these writes triggers another reconcile.
    if (evacuation.metadata.deletionTimestamp !== undefined) {
      if (isInstigated(evacuation)) {
        const others = finalizersOfOthers(evacuation.metadata);
        await setFinalizers(this.#cluster.kube, evacuation, others).catch(ignoreNotFound);
      }
    } else if (evacuation.status?.evacuationCancellationPolicy === 'Forbid')
      await this.#allowCancellation(evacuation);
    else this.#enqueueDeletion(key, evacuation);
    return undefined;
  }

  /** Reports whether evictions are in progress, and have priority over this Evacuation. */
  #yields({ spec }: Evacuation): boolean {
    const deletedAtMs = this.#podDeletedAtMs.get(spec.podRef.uid) ?? 0;
    return this.#isEvicting() && Date.now() - deletedAtMs < maxDelayMs;
  }

  /** Enqueues those that need not wait any more, and checks again soon if others do. */
  #endYielding(): void {
    for (const key of this.#yielding) {
      const evacuation = this.#cluster.evacuations.get(key);
      if (evacuation !== undefined && this.#yields(evacuation)) continue;
      this.#yielding.delete(key);
      this.#queue.add(key);
    }
    this.#yieldTimer = this.#yielding.size === 0 ? undefined : setTimeout(() => this.#endYielding(), retryMs);
  }

  #enqueueDeletion(key: string, { metadata: { namespace = '' } }: Evacuation): void {
    if (!this.#due.has(key)) this.#due.set(key, Date.now());
    this.#namespaces.addAfter(namespace, collectMs);
  }

  async #deleteDue(namespace: string): Promise<Requeue | undefined> {
    const { evacuations, kube } = this.#cluster;
    const left = evacuations
      .byIndex(byNamespace, namespace)
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const due = left.filter((evacuation) => this.#due.has(keyOf(evacuation)));
    const isAll = due.length > 1 && due.length === left.length;
    if (!isAll && this.#areOthersGoing(due, left)) return { requeueAfterMs: collectMs };
    if (isAll && (await this.#deleteAll(namespace, evacuations.resourceVersion))) return undefined;
    await forEachBounded(workers, due, ({ metadata: { name, uid = '' } }) =>
      kube.delete(resources.evacuations, { namespace, name }, { uid }).catch(ignoreNotFound),
    );
    return undefined;
  }

  /** Reports whether the pods of other Evacuations are about to go, so that one request can delete all. */
  #areOthersGoing(due: readonly Evacuation[], all: readonly Evacuation[]): boolean {
    const since = due.map((evacuation) => this.#due.get(keyOf(evacuation)) ?? 0);
    const [first, last] = [Math.min(...since), Math.max(...since)];
    const nowMs = Date.now();
    if (nowMs - last > this.#timing.quietPeriodMs || nowMs - first > maxDelayMs) return false;
    const isGoing = (evacuation: Evacuation) => {
      const pod = podOf(this.#cluster, evacuation);
      return pod === undefined || pod.metadata.deletionTimestamp !== undefined;
    };
    return all.some((evacuation) => !this.#due.has(keyOf(evacuation)) && isGoing(evacuation));
  }

  /** Deletes what the informer shows of the namespace, and nothing that was created since. Returns false if that is not possible. */
  async #deleteAll(namespace: string, resourceVersion: string | undefined): Promise<boolean> {
    if (resourceVersion === undefined) return false;
    try {
      await this.#cluster.kube.deleteCollection(resources.evacuations, { namespace, resourceVersion });
      return true;
    } catch (error) {
      if (!isRejection(error) && !isKubeError(error, 'Expired', 'Conflict')) throw error;
      this.#log.debug('Evacuations are deleted one by one', { namespace, error: errorMessage(error) });
      return false;
    }
  }

  async #allowCancellation({ metadata: { name, namespace = '', uid } }: Evacuation): Promise<void> {
    const patch = { metadata: { uid }, status: { evacuationCancellationPolicy: 'Allow' } };
    await this.#cluster.kube.mergePatch(resources.evacuations, { namespace, name }, patch, {
      subresource: 'status',
      fieldManager: FIELD_MANAGER,
    });
  }

  async #podExists({ metadata, spec }: Evacuation): Promise<boolean> {
    const namespace = metadata.namespace ?? '';
    const pod = await this.#cluster.kube.get(resources.pods, { namespace, name: spec.podRef.name });
    return pod?.metadata.uid === spec.podRef.uid;
  }
}
