import type { KubeObject } from '../../api/core.ts';
import { RELEASED_ANNOTATION } from '../../api/names.ts';
import { appsController, parseRelease, podTemplateHash, type Release } from '../../domain/release.ts';
import { Evacuator, type LivePod, type Progress } from '../../evacuator-kit/index.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { ReleasedPods } from './releasedPods.ts';
import { Replacement } from './replacement.ts';

interface Deps {
  cluster: FencedCluster;
  /** For Events about single pods. */
  events: EventRecorder;
  log: Log;
}

/** "evacuation.coordination.k8s.io/priority_deployment.apps.k8s.io: 10000/controller" (KEP-4212 > Drain). */
const evacuatorClass = 'deployment.apps.k8s.io';

/** Pods that wait cost nothing but memory, and one that does not get a turn would hold up the others. */
const atOnce = 5_000;

/**
 * Moves the pods of a Deployment without a gap: releases each from its ReplicaSet, which makes another elsewhere while the
 * first still serves, and completes its turn when it is replaced; evicting it is then left to the evacuation controller,
 * who knows the budgets. What was done is noted on the pod alone. Never edits a Deployment or a ReplicaSet.
 */
export async function runDeploymentEvacuator(
  { cluster, events, log }: Deps,
  signal: AbortSignal,
): Promise<void> {
  const replacements = new Map<string, Replacement>();
  const evacuate = async (pod: LivePod, deadlineSeconds: number, progress: Progress): Promise<string> => {
    const release = await releaseOf(cluster, pod);
    if (release === undefined) return 'It is no pod of a Deployment: there is nobody to replace it.';
    const { uid, name } = release.deployment;
    const deployment = { namespace: pod.metadata.namespace ?? '', name, uid };
    // Whoever may write annotations can name a Deployment of another namespace in one.
    const key = `${deployment.namespace}/${uid}`;
    const known = replacements.get(key);
    const replacement =
      known ?? new Replacement({ cluster, events, log, deployment, onEmpty: () => replacements.delete(key) });
    replacements.set(key, replacement);
    return replacement.join({ uid: pod.metadata.uid ?? '', release, progress, deadlineSeconds });
  };
  const evacuator = new Evacuator({
    evacuatorClass,
    evacuate: (pod, { spec }, progress) => evacuate(pod, spec.progressDeadlineSeconds, progress),
    view: cluster,
    log,
    atOnce,
  });
  const unsubscribe = cluster.pods.subscribe(({ object }) => {
    for (const replacement of replacements.values()) replacement.podChanged(object);
  });
  try {
    await Promise.all([evacuator.run(signal), new ReleasedPods({ cluster, events, log }).run(signal)]);
  } finally {
    unsubscribe();
  }
}

/** From whom the pod was released, or would be. */
async function releaseOf({ kube }: FencedCluster, { metadata }: KubeObject): Promise<Release | undefined> {
  const noted = parseRelease(metadata.annotations?.[RELEASED_ANNOTATION]);
  if (noted !== undefined) return noted;
  const replicaSet = appsController(metadata, 'ReplicaSet');
  if (replicaSet === undefined) return undefined;
  const key = { namespace: metadata.namespace, name: replicaSet.name };
  const found = await kube.get(resources.replicaSets, key);
  const deployment = found && appsController(found.metadata, 'Deployment');
  if (deployment === undefined || found?.metadata.uid !== replicaSet.uid) return undefined;
  return {
    deployment: { name: deployment.name, uid: deployment.uid },
    replicaSet: { name: replicaSet.name, uid: replicaSet.uid },
    podTemplateHash: metadata.labels?.[podTemplateHash] ?? '',
    releasedAt: kube.now().toISOString(),
  };
}
