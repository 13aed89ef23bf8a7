import type { Pod } from '../../api/core.ts';
import { RELEASED_ANNOTATION } from '../../api/names.ts';
import { appsController, parseRelease, podTemplateHash, type Release } from '../../domain/release.ts';
import { byPodUid, type Cluster } from '../../kube/cluster.ts';
import type { JsonPatchOperation } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';

interface Deps {
  cluster: Cluster;
  events: EventRecorder;
  log: Log;
}

const workers = 4;
/** How soon to ask again for an eviction that was refused. Milliseconds. */
const refusedRetry = 15_000;
/** How soon to look whether the ReplicaSet has taken the pod back. Milliseconds. */
const adoptedWithin = 3_000;

const releasedPath = `/metadata/annotations/${RELEASED_ANNOTATION.replace('/', '~1')}`;

/**
 * Gives pods back to their ReplicaSets when nobody wants them to leave any more: the evacuation was cancelled, at whatever
 * moment and whoever was there to see it. The ReplicaSet takes the pod back and removes one that is too many, first one
 * that does not serve yet. A pod whose ReplicaSet is no more belongs to nobody, and is evicted.
 */
export class ReleasedPods {
  readonly #deps: Deps;
  readonly #queue = new WorkQueue();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { cluster, log } = this.#deps;
    const unsubscribe = [
      cluster.pods.subscribe(({ type, key, object }) => {
        if (type !== 'Deleted' && releaseNotedOn(object) !== undefined) this.#queue.add(key);
      }),
      cluster.evacuations.subscribe(({ object: { metadata, spec } }) => {
        const key = `${metadata.namespace}/${spec.podRef.name}`;
        const pod = cluster.pods.get(key);
        if (pod !== undefined && releaseNotedOn(pod) !== undefined) this.#queue.add(key);
      }),
    ];
    try {
      await this.#queue.run({ workers, reconcile: (key) => this.#reconcile(key), signal, log });
    } finally {
      for (const stop of unsubscribe) stop();
    }
  }

  async #reconcile(key: string): Promise<Requeue | undefined> {
    const pod = this.#deps.cluster.pods.get(key);
    const release = pod && releaseNotedOn(pod);
    if (pod === undefined || release === undefined || pod.metadata.deletionTimestamp !== undefined)
      return undefined;
    if (this.#isToLeave(pod)) return undefined;
    const isLabelled = pod.metadata.labels?.[podTemplateHash] !== undefined;
    // The note stays until somebody owns the pod: a ReplicaSet that is deleted in this moment takes nobody back.
    if (isLabelled && appsController(pod.metadata, 'ReplicaSet') !== undefined) {
      await this.#patch(pod, [{ op: 'remove', path: releasedPath }]);
      return undefined;
    }
    if (!(await this.#hasReplicaSet(pod, release))) return this.#evict(pod);
    if (!isLabelled) await this.#giveBack(pod, release);
    return { requeueAfterMs: adoptedWithin };
  }

  #isToLeave({ metadata: { uid = '' } }: Pod): boolean {
    return this.#deps.cluster.evacuations
      .byIndex(byPodUid, uid)
      .some(
        ({ metadata, status }) =>
          metadata.deletionTimestamp === undefined || status?.evacuationCancellationPolicy === 'Forbid',
      );
  }

  async #hasReplicaSet({ metadata }: Pod, { replicaSet }: Release): Promise<boolean> {
    const key = { namespace: metadata.namespace, name: replicaSet.name };
    const found = await this.#deps.cluster.kube.get(resources.replicaSets, key);
    return found?.metadata.uid === replicaSet.uid && found.metadata.deletionTimestamp === undefined;
  }

  async #giveBack(pod: Pod, release: Release): Promise<void> {
    const { events, log } = this.#deps;
    const path = `/metadata/labels/${podTemplateHash}`;
    if (!(await this.#patch(pod, [{ op: 'add', path, value: release.podTemplateHash }]))) return;
    const { name, namespace, uid } = pod.metadata;
    const replicaSet = release.replicaSet.name;
    const message = `Given back to ReplicaSet ${replicaSet}: the evacuation was cancelled.`;
    const subject = { apiVersion: 'v1', kind: 'Pod', name, namespace, uid };
    events.record(subject, { type: 'Normal', reason: 'GivenBack', message });
    log.info('Pod given back', { pod: `${namespace}/${name}`, replicaSet });
  }

  /** False when the pod has changed or is gone: the informer will show it. */
  async #patch({ metadata }: Pod, operations: JsonPatchOperation[]): Promise<boolean> {
    const { name, namespace = '', uid, annotations } = metadata;
    const guards: JsonPatchOperation[] = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'test', path: releasedPath, value: annotations?.[RELEASED_ANNOTATION] },
    ];
    try {
      const key = { namespace, name };
      await this.#deps.cluster.kube.jsonPatch(resources.pods, key, [...guards, ...operations]);
      return true;
    } catch (error) {
      if (!isKubeError(error, 'NotFound', 'Conflict', 'Invalid')) throw error;
      return false;
    }
  }

  async #evict({ metadata }: Pod): Promise<Requeue | undefined> {
    const { cluster, log } = this.#deps;
    const { name, namespace = '', uid = '' } = metadata;
    const outcome = await cluster.kube.evict({ namespace, name, uid });
    log.info('Pod without a ReplicaSet evicted', { pod: `${namespace}/${name}`, outcome: outcome.kind });
    const isRefused = outcome.kind === 'Refused' || outcome.kind === 'Misconfigured';
    return isRefused ? { requeueAfterMs: refusedRetry } : undefined;
  }
}

function releaseNotedOn({ metadata }: Pod): Release | undefined {
  return parseRelease(metadata.annotations?.[RELEASED_ANNOTATION]);
}
