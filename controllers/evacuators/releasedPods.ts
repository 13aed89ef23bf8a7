import type { Pod } from '../../api/core.ts';
import { RELEASED_ANNOTATION } from '../../api/names.ts';
import { parseRelease, podTemplateHash, type Release } from '../../domain/release.ts';
import { byPodUid, type Cluster } from '../../kube/cluster.ts';
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
    if (await this.#hasReplicaSet(pod, release)) return this.#giveBack(pod, release);
    return this.#evict(pod);
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

  async #giveBack({ metadata }: Pod, release: Release): Promise<undefined> {
    const { cluster, events, log } = this.#deps;
    const { name, namespace = '', uid = '', annotations } = metadata;
    const note = `/metadata/annotations/${RELEASED_ANNOTATION.replace('/', '~1')}`;
    try {
      await cluster.kube.jsonPatch(resources.pods, { namespace, name }, [
        { op: 'test', path: '/metadata/uid', value: uid },
        { op: 'test', path: note, value: annotations?.[RELEASED_ANNOTATION] },
        { op: 'add', path: `/metadata/labels/${podTemplateHash}`, value: release.podTemplateHash },
        { op: 'remove', path: note },
      ]);
    } catch (error) {
      // It has changed or is gone: the informer will show it.
      if (!isKubeError(error, 'NotFound', 'Conflict', 'Invalid')) throw error;
      return undefined;
    }
    const replicaSet = release.replicaSet.name;
    const message = `Given back to ReplicaSet ${replicaSet}: the evacuation was cancelled.`;
    events.record(
      { apiVersion: 'v1', kind: 'Pod', name, namespace, uid },
      { type: 'Normal', reason: 'GivenBack', message },
    );
    log.info('Pod given back', { pod: `${namespace}/${name}`, replicaSet });
    return undefined;
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
