import type { CalendarEntry, MaintenanceWindow, WindowSchedule } from '../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { isTrue } from './conditions.ts';
import { compareNames, listed } from './names.ts';
import { stageOf } from './stage.ts';
import { verdictOn } from './turnVerdict.ts';
import { type Standing, standingOf } from './windowProgress.ts';
import { nextOpening } from './windowSchedule.ts';

/** How it stands with a MaintenanceWindow, for people and scripts. Times are RFC 3339. */
export interface WindowSummary {
  name: string;
  /** When it opens, in words. */
  schedule: string;
  timeZone: string;
  duration: string;
  /** The next openings; none while no window opens. */
  next: string[];
  suspended: boolean;
  approval: MaintenanceWindow['spec']['approval'];
  /** Of the window that is open, or is over and has turns to finish. */
  open?: { since: string; until: string; isOver: boolean; workflowId: string };
  /** Of the newest revision; absent until the window has been open for it. */
  progress?: { nodes: number; done: number; inProgress: number; failed: number; remaining: number };
  /** Why no further turn begins now. */
  waiting?: { reason: string; message: string };
  awaitsApproval: boolean;
  /** What is wrong with it. */
  problems: { type: string; reason: string; message: string }[];
  turns: TurnSummary[];
}

export interface TurnSummary {
  node: string;
  /** Name of its NodeMaintenance. */
  maintenance: string;
  stage: string;
  outcome: Exclude<Standing['kind'], 'Cancelled'>;
  /** Since when the outcome is so. */
  since?: string;
  message: string;
}

/** The NodeMaintenance of a node's turn. */
export interface SeenTurn {
  node: string;
  revision: string;
  /** What is done on the node once it is drained. */
  work: MaintenanceWindow['spec']['work']['type'];
  maintenance: Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>;
}

const openingsShown = 3;

/** `now` is milliseconds. */
export function windowSummaryOf(
  { metadata, spec, status }: MaintenanceWindow,
  turns: readonly SeenTurn[],
  now: number,
): WindowSummary {
  const { schedule, suspend, approval } = spec;
  const { active, progress, conditions = [] } = status ?? {};
  const opens = isTrue(conditions, 'Scheduled');
  const waiting = active?.waiting;
  const shown = turns.flatMap((turn) => turnSummaryOf(turn, progress?.revision) ?? []);
  return {
    name: metadata.name,
    schedule: scheduleInWords(schedule),
    timeZone: schedule.timeZone,
    duration: schedule.duration,
    next: opens ? openings(schedule, now) : [],
    suspended: suspend,
    approval,
    ...(active && {
      open: {
        since: active.start,
        until: active.end,
        isOver: Date.parse(active.end) <= now,
        workflowId: active.workflowId,
      },
    }),
    ...(progress && { progress: countsOf(progress) }),
    ...(waiting && { waiting }),
    awaitsApproval: waiting?.reason === 'ApprovalNeeded',
    problems: problemsOf(conditions),
    turns: shown.toSorted((a, b) => compareNames(a.node, b.node)),
  };
}

function openings(schedule: WindowSchedule, now: number): string[] {
  const found: string[] = [];
  for (let at = now; found.length < openingsShown; ) {
    const next = nextOpening(schedule, at);
    if (next === undefined) break;
    found.push(new Date(next).toISOString());
    at = next;
  }
  return found;
}

function countsOf({
  nodes,
  done,
  inProgress,
  failed,
  remaining,
}: NonNullable<NonNullable<MaintenanceWindow['status']>['progress']>): NonNullable<
  WindowSummary['progress']
> {
  return { nodes, done, inProgress, failed, remaining };
}

function problemsOf(
  conditions: NonNullable<MaintenanceWindow['status']>['conditions'],
): WindowSummary['problems'] {
  if (conditions.length === 0)
    return [{ type: 'Valid', reason: 'NotSeen', message: 'No worker has taken it up yet.' }];
  // Who suspended it knows; who wrote what is not valid is told by that condition.
  const isTold = (reason: string) => reason === 'Suspended' || reason === 'NotValid';
  return conditions
    .filter(({ status, reason }) => status !== 'True' && !isTold(reason))
    .map(({ type, reason, message }) => ({ type, reason, message }));
}

/** Undefined for what tells nothing: a turn that is to be had anew, or is over and of an earlier revision. */
function turnSummaryOf(turn: SeenTurn, revision: string | undefined): TurnSummary | undefined {
  const { node, maintenance } = turn;
  const { status, metadata } = maintenance;
  const { kind: outcome } = standingOf(maintenance);
  if (outcome === 'Cancelled' || (outcome === 'Succeeded' && turn.revision !== revision)) return undefined;
  const verdict = verdictOn(maintenance);
  const stage = stageOf(maintenance);
  const begun = status?.stageStatuses.find(({ name }) => name === stage)?.startTimestamp;
  const since = outcome === 'UnderWay' ? begun : verdict?.lastTransitionTime;
  return {
    node,
    maintenance: metadata.name,
    stage,
    outcome,
    ...(since && { since }),
    message: verdict === undefined ? doing(turn) : `${verdict.reason}: ${verdict.message}`,
  };
}

function doing({ work, maintenance }: SeenTurn): string {
  const { status } = maintenance;
  if (stageOf(maintenance) === 'Complete') return 'given back, and not ready for pods yet';
  if (isTrue(status?.conditions, 'Paused')) return 'its drain rests';
  if (isTrue(status?.conditions, 'Drained'))
    return work === 'Job' ? 'drained, and its Job works' : 'drained, and waits until its turn is advanced';
  const blocked = status?.podsBlocked ?? 0;
  if (blocked > 0) return `drains; ${blocked} ${blocked === 1 ? 'pod cannot' : 'pods cannot'} leave`;
  return status?.nodeStatuses[0]?.drainMessage || 'drains';
}

/** Such as `Saturday, Sunday at 03:00 Europe/Berlin, for 4h, not on 2026-12-26`. */
export function scheduleInWords({
  cron,
  calendar = [],
  timeZone,
  duration,
  exceptions = [],
}: WindowSchedule): string {
  const times = cron === undefined ? calendar.map(entryInWords).join(', and ') : `by cron ${cron}`;
  const not = exceptions.length === 0 ? '' : `, not on ${listed(exceptions.toSorted())}`;
  return `${times} ${timeZone}, for ${duration}${not}`;
}

function entryInWords({ time, daysOfWeek, daysOfMonth, months, years }: CalendarEntry): string {
  const numbers = daysOfMonth && `on the ${runs(daysOfMonth)}`;
  const when = [
    daysOfWeek?.join(', ') ?? (numbers === undefined ? 'every day' : undefined),
    numbers,
    months && `of ${months.map((month) => monthNames[month - 1]).join(', ')}`,
    years && `in ${runs(years)}`,
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

/** `1-7, 21` */
function runs(numbers: readonly number[]): string {
  const parts: [number, number][] = [];
  for (const number of [...new Set(numbers)].toSorted((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last !== undefined && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(', ');
}
