import type { CalendarEntry, MaintenanceWindow, WindowSchedule } from '../../api/maintenanceWindow.ts';
import { isTrue } from '../common/conditions.ts';
import { compareNames, listed } from '../common/names.ts';
import { needsAttention } from '../common/stalledRun.ts';
import { isDrained, stageOf } from '../common/stage.ts';
import { type NodeOutcome, nodeOutcomeOf } from './nodeOutcome.ts';
import { nodeResultOf } from './nodeResult.ts';
import { pauseOf, scheduleOf, skippedDates, stopOf } from './overrides.ts';
import { nextOpening } from './schedule.ts';
import { type WindowMaintenance, workTypeOf } from './windowMaintenance.ts';

/** The state of a MaintenanceWindow, for people and scripts. Times are RFC 3339. */
export interface WindowSummary {
  name: string;
  /** The schedule as text. */
  schedule: string;
  timeZone: string;
  duration: string;
  /** The next openings. Empty while the window does not open. */
  next: string[];
  /** `.spec.suspend`, which a manifest may set. */
  suspended: boolean;
  /** Reason of the pause, if an annotation pauses the window. */
  paused?: string;
  /** Local dates that an annotation skips. */
  skipped?: string[];
  approval: MaintenanceWindow['spec']['approval'];
  /** The open window, or a window that has ended and still has nodes in progress. */
  open?: { since: string; until: string; hasEnded: boolean; workflowId: string };
  /** The progress of the newest revision. Undefined until the window opens for the first time. */
  progress?: {
    nodes: number;
    done: number;
    inProgress: number;
    failed: number;
    remaining: number;
    /** Number of nodes that need no reboot, if the window reboots only those that need one. */
    notRequired?: number;
  };
  /** Nodes that need a reboot, and whose maintenance has not started. Undefined if the window does not reboot nodes. */
  rebootRequired?: { nodes: number; names: string[] };
  /** The reason why no more nodes are started now. */
  waiting?: { reason: string; message: string };
  awaitsApproval: boolean;
  /** The conditions that require action. */
  problems: { type: string; reason: string; message: string }[];
  nodes: WindowNodeSummary[];
}

export interface WindowNodeSummary {
  node: string;
  /** Name of its NodeMaintenance. */
  maintenance: string;
  stage: string;
  state: Exclude<NodeOutcome['state'], 'Remaining'>;
  /** Time at which the node entered this state. */
  since?: string;
  message: string;
}

const maxOpenings = 3;

/** Summarizes the state of a window. */
export function windowSummaryOf(
  window: MaintenanceWindow,
  maintenances: readonly WindowMaintenance[],
  nowMs: number,
): WindowSummary {
  const { metadata, spec, status } = window;
  const { suspend, approval } = spec;
  const schedule = scheduleOf(window);
  const paused = pauseOf(window);
  const skipped = skippedDates(window);
  const { active, progress, conditions = [] } = status ?? {};
  const waiting = active?.waiting;
  const nodes = maintenances.flatMap((one) => nodeSummaryOf(one, progress?.revision) ?? []);
  return {
    name: metadata.name,
    schedule: scheduleText(schedule),
    timeZone: schedule.timeZone,
    duration: schedule.duration,
    next: stopOf(window) === undefined && isTrue(conditions, 'Scheduled') ? openings(schedule, nowMs) : [],
    suspended: suspend,
    ...(paused !== undefined && { paused }),
    ...(skipped.length > 0 && { skipped }),
    approval,
    ...(active && {
      open: {
        since: active.start,
        until: active.end,
        hasEnded: Date.parse(active.end) <= nowMs,
        workflowId: active.workflowId,
      },
    }),
    ...(progress && { progress: countsOf(progress) }),
    ...(progress?.rebootRequired && { rebootRequired: progress.rebootRequired }),
    ...(waiting && { waiting }),
    awaitsApproval: waiting?.reason === 'ApprovalNeeded',
    problems: windowProblems(conditions),
    nodes: nodes.toSorted((a, b) => compareNames(a.node, b.node)),
  };
}

function openings(schedule: WindowSchedule, nowMs: number): string[] {
  const found: string[] = [];
  for (let at = nowMs; found.length < maxOpenings; ) {
    const next = nextOpening(schedule, at);
    if (next === undefined) break;
    found.push(new Date(next).toISOString());
    at = next;
  }
  return found;
}

