import type { Condition } from '../api/core.ts';
import type { MaintenanceWindowStatus } from '../api/maintenanceWindow.ts';
import type { NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import type { Notice, NoticeData, NoticeType } from '../api/notice.ts';
import { type Blocker, needsAPerson } from './blocker.ts';
import { isTrue } from './conditions.ts';
import { listed } from './names.ts';
import { digest } from './revision.ts';

/** The NodeMaintenance that a notice is about. */
export interface NoticedMaintenance {
  name: string;
  uid: string;
  reason?: string;
  by?: string;
  window?: string;
}

export interface NoticedWindow {
  name: string;
  uid: string;
  status?: MaintenanceWindowStatus | undefined;
}

/** Names in one notice. */
const nodesNamed = 50;
/** As much of a message that other components wrote. */
const longestMessage = 1_024;

/** Whom a notice is about, and what it says beside that. Times are RFC 3339. */
type Facts = Partial<NoticeData> & Pick<NoticeData, 'message'>;

function ofMaintenance(
  { name, uid, ...known }: NoticedMaintenance,
  type: NoticeType,
  { key, subject = name, time }: { key: string; subject?: string; time: string },
  facts: Facts,
): Notice {
  const object = { kind: 'NodeMaintenance', name, uid } as const;
  return { id: `${uid}.${key}`, type, subject, time, data: { object, severity: 'info', ...known, ...facts } };
}

/** Once for each stage: it keeps the time at which it first began. */
export function stageBegun(
  maintenance: NoticedMaintenance,
  stage: NodeMaintenanceStage,
  nodes: readonly string[],
  time: string,
): Notice {
  const message = `Stage ${stage} of NodeMaintenance ${maintenance.name} began on ${nodesIn(nodes)}.`;
  const key = `stage-${stage.toLowerCase()}`;
  return ofMaintenance(
    maintenance,
    'maintenance.stage-begun',
    { key, time },
    {
      message,
      stage,
      nodes: counted(nodes),
    },
  );
}

/** Once, however often pods appear on the nodes afterwards. */
export function drained(maintenance: NoticedMaintenance, nodes: readonly string[], time: string): Notice {
  const message = `NodeMaintenance ${maintenance.name} has drained ${nodesIn(nodes)}: they are ready for work.`;
  const facts = { message, stage: 'Drain', nodes: counted(nodes) } as const;
  return ofMaintenance(maintenance, 'maintenance.drained', { key: 'drained', time }, facts);
}

/** Once for each cause: a budget that blocks a thousand pods is one piece of news. */
export function blocked(
  maintenance: NoticedMaintenance,
  { pod, node, blocker }: { pod: string; node: string; blocker: Blocker },
  time: string,
): Notice {
  const reported = { pod, node, reason: blocker.reason, message: blocker.message.slice(0, longestMessage) };
  const message = `Pod ${pod} cannot leave node ${node}: ${reported.message}`;
  const severity = needsAPerson(blocker) ? 'warning' : 'info';
  const key = `blocked-${digest(`${blocker.reason} ${blocker.message}`)}`;
  const facts = { message, severity, stage: 'Drain', blocker: reported } as const;
  return ofMaintenance(maintenance, 'maintenance.blocked', { key, subject: node, time }, facts);
}

/** The end: one that has begun to drain, and has pods left, was cancelled. */
export function finished(
  maintenance: NoticedMaintenance,
  conditions: readonly Condition[],
  stages: readonly NodeMaintenanceStage[],
  time: string,
): Notice {
  const isCancelled = stages.includes('Drain') && !isTrue(conditions, 'Drained');
  const type = isCancelled ? 'maintenance.cancelled' : 'maintenance.completed';
  const how = isCancelled ? 'was completed with pods left to evacuate' : 'is complete';
  const message = `NodeMaintenance ${maintenance.name} ${how}: its nodes are given back.`;
  return ofMaintenance(maintenance, type, { key: 'finished', time }, { message, stage: 'Complete' });
}

/** A turn that waits for a person; a node that has not come back in time is told as that. */
export function turnFailed(
  maintenance: NoticedMaintenance,
  { node, reason, message: because }: { node: string; reason: string; message: string },
  time: string,
): Notice {
  const isNotBack = reason === 'NodeNotReady';
  const what = isNotBack ? `Node ${node} is not back` : `The turn of node ${node} failed`;
  const where = maintenance.window === undefined ? '' : ` in window ${maintenance.window}`;
  const message = `${what}${where}: ${because.slice(0, longestMessage)}.`;
  const type = isNotBack ? 'node.not-back' : 'turn.failed';
  const about = { key: 'turn-failed', subject: node, time };
  return ofMaintenance(maintenance, type, about, { message, severity: 'warning', failure: reason });
}

type ActiveWindow = Pick<NonNullable<MaintenanceWindowStatus['active']>, 'runId' | 'end'>;

function ofWindow(
  { name, uid }: NoticedWindow,
  type: NoticeType,
  { key, runId, time }: { key: string; runId: string; time: string },
  facts: Facts,
): Notice {
  const object = { kind: 'MaintenanceWindow', name, uid } as const;
  const id = `${uid}.${runId}.${key}`;
  return { id, type, subject: name, time, data: { object, severity: 'info', ...facts } };
}

export function windowOpened(window: NoticedWindow, { runId, end }: ActiveWindow, time: string): Notice {
  const message = `MaintenanceWindow ${window.name} is open until ${end}.`;
  return ofWindow(window, 'window.opened', { key: 'opened', runId, time }, { message, until: end });
}

/** Once for each thing that is to be approved: the whole window, whatever becomes of its nodes meanwhile, or one of these nodes. */
export function approvalNeeded(
  window: NoticedWindow,
  { runId, end, because, isWhole }: ActiveWindow & { because: string; isWhole: boolean },
  time: string,
): Notice {
  const key = isWhole ? 'approval' : `approval-${digest(because)}`;
  const message = `MaintenanceWindow ${window.name}: ${because}`;
  const facts = { message, severity: 'warning', until: end } as const;
  return ofWindow(window, 'window.approval-needed', { key, runId, time }, facts);
}

export function windowClosed(window: NoticedWindow, runId: string, time: string): Notice {
  const about = { key: 'closed', runId, time };
  const progress = window.status?.progress;
  if (progress === undefined)
    return ofWindow(window, 'window.closed', about, {
      message: `MaintenanceWindow ${window.name} has closed.`,
    });
  const { nodes, done, failed, remaining } = progress;
  const message = `MaintenanceWindow ${window.name} has closed: of ${nodes} nodes ${done} are done, ${failed} failed, ${remaining} remain.`;
  const severity = failed > 0 ? 'warning' : 'info';
  return ofWindow(window, 'window.closed', about, {
    message,
    severity,
    progress: { nodes, done, failed, remaining },
  });
}

function counted(nodes: readonly string[]): { count: number; names: string[] } {
  return { count: nodes.length, names: nodes.slice(0, nodesNamed) };
}

function nodesIn(nodes: readonly string[]): string {
  if (nodes.length === 0) return 'no node';
  return `${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'}: ${listed(nodes)}`;
}
