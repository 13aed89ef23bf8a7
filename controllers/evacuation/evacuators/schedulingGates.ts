import { isDeepStrictEqual } from 'node:util';
import type { DaemonSet, KubeObject, Node, Pod } from '../../../api/core.ts';
import {
  DAEMONSET_EVACUATOR_ANNOTATION,
  DAEMONSET_EVACUATOR_PRIORITY,
  FIELD_MANAGER,
  MAINTENANCE_GATE,
} from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { daemonSetOf } from '../../../domain/common/pod.ts';
import { gatingMaintenance, isRollingOut, maxUnavailableOf } from '../../../domain/drain/daemonSet.ts';
import { drainingMaintenances } from '../../../domain/drain/drainingMaintenances.ts';
import { byGate, type Cluster } from '../../../kube/cluster.ts';
import { ignoreNotFound } from '../../../kube/errors.ts';
import type { Change } from '../../../kube/informer.ts';
import type { Log } from '../../../kube/log.ts';
import { resources } from '../../../kube/resources.ts';
import { keyOf } from '../../../kube/store.ts';
import { trimPod } from '../../../kube/transform.ts';
import { WorkQueue } from '../../../kube/workQueue.ts';

interface Deps {
  cluster: Cluster;
  log: Log;
}

/** Number of pods that are reconciled in parallel. */
const workers = 4;

/** Set on a gated pod during a rolling update. Such a pod has no node, so no kubelet reports its conditions. */
const gatedReadyCondition = {
  type: 'Ready',
  status: 'True',
  reason: 'SchedulingGated',
  message:
    'The pod is not running: its scheduling gate is removed when the node maintenance ends. It is marked Ready so that the rolling update of its DaemonSet continues on other nodes.',
};

/**
 * Reconciles the scheduling gates and the evacuator annotation of DaemonSet pods. Contract:
 *
 * 1. The maintenance gate is removed once no maintenance targets the pod on its node, even if its DaemonSet has orphaned it.
 * 2. Each pod gets the annotation of the DaemonSet evacuator, unless it has one with another value.
 * 3. Gated pods are marked Ready while they would otherwise stall a rolling update of their DaemonSet. The condition is removed
 *    when the update ends, and always before the gate is removed.
 */
