import { isDeepStrictEqual } from 'node:util';
import type { DaemonSet, KubeObject, Node, Pod } from '../../api/core.ts';
import {
  DAEMONSET_EVACUATOR_ANNOTATION,
  DAEMONSET_EVACUATOR_PRIORITY,
  FIELD_MANAGER,
  MAINTENANCE_GATE,
} from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isRollingOut, maxUnavailableOf, withholderOf } from '../../domain/daemonSet.ts';
import { drainersOf } from '../../domain/drainers.ts';
import { daemonSetOf } from '../../domain/pod.ts';
import { byGate, type Cluster } from '../../kube/cluster.ts';
import { isKubeError } from '../../kube/errors.ts';
import type { Change } from '../../kube/informer.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { slimPod } from '../../kube/slim.ts';
import { keyOf } from '../../kube/store.ts';
import { WorkQueue } from '../../kube/workQueue.ts';

interface Deps {
  cluster: Cluster;
  log: Log;
}

const podsAtOnce = 4;

/** On a pod without a node, about which no kubelet has anything to say yet. */
const shownAsReady = {
  type: 'Ready',
  status: 'True',
  reason: 'WithheldForNodeMaintenance',
  message:
    'It does not run: it waits for the end of a node maintenance, and is shown as ready so that its DaemonSet can be updated on other nodes.',
};

/**
 * Tends the pods of DaemonSets. Contract:
 *
 * 1. The gate of one whose node is no longer withheld from it is lifted, even if its DaemonSet disowned it meanwhile.
 * 2. Each names its evacuator, by an annotation; one that says anything about it is left alone.
 * 3. While withheld pods would stall a rolling update of their DaemonSet they are shown as ready; they are so no more when
 *    it is over, and in any case before their gate is lifted.
 */