type Status = NonNullable<MaintenanceWindow['status']>;

function countsOf({
  nodes,
  done,
  inProgress,
  failed,
  remaining,
  notRequired,
}: NonNullable<Status['progress']>): NonNullable<WindowSummary['progress']> {
  const counts = { nodes, done, inProgress, failed, remaining };
  return { ...counts, ...(notRequired !== undefined && { notRequired }) };
}

/** Suspended and Paused are intended, and InvalidSpec only repeats condition Valid. */
const expectedReasons = ['Suspended', 'Paused', 'InvalidSpec'];

/** Returns the conditions of a window that a user should do something about. */
export function windowProblems(conditions: Status['conditions']): WindowSummary['problems'] {
  if (conditions.length === 0)
    return [{ type: 'Valid', reason: 'Pending', message: 'No worker has reconciled the window yet.' }];
  return conditions
    .filter((condition) => needsAttention(condition) && !expectedReasons.includes(condition.reason))
    .map(({ type, reason, message }) => ({ type, reason, message }));
}

/** Returns undefined for a node that is maintained again: after a cancellation, or because it succeeded in an earlier revision. */
function nodeSummaryOf(
  windowMaintenance: WindowMaintenance,
  revision: string | undefined,
): WindowNodeSummary | undefined {
  const { node, maintenance } = windowMaintenance;
  const { state } = nodeOutcomeOf(maintenance);
  if (state === 'Remaining' || (state === 'Succeeded' && windowMaintenance.revision !== revision))
    return undefined;
  const result = nodeResultOf(maintenance);
  const stage = stageOf(maintenance);
  const stageStarted = maintenance.status?.stageStatuses.find(({ name }) => name === stage)?.startTimestamp;
  const since = state === 'InProgress' ? stageStarted : result?.lastTransitionTime;
  return {
    node,
    maintenance: maintenance.metadata.name,
    stage,
    state,
    ...(since && { since }),
    message: result === undefined ? progressMessage(maintenance) : `${result.reason}: ${result.message}`,
  };
}

const drainedMessages = {
  None: 'drained, waiting for its work to be marked as done',
  Job: 'drained, its Job is running',
  Reboot: 'drained, waiting for its reboot',
} as const;

function progressMessage(maintenance: WindowMaintenance['maintenance']): string {
  const { status } = maintenance;
  if (stageOf(maintenance) === 'Complete') return 'uncordoned, waiting until it is in service';
  if (isTrue(status?.conditions, 'Paused')) return 'drain paused';
  if (isDrained(maintenance)) return drainedMessages[workTypeOf(maintenance)];
  const blocked = status?.podsBlocked ?? 0;
  if (blocked > 0) return `draining; ${blocked} ${blocked === 1 ? 'pod is' : 'pods are'} blocked`;
  return status?.nodeStatuses[0]?.drainMessage || 'draining';
}

/** Describes a schedule, such as `Saturday, Sunday at 03:00 Europe/Berlin, for 4h, not on 2026-12-26`. */
export function scheduleText({
  cron,
  calendar = [],
  timeZone,
  duration,
  exceptions = [],
}: WindowSchedule): string {
  const times = cron === undefined ? calendar.map(entryText).join(', and ') : `cron ${cron}`;
  const not = exceptions.length === 0 ? '' : `, not on ${listed(exceptions.toSorted())}`;
  return `${times} ${timeZone}, for ${duration}${not}`;
}

function entryText({ time, daysOfWeek, daysOfMonth, months, years }: CalendarEntry): string {
  const numbers = daysOfMonth && `on the ${ranges(daysOfMonth)}`;
  const when = [
    daysOfWeek?.join(', ') ?? (numbers === undefined ? 'every day' : undefined),
    numbers,
    months && `of ${months.map((month) => monthNames[month - 1]).join(', ')}`,
    years && `in ${ranges(years)}`,
  ];
  return `${when.filter((part) => part !== undefined).join(' ')} at ${time}`;
}

const monthNames = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];

/** Joins consecutive numbers, such as `1-7, 21`. */
function ranges(numbers: readonly number[]): string {
  const parts: [number, number][] = [];
  for (const number of [...new Set(numbers)].toSorted((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last !== undefined && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(', ');
}
