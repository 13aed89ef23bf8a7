import type {
  DaemonSet,
  Job,
  KubeObject,
  Lease,
  Node,
  Pod,
  PodDisruptionBudget,
  VolumeAttachment,
} from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import type { LifecycleEviction } from '../api/lifecycle.ts';
import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import { NODE_LEASE_NAMESPACE, WORK_NAMESPACE } from '../api/names.ts';
import type { NodeDisruptionBudget } from '../api/nodeDisruptionBudget.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { NodeReadiness, ObservedNodeReadiness } from '../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../api/nodeReadinessPolicy.ts';
import type { FencedKube, Kube } from './client.ts';
import { EvictionInformers } from './evictionInformers.ts';
import { Informer } from './informer.ts';
import type { Log } from './log.ts';
import { OnDemandInformer } from './onDemandInformer.ts';
import { trimWithScheduling } from './podScheduling.ts';
import { type RawDaemonSet, type RawPod, resources } from './resources.ts';
import { Suspension } from './suspension.ts';
import {
  trimPodDisruptionBudget,
  trimDaemonSet,
  trimJob,
  trimNode,
  trimPod,
  trimNodeReadiness,
  trimVolumeAttachment,
} from './transform.ts';
import type { WorkQueueObserver } from './workQueue.ts';

/** Names of the informers' indexes. */
export const byNode = 'node';
export const byNamespace = 'namespace';
export const byPodUid = 'podUid';
export const byGate = 'schedulingGate';

/** The informers of the worker, one per kind, shared by all activities and controllers. */
export interface Cluster {
  kube: Kube;
  nodes: Informer<Node>;
  pods: Informer<Pod, RawPod>;
  budgets: Informer<PodDisruptionBudget>;
  daemonSets: Informer<DaemonSet, RawDaemonSet>;
  maintenances: Informer<NodeMaintenance>;
  evacuations: Informer<Evacuation>;
  readinesses: Informer<ObservedNodeReadiness, NodeReadiness>;
  readinessPolicies: Informer<NodeReadinessPolicy>;
  windows: Informer<MaintenanceWindow>;
  /** The Jobs of windows; none while they are not enabled. */
  jobs: Informer<Job>;
  /** Budgets of nodes; `budgets` are PodDisruptionBudgets. */
  nodeDisruptionBudgets: Informer<NodeDisruptionBudget>;
  /** The maintenance Leases of nodes. `synced` does not wait for them: without permission to read Leases the worker is still useful. */
  leases: Informer<Lease>;
  /**
   * Runs while a drain waits for volumes to be detached. VolumeAttachments can be selected by name only, so that it watches all of them.
   */
  volumeAttachments: OnDemandInformer<VolumeAttachment>;
  /** The objects of lifecycle.k8s.io. `synced` waits for them if they are used. */
  lifecycle: EvictionInformers;
  /** Starts all informers and returns immediately; they run until the signal aborts. */
  start(signal: AbortSignal): void;
  /** Resolves when every informer except the one of Leases has completed its first list. */
  synced(signal: AbortSignal): Promise<void>;
  hasSynced(): boolean;
  /**
   * Whether nodes, pods, maintenances and Evacuations follow the apiserver at this moment. What they contain is older while a watch is interrupted, and
   * after this process was suspended.
   */
  isFollowing(): boolean;
  /** Observes the work queues of the controllers. */
  queues?: WorkQueueObserver | undefined;
}

/** The cluster for controllers that write only while they are the leader. */
export interface FencedCluster extends Cluster {
  kube: FencedKube;
}

/** The informers that an evacuator needs. */
export type EvacuationView = Pick<Cluster, 'kube' | 'pods' | 'evacuations' | 'start' | 'synced' | 'queues'>;

/** Returns the maintenance Lease of a node from the informer. */
export function nodeLeaseOf({ leases }: Pick<Cluster, 'leases'>, node: string): Readonly<Lease> | undefined {
  return leases.get(`${NODE_LEASE_NAMESPACE}/${node}`);
}

interface WatchOptions {
  kube: Kube;
  log: Log;
  /** Undefined: all namespaces. */
  namespace?: string | undefined;
}

