import type { ClusterScope } from '../api/names.ts';
import type { EvictionApiSettings } from '../domain/common/evictionApi.ts';
import type { Cluster } from '../kube/cluster.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { JobPermission } from '../kube/jobPermission.ts';
import type { NodePermissions } from '../kube/nodePermissions.ts';
import type { NodeLeases } from '../node-lease/nodeLeases.ts';
import type { NotificationOutbox } from './notifications/notifications.ts';

/** Dependencies of the activities. The worker constructs them once. */
export interface InjectedDeps {
  cluster: Cluster;
  /** The cluster, as the runs in Temporal name it. */
  scope: ClusterScope;
  /** Namespace of the installation. */
  namespace: string;
  /** Acquires Leases as the one holder that all workers of the installation share. */
  leases: NodeLeases;
  /** Heartbeat timeout of the activities that only wait. */
  heartbeatTimeoutSeconds: number;
  /** Time without any progress after which an activity only waits. */
  stalledAfterMs: number;
  /** Interval in which what no watch reports is read again, and what was rejected is requested again. */
  resyncMs: number;
  /** One call of `removeEvacuations` takes about this long at most. */
  removalMs: number;
  /** The permissions of the users who request maintenances. */
  permissions: NodePermissions;
  events: EventRecorder;
  /** Records Events about single nodes. There are many of them, and they may be delayed. */
  nodeEvents: EventRecorder;
  notifications: NotificationOutbox;
  /** Whether Jobs of windows are enabled in the installation. */
  mayRunJobs: JobPermission;
  /** The API by which pods are asked to leave. */
  evictionApi: EvictionApiSettings;
  /** Enables the handling of readiness gates. */
  readinessGatesEnabled: boolean;
  /** Held nodes carry the annotations that keep autoscalers from removing them. */
  autoscalerAnnotationsEnabled: boolean;
  /** Returns the identity of the Temporal client that started the run. */
  starterOf: (workflowId: string, runId: string) => Promise<string>;
  /** Returns true if the workflow has an open run. */
  isRunning: (workflowId: string) => Promise<boolean>;
}
