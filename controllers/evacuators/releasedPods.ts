import type { Pod, ReplicaSet } from '../../api/core.ts';
import { DEFAULT_PROGRESS_DEADLINE_SECONDS, FIELD_MANAGER, RELEASED_ANNOTATION } from '../../api/names.ts';
import { isWithdrawn } from '../../domain/evacuation.ts';
import { evacuationOf } from '../../domain/evacuator.ts';
import { selectsLabels } from '../../domain/labelSelector.ts';
import { isFinished, podName } from '../../domain/pod.ts';
import { appsController, parseRelease, podTemplateHash, type Release } from '../../domain/release.ts';
import { backOffMs } from '../../kube/backOff.ts';
import { byPodUid, type Cluster } from '../../kube/cluster.ts';
import type { JsonPatchOperation } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { aboutPod, type EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import { isOutdated } from './patchOutcome.ts';

interface Deps {
  cluster: Cluster;
  events: EventRecorder;
  log: Log;
}

const workers = 4;
/** How soon to look whether somebody has taken the pod; who has not for long may never. */
const looks = { firstMs: 3_000, capMs: 600_000 };

const releasedPath = `/metadata/annotations/${RELEASED_ANNOTATION.replace('/', '~1')}`;

/**
 * Gives pods back to their ReplicaSets when nobody wants them to leave any more: the evacuation was cancelled, at whatever
 * moment and whoever was there to see it. The ReplicaSet takes the pod back and removes one that is too many, first one
 * that does not serve yet. A pod whose ReplicaSet is no more belongs to nobody: it gets an Evacuation.
 */
export class ReleasedPods {
  readonly #deps: Deps;
  readonly #queue = new WorkQueue();
  /** Key of a pod -> how often it was looked at in vain. */
  readonly #looks = new Map<string, number>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { cluster, log } = this.#deps;
    const unsubscribe = [
      cluster.pods.subscribe(({ type, key, object }) => {
        if (type === 'Deleted') this.#looks.delete(key);
        else if (releaseNotedOn(object) !== undefined) this.#queue.add(key);
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
    const isGoing = pod?.metadata.deletionTimestamp !== undefined;
    const isSettled =
      pod === undefined ||
      release === undefined ||
      isGoing ||
      this.#isToLeave(pod) ||
      (await this.#isSettled(pod, release));
    if (isSettled) {
      this.#looks.delete(key);
      return undefined;
    }
    const count = this.#looks.get(key) ?? 0;
    this.#looks.set(key, count + 1);
    return { requeueAfterMs: backOffMs(count, looks) };
  }

  /** Takes a pod that may stay one step further; true when nothing is left to do for it. */
  async #isSettled(pod: Pod, release: Release): Promise<boolean> {
    const isLabelled = pod.metadata.labels?.[podTemplateHash] !== undefined;
    // The note stays until somebody owns the pod: a ReplicaSet that is deleted in this moment takes nobody back.
    const isOwned = isLabelled && appsController(pod.metadata, 'ReplicaSet') !== undefined;
    // Nobody adopts a pod that has ended.
    if (isOwned || isFinished(pod)) {
      await this.#patch(pod, [{ op: 'remove', path: releasedPath }]);
      return true;
    }
    const replicaSet = await this.#replicaSetOf(pod, release);
    if (replicaSet === undefined) await this.#evacuate(pod, release);
    else if (!isLabelled && (replicaSet.spec.replicas !== 0 || !(await this.#isMissed(pod, release))))
      await this.#giveBack(pod, release);
    return false;
  }

  /** Whether the Deployment serves with fewer pods than it wants: a ReplicaSet scaled to 0 would end this one at once. */
  async #isMissed({ metadata: { namespace } }: Pod, { deployment }: Release): Promise<boolean> {
    const { kube, pods } = this.#deps.cluster;
    const found = await kube.get(resources.deployments, { namespace, name: deployment.name });
    if (found === undefined || found.metadata.uid !== deployment.uid) return false;
    const { replicas = 1, selector } = found.spec;
    const serving = pods
      .list()
      .filter(({ metadata }) => metadata.namespace === namespace && metadata.deletionTimestamp === undefined)
      .filter(({ metadata: { labels = {} } }) => selectsLabels(selector, labels) && podTemplateHash in labels)
      .filter(({ metadata, status }) => status.ready && appsController(metadata, 'ReplicaSet') !== undefined);
    return serving.length < replicas;
  }

  #isToLeave({ metadata: { uid = '' } }: Pod): boolean {
    return this.#deps.cluster.evacuations
      .byIndex(byPodUid, uid)
      .some((evacuation) => !isWithdrawn(evacuation));
  }

  async #replicaSetOf({ metadata }: Pod, { replicaSet }: Release): Promise<ReplicaSet | undefined> {
    const key = { namespace: metadata.namespace, name: replicaSet.name };
    const found = await this.#deps.cluster.kube.get(resources.replicaSets, key);
    const isIt = found?.metadata.uid === replicaSet.uid && found.metadata.deletionTimestamp === undefined;
    return isIt ? found : undefined;
  }

  async #giveBack(pod: Pod, release: Release): Promise<void> {
    const { events, log } = this.#deps;
    const path = `/metadata/labels/${podTemplateHash}`;
    if (!(await this.#patch(pod, [{ op: 'add', path, value: release.podTemplateHash }]))) return;
    const replicaSet = release.replicaSet.name;
    const message = `Given back to ReplicaSet ${replicaSet}: the evacuation was cancelled.`;
    events.record(aboutPod(pod), { type: 'Normal', reason: 'GivenBack', message });
    log.info('Pod given back', { pod: podName(pod), replicaSet });
  }

  /** False when the pod has changed or is gone: the informer will show it. Throws a KubeError when somebody refuses it. */
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
      if (!(await isOutdated(this.#deps.cluster.kube, metadata, error))) throw error;
      return false;
    }
  }

  /** So that its budgets, its evacuators and whoever looks on have their part in its end. */
  async #evacuate(pod: Pod, release: Release): Promise<void> {
    const { cluster, events, log } = this.#deps;
    const evacuation = evacuationOf(pod, DEFAULT_PROGRESS_DEADLINE_SECONDS);
    try {
      await cluster.kube.create(resources.evacuations, evacuation, { fieldManager: FIELD_MANAGER });
    } catch (error) {
      // One that was withdrawn is in the way for a while; the pod or its namespace may be going.
      if (isKubeError(error, 'AlreadyExists', 'Conflict', 'NotFound', 'NamespaceTerminating')) return;
      throw error;
    }
    const replicaSet = release.replicaSet.name;
    const message = `ReplicaSet ${replicaSet}, from which it was released, is gone: the pod belongs to nobody and is evacuated.`;
    events.record(aboutPod(pod), { type: 'Normal', reason: 'Orphaned', message });
    log.info('Pod without a ReplicaSet is evacuated', { pod: podName(pod), replicaSet });
  }
}

function releaseNotedOn({ metadata }: Pod): Release | undefined {
  return parseRelease(metadata.annotations?.[RELEASED_ANNOTATION]);
}
