import { MAINTENANCE_WINDOW, NODE_MAINTENANCE } from './names.ts';
import type { NodeMaintenanceStage } from './nodeMaintenance.ts';

/** What receivers are told; the `type` of its CloudEvent is `io.k8s.nodemaintenance.<NoticeType>.v1`. */
export type NoticeType =
  | 'maintenance.stage-begun'
  | 'maintenance.blocked'
  | 'maintenance.drained'
  | 'maintenance.completed'
  | 'maintenance.cancelled'
  | 'window.opened'
  | 'window.approval-needed'
  | 'window.closed'
  | 'turn.failed'
  | 'node.not-back';

/** Something that happened. The same `id` is the same happening, however often it is told. */
export interface Notice {
  id: string;
  type: NoticeType;
  /** What is told of: a node, or the name of the object. */
  subject: string;
  /** RFC 3339. */
  time: string;
  data: NoticeData;
}

/** The object that a notice is about. */
export interface NoticedObject {
  kind: 'NodeMaintenance' | 'MaintenanceWindow';
  name: string;
  uid: string;
}

export interface NoticeData {
  object: NoticedObject;
  /** A sentence for people. */
  message: string;
  /** `warning`: a person has to act. */
  severity: 'info' | 'warning';
  stage?: NodeMaintenanceStage;
  /** How many there are, and the names of the first. */
  nodes?: { count: number; names: string[] };
  /** Why there is a maintenance, in the words of whoever made it, and who that was, as far as it is known. */
  reason?: string;
  by?: string;
  /** Of which MaintenanceWindow it is a turn. */
  window?: string;
  /** What one pod is blocked by; others may be blocked by the same. */
  blocker?: { pod: string; node: string; reason: string; message: string };
  /** Why a turn failed, in CamelCase. */
  failure?: string;
  /** RFC 3339. */
  until?: string;
  /** Nodes of a window. */
  progress?: { nodes: number; done: number; failed: number; remaining: number };
}

/** A notice as it is sent: CloudEvents 1.0, JSON event format. */
export interface CloudEvent extends Omit<Notice, 'type'> {
  specversion: '1.0';
  /** `//<cluster>/apis/<group>/<version>/<plural>/<name>` */
  source: string;
  type: string;
  datacontenttype: 'application/json';
}

export function cloudEventOf({ type, ...notice }: Notice, cluster: string): CloudEvent {
  const { kind, name } = notice.data.object;
  const { apiVersion, plural } = kind === 'NodeMaintenance' ? NODE_MAINTENANCE : MAINTENANCE_WINDOW;
  return {
    specversion: '1.0',
    ...notice,
    source: `//${cluster}/apis/${apiVersion}/${plural}/${name}`,
    type: `io.k8s.nodemaintenance.${type}.v1`,
    datacontenttype: 'application/json',
  };
}
