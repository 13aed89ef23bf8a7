import type { KubeObject, Node, Pod } from '../api/core.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { type Resource, resources } from '../kube/resources.ts';
import { until } from '../sandbox/until.ts';
import type { Bed } from './bed.ts';
import { podsOf, type Scene } from './works.ts';

/** Where the pods live that are drained. */
export const namespace = 'bench';
/** The label that all of them carry. */
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

/** Milliseconds. */
const placedWithin = 300_000;
const patience = 60_000;
const quietFor = 1_000;

/**
 * Makes the same beginning for every measured drain, and returns the nodes to drain: exactly `podsPerNode` new pods are
 * Running and Ready on each of them, none is anywhere else, all other nodes are empty and take pods, and nothing has
 * moved for a second.
 *
 * The pods are spread evenly by their Deployments. While they are placed, all other nodes are cordoned, and the spread
 * does not count cordoned nodes; so nothing keeps their replacements from going elsewhere later.
 */
export async function setScene(bed: Bed, scene: Scene): Promise<string[]> {
  const { census, signal } = bed;
  const targets = bed.nodes.slice(0, scene.nodes);
  const spares = bed.nodes.slice(scene.nodes);
  await Promise.all([cordon(bed, spares, true), cordon(bed, targets, false)]);
  const old = census.list();
  await applyDeployments(bed, scene);
  await deletePods(bed, old);
  await until('the pods to be placed', () => misplaced(bed, scene, targets), {
    within: placedWithin,
    signal,
  });
  await until('the Deployments to be ready', () => unready(bed, scene), { within: patience, signal });
  await cordon(bed, spares, false);
  const restless = () => (census.quietMs < quietFor ? 'a pod has just changed' : undefined);
  await until('a quiet second', restless, { within: patience, signal });
  return targets;
}

const unschedulableTaint = 'node.kubernetes.io/unschedulable';

type NodeSeen = Node & { spec: { taints?: { key: string }[] } };

/** Returns when the taint that belongs to it is there, or gone, too: kube-controller-manager follows a moment later. */
async function cordon(
  { kube, signal }: Bed,
  names: readonly string[],
  unschedulable: boolean,
): Promise<void> {
  await forEachBounded(16, names, (name) =>
    kube.mergePatch(resources.nodes, { name }, { spec: { unschedulable } }),
  );
  const wanted = new Set(names);
  const probe = async () => {
    const { items } = await kube.list(resources.nodes as Resource<NodeSeen>);
    const late = items.filter(({ metadata, spec }) => {
      const isTainted = spec.taints?.some(({ key }) => key === unschedulableTaint) ?? false;
      return wanted.has(metadata.name) && isTainted !== unschedulable;
    });
    return late.length === 0 ? undefined : late.map(({ metadata }) => metadata.name).join(', ');
  };
  await until('the taints of cordoned nodes', probe, { within: patience, signal });
}

async function applyDeployments({ kube }: Bed, scene: Scene): Promise<void> {
  const wanted = deploymentsOf(scene);
  await kube.apply(resources.namespaces, { metadata: { name: namespace } }, { fieldManager: 'bench' });
  const names = new Set(wanted.map(({ metadata }) => metadata.name));
  const { items } = await kube.list(deployments, { namespace });
  for (const { metadata } of items.filter((present) => !names.has(present.metadata.name))) {
    const { name, uid = '' } = metadata;
    await kube.delete(deployments, { namespace, name }, { uid, propagationPolicy: 'Background' });
  }
  for (const object of wanted) await kube.apply(deployments, object, { fieldManager: 'bench', force: true });
}

/** Several, because one ReplicaSet replaces its pods one batch after the other. */
const mostDeployments = 10;

function deploymentsOf(scene: Scene): Deployment[] {
  const count = largestDivisor(scene.podsPerNode, mostDeployments);
  return Array.from({ length: count }, (_, index) => deployment(`app-${index + 1}`, podsOf(scene) / count));
}

/** Of `number`, at most `limit`: only then is every node's share of every Deployment a whole number. */
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

/** The Deployments make new ones, where they may. */
async function deletePods({ kube }: Bed, pods: readonly Readonly<Pod>[]): Promise<void> {
  await forEachBounded(deletionsAtOnce, pods, async ({ metadata }) => {
    const { name, uid = '' } = metadata;
    await kube.delete(resources.pods, { namespace, name }, { uid });
  });
}

const deletionsAtOnce = 32;

function misplaced({ census }: Bed, scene: Scene, targets: readonly string[]): string | undefined {
  const wrong = targets.filter((node) => census.count(node, 'ready') !== scene.podsPerNode);
  if (wrong.length === 0 && census.size === podsOf(scene)) return undefined;
  const counts = wrong.slice(0, 3).map((node) => `${node} has ${census.count(node, 'ready')}`);
  return [`${census.size} pods of ${podsOf(scene)}`, ...counts].join(', ');
}

async function unready({ kube }: Bed, scene: Scene): Promise<string | undefined> {
  const { items } = await kube.list(deployments, { namespace });
  const ready = items.reduce((sum, { status }) => sum + (status?.readyReplicas ?? 0), 0);
  const owned = items.reduce((sum, { status }) => sum + (status?.replicas ?? 0), 0);
  return ready === podsOf(scene) && owned === ready ? undefined : `${ready} of ${owned} replicas`;
}
