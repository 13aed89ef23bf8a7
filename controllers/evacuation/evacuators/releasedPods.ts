import type { Pod, ReplicaSet } from '../../../api/core.ts';
import { DEFAULT_PROGRESS_DEADLINE_SECONDS, FIELD_MANAGER, RELEASED_ANNOTATION } from '../../../api/names.ts';
import { selectsLabels } from '../../../domain/common/labelSelector.ts';
import { isFinished, podName } from '../../../domain/common/pod.ts';
import { isOfPod, isWithdrawn } from '../../../domain/evacuation/evacuation.ts';
import { evacuationOf } from '../../../domain/evacuation/evacuatorSelection.ts';
import {
  appsController,
  parseRelease,
  podTemplateHash,
  type Release,
} from '../../../domain/evacuation/podRelease.ts';
import { type BackOff, backOffMs } from '../../../kube/backOff.ts';
import type { JsonPatchOperation } from '../../../kube/client.ts';
import { byPodUid, type Cluster } from '../../../kube/cluster.ts';
import { isKubeError } from '../../../kube/errors.ts';
import { aboutPod, type EventRecorder } from '../../../kube/events.ts';
import type { Log } from '../../../kube/log.ts';
import { resources } from '../../../kube/resources.ts';
import { type Requeue, WorkQueue } from '../../../kube/workQueue.ts';
import { isOutdated } from './patchOutcome.ts';

interface Deps {
  cluster: Cluster;
  events: EventRecorder;
  log: Log;
  /** Reports whether an Eviction of lifecycle.k8s.io keeps a pod released. */
  isResponding?: ((pod: Pod) => Promise<boolean>) | undefined;
  /** Time between two questions whether an Eviction still keeps a pod released; 10 s unless given. */
  respondingIntervalMs?: number;
  /** Back-off for checking whether the ReplicaSet has adopted a pod. */
  adoptionBackOff?: BackOff;
}

const workers = 4;
const defaultRespondingIntervalMs = 10_000;
const defaultAdoptionBackOff: BackOff = { firstMs: 3_000, capMs: 600_000 };

const releasedPath = `/metadata/annotations/${RELEASED_ANNOTATION.replace('/', '~1')}`;

/**
 * Returns released pods to their ReplicaSets after their evacuation was cancelled, even if that happened while no evacuator
 * ran. The ReplicaSet adopts the pod and deletes a surplus one, preferably one that does not serve yet. A pod whose ReplicaSet
 * no longer exists has no owner and is evacuated.
 */
