import type { Evacuation } from '../../api/evacuation.ts';
import { FIELD_MANAGER, INSTIGATOR_FINALIZER } from '../../api/names.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { ignoreConflict } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import { podOf } from './podOf.ts';

interface Deps {
  cluster: FencedCluster;
  log: Log;
  /** Reports whether pods are being evicted. */
  isEvicting: () => boolean;
}

/** Number of Evacuations that are deleted in parallel. */
const workers = 16;
/** Clean-up yields to evictions for at most this long. */
const maxDelayMs = 120_000;
const retryMs = 200;

/** Deletes Evacuations whose pods are gone. Evictions have priority over it. */
export class EvacuationCleanup {
  readonly #cluster: FencedCluster;
  readonly #log: Log;
  readonly #isEvicting: () => boolean;
  readonly #queue = new WorkQueue('evacuation-cleanup');
  /** UID of a deleted pod that still has an Evacuation -> when the informer showed its deletion. */
  readonly #podDeletedAtMs = new Map<string, number>();
  /** UIDs of deleted Evacuations that the informer still shows. */
  readonly #deleted = new Set<string>();

  constructor({ cluster, log, isEvicting }: Deps) {
    this.#cluster = cluster;
    this.#log = log;
    this.#isEvicting = isEvicting;
  }

  run(signal: AbortSignal): Promise<void> {
    const reconcile = (key: string) => this.#reconcile(key);
    return this.#queue.run({ workers, reconcile, signal, log: this.#log, observer: this.#cluster.queues });
  }

  enqueue(key: string): void {
    this.#queue.add(key);
  }

  podDeleted(podUid: string): void {
    this.#podDeletedAtMs.set(podUid, Date.now());
  }

  forget({ metadata, spec }: Evacuation): void {
    this.#podDeletedAtMs.delete(spec.podRef.uid);
    this.#deleted.delete(metadata.uid ?? '');
  }

  async #reconcile(key: string): Promise<Requeue | undefined> {
    const evacuation = this.#cluster.evacuations.get(key);
    if (evacuation === undefined || podOf(this.#cluster, evacuation) !== undefined) return undefined;
    if (this.#deleted.has(evacuation.metadata.uid ?? '')) return undefined;
    const deletedAtMs = this.#podDeletedAtMs.get(evacuation.spec.podRef.uid);
    if (this.#isEvicting() && Date.now() - (deletedAtMs ?? 0) < maxDelayMs)
      return { requeueAfterMs: retryMs };
    // A pod whose deletion the informer did not show may be missing because the informer has not seen it yet.
    if (deletedAtMs === undefined && (await this.#podExists(evacuation))) return { requeueAfterMs: retryMs };
    await this.#delete(evacuation).catch(ignoreConflict);
    return undefined;
  }

  /** Removes our instigator finalizer, then deletes the object. The finalizers of other instigators stay. */
  async #delete(evacuation: Evacuation): Promise<void> {
    const { kube } = this.#cluster;
    const { name, namespace = '', uid = '', resourceVersion } = evacuation.metadata;
    const { finalizers = [], deletionTimestamp } = evacuation.metadata;
    // A policy in the apiserver rejects the deletion while cancellation is forbidden. The patch triggers another reconcile.
    if (evacuation.status?.evacuationCancellationPolicy === 'Forbid') {
      await this.#allowCancellation(evacuation);
      return;
    }
    const others = finalizers.filter((finalizer) => finalizer !== INSTIGATOR_FINALIZER);
    if (others.length < finalizers.length) {
      const patch = { metadata: { uid, resourceVersion, finalizers: others } };
      await kube.mergePatch(resources.evacuations, { namespace, name }, patch, {
        fieldManager: FIELD_MANAGER,
      });
    }
    if (deletionTimestamp === undefined)
      await kube.delete(resources.evacuations, { namespace, name }, { uid });
    this.#deleted.add(uid);
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
