import type { KubeObject, Node, Pod } from '../api/core.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { type RawPod, type Resource, resources } from '../kube/resources.ts';
import { until } from '../sandbox/until.ts';
import { podsOf, type Workload } from './benchmarks.ts';
import { namespace, type Testbed } from './testbed.ts';

/** The label of the pods that are drained. */
export const podLabel = { bench: 'pod' } as const;

interface Deployment extends KubeObject {
  spec: { replicas: number };
  status?: { readyReplicas?: number; updatedReplicas?: number; replicas?: number };
}

const deployments: Resource<Deployment> = {
  group: 'apps',
  version: 'v1',
  plural: 'deployments',
  kind: 'Deployment',
  namespaced: true,
};

const placementTimeoutMs = 300_000;
const timeoutMs = 60_000;
const quietMs = 1_000;

/**
 * Creates the same initial state for every measured drain and returns the names of the nodes to drain: each has exactly
 * `podsPerNode` new pods, Running and Ready, all other nodes are empty and schedulable, and no pod has changed for a second.
 *
 * Topology spread constraints distribute the pods evenly. All other nodes are cordoned during the placement, and the
 * constraints ignore cordoned nodes, so the replacements can be scheduled elsewhere later.
 */
export async function placeWorkload(testbed: Testbed, workload: Workload): Promise<string[]> {
  const { podCount, signal } = testbed;
  const nodeNames = testbed.nodes.slice(0, workload.nodes);
  const spares = testbed.nodes.slice(workload.nodes);
  await Promise.all([cordon(testbed, spares, true), cordon(testbed, nodeNames, false)]);
  const previous = podCount.list();
  await applyDeployments(testbed, workload);
  await deletePods(testbed, previous);
  await until('the pods to be placed', () => misplaced(testbed, workload, nodeNames), {
    timeoutMs: placementTimeoutMs,
    signal,
  });
  await until('the Deployments to be ready', () => unready(testbed, workload), { timeoutMs, signal });
  await cordon(testbed, spares, false);
  const changing = () => (podCount.quietMs < quietMs ? 'a pod has just changed' : undefined);
  await until('a second without changes', changing, { timeoutMs, signal });
  return nodeNames;
}

const unschedulableTaint = 'node.kubernetes.io/unschedulable';

type TaintedNode = Node & { spec: { taints?: { key: string }[] } };

/** Sets `unschedulable` and waits until kube-controller-manager has added or removed the taint. */
async function cordon(
  { kube, signal }: Testbed,
  names: readonly string[],
  unschedulable: boolean,
): Promise<void> {
  await forEachBounded(16, names, (name) =>
    kube.mergePatch(resources.nodes, { name }, { spec: { unschedulable } }),
  );
  const wanted = new Set(names);
  const probe = async () => {
    const { items } = await kube.list(resources.nodes as Resource<TaintedNode>);
    const late = items.filter(({ metadata, spec }) => {
      const isTainted = spec.taints?.some(({ key }) => key === unschedulableTaint) ?? false;
      return wanted.has(metadata.name) && isTainted !== unschedulable;
    });
    return late.length === 0 ? undefined : late.map(({ metadata }) => metadata.name).join(', ');
  };
  await until('the taints of cordoned nodes', probe, { timeoutMs, signal });
}

async function applyDeployments({ kube }: Testbed, workload: Workload): Promise<void> {
  const wanted = deploymentsOf(workload);
  await kube.apply(resources.namespaces, { metadata: { name: namespace } }, { fieldManager: 'bench' });
  const names = new Set(wanted.map(({ metadata }) => metadata.name));
  const { items } = await kube.list(deployments, { namespace });
  for (const { metadata } of items.filter((present) => !names.has(present.metadata.name))) {
    const { name, uid = '' } = metadata;
    await kube.delete(deployments, { namespace, name }, { uid, propagationPolicy: 'Background' });
  }
  for (const object of wanted) await kube.apply(deployments, object, { fieldManager: 'bench', force: true });
}

/** More than one, because one ReplicaSet replaces its pods batch after batch. */
const maxDeployments = 10;

function deploymentsOf(workload: Workload): Deployment[] {
  const count = largestDivisor(workload.podsPerNode, maxDeployments);
  return Array.from({ length: count }, (_, index) =>
    deployment(`app-${index + 1}`, podsOf(workload) / count),
  );
}

/** Returns the largest divisor up to `limit`: it gives every node the same number of pods of every Deployment. */
function largestDivisor(number: number, limit: number): number {
  let divisor = limit;
  while (number % divisor !== 0) divisor--;
  return divisor;
}

function deployment(name: string, replicas: number): Deployment {
  const labels = { app: name, ...podLabel };
  const selector = { matchLabels: { app: name } };
  const spread = {
    topologyKey: 'kubernetes.io/hostname',
    maxSkew: 1,
    whenUnsatisfiable: 'DoNotSchedule',
    nodeTaintsPolicy: 'Honor',
    labelSelector: selector,
  };
  const pod = { containers: [{ name: 'main', image: 'pause' }], topologySpreadConstraints: [spread] };
  const spec = { replicas, selector, template: { metadata: { labels }, spec: pod } };
  return { metadata: { name, namespace }, spec };
}

/** Deletes pods; their Deployments replace them on schedulable nodes. */
async function deletePods({ kube }: Testbed, pods: readonly Readonly<Pod>[]): Promise<void> {
  await forEachBounded(maxDeletionsInFlight, pods, async ({ metadata }) => {
    const { name, uid = '' } = metadata;
    await kube.delete(resources.pods, { namespace, name }, { uid });
  });
}

const maxDeletionsInFlight = 32;

function misplaced(
  { podCount }: Testbed,
  workload: Workload,
  nodeNames: readonly string[],
): string | undefined {
  const wrong = nodeNames.filter((node) => podCount.count(node, 'ready') !== workload.podsPerNode);
  if (wrong.length === 0 && podCount.size === podsOf(workload)) return undefined;
  const counts = wrong.slice(0, 3).map((node) => `${node} has ${podCount.count(node, 'ready')}`);
  return [`${podCount.size} pods of ${podsOf(workload)}`, ...counts].join(', ');
}

async function unready({ kube }: Testbed, workload: Workload): Promise<string | undefined> {
  const { items } = await kube.list(deployments, { namespace });
  const ready = items.reduce((sum, { status }) => sum + (status?.readyReplicas ?? 0), 0);
  const owned = items.reduce((sum, { status }) => sum + (status?.replicas ?? 0), 0);
  return ready === podsOf(workload) && owned === ready ? undefined : `${ready} of ${owned} replicas`;
}

/** Creates a pod without a controller on the node, and returns its UID. */
export async function placePod({ kube }: Testbed, name: string, nodeName: string): Promise<string> {
  const spec = { nodeName, containers: [{ name: 'main', image: 'pause' }] };
  const pod = await kube.create(resources.pods, { metadata: { namespace, name }, spec } as unknown as RawPod);
  return pod.metadata.uid ?? '';
}
