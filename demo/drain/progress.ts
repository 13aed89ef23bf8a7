import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { byNode, type Cluster } from '../../kube/cluster.ts';
import { type DeletedPod, hasToLeave, type Recording } from '../recording.ts';
import { leavingPodsOf, maintained, maintenanceName, type Tier, tiers } from './workloads.ts';

/** The progress of the maintenance, as the API shows it. */
export interface Progress {
  stage: string;
  /** Number of the tier in progress, starting with 1; undefined before the first and after the last. */
  tier: number | undefined;
  tiers: readonly Share[];
  nodes: readonly NodeProgress[];
  blocked: readonly Blocked[];
}

/** The number of pods to evacuate, and how many of them are gone. */
export interface Share {
  title: string;
  gone: number;
  total: number;
}

export interface NodeProgress extends Share {
  podsPendingEvacuation: number;
  podsEvacuating: number;
  drainMessage: string;
}

/** Evacuations of one application that wait for a budget. */
export interface Blocked {
  app: string;
  evacuations: number;
  message: string;
}

export function observeProgress(cluster: Cluster, { deletedPods }: Recording): Progress {
  const maintenance = cluster.maintenances.get(maintenanceName);
  return {
    stage: maintenance?.spec.stage ?? 'not created',
    tier: tierInProgress(maintenance?.status),
    tiers: tiers.map((tier) => tierProgress(tier, deletedPods)),
    nodes: maintained.map((name) => nodeProgress(name, cluster, deletedPods)),
    blocked: blockedEvacuations(cluster),
  };
}

/** The tier after the last of `tiers` contains the pods of the DaemonSet. */
function tierInProgress(status: NodeMaintenance['status']): number | undefined {
  const number = status?.drainTier?.number ?? Number.POSITIVE_INFINITY;
  return number <= tiers.length ? number : undefined;
}

function tierProgress(tier: Tier, deletedPods: readonly DeletedPod[]): Share {
  return { title: tier.title, gone: deletedPodsOf(tier, deletedPods).length, total: leavingPodsOf(tier) };
}

export function deletedPodsOf(tier: Tier, deletedPods: readonly DeletedPod[]): DeletedPod[] {
  return deletedPods.filter(({ app }) => tier.workloads.some(({ name }) => name === app));
}

function nodeProgress(name: string, cluster: Cluster, deletedPods: readonly DeletedPod[]): NodeProgress {
  const status = cluster.maintenances
    .get(maintenanceName)
    ?.status?.nodeStatuses.find(({ nodeRef }) => nodeRef.name === name);
  const gone = deletedPods.filter(({ node }) => node === name).length;
  return {
    title: name,
    gone,
    total: gone + cluster.pods.byIndex(byNode, name).filter((pod) => hasToLeave(pod, maintained)).length,
    podsPendingEvacuation: status?.podsPendingEvacuation ?? 0,
    podsEvacuating: status?.podsEvacuating ?? 0,
    drainMessage: status?.drainMessage ?? '',
  };
}

/** Returns the Evacuations with a message whose pods are not terminating yet. */
function blockedEvacuations({ evacuations, pods }: Cluster): Blocked[] {
  const byApp = new Map<string, Blocked>();
  for (const { metadata, spec, status } of evacuations.list()) {
    const pod = pods.get(`${metadata.namespace}/${spec.podRef.name}`);
    if (!status?.message || pod === undefined || pod.metadata.deletionTimestamp !== undefined) continue;
    const app = `${metadata.namespace}/${pod.metadata.labels?.['app']}`;
    const known = byApp.get(app);
    byApp.set(app, { app, evacuations: (known?.evacuations ?? 0) + 1, message: status.message });
  }
  return [...byApp.values()].toSorted((a, b) => (a.app < b.app ? -1 : 1));
}
