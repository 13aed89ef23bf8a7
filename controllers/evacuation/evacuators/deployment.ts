import type { KubeObject } from '../../../api/core.ts';
import { DEPLOYMENT_EVACUATOR, RELEASED_ANNOTATION } from '../../../api/names.ts';
import {
  appsController,
  parseRelease,
  podTemplateHash,
  type Release,
} from '../../../domain/evacuation/podRelease.ts';
import { type EvacuatedPod, Evacuator } from '../../../evacuator-kit/evacuator.ts';
import type { Progress } from '../../../evacuator-kit/progress.ts';
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
  /** Back-off for checking whether the ReplicaSet of a cancelled evacuation has adopted the pod again. */
  adoptionBackOff?: BackOff;
}

/** High, because waiting pods cost only memory, and a pod beyond the limit would not be released at all. */
const maxConcurrent = 5_000;

/**
 * Runs the evacuator of Deployment pods, which replaces pods without downtime. It releases each pod from its ReplicaSet, which
 * creates a replacement while the pod keeps serving, and completes once the replacement is available. Eviction is left to the
 * evacuation controller, which respects budgets. State is kept only in an annotation of the pod; Deployments and ReplicaSets are
 * never changed.
 */
export async function runDeploymentEvacuator(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, events, log } = deps;
  const replacements = new Map<string, Replacement>();
  const evacuate = async (
    pod: EvacuatedPod,
    deadlineSeconds: number,
    progress: Progress,
  ): Promise<string> => {
    const release = await releaseOf(cluster, pod);
    if (release === undefined) return 'The pod does not belong to a Deployment, so nothing would replace it.';
    const { uid, name } = release.deployment;
    const deployment = { namespace: pod.metadata.namespace ?? '', name, uid };
    // The key includes the namespace because the annotation could name a Deployment of another namespace.
    const key = `${deployment.namespace}/${uid}`;
    const existing = replacements.get(key);
    const onEmpty = () => replacements.delete(key);
    const replacement = existing ?? new Replacement({ cluster, events, log, deployment, onEmpty });
    replacements.set(key, replacement);
    return replacement.join({ uid: pod.metadata.uid ?? '', release, progress, deadlineSeconds });
  };
  const evacuator = new Evacuator({
    evacuatorClass: DEPLOYMENT_EVACUATOR,
    evacuate: (pod, { spec }, progress) => evacuate(pod, spec.progressDeadlineSeconds, progress),
    view: cluster,
    log,
    maxConcurrent,
  });
  const unsubscribe = cluster.pods.subscribe(({ object }) => {
    for (const replacement of replacements.values()) replacement.podChanged(object);
  });
  try {
    await Promise.all([evacuator.run(signal), new ReleasedPods(deps).run(signal)]);
  } finally {
    unsubscribe();
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
