import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { byNode, type Cluster } from '../../kube/cluster.ts';
import { type Departure, hasToLeave, type Recording } from '../recording.ts';
import { leavingPodsOf, maintained, maintenanceName, positionOf, type Tier, tiers } from './workloads.ts';

/** What the API shows of the maintenance at this moment. */
export interface Progress {
  stage: string;
  /** Number of the tier under way, counted from 1; undefined before the first and after the last. */
  tier: number | undefined;
  tiers: readonly Share[];
  nodes: readonly NodeProgress[];
  blocked: readonly Blocked[];
}

/** How many of the pods that have to leave have left. */
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

/** Evacuations that wait for the same budget. */
export interface Blocked {
  app: string;
  evacuations: number;
  message: string;
}

export function observeProgress(cluster: Cluster, { departures }: Recording): Progress {
  const maintenance = cluster.maintenances.get(maintenanceName);
  return {
    stage: maintenance?.spec.stage ?? 'not declared',
    tier: tierUnderWay(maintenance),
    tiers: tiers.map((tier) => tierProgress(tier, departures)),
    nodes: maintained.map((name) => nodeProgress(name, cluster, departures)),
    blocked: blockedEvacuations(cluster),
  };
}

function tierUnderWay(maintenance: Readonly<NodeMaintenance> | undefined): number | undefined {
  const position = maintenance?.status?.drainPosition ?? 0;
  const begun = maintenance?.status?.stageStatuses.some(({ name }) => name === 'Drain') ?? false;
  const index = tiers.findIndex((tier) => positionOf(tier) >= position);
  return begun && index >= 0 ? index + 1 : undefined;
}

function tierProgress(tier: Tier, departures: readonly Departure[]): Share {
  return { title: tier.title, gone: departuresOf(tier, departures).length, total: leavingPodsOf(tier) };
}

export function departuresOf(tier: Tier, departures: readonly Departure[]): Departure[] {
  return departures.filter(({ app }) => tier.workloads.some(({ name }) => name === app));
}

function nodeProgress(name: string, cluster: Cluster, departures: readonly Departure[]): NodeProgress {
  const status = cluster.maintenances
    .get(maintenanceName)
    ?.status?.nodeStatuses.find(({ nodeRef }) => nodeRef.name === name);
  const gone = departures.filter(({ node }) => node === name).length;
  return {
    title: name,
    gone,
    total: gone + cluster.pods.byIndex(byNode, name).filter((pod) => hasToLeave(pod, maintained)).length,
    podsPendingEvacuation: status?.podsPendingEvacuation ?? 0,
    podsEvacuating: status?.podsEvacuating ?? 0,
    drainMessage: status?.drainMessage ?? '',
  };
}

/** Those whose pod is not on its way out yet and that say why. */
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
