import type { DaemonSet, Job, KubeObject, Lease, Node, Pod, PodDisruptionBudget } from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import { NODE_LEASE_NAMESPACE, WORK_NAMESPACE } from '../api/names.ts';
import type { NodeBudget } from '../api/nodeBudget.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { NodeReadiness, SeenReadiness } from '../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../api/nodeReadinessPolicy.ts';
import type { FencedKube, Kube } from './client.ts';
import { Informer } from './informer.ts';
import type { Log } from './log.ts';
import { type RawDaemonSet, type RawPod, resources } from './resources.ts';
import { slimBudget, slimDaemonSet, slimJob, slimNode, slimPod, slimReadiness } from './slim.ts';

/** Names of the informers' indexes. */
export const byNode = 'node';
export const byNamespace = 'namespace';
export const byPodUid = 'podUid';
export const byGate = 'schedulingGate';

/** What the worker knows of the cluster: one informer per kind, shared by all activities and controllers. */
export interface Cluster {
  kube: Kube;
  nodes: Informer<Node>;
  pods: Informer<Pod, RawPod>;
  budgets: Informer<PodDisruptionBudget>;
  daemonSets: Informer<DaemonSet, RawDaemonSet>;
  maintenances: Informer<NodeMaintenance>;
  evacuations: Informer<Evacuation>;
  readinesses: Informer<SeenReadiness, NodeReadiness>;
  readinessPolicies: Informer<NodeReadinessPolicy>;
  windows: Informer<MaintenanceWindow>;
  /** The Jobs of windows. */
  jobs: Informer<Job>;
  /** How many nodes may be out of service; not `budgets`, which are those of pods. */
  nodeBudgets: Informer<NodeBudget>;
  /** The maintenance Leases of nodes. Not waited for: without the right to see them there is other work to do. */
  leases: Informer<Lease>;
  /** Begins to watch; returns at once and goes on until the signal is aborted. */
  start(signal: AbortSignal): void;
  /** Resolves when every informer but that of Leases has listed its kind once. */
  synced(signal: AbortSignal): Promise<void>;
  hasSynced(): boolean;
}

/** As those see it who write only while they lead. */
export interface FencedCluster extends Cluster {
  kube: FencedKube;
}

/** The part of it that an evacuator needs. */
export type EvacuationView = Pick<Cluster, 'kube' | 'pods' | 'evacuations' | 'start' | 'synced'>;

/** The maintenance Lease of a node, as the informer has it. */
export function leaseOf({ leases }: Pick<Cluster, 'leases'>, node: string): Readonly<Lease> | undefined {
  return leases.get(`${NODE_LEASE_NAMESPACE}/${node}`);
}

interface Watching {
  kube: Kube;
  log: Log;
  /** Without it: all of them. */
  namespace?: string | undefined;
}

export function watchCluster({ kube, log }: { kube: Kube; log: Log }): Cluster {
  const nodes = new Informer({ kube, resource: resources.nodes, transform: slimNode, log });
  const pods = podInformer({ kube, log });
  const budgets = new Informer({
    kube,
    resource: resources.podDisruptionBudgets,
    transform: slimBudget,
    indexes: { [byNamespace]: (budget: PodDisruptionBudget) => [budget.metadata.namespace ?? ''] },
    log,
  });
  const daemonSets = new Informer({
    kube,
    resource: resources.daemonSets,
    transform: slimDaemonSet,
    log,
  });
  const maintenances = new Informer<NodeMaintenance>({ kube, resource: resources.nodeMaintenances, log });
  const evacuations = evacuationInformer({ kube, log });
  const { readinesses, readinessPolicies } = readinessInformers({ kube, log });
  const leases = new Informer({ kube, resource: resources.leases, namespace: NODE_LEASE_NAMESPACE, log });
  const { windows, jobs, nodeBudgets } = windowInformers({ kube, log });
  const all = [
    nodes,
    pods,
    budgets,
    daemonSets,
    maintenances,
    evacuations,
    readinesses,
    readinessPolicies,
    windows,
    jobs,
    nodeBudgets,
  ];
  return {
    kube,
    nodes,
    pods,
    budgets,
    daemonSets,
    maintenances,
    evacuations,
    readinesses,
    readinessPolicies,
    windows,
    jobs,
    nodeBudgets,
    leases,
    ...together(all),
    start: (signal) => {
      for (const informer of [...all, leases]) informer.start(signal);
    },
    hasSynced: () => all.every((informer) => informer.hasSynced),
  };
}

/** For a process that evacuates pods and does nothing else. */
export function watchEvacuations(watching: Watching): EvacuationView {
  const pods = podInformer(watching);
  const evacuations = evacuationInformer(watching);
  return { kube: watching.kube, pods, evacuations, ...together([pods, evacuations]) };
}

function podInformer({ kube, log, namespace }: Watching): Informer<Pod, RawPod> {
  return new Informer({
    kube,
    namespace,
    resource: resources.pods,
    transform: slimPod,
    indexes: {
      [byNode]: ({ spec }: Pod) => (spec.nodeName === undefined ? [] : [spec.nodeName]),
      [byGate]: ({ spec }: Pod) => spec.schedulingGates ?? [],
    },
    log,
  });
}

function readinessInformers({ kube, log }: Watching): Pick<Cluster, 'readinesses' | 'readinessPolicies'> {
  return {
    readinesses: new Informer({
      kube,
      resource: resources.nodeReadinesses,
      transform: slimReadiness,
      log,
    }),
    readinessPolicies: new Informer<NodeReadinessPolicy>({
      kube,
      resource: resources.nodeReadinessPolicies,
      log,
    }),
  };
}

function windowInformers({ kube, log }: Watching): Pick<Cluster, 'windows' | 'jobs' | 'nodeBudgets'> {
  const namespace = WORK_NAMESPACE;
  return {
    windows: new Informer<MaintenanceWindow>({ kube, resource: resources.maintenanceWindows, log }),
    jobs: new Informer({ kube, resource: resources.jobs, namespace, transform: slimJob, log }),
    nodeBudgets: new Informer<NodeBudget>({ kube, resource: resources.nodeBudgets, log }),
  };
}

function evacuationInformer({ kube, log, namespace }: Watching): Informer<Evacuation> {
  return new Informer<Evacuation>({
    kube,
    namespace,
    resource: resources.evacuations,
    indexes: { [byPodUid]: (evacuation: Evacuation) => [evacuation.spec.podRef.uid] },
    log,
  });
}

function together(
  informers: readonly Pick<Informer<KubeObject>, 'start' | 'synced'>[],
): Pick<Cluster, 'start' | 'synced'> {
  return {
    start: (signal) => {
      for (const informer of informers) informer.start(signal);
    },
    synced: async (signal) => {
      await Promise.all(informers.map((informer) => informer.synced(signal)));
    },
  };
}
