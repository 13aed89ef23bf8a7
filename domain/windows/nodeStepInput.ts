import type { Job, Lease, Node } from '../../api/core.ts';
import type { MaintenanceWindow, RebootWork, WindowWork } from '../../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { Managed } from '../common/managedFields.ts';
import { heartbeatMs } from '../leases/heartbeat.ts';
import type { RebootAbility } from '../leases/nodeAgent.ts';
import { revisionOf } from '../common/revision.ts';
import { rebootWorkOf } from './rebootNeeds.ts';
import { belongsToNode, type WindowMaintenance, workTypeOf } from './windowMaintenance.ts';

/** The policy for nodes in progress: 'Finish' while the window is open, `spec.onWindowEnd` afterwards. */
export type InProgressPolicy = 'Finish' | 'Hold' | 'Cancel';

/** The Node of a NodeMaintenance. */
export type ObservedNode =
  | {
      kind: 'Present';
      node: Node;
      /** When the apiserver stored the last heartbeat, in milliseconds since the epoch. Undefined if the kubelet has no Lease. */
      lastHeartbeatMs: number | undefined;
      /** A readiness gate is not ready, although the node has no taint for it yet. */
      isMissingReadinessTaint: boolean;
    }
  /** The Node does not exist. */
  | { kind: 'Absent' }
  /** The NodeMaintenance does not select the Node, or belongs to none. */
  | { kind: 'Unselected' }
  /** Another Node has its name. */
  | { kind: 'Recreated' };

export interface NodeStepInput {
  maintenance: Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>;
  node: ObservedNode;
  /** The work that the maintenance started with. The window may have been edited since. */
  work: WindowWork['type'];
  /** Outdated: `template` or `work` of the window have changed since the maintenance started. */
  revision: 'Current' | 'Outdated';
  /** The Job of this NodeMaintenance. */
  job: Job | undefined;
  /** The worker may create Jobs, and read and delete them. */
  mayRunJobs: boolean;
  /** How the window reboots nodes now. Undefined if it does not, or was deleted. */
  reboot: RebootWork | undefined;
  /** Whether the agent of the node would reboot it. */
  agent: RebootAbility;
  /** The other client that holds the maintenance Lease of the node. Undefined if nobody else does. */
  leaseHolder: string | undefined;
  /** Time at which the window opened, in milliseconds since the epoch. -Infinity while it is closed. */
  openedAtMs: number;
  /** Time at which a worker first observed the node as not ready, in milliseconds since the epoch. Undefined on the first observation. */
  waitingSince: number | undefined;
  policy: InProgressPolicy;
  readyTimeoutSeconds: number;
  nowMs: number;
}

/** The objects that a step is decided on. */
export interface NodeObjects {
  windowMaintenance: WindowMaintenance;
  /** The Node of that name. */
  node: Node | undefined;
  job: Job | undefined;
  kubeletLease?: (Lease & Managed) | undefined;
  isMissingReadinessTaint?: boolean;
  agent?: RebootAbility | undefined;
  leaseHolder?: string | undefined;
  waitingSince?: number | undefined;
}

/** The state of the window that a step is decided in. */
export interface StepContext {
  /** The revision of the window. Undefined if the window was deleted. */
  revision: string | undefined;
  /** The worker may create Jobs, and read and delete them. */
  mayRunJobs: boolean;
  reboot: RebootWork | undefined;
  policy: InProgressPolicy;
  readyTimeoutSeconds: number;
  openedAtMs: number;
  nowMs: number;
}

/**
 * Returns the context in which it is decided whether an advanced node may be uncordoned while its window is closed or deleted. Other steps that are
 * decided with it are not to be carried out.
 */
export function closedWindowContext(window: MaintenanceWindow | undefined, nowMs: number): StepContext {
  return {
    revision: window && revisionOf(window.spec),
    policy: 'Finish',
    mayRunJobs: true,
    reboot: window && rebootWorkOf(window.spec.work),
    openedAtMs: -Infinity,
    readyTimeoutSeconds: window?.spec.rollout.readyTimeoutSeconds ?? 0,
    nowMs,
  };
}

/** Builds the input of `decideNodeStep`. */
export function nodeStepInput(
  { windowMaintenance, node, job, ...observed }: NodeObjects,
  { revision, ...context }: StepContext,
): NodeStepInput {
  const { maintenance } = windowMaintenance;
  const {
    kubeletLease,
    isMissingReadinessTaint = false,
    agent = 'NotRunning',
    leaseHolder,
    waitingSince,
  } = observed;
  return {
    ...context,
    maintenance,
    node: belongsToNode(windowMaintenance, node)
      ? { kind: 'Present', node, lastHeartbeatMs: heartbeatMs(kubeletLease), isMissingReadinessTaint }
      : { kind: missingKind(windowMaintenance, node) },
    work: workTypeOf(maintenance),
    revision: windowMaintenance.revision === revision ? 'Current' : 'Outdated',
    job,
    agent,
    leaseHolder,
    waitingSince,
  };
}

function missingKind(
  { node: name, nodeUid }: WindowMaintenance,
  node: Node | undefined,
): 'Absent' | 'Unselected' | 'Recreated' {
  if (name === '') return 'Unselected';
  if (node === undefined) return 'Absent';
  return node.metadata.uid === nodeUid ? 'Unselected' : 'Recreated';
}
