import { listed } from '../../domain/common/names.ts';
import { numbered } from '../../domain/common/text.ts';
import type { WindowNodeSummary, WindowSummary } from '../../domain/windows/summary.ts';
import { age, duration, escapeForTerminal } from '../output.ts';
import { indented } from '../terminal/block.ts';
import { type Column, table } from '../terminal/table.ts';
import { knownTimeZone } from '../timeZone.ts';
import { windowTitleOf } from './windowObjects.ts';

/** Clock of the user who views the output. */
export interface Viewer {
  nowMs: number;
  /** IANA time zone. */
  timeZone: string;
}

export function viewerAt(now: Date): Viewer {
  return { nowMs: now.getTime(), timeZone: new Intl.DateTimeFormat().resolvedOptions().timeZone };
}

/** Formats all windows as a table. */
export function windowsTable(summaries: readonly WindowSummary[], viewer: Viewer): string {
  return table(windowColumns(viewer), summaries);
}

export function windowColumns(viewer: Viewer): Column<WindowSummary>[] {
  return [
    { title: 'NAME', cell: ({ name }) => name },
    { title: 'OPENS', cell: ({ schedule }) => schedule },
    { title: 'NEXT', cell: ({ next, timeZone }) => next[0] && formatTime(next[0], timeZone, viewer) },
    {
      title: 'OPEN UNTIL',
      cell: ({ open, timeZone }) => open && formatTime(open.until, timeZone, viewer),
    },
    { title: 'IN PROGRESS', cell: ({ progress }) => progress?.inProgress.toString() },
    { title: 'DONE', cell: ({ progress }) => progress && `${progress.done}/${neededNodes(progress)}` },
    { title: 'REMAINING', cell: ({ progress }) => progress?.remaining.toString() },
    { title: 'FAILED', cell: ({ progress }) => progress?.failed.toString() },
    { title: 'REMARKS', cell: remarks },
  ];
}

/** Nodes that need no reboot are not to be done. */
function neededNodes({ nodes, notRequired = 0 }: NonNullable<WindowSummary['progress']>): number {
  return nodes - notRequired;
}

function remarks(summary: WindowSummary): string {
  const { suspended, paused, problems, awaitsApproval, waiting, open, rebootRequired } = summary;
  return [
    ...(awaitsApproval ? ['waiting for approval'] : []),
    ...(open?.hasEnded === true ? ['ended, nodes in progress'] : []),
    ...(paused === undefined ? [] : ['paused']),
    ...(suspended ? ['suspended'] : []),
    ...problems.map(({ type, reason }) => `${type}: ${reason}`),
    ...(waiting !== undefined && !awaitsApproval ? [waiting.reason] : []),
    ...(rebootRequired === undefined || rebootRequired.nodes === 0
      ? []
      : [`${numbered(rebootRequired.nodes, 'reboot')} required`]),
  ].join(', ');
}

/** Text of one window, without its nodes. */
export interface WindowText {
  readonly headline: string;
  /** The schedule and the next openings. */
  readonly times: readonly string[];
  readonly progress: string;
  /** Why the window does not open or starts no more nodes, and how to change that. */
  readonly waiting: readonly string[];
  /** Conditions that require action. */
  readonly problems: readonly string[];
}

export function windowText(summary: WindowSummary, viewer: Viewer): WindowText {
  const { name, schedule, next, timeZone, waiting, problems } = summary;
  const nextTimes = next.map((time) => formatTime(time, timeZone, viewer)).join('; ');
  return {
    headline: `${windowTitleOf(name)}: ${stateText(summary, viewer)}`,
    times: [`opens ${escapeForTerminal(schedule)}`, ...(next.length === 0 ? [] : [`next: ${nextTimes}`])],
    progress: progressText(summary),
    waiting: [
      ...stopLines(summary),
      ...rebootLines(summary),
      ...(waiting === undefined ? [] : [escapeForTerminal(waiting.message, maxMessageLength)]),
      ...(summary.awaitsApproval ? [approvalHint(summary)] : []),
    ],
    problems: problems.map(({ type, reason, message }) =>
      escapeForTerminal(`${type} is not True (${reason}): ${message}`, maxMessageLength),
    ),
  };
}

/** Formats one window and its nodes. */
export function windowLines(summary: WindowSummary, viewer: Viewer): string[] {
  const { headline, times, progress, waiting, problems } = windowText(summary, viewer);
  const { nodes } = summary;
  const rows = nodes.length === 0 ? [] : table(nodeColumns(viewer), nodes).split('\n');
  return [headline, ...[...times, progress, ...waiting, ...problems, ...rows].map(indented)];
}