export async function runSchedulingGates({ cluster, log }: Deps, signal: AbortSignal): Promise<void> {
  const { pods, maintenances, nodes, daemonSets } = cluster;
  const queue = new WorkQueue('scheduling-gates');
  const enqueueGated = (isRelevant: (pod: Pod) => boolean = () => true) => {
    for (const pod of pods.byIndex(byGate, MAINTENANCE_GATE)) if (isRelevant(pod)) queue.add(keyOf(pod));
  };
  const unsubscribe = [
    pods.subscribe(({ type, key, object }) => {
      if (type !== 'Deleted' && needsReconcile(object)) queue.add(key);
    }),
    maintenances.subscribe((change) => {
      if (mayRemoveGates(change)) enqueueGated();
    }),
    nodes.subscribe((change) => {
      if (change.type === 'Updated' && sameLabels(change.object, change.previous)) return;
      enqueueGated(({ spec }) => spec.madeForNode === change.object.metadata.name);
    }),
    daemonSets.subscribe((change) => {
      if (change.type === 'Updated' && sameRollout(change.object, change.previous)) return;
      enqueueGated((pod) => isOwnedBy(pod, change.object));
    }),
  ];
  try {
    await queue.run({
      workers,
      reconcile: (key) => reconcile(cluster, key),
      signal,
      log,
      observer: cluster.queues,
    });
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

function needsReconcile(pod: Pod): boolean {
  return (
    pod.metadata.deletionTimestamp === undefined && (lacksEvacuatorAnnotation(pod) || isGatedForNode(pod))
  );
}

/** Reports whether a change of a maintenance may ungate pods. Status updates do not, because drain targets only grow. */
function mayRemoveGates(change: Change<NodeMaintenance>): boolean {
  if (change.type !== 'Updated') return true;
  const { object, previous } = change;
  const relevant = ({ metadata }: NodeMaintenance) => [metadata.generation, metadata.deletionTimestamp];
  return !isDeepStrictEqual(relevant(object), relevant(previous));
}

function sameRollout(a: DaemonSet, b: DaemonSet): boolean {
  return a.metadata.generation === b.metadata.generation && isRollingOut(a) === isRollingOut(b);
}

export function sameLabels(a: KubeObject, b: KubeObject): boolean {
  return isDeepStrictEqual(a.metadata.labels, b.metadata.labels);
}

/** Makes one change to a pod. Each change triggers another reconcile. */
async function reconcile(cluster: Cluster, key: string): Promise<void> {
  const pod = cluster.pods.get(key);
  if (pod === undefined || !needsReconcile(pod)) return;
  try {
    // The gate comes first: the pod cannot run with it, while an admission policy may reject the annotation every time.
    const isChanged = isGatedForNode(pod) && (await reconcileGate(cluster, pod));
    if (!isChanged && lacksEvacuatorAnnotation(pod)) await annotate(cluster, pod);
  } catch (error) {
    ignoreNotFound(error);
  }
}

async function annotate({ kube }: Cluster, { metadata }: Pod): Promise<void> {
  const { name, namespace = '', uid, resourceVersion } = metadata;
  const annotations = { [DAEMONSET_EVACUATOR_ANNOTATION]: DAEMONSET_EVACUATOR_PRIORITY };
  const patch = { metadata: { uid, resourceVersion, annotations } };
  await kube.mergePatch(resources.pods, { namespace, name }, patch, { fieldManager: FIELD_MANAGER });
}

/** Returns whether it changed the pod. */
async function reconcileGate(cluster: Cluster, pod: Pod): Promise<boolean> {
  const node = cluster.nodes.get(pod.spec.madeForNode ?? '');
  const isTargeted =
    node !== undefined && gatingMaintenance(pod, node, cluster.maintenances.list()) !== undefined;
  const isReady = isTargeted && stallsDaemonSet(cluster, pod);
  if (pod.status.ready !== isReady) await patchReady(cluster, pod, isReady);
  else if (!isTargeted && (await isUntargetedNow(cluster, pod, node))) await removeGate(cluster, pod);
  else return false;
  return true;
}

/** Confirms with the apiserver that no maintenance targets the pod: it may have gated the pod for one our informers lack. */
async function isUntargetedNow(
  { kube, maintenances }: Cluster,
  pod: Pod,
  node: Node | undefined,
): Promise<boolean> {
  // The DaemonSet controller deletes the pod of a deleted node as soon as anything about the pod changes.
  if (node === undefined)
    return (await kube.get(resources.nodes, { name: pod.spec.madeForNode ?? '' })) === undefined;
  const draining = await Promise.all(
    drainingMaintenances(node, maintenances.list()).map(({ metadata: { name } }) =>
      kube.get(resources.nodeMaintenances, { name }),
    ),
  );
  const existing = draining.filter((one) => one !== undefined);
  return gatingMaintenance(pod, node, existing) === undefined;
}

async function removeGate({ kube }: Cluster, { metadata, spec }: Pod): Promise<void> {
  const { name, namespace = '', uid, resourceVersion } = metadata;
  const others = (spec.schedulingGates ?? []).filter((gate) => gate !== MAINTENANCE_GATE);
  const patch = {
    metadata: { uid, resourceVersion },
    spec: { schedulingGates: others.map((gate) => ({ name: gate })) },
  };
  await kube.mergePatch(resources.pods, { namespace, name }, patch, { fieldManager: FIELD_MANAGER });
}

/** Reports whether gated pods use up maxUnavailable of their DaemonSet, so that no other node is updated. */
function stallsDaemonSet({ pods, daemonSets }: Cluster, pod: Pod): boolean {
  const daemonSet = daemonSets.get(`${pod.metadata.namespace}/${daemonSetOf(pod)?.name}`);
  if (daemonSet === undefined || !isOwnedBy(pod, daemonSet)) return false;
  if (!isRollingOut(daemonSet)) return false;
  const gated = pods.byIndex(byGate, MAINTENANCE_GATE).filter((one) => isOwnedBy(one, daemonSet));
  return gated.length >= maxUnavailableOf(daemonSet);
}

function isOwnedBy(pod: Pod, { metadata }: DaemonSet): boolean {
  return daemonSetOf(pod)?.uid === metadata.uid;
}

/** Sets or removes the condition Ready, which is all that the DaemonSet controller requires of an available pod. */
async function patchReady({ kube }: Cluster, { metadata }: Pod, isReady: boolean): Promise<void> {
  const key = { name: metadata.name, namespace: metadata.namespace ?? '' };
  const raw = await kube.get(resources.pods, key);
  if (raw === undefined || raw.metadata.uid !== metadata.uid || !isGated(trimPod(raw))) return;
  const others = (raw.status?.conditions ?? []).filter(({ type }) => type !== 'Ready');
  const ready = { ...gatedReadyCondition, lastTransitionTime: kube.now().toISOString() };
  const { uid, resourceVersion } = raw.metadata;
  const patch = {
    metadata: { uid, resourceVersion },
    status: { conditions: isReady ? [...others, ready] : others },
  };
  await kube.mergePatch(resources.pods, key, patch, { subresource: 'status', fieldManager: FIELD_MANAGER });
}

function lacksEvacuatorAnnotation(pod: Pod): boolean {
  const isAnnotated = pod.metadata.annotations?.[DAEMONSET_EVACUATOR_ANNOTATION] !== undefined;
  return daemonSetOf(pod) !== undefined && !isAnnotated;
}

/** Reports whether the pod has our gate and a known node, as only DaemonSet pods do. */
function isGatedForNode(pod: Pod): boolean {
  return isGated(pod) && pod.spec.madeForNode !== undefined;
}

function isGated({ spec }: Pod): boolean {
  return spec.schedulingGates?.includes(MAINTENANCE_GATE) === true;
}