export async function runWithheldPods({ cluster, log }: Deps, signal: AbortSignal): Promise<void> {
  const { pods, maintenances, nodes, daemonSets } = cluster;
  const queue = new WorkQueue();
  const addWithheld = (concerns: (pod: Pod) => boolean = () => true) => {
    for (const pod of pods.byIndex(byGate, MAINTENANCE_GATE)) if (concerns(pod)) queue.add(keyOf(pod));
  };
  const unsubscribe = [
    pods.subscribe(({ type, key, object }) => {
      if (type !== 'Deleted' && needsCare(object)) queue.add(key);
    }),
    maintenances.subscribe((change) => {
      if (mayLift(change)) addWithheld();
    }),
    nodes.subscribe((change) => {
      if (change.type === 'Updated' && sameLabels(change.object, change.previous)) return;
      addWithheld(({ spec }) => spec.madeForNode === change.object.metadata.name);
    }),
    daemonSets.subscribe((change) => {
      if (change.type === 'Updated' && sameRollout(change.object, change.previous)) return;
      addWithheld((pod) => isOf(pod, change.object));
    }),
  ];
  try {
    await queue.run({ workers: podsAtOnce, reconcile: (key) => tend(cluster, key), signal, log });
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

function needsCare(pod: Pod): boolean {
  return pod.metadata.deletionTimestamp === undefined && (lacksEvacuator(pod) || isWaiting(pod));
}

/** Drain targets only grow: what a drain reports every second lets nobody back. */
function mayLift(change: Change<NodeMaintenance>): boolean {
  if (change.type !== 'Updated') return true;
  const { object, previous } = change;
  const ordered = ({ metadata }: NodeMaintenance) => [metadata.generation, metadata.deletionTimestamp];
  return !isDeepStrictEqual(ordered(object), ordered(previous));
}

function sameRollout(a: DaemonSet, b: DaemonSet): boolean {
  return a.metadata.generation === b.metadata.generation && isRollingOut(a) === isRollingOut(b);
}

export function sameLabels(a: KubeObject, b: KubeObject): boolean {
  return isDeepStrictEqual(a.metadata.labels, b.metadata.labels);
}

/** Takes a pod one step further; each step changes the pod, which brings it here again. */
async function tend(cluster: Cluster, key: string): Promise<void> {
  const pod = cluster.pods.get(key);
  if (pod === undefined || !needsCare(pod)) return;
  try {
    // First what the pod cannot run without: somebody may refuse the annotation for ever.
    const isChanged = isWaiting(pod) && (await tendWithheld(cluster, pod));
    if (!isChanged && lacksEvacuator(pod)) await register(cluster, pod);
  } catch (error) {
    // The pod changed or went meanwhile: the informer will show it, and then it is looked at again.
    if (!isKubeError(error, 'NotFound', 'Conflict')) throw error;
  }
}

async function register({ kube }: Cluster, { metadata }: Pod): Promise<void> {
  const { name, namespace = '', uid, resourceVersion } = metadata;
  const annotations = { [DAEMONSET_EVACUATOR_ANNOTATION]: DAEMONSET_EVACUATOR_PRIORITY };
  const patch = { metadata: { uid, resourceVersion, annotations } };
  await kube.mergePatch(resources.pods, { namespace, name }, patch, { fieldManager: FIELD_MANAGER });
}

/** Resolves with whether it changed the pod. */
async function tendWithheld(cluster: Cluster, pod: Pod): Promise<boolean> {
  const node = cluster.nodes.get(pod.spec.madeForNode ?? '');
  const isWithheld = node !== undefined && withholderOf(pod, node, cluster.maintenances.list()) !== undefined;
  const isReady = isWithheld && stallsItsDaemonSet(cluster, pod);
  if (pod.status.ready !== isReady) await showReady(cluster, pod, isReady);
  else if (!isWithheld && (await isLetGo(cluster, pod, node))) await lift(cluster, pod);
  else return false;
  return true;
}

/** As the apiserver has it: it may have held the pod for what our informers do not show yet. */
async function isLetGo({ kube, maintenances }: Cluster, pod: Pod, node: Node | undefined): Promise<boolean> {
  // The DaemonSet controller removes what it made for a node that is no more as soon as anything about it changes.
  if (node === undefined)
    return (await kube.get(resources.nodes, { name: pod.spec.madeForNode ?? '' })) === undefined;
  const drainers = await Promise.all(
    drainersOf(node, maintenances.list()).map(({ metadata: { name } }) =>
      kube.get(resources.nodeMaintenances, { name }),
    ),
  );
  const current = drainers.filter((one) => one !== undefined);
  return withholderOf(pod, node, current) === undefined;
}

async function lift({ kube }: Cluster, { metadata, spec }: Pod): Promise<void> {
  const { name, namespace = '', uid, resourceVersion } = metadata;
  const others = (spec.schedulingGates ?? []).filter((gate) => gate !== MAINTENANCE_GATE);
  const patch = {
    metadata: { uid, resourceVersion },
    spec: { schedulingGates: others.map((gate) => ({ name: gate })) },
  };
  await kube.mergePatch(resources.pods, { namespace, name }, patch, { fieldManager: FIELD_MANAGER });
}

/** Withheld pods that use up what may be unavailable keep their DaemonSet from updating any other node. */
function stallsItsDaemonSet({ pods, daemonSets }: Cluster, pod: Pod): boolean {
  const daemonSet = daemonSets.get(`${pod.metadata.namespace}/${daemonSetOf(pod)?.name}`);
  if (daemonSet === undefined || !isOf(pod, daemonSet)) return false;
  if (!isRollingOut(daemonSet)) return false;
  const withheld = pods.byIndex(byGate, MAINTENANCE_GATE).filter((one) => isOf(one, daemonSet));
  return withheld.length >= maxUnavailableOf(daemonSet);
}

function isOf(pod: Pod, { metadata }: DaemonSet): boolean {
  return daemonSetOf(pod)?.uid === metadata.uid;
}

/** "Available", to the DaemonSet controller, is a pod whose condition Ready is True: it asks for nothing else. */
async function showReady({ kube }: Cluster, { metadata }: Pod, isReady: boolean): Promise<void> {
  const key = { name: metadata.name, namespace: metadata.namespace ?? '' };
  const raw = await kube.get(resources.pods, key);
  if (raw === undefined || raw.metadata.uid !== metadata.uid || !isGated(slimPod(raw))) return;
  const others = (raw.status?.conditions ?? []).filter(({ type }) => type !== 'Ready');
  const ready = { ...shownAsReady, lastTransitionTime: kube.now().toISOString() };
  const { uid, resourceVersion } = raw.metadata;
  const patch = {
    metadata: { uid, resourceVersion },
    status: { conditions: isReady ? [...others, ready] : others },
  };
  await kube.mergePatch(resources.pods, key, patch, { subresource: 'status', fieldManager: FIELD_MANAGER });
}

function lacksEvacuator(pod: Pod): boolean {
  const isNamed = pod.metadata.annotations?.[DAEMONSET_EVACUATOR_ANNOTATION] !== undefined;
  return daemonSetOf(pod) !== undefined && !isNamed;
}

/** As only the pods of DaemonSets do: the gate is ours, and the node is known. */
function isWaiting(pod: Pod): boolean {
  return isGated(pod) && pod.spec.madeForNode !== undefined;
}

function isGated({ spec }: Pod): boolean {
  return spec.schedulingGates?.includes(MAINTENANCE_GATE) === true;
}