export function watchCluster({
  kube,
  log,
  queues,
}: {
  kube: Kube;
  log: Log;
  queues?: WorkQueueObserver;
}): Cluster {
  const informers = {
    ...nodeAndPodInformers({ kube, log }),
    maintenances: new Informer<NodeMaintenance>({ kube, resource: resources.nodeMaintenances, log }),
    evacuations: evacuationInformer({ kube, log }),
    ...readinessInformers({ kube, log }),
    ...windowInformers({ kube, log }),
  };
  const leases = new Informer({ kube, resource: resources.leases, namespace: NODE_LEASE_NAMESPACE, log });
  const lifecycle = new EvictionInformers({ kube, log });
  const required = Object.values(informers);
  const followed = [informers.nodes, informers.pods, informers.maintenances, informers.evacuations];
  const suspension = new Suspension();
  return {
    kube,
    queues,
    ...informers,
    leases,
    lifecycle,
    volumeAttachments: volumeAttachmentInformer({ kube, log }),
    ...startAndSync([...required, lifecycle]),
    start: (signal) => {
      suspension.start(signal);
      for (const informer of [...required, leases, lifecycle]) informer.start(signal);
    },
    isFollowing: () => !suspension.isRecent && followed.every((informer) => informer.isFollowing),
    hasSynced: () => [...required, lifecycle].every((informer) => informer.hasSynced),
  };
}

/** Creates the informers of a process that only evacuates pods. */
export function watchEvacuations(options: WatchOptions): EvacuationView {
  const pods = podInformer(options);
  const evacuations = evacuationInformer(options);
  return { kube: options.kube, pods, evacuations, ...startAndSync([pods, evacuations]) };
}

/** Creates the informer of Evictions of lifecycle.k8s.io, of which a responder reads those of its pods. */
export function watchEvictions({ kube, log, namespace }: WatchOptions): Informer<LifecycleEviction> {
  return new Informer<LifecycleEviction>({
    kube,
    namespace,
    resource: resources.evictions,
    indexes: { [byPodUid]: ({ spec }: LifecycleEviction) => [spec.target.pod.uid] },
    log,
  });
}

function nodeAndPodInformers({
  kube,
  log,
}: WatchOptions): Pick<Cluster, 'nodes' | 'pods' | 'budgets' | 'daemonSets'> {
  return {
    nodes: new Informer({ kube, resource: resources.nodes, transform: trimNode, log }),
    pods: podInformer({ kube, log }, trimWithScheduling()),
    budgets: new Informer({
      kube,
      resource: resources.podDisruptionBudgets,
      transform: trimPodDisruptionBudget,
      indexes: { [byNamespace]: (budget: PodDisruptionBudget) => [budget.metadata.namespace ?? ''] },
      log,
    }),
    daemonSets: new Informer({ kube, resource: resources.daemonSets, transform: trimDaemonSet, log }),
  };
}

function podInformer(
  { kube, log, namespace }: WatchOptions,
  transform: (raw: RawPod) => Pod = trimPod,
): Informer<Pod, RawPod> {
  return new Informer({
    kube,
    namespace,
    resource: resources.pods,
    transform,
    indexes: {
      [byNode]: ({ spec }: Pod) => (spec.nodeName === undefined ? [] : [spec.nodeName]),
      [byGate]: ({ spec }: Pod) => spec.schedulingGates ?? [],
    },
    log,
  });
}

function readinessInformers({ kube, log }: WatchOptions): Pick<Cluster, 'readinesses' | 'readinessPolicies'> {
  return {
    readinesses: new Informer({
      kube,
      resource: resources.nodeReadinesses,
      transform: trimNodeReadiness,
      log,
    }),
    readinessPolicies: new Informer<NodeReadinessPolicy>({
      kube,
      resource: resources.nodeReadinessPolicies,
      log,
    }),
  };
}

function windowInformers({
  kube,
  log,
}: WatchOptions): Pick<Cluster, 'windows' | 'jobs' | 'nodeDisruptionBudgets'> {
  const namespace = WORK_NAMESPACE;
  return {
    windows: new Informer<MaintenanceWindow>({ kube, resource: resources.maintenanceWindows, log }),
    jobs: new Informer({
      kube,
      resource: resources.jobs,
      namespace,
      transform: trimJob,
      optionalFor: 'Jobs of windows (deploy/window-jobs)',
      log,
    }),
    nodeDisruptionBudgets: new Informer<NodeDisruptionBudget>({
      kube,
      resource: resources.nodeDisruptionBudgets,
      log,
    }),
  };
}

function volumeAttachmentInformer({ kube, log }: WatchOptions): OnDemandInformer<VolumeAttachment> {
  return new OnDemandInformer(
    () =>
      new Informer({
        kube,
        resource: resources.volumeAttachments,
        transform: trimVolumeAttachment,
        optionalFor: 'drains that wait for volumes to be detached (deploy/rbac)',
        log,
      }),
  );
}

function evacuationInformer({ kube, log, namespace }: WatchOptions): Informer<Evacuation> {
  return new Informer<Evacuation>({
    kube,
    namespace,
    resource: resources.evacuations,
    indexes: {
      [byPodUid]: (evacuation: Evacuation) => [evacuation.spec.podRef.uid],
      [byNamespace]: (evacuation: Evacuation) => [evacuation.metadata.namespace ?? ''],
    },
    log,
  });
}

function startAndSync(
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
