import type { KubeObject, Pod } from '../../../api/core.ts';
import { DEPLOYMENT_EVACUATOR, RELEASED_ANNOTATION } from '../../../api/names.ts';
import {
  appsController,
  parseRelease,
  podTemplateHash,
  type Release,
} from '../../../domain/evacuation/podRelease.ts';
import { Evacuator } from '../../../evacuator-kit/evacuator.ts';
import type { EvacuatePod } from '../../../evacuator-kit/protocol.ts';
import type { BackOff } from '../../../kube/backOff.ts';
import type { FencedCluster } from '../../../kube/cluster.ts';
import type { EventRecorder } from '../../../kube/events.ts';
import type { Log } from '../../../kube/log.ts';
import { resources } from '../../../kube/resources.ts';
import { ReleasedPods } from './releasedPods.ts';
import { Replacement } from './replacement.ts';

interface Deps {
  cluster: FencedCluster;
  /** Recorder for Events about pods. */
  events: EventRecorder;
  log: Log;
  /** Reports whether an Eviction of lifecycle.k8s.io keeps a pod released. */
  isResponding?: ((pod: Pod) => Promise<boolean>) | undefined;
  /** Time between two questions whether an Eviction still keeps a pod released; 10 s unless given. */
  respondingIntervalMs?: number;
  /** Back-off for checking whether the ReplicaSet of a cancelled evacuation has adopted the pod again. */
  adoptionBackOff?: BackOff;
}

/** High, because waiting pods cost only memory, and a pod beyond the limit would not be released at all. */
export const maxConcurrentReplacements = 5_000;

/**
 * The evacuator of Deployment pods, which replaces pods without downtime. It releases each pod from its ReplicaSet, which creates a replacement
 * while the pod keeps serving, and completes once the replacement is available. Eviction is left to the evacuation controller, which respects
 * budgets. State is kept only in an annotation of the pod; Deployments and ReplicaSets are never changed.
 */
export class DeploymentEvacuator {
  readonly #deps: Deps;
  readonly #replacements = new Map<string, Replacement>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Replaces one pod. It also serves Evictions of lifecycle.k8s.io: the pods of a Deployment are replaced together, no matter who requests it. */
  readonly evacuate: EvacuatePod = async (pod, { spec: { progressDeadlineSeconds } }, progress) => {
    const { cluster, events, log } = this.#deps;
    const release = await releaseOf(cluster, pod);
    if (release === undefined) return 'The pod does not belong to a Deployment, so nothing would replace it.';
    const { uid, name } = release.deployment;
    const deployment = { namespace: pod.metadata.namespace ?? '', name, uid };
    // The key includes the namespace because the annotation could name a Deployment of another namespace.
    const key = `${deployment.namespace}/${uid}`;
    // Only a replacement that a pod has joined ends.
    progress.signal.throwIfAborted();
    const existing = this.#replacements.get(key);
    const onEmpty = () => this.#replacements.delete(key);
    const replacement = existing ?? new Replacement({ cluster, events, log, deployment, onEmpty });
    this.#replacements.set(key, replacement);
    return replacement.join({
      uid: pod.metadata.uid ?? '',
      release,
      progress,
      deadlineSeconds: progressDeadlineSeconds,
    });
  };

  /** Serves Evacuations, and returns pods to their ReplicaSets, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { cluster, log } = this.#deps;
    const evacuator = new Evacuator({
      evacuatorClass: DEPLOYMENT_EVACUATOR,
      evacuate: this.evacuate,
      view: cluster,
      log,
      maxConcurrent: maxConcurrentReplacements,
    });
    const unsubscribe = cluster.pods.subscribe(({ object }) => {
      for (const replacement of this.#replacements.values()) replacement.podChanged(object);
    });
    try {
      await Promise.all([evacuator.run(signal), new ReleasedPods(this.#deps).run(signal)]);
    } finally {
      unsubscribe();
    }
  }
}

/** Returns the release of the pod: the one in its annotation, or the one to write. */
async function releaseOf({ kube }: FencedCluster, { metadata }: KubeObject): Promise<Release | undefined> {
  const existing = parseRelease(metadata.annotations?.[RELEASED_ANNOTATION]);
  if (existing !== undefined) return existing;
  const owner = appsController(metadata, 'ReplicaSet');
  if (owner === undefined) return undefined;
  const key = { namespace: metadata.namespace, name: owner.name };
  const replicaSet = await kube.get(resources.replicaSets, key);
  const deployment = replicaSet && appsController(replicaSet.metadata, 'Deployment');
  if (deployment === undefined || replicaSet?.metadata.uid !== owner.uid) return undefined;
  return {
    deployment: { name: deployment.name, uid: deployment.uid },
    replicaSet: { name: owner.name, uid: owner.uid },
    podTemplateHash: metadata.labels?.[podTemplateHash] ?? '',
    releasedAt: kube.now().toISOString(),
  };
}
