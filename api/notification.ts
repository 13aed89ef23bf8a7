import { MAINTENANCE_WINDOW, NODE_MAINTENANCE } from './names.ts';
import type { NodeMaintenanceStage } from './nodeMaintenance.ts';

/** Type of a notification; the `type` of its CloudEvent is `io.k8s.nodemaintenance.<NotificationType>.v1`. */
export type NotificationType =
  | 'maintenance.stage-started'
  | 'maintenance.blocked'
  | 'maintenance.deadline-approaching'
  | 'maintenance.deadline-exceeded'
  | 'maintenance.drained'
  | 'maintenance.completed'
  | 'maintenance.cancelled'
  | 'window.opened'
  | 'window.approval-needed'
  | 'window.closed'
  | 'window.node-failed'
  | 'node.not-in-service';

/** Reports something that happened. Notifications with the same `id` report the same occurrence. */
export interface Notification {
  id: string;
  type: NotificationType;
  /** The name of the node that the notification is about, else the name of the object. */
  subject: string;
  /** RFC 3339. */
  time: string;
  data: NotificationData;
}

/** The object that a notification is about. */
export interface NotifiedObject {
  kind: 'NodeMaintenance' | 'MaintenanceWindow';
  name: string;
  uid: string;
}

export interface NotificationData {
  object: NotifiedObject;
  /** A sentence that can be shown as it is. */
  message: string;
  /** `warning`: action is required. */
  severity: 'info' | 'warning';
  stage?: NodeMaintenanceStage;
  /** The number of nodes, and the names of the first 50. */
  nodes?: { count: number; names: string[] };
  /** `.spec.reason` of the NodeMaintenance, and the user who changed its spec last, if known. */
  reason?: string;
  by?: string;
  /** The MaintenanceWindow that the NodeMaintenance belongs to. */
  window?: string;
  /** Why one pod cannot be evacuated; other pods may be blocked by the same cause. */
  blocker?: { pod: string; node: string; reason: string; message: string };
  /** The deadline of the drain (RFC 3339), and what happens to the pods that are left then. */
  deadline?: { time: string; onDeadline: 'Report' | 'Delete' };
  /** Pods that are left: their number, and the names of the first 20. */
  pods?: { count: number; names: string[] };
  /** The owners in the annotation nodemaintenance.k8s.io/owner of these pods, the first 20, with the names of three pods each. Users write the annotation. */
  owners?: { owner: string; pods: { count: number; names: string[] } }[];
  /** Reason in CamelCase why the node failed. */
  failure?: string;
  /** End of the window (RFC 3339). */
  until?: string;
  /** Number of nodes of the window by state. */
  progress?: { nodes: number; done: number; failed: number; remaining: number };
}

/** A notification as it is sent: CloudEvents 1.0, JSON event format. */
export interface CloudEvent extends Omit<Notification, 'type'> {
  specversion: '1.0';
  /** `//<cluster>/apis/<group>/<version>/<plural>/<name>` */
  source: string;
  type: string;
  datacontenttype: 'application/json';
}

export function cloudEventOf({ type, ...notification }: Notification, cluster: string): CloudEvent {
  const { kind, name } = notification.data.object;
  const { apiVersion, plural } = kind === 'NodeMaintenance' ? NODE_MAINTENANCE : MAINTENANCE_WINDOW;
  return {
    specversion: '1.0',
    ...notification,
    source: `//${cluster}/apis/${apiVersion}/${plural}/${name}`,
    type: `io.k8s.nodemaintenance.${type}.v1`,
    datacontenttype: 'application/json',
  };
}