/** Says which of the two keeps the window from opening: the annotation or the spec. */
function stopLines({ name, suspended, paused }: WindowSummary): string[] {
  return [
    ...(paused === undefined
      ? []
      : [
          `paused by annotation (${escapeForTerminal(paused)}); to resume: kubectl maintenance window resume ${name}`,
        ]),
    ...(suspended ? ['suspended by spec.suspend: change it where its manifest is kept'] : []),
  ];
}

function rebootLines({ rebootRequired }: WindowSummary): string[] {
  if (rebootRequired === undefined || rebootRequired.nodes === 0) return [];
  const { nodes, names } = rebootRequired;
  const more = nodes > names.length ? ` and ${nodes - names.length} more` : '';
  return [`waiting for a reboot: ${names.map((name) => escapeForTerminal(name)).join(', ')}${more}`];
}

function stateText({ open, suspended, paused, timeZone }: WindowSummary, viewer: Viewer): string {
  if (open === undefined) {
    if (paused !== undefined) return 'paused';
    return suspended ? 'suspended' : 'closed';
  }
  const until = formatTime(open.until, timeZone, viewer);
  if (open.hasEnded) return `ended ${until}, nodes in progress`;
  return `open until ${until}, ${duration(Date.parse(open.until) - viewer.nowMs)} left`;
}

function progressText({ progress }: WindowSummary): string {
  if (progress === undefined) return 'not opened yet';
  const { done, inProgress, failed, remaining, notRequired } = progress;
  const counts = `${inProgress} in progress, ${failed} failed, ${remaining} remaining`;
  const others =
    notRequired === undefined ? '' : `; ${numbered(notRequired, 'node')} without need for a reboot`;
  return `${done} of ${neededNodes(progress)} nodes done, ${counts}${others}`;
}

function approvalHint({ name, approval }: WindowSummary): string {
  const option = approval === 'PerNode' ? ' --node NODE' : '';
  return `to approve: kubectl maintenance window approve ${name}${option}`;
}

const maxMessageLength = 1_000;

export function nodeColumns({ nowMs }: Viewer): Column<WindowNodeSummary>[] {
  return [
    { title: 'NODE', cell: ({ node }) => node },
    { title: 'STATE', cell: ({ state }) => state },
    { title: 'FOR', cell: ({ since }) => age(since, nowMs) },
    { title: 'STAGE', cell: ({ stage }) => stage },
    { title: 'NODEMAINTENANCE', cell: ({ maintenance }) => maintenance },
    { title: 'MESSAGE', cell: ({ message }) => message },
  ];
}

/** Formats a time in the time zone of the window, and of the viewer if it differs: `Sat 2026-11-28 03:00 (Fri 21:00 here)`. */
export function formatTime(time: string, timeZone: string, viewer: Viewer): string {
  const there = clock(time, timeZone);
  const here = clock(time, viewer.timeZone);
  const isSameDay = there.day === here.day;
  if (isSameDay && there.time === here.time) return `${there.day} ${there.time}`;
  const weekday = isSameDay ? '' : `${here.day.slice(0, 3)} `;
  return `${there.day} ${there.time} (${weekday}${here.time} here)`;
}

/** Returns the date of a time in a time zone. */
export function dateIn(time: string, timeZone: string): string {
  return clock(time, timeZone).day.slice('Sat '.length);
}

function clock(time: string, timeZone: string): { day: string; time: string } {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone: knownTimeZone(timeZone),
    weekday: 'short',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  });
  const parts = new Map(format.formatToParts(new Date(time)).map(({ type, value }) => [type, value]));
  const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? '';
  return {
    day: `${part('weekday')} ${part('year')}-${part('month')}-${part('day')}`,
    time: `${part('hour')}:${part('minute')}`,
  };
}

/** Returns the key whose changes are printed to a pipe. */
export function windowKey({ name: _, nodes, ...summary }: WindowSummary): string {
  return JSON.stringify([summary, nodes.map(({ node, stage, state }) => [node, stage, state])]);
}

/** Formats one window as one line, for a pipe. */
export function windowLine(summary: WindowSummary, viewer: Viewer): string {
  const [headline = ''] = windowLines(summary, viewer);
  const inProgress = summary.nodes
    .filter(({ state }) => state === 'InProgress')
    .map(({ node }) => escapeForTerminal(node));
  const nodes = inProgress.length === 0 ? '' : ` (${listed(inProgress)})`;
  const parts = [headline, `${progressText(summary)}${nodes}`, remarks(summary)];
  return parts.filter((part) => part !== '').join('; ');
}
