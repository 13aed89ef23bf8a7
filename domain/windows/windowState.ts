import { isRecord } from '../common/untrusted.ts';
import type { KnownRequests } from './requests.ts';

/** A node of a window, with the name of its NodeMaintenance. */
export interface WindowNode {
  node: string;
  maintenance: string;
}

/** The state of an open window. Plain JSON: it outlives activities and continue-as-new. */
export interface WindowState {
  revision: string;
  nodes: number;
  done: number;
  inProgress: WindowNode[];
  failed: WindowNode[];
  remaining: number;
  /** The reason why no more nodes are started now. */
  waiting?: { reason: string; message: string };
  /**
   * The times (in milliseconds since the epoch) at which the window started to wait for nodes to become ready, by UID of their
   * NodeMaintenance. The next activity continues from them. A change of these times alone is not reported.
   */
  waitingSince?: WaitingSince;
  /** The requests that the object records, if the workflow does not know them. It shows them; nothing is decided from them. */
  requests?: KnownRequests;
}

export type WaitingSince = Readonly<Record<string, number>>;

/**
 * Returns the times of a previous state that a worker could have recorded while the window was open. The state arrives through Temporal: any
 * other time would let a node fail too early, or never.
 */
export function plausibleWaitingSince(
  previous: unknown,
  { openedAtMs, nowMs }: { openedAtMs: number; nowMs: number },
): WaitingSince {
  const since = isRecord(previous) ? previous['waitingSince'] : undefined;
  if (!isRecord(since)) return {};
  const isPlausible = (at: unknown) => typeof at === 'number' && at >= openedAtMs && at <= nowMs;
  return Object.fromEntries(
    Object.entries(since).filter((entry): entry is [string, number] => isPlausible(entry[1])),
  );
}

/** Returns the signals of a list that arrives through Temporal; none if it is not a list of signals. */
export function plausibleSignals(signals: unknown): SentSignal[] {
  if (!Array.isArray(signals)) return [];
  return signals.filter(
    (one): one is SentSignal =>
      isRecord(one) &&
      typeof one['workflowId'] === 'string' &&
      ['pause', 'resume'].includes(one['signal'] as string),
  );
}

/** A signal that was sent to the workflow of a NodeMaintenance. */
export interface SentSignal {
  workflowId: string;
  signal: 'pause' | 'resume';
}

/** The next step of the workflow of an open window. */
export type WindowStep =
  | { kind: 'Progressed'; state: WindowState }
  /** Signal the workflows of NodeMaintenances, by workflow id. */
  | { kind: 'Signal'; state: WindowState; pause: string[]; resume: string[] }
  /** Close the window: nothing is left to do in it. */
  | { kind: 'Over'; state: WindowState }
  /** The MaintenanceWindow does not exist any more. */
  | { kind: 'Gone' };

/** Returns true for a step that `rollOut` could have returned: any client of the Temporal namespace may complete an activity. */
export function isWindowStep(step: unknown): step is WindowStep {
  if (!isRecord(step)) return false;
  const { kind, state, pause, resume } = step;
  if (kind === 'Gone') return true;
  if (!isWindowState(state)) return false;
  return kind === 'Signal' ? areTexts(pause) && areTexts(resume) : kind === 'Progressed' || kind === 'Over';
}

function isWindowState(state: unknown): boolean {
  if (!isRecord(state)) return false;
  const { revision, nodes, done, remaining, inProgress, failed, waiting, requests } = state;
  return (
    typeof revision === 'string' &&
    [nodes, done, remaining].every((count) => Number.isSafeInteger(count)) &&
    areWindowNodes(inProgress) &&
    areWindowNodes(failed) &&
    (waiting === undefined || (isRecord(waiting) && areTexts([waiting['reason'], waiting['message']]))) &&
    (requests === undefined || areRequests(requests))
  );
}

function areRequests(requests: unknown): boolean {
  if (!isRecord(requests)) return false;
  const { approved, paused, cancelled, approvedNodes } = requests;
  return [approved, paused, cancelled].every((flag) => typeof flag === 'boolean') && areTexts(approvedNodes);
}

function areWindowNodes(nodes: unknown): boolean {
  return (
    Array.isArray(nodes) &&
    nodes.every((node) => isRecord(node) && areTexts([node['node'], node['maintenance']]))
  );
}

function areTexts(values: unknown): boolean {
  return Array.isArray(values) && values.every((value) => typeof value === 'string');
}