export class ReleasedPods {
  readonly #deps: Deps;
  readonly #queue = new WorkQueue('released-pods');
  /** Key of a pod -> number of checks since the pod should have been adopted. */
  readonly #checks = new Map<string, number>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { cluster, log } = this.#deps;
    const unsubscribe = [
      cluster.pods.subscribe(({ type, key, object }) => {
        if (type === 'Deleted') this.#checks.delete(key);
        else if (releaseOf(object) !== undefined) this.#queue.add(key);
      }),
      cluster.evacuations.subscribe(({ object: { metadata, spec } }) => {
        const key = `${metadata.namespace}/${spec.podRef.name}`;
        const pod = cluster.pods.get(key);
        if (pod !== undefined && releaseOf(pod) !== undefined) this.#queue.add(key);
      }),
    ];
    try {
      await this.#queue.run({
        workers,
        reconcile: (key) => this.#reconcile(key),
        signal,
        log,
        observer: cluster.queues,
      });
    } finally {
      for (const stop of unsubscribe) stop();
    }
  }

  async #reconcile(key: string): Promise<Requeue | undefined> {
    const pod = this.#deps.cluster.pods.get(key);
    const release = pod && releaseOf(pod);
    const isDone =
      pod === undefined ||
      release === undefined ||
      pod.metadata.deletionTimestamp !== undefined ||
      this.#isEvacuated(pod);
    if (isDone) return this.#done(key);
    const { isResponding, respondingIntervalMs = defaultRespondingIntervalMs } = this.#deps;
    if (isResponding !== undefined && (await isResponding(pod)))
      return { requeueAfterMs: respondingIntervalMs };
    if ((await this.#reconcileRelease(pod, release)) === 'Done') return this.#done(key);
    const checks = this.#checks.get(key) ?? 0;
    this.#checks.set(key, checks + 1);
    const { adoptionBackOff = defaultAdoptionBackOff } = this.#deps;
    return { requeueAfterMs: backOffMs(checks, adoptionBackOff) };
  }

  #done(key: string): undefined {
    this.#checks.delete(key);
  }

  /** Performs the next step of a pod whose evacuation was cancelled. */
  async #reconcileRelease(pod: Pod, release: Release): Promise<'Done' | 'Pending'> {
    const hasLabel = pod.metadata.labels?.[podTemplateHash] !== undefined;
    // The annotation stays until the pod is adopted: a ReplicaSet that is being deleted adopts no pods.
    const isOwned = hasLabel && appsController(pod.metadata, 'ReplicaSet') !== undefined;
    // A finished pod is never adopted.
    if (isOwned || isFinished(pod)) {
      await this.#patch(pod, [{ op: 'remove', path: releasedPath }]);
      return 'Done';
    }
    const replicaSet = await this.#replicaSetOf(pod, release);
    if (replicaSet === undefined) {
      await this.#evacuate(pod, release);
      return 'Pending';
    }
    // A ReplicaSet that is scaled to 0 would delete the pod at once.
    const isScaledDown = replicaSet.spec.replicas === 0;
    if (!hasLabel && !(isScaledDown && (await this.#isNeeded(pod, release))))
      await this.#returnToReplicaSet(pod, release);
    return 'Pending';
  }

  /** Reports whether the Deployment has fewer serving pods than replicas without this one. */
  async #isNeeded({ metadata: { namespace } }: Pod, { deployment }: Release): Promise<boolean> {
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

  #isEvacuated(pod: Pod): boolean {
    return this.#deps.cluster.evacuations
      .byIndex(byPodUid, pod.metadata.uid ?? '')
      .some((evacuation) => isOfPod(evacuation, pod) && !isWithdrawn(evacuation));
  }

  async #replicaSetOf({ metadata }: Pod, { replicaSet }: Release): Promise<ReplicaSet | undefined> {
    const key = { namespace: metadata.namespace, name: replicaSet.name };
    const found = await this.#deps.cluster.kube.get(resources.replicaSets, key);
    const isSame = found?.metadata.uid === replicaSet.uid && found.metadata.deletionTimestamp === undefined;
    return isSame ? found : undefined;
  }

  async #returnToReplicaSet(pod: Pod, release: Release): Promise<void> {
    const { events, log } = this.#deps;
    const path = `/metadata/labels/${podTemplateHash}`;
    if (!(await this.#patch(pod, [{ op: 'add', path, value: release.podTemplateHash }]))) return;
    const replicaSet = release.replicaSet.name;
    const message = `Returned to ReplicaSet ${replicaSet} because the evacuation was cancelled.`;
    events.record(aboutPod(pod), { type: 'Normal', reason: 'ReturnedToReplicaSet', message });
    log.info('Pod returned to its ReplicaSet', { pod: podName(pod), replicaSet });
  }

  /** Returns false when the pod has changed or is gone, which the informer will show. Throws a KubeError when it is rejected. */
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

  /** Creates an Evacuation instead of deleting the pod, so that its budgets and evacuators are respected. */
  async #evacuate(pod: Pod, release: Release): Promise<void> {
    const { cluster, events, log } = this.#deps;
    const evacuation = evacuationOf(pod, DEFAULT_PROGRESS_DEADLINE_SECONDS);
    try {
      await cluster.kube.create(resources.evacuations, evacuation, { fieldManager: FIELD_MANAGER });
    } catch (error) {
      // A cancelled Evacuation may still exist for a while; the pod or its namespace may be terminating.
      if (isKubeError(error, 'AlreadyExists', 'NotFound', 'NamespaceTerminating')) return;
      throw error;
    }
    const replicaSet = release.replicaSet.name;
    const message = `The pod is evacuated because ReplicaSet ${replicaSet}, from which it was released, no longer exists.`;
    events.record(aboutPod(pod), { type: 'Normal', reason: 'Orphaned', message });
    log.info('Orphaned pod evacuated', { pod: podName(pod), replicaSet });
  }
}

function releaseOf({ metadata }: Pod): Release | undefined {
  return parseRelease(metadata.annotations?.[RELEASED_ANNOTATION]);
}
