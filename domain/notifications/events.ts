import type { Condition } from '../../api/core.ts';
import type { MaintenanceWindowStatus } from '../../api/maintenanceWindow.ts';
import type { DeadlineStepStatus, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import type { Notification, NotificationData, NotificationType } from '../../api/notification.ts';
import { type Blocker, requiresIntervention } from '../evacuation/blocker.ts';
import { isTrue } from '../common/conditions.ts';
import { listed } from '../common/names.ts';
import { numbered, oneLine } from '../common/text.ts';
import { digest } from '../common/revision.ts';

/** The NodeMaintenance that a notification is about. */
export interface NotifiedMaintenance {
  name: string;
  uid: string;
  reason?: string;
  by?: string;
  window?: string;
}

export interface NotifiedWindow {
  name: string;
  uid: string;
  status?: MaintenanceWindowStatus | undefined;
}

const maxNodeNames = 50;
/** Limit for a text that a user or another component wrote. */
const maxMessageLength = 1_024;

/** The fields of `data` that depend on the type. Times are RFC 3339. */
type Facts = Partial<NotificationData> & Pick<NotificationData, 'message'>;

function ofMaintenance(
  { name, uid, reason, by, window }: NotifiedMaintenance,
  type: NotificationType,
  { key, subject = name, time }: { key: string; subject?: string; time: string },
  facts: Facts,
): Notification {
  const object = { kind: 'NodeMaintenance', name, uid } as const;
  const known = {
    ...(reason !== undefined && { reason: oneLine(reason, maxMessageLength) }),
    ...(by !== undefined && { by: oneLine(by, maxMessageLength) }),
    ...(window !== undefined && { window }),
  };
  return { id: `${uid}.${key}`, type, subject, time, data: { object, severity: 'info', ...known, ...facts } };
}

/** Returns the notification of a stage. Its `id` is the same for every start of the stage, its `time` that of the first. */
export function stageStarted(
  maintenance: NotifiedMaintenance,
  stage: NodeMaintenanceStage,
  nodes: readonly string[],
  time: string,
): Notification {
  const message = `Stage ${stage} of NodeMaintenance ${maintenance.name} started on ${describeNodes(nodes)}.`;
  const key = `stage-${stage.toLowerCase()}`;
  const facts = { message, stage, nodes: countNodes(nodes) };
  return ofMaintenance(maintenance, 'maintenance.stage-started', { key, time }, facts);
}

/** Returns the notification of the first time that all nodes are drained; its `id` stays the same if pods appear afterwards. */
export function drained(
  maintenance: NotifiedMaintenance,
  nodes: readonly string[],
  time: string,
): Notification {
  const message = `NodeMaintenance ${maintenance.name} has drained ${describeNodes(nodes)}. They are ready for maintenance.`;
  const facts = { message, stage: 'Drain', nodes: countNodes(nodes) } as const;
  return ofMaintenance(maintenance, 'maintenance.drained', { key: 'drained', time }, facts);
}

/** Returns the notification of a blocked drain. Its `id` depends on the cause: a budget that blocks a thousand pods is one notification. */
export function blocked(
  maintenance: NotifiedMaintenance,
  { pod, node, blocker }: { pod: string; node: string; blocker: Blocker },
  time: string,
): Notification {
  const reported = { pod, node, reason: blocker.reason, message: oneLine(blocker.message, maxMessageLength) };
  const message = `Pod ${pod} cannot be evacuated from node ${node}: ${reported.message}`;
  const severity = requiresIntervention(blocker) ? 'warning' : 'info';
  const key = `blocked-${digest(`${blocker.reason} ${blocker.message}`)}`;
  const facts = { message, severity, stage: 'Drain', blocker: reported } as const;
  return ofMaintenance(maintenance, 'maintenance.blocked', { key, subject: node, time }, facts);
}

/** A step of the escalation at or before the deadline of a drain. `time` is the deadline, and `pods` are the names of those that are left. */
export interface DeadlineFacts {
  time: string;
  step: DeadlineStepStatus;
  onDeadline: 'Report' | 'Delete';
  isPaused: boolean;
  pods: readonly string[];
  /** The number of these pods that are on nodes whose Leases others hold: there nothing is deleted. */
  onNodesOfOthers?: number;
  owners: NonNullable<NotificationData['owners']>;
}

const maxPodNames = 20;

/** Returns the notification of a step. Its `id` is the same each time that the step is done. */
export function deadline(
  maintenance: NotifiedMaintenance,
  { time, step, onDeadline, isPaused, pods, onNodesOfOthers = 0, owners }: DeadlineFacts,
): Notification {
  const isExceeded = step.action !== 'Notify';
  const left = `${numbered(pods.length, 'pod')} left`;
  const then =
    onDeadline === 'Delete'
      ? 'Pods that are left are deleted one grace period earlier.'
      : 'Nothing is deleted then.';
  const deletes = onDeadline === 'Delete' ? 'Pods that are left are deleted.' : 'Nothing is deleted.';
  const message = [
    isExceeded
      ? `The drain deadline ${time} of NodeMaintenance ${maintenance.name} has passed, with ${left}.`
      : `NodeMaintenance ${maintenance.name} is to be drained by ${time}, with ${left}.`,
    isExceeded ? deletes : then,
    ...(onDeadline === 'Delete' && onNodesOfOthers > 0 ? [exemptText(onNodesOfOthers)] : []),
    ...(isPaused ? ['It is paused, and until it is resumed nothing is deleted.'] : []),
  ].join(' ');
  const type = isExceeded ? 'maintenance.deadline-exceeded' : 'maintenance.deadline-approaching';
  const key = `deadline-${step.action.toLowerCase()}-${Math.round((Date.parse(time) - Date.parse(step.time)) / 1_000)}`;
  return ofMaintenance(
    maintenance,
    type,
    { key, time: step.time },
    {
      message,
      severity: 'warning',
      stage: 'Drain',
      deadline: { time, onDeadline },
      pods: { count: pods.length, names: pods.slice(0, maxPodNames) },
      owners,
    },
  );
}

function exemptText(count: number): string {
  return count === 1
    ? '1 pod is not deleted while another client holds the maintenance Lease of its node.'
    : `${count} pods are not deleted while other clients hold the maintenance Leases of their nodes.`;
}

/** Returns the notification of the end. A maintenance that started to drain and did not finish is reported as cancelled. */
export function finished(
  maintenance: NotifiedMaintenance,
  conditions: readonly Condition[],
  stages: readonly NodeMaintenanceStage[],
  time: string,
): Notification {
  const isCancelled = stages.includes('Drain') && !isTrue(conditions, 'Drained');
  const type = isCancelled ? 'maintenance.cancelled' : 'maintenance.completed';
  const outcome = isCancelled ? 'was cancelled before its nodes were drained' : 'is complete';
  const message = `NodeMaintenance ${maintenance.name} ${outcome}, and holds no node any more.`;
  return ofMaintenance(maintenance, type, { key: 'finished', time }, { message, stage: 'Complete' });
}

/** Returns the notification of a node that failed in a window; a node that is not Ready in time has a type of its own. */
export function nodeFailed(
  maintenance: NotifiedMaintenance,
  { node, reason, message: details }: { node: string; reason: string; message: string },
  time: string,
): Notification {
  const isNotInService = reason === 'NodeNotReady';
  const failure = isNotInService ? 'is not back in service' : 'failed';
  const window = maintenance.window === undefined ? '' : ` in MaintenanceWindow ${maintenance.window}`;
  const message = `Node ${node} ${failure}${window}: ${oneLine(details, maxMessageLength)}.`;
  const type = isNotInService ? 'node.not-in-service' : 'window.node-failed';
  const about = { key: 'node-failed', subject: node, time };
  return ofMaintenance(maintenance, type, about, { message, severity: 'warning', failure: reason });
}

type ActiveWindow = Pick<NonNullable<MaintenanceWindowStatus['active']>, 'runId' | 'end'>;

function ofWindow(
  { name, uid }: NotifiedWindow,
  type: NotificationType,
  { key, runId, time }: { key: string; runId: string; time: string },
  facts: Facts,
): Notification {
  const object = { kind: 'MaintenanceWindow', name, uid } as const;
  const id = `${uid}.${runId}.${key}`;
  return { id, type, subject: name, time, data: { object, severity: 'info', ...facts } };
}

export function windowOpened(
  window: NotifiedWindow,
  { runId, end }: ActiveWindow,
  time: string,
): Notification {
  const message = `MaintenanceWindow ${window.name} is open until ${end}.`;
  return ofWindow(window, 'window.opened', { key: 'opened', runId, time }, { message, until: end });
}

/** Returns the notification of a pending approval: one for the whole window, or one for each set of nodes that the message names. */
export function approvalNeeded(
  window: NotifiedWindow,
  { runId, end, message: details, isWhole }: ActiveWindow & { message: string; isWhole: boolean },
  time: string,
): Notification {
  const key = isWhole ? 'approval' : `approval-${digest(details)}`;
  const message = `MaintenanceWindow ${window.name}: ${oneLine(details, maxMessageLength)}`;
  const facts = { message, severity: 'warning', until: end } as const;
  return ofWindow(window, 'window.approval-needed', { key, runId, time }, facts);
}

export function windowClosed(window: NotifiedWindow, runId: string, time: string): Notification {
  const about = { key: 'closed', runId, time };
  const progress = window.status?.progress;
  if (progress === undefined)
    return ofWindow(window, 'window.closed', about, {
      message: `MaintenanceWindow ${window.name} has closed.`,
    });
  const { nodes, done, failed, remaining } = progress;
  const message = `MaintenanceWindow ${window.name} has closed: ${done} of ${nodes} nodes done, ${failed} failed, ${remaining} remaining.`;
  const severity = failed > 0 ? 'warning' : 'info';
  return ofWindow(window, 'window.closed', about, {
    message,
    severity,
    progress: { nodes, done, failed, remaining },
  });
}

function countNodes(nodes: readonly string[]): { count: number; names: string[] } {
  return { count: nodes.length, names: nodes.slice(0, maxNodeNames) };
}

function describeNodes(nodes: readonly string[]): string {
  if (nodes.length === 0) return 'no node';
  return `${numbered(nodes.length, 'node')}: ${listed(nodes)}`;
}
