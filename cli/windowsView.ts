import { listed } from '../domain/names.ts';
import type { TurnSummary, WindowSummary } from '../domain/windowSummary.ts';
import { indented } from './block.ts';
import { age, type Column, duration, shown, table } from './output.ts';
import { windowTitleOf } from './windowObjects.ts';

/** Who looks, and when. */
export interface Look {
  /** Milliseconds. */
  now: number;
  /** Where they are: an IANA time zone. */
  zone: string;
}

/** Here, at this time. */
export function lookAt(now: Date): Look {
  return { now: now.getTime(), zone: new Intl.DateTimeFormat().resolvedOptions().timeZone };
}

/** All windows, a row each. */
export function windowsTable(summaries: readonly WindowSummary[], look: Look): string {
  return table(windowColumns(look), summaries);
}

export function windowColumns(look: Look): Column<WindowSummary>[] {
  return [
    { title: 'NAME', cell: ({ name }) => name },
    { title: 'OPENS', cell: ({ schedule }) => schedule },
    {
      title: 'NEXT',
      cell: ({ next, timeZone }) => next[0] && moment(next[0], timeZone, look),
    },
    { title: 'OPEN UNTIL', cell: ({ open, timeZone }) => open && moment(open.until, timeZone, look) },
    { title: 'UNDER WAY', cell: ({ progress }) => progress?.inProgress.toString() },
    { title: 'DONE', cell: ({ progress }) => progress && `${progress.done}/${progress.nodes}` },
    { title: 'LEFT', cell: ({ progress }) => progress?.remaining.toString() },
    { title: 'FAILED', cell: ({ progress }) => progress?.failed.toString() },
    { title: 'REMARKS', cell: remarks },
  ];
}

function remarks({ suspended, problems, awaitsApproval, waiting, open }: WindowSummary): string {
  return [
    ...(awaitsApproval ? ['waits for approval'] : []),
    ...(open?.isOver === true ? ['over, finishing its turns'] : []),
    ...(suspended ? ['suspended'] : []),
    ...problems.map(({ type, reason }) => `${type}: ${reason}`),
    ...(waiting !== undefined && !awaitsApproval ? [waiting.reason] : []),
  ].join(', ');
}

/** One window for people, but for its turns. */
export interface WindowText {
  readonly headline: string;
  /** When it opens. */
  readonly times: readonly string[];
  readonly progress: string;
  /** What it waits for, and what to do about it. */
  readonly waiting: readonly string[];
  /** What is wrong with it. */
  readonly problems: readonly string[];
}

export function windowText(summary: WindowSummary, look: Look): WindowText {
  const { name, schedule, next, timeZone, waiting, problems } = summary;
  return {
    headline: `${windowTitleOf(name)}: ${stateText(summary, look)}`,
    times: [
      `opens ${shown(schedule)}`,
      ...(next.length === 0 ? [] : [`next: ${next.map((at) => moment(at, timeZone, look)).join('; ')}`]),
    ],
    progress: progressText(summary),
    waiting: [
      ...(waiting === undefined ? [] : [shown(waiting.message, longest)]),
      ...(summary.awaitsApproval ? [approvalHint(summary)] : []),
    ],
    problems: problems.map(({ type, reason, message }) =>
      shown(`${type} is not True (${reason}): ${message}`, longest),
    ),
  };
}

/** One window and its turns. */
export function windowLines(summary: WindowSummary, look: Look): string[] {
  const { headline, times, progress, waiting, problems } = windowText(summary, look);
  const { turns } = summary;
  const rows = turns.length === 0 ? [] : table(turnColumns(look), turns).split('\n');
  return [headline, ...[...times, progress, ...waiting, ...problems, ...rows].map(indented)];
}

function stateText({ open, suspended, timeZone }: WindowSummary, look: Look): string {
  if (open === undefined) return suspended ? 'suspended' : 'closed';
  const until = moment(open.until, timeZone, look);
  if (open.isOver) return `over since ${until}, and finishes its turns`;
  return `open until ${until}, ${duration(Date.parse(open.until) - look.now)} left`;
}

function progressText({ progress }: WindowSummary): string {
  if (progress === undefined) return 'it has not been open yet';
  const { nodes, done, inProgress, failed, remaining } = progress;
  return `${done} of ${nodes} nodes done, ${inProgress} under way, ${failed} failed, ${remaining} left`;
}

function approvalHint({ name, approval }: WindowSummary): string {
  const which = approval === 'PerNode' ? ' --node NODE' : '';
  return `to approve: kubectl maintenance window approve ${name}${which}`;
}

const longest = 1_000;

const outcomes = { UnderWay: 'under way', Succeeded: 'done', Failed: 'failed' } as const;

export function turnColumns({ now }: Look): Column<TurnSummary>[] {
  return [
    { title: 'NODE', cell: ({ node }) => node },
    { title: 'TURN', cell: ({ outcome }) => outcomes[outcome] },
    { title: 'FOR', cell: ({ since }) => age(since, now) },
    { title: 'STAGE', cell: ({ stage }) => stage },
    { title: 'NODEMAINTENANCE', cell: ({ maintenance }) => maintenance },
    { title: 'MESSAGE', cell: ({ message }) => message },
  ];
}

/** Such as `Sat 2026-11-28 03:00 (Fri 21:00 here)`: by the clocks of the window's zone, and of who looks if these differ. */
export function moment(at: string, timeZone: string, { zone }: Look): string {
  const there = clock(at, timeZone);
  const here = clock(at, zone);
  const isSame = there.day === here.day && there.time === here.time;
  const hint = isSame
    ? ''
    : ` (${there.day === here.day ? '' : `${here.day.slice(0, 3)} `}${here.time} here)`;
  return `${there.day} ${there.time}${hint}`;
}

/** The date that the clocks of a zone show. */
export function dateIn(at: string, timeZone: string): string {
  return clock(at, timeZone).day.slice('Sat '.length);
}

function clock(at: string, timeZone: string): { day: string; time: string } {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone,
    weekday: 'short',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  });
  const parts = new Map(format.formatToParts(new Date(at)).map(({ type, value }) => [type, value]));
  const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? '';
  return {
    day: `${part('weekday')} ${part('year')}-${part('month')}-${part('day')}`,
    time: `${part('hour')}:${part('minute')}`,
  };
}

/** What makes a line worth while in a pipe. */
export function windowKey({ name: _, turns, ...summary }: WindowSummary): string {
  return JSON.stringify([summary, turns.map(({ node, stage, outcome }) => [node, stage, outcome])]);
}

/** One line, for a pipe. */
export function windowLine(summary: WindowSummary, look: Look): string {
  const [first = ''] = windowLines(summary, look);
  const underWay = summary.turns.filter(({ outcome }) => outcome === 'UnderWay').map(({ node }) => node);
  const nodes = underWay.length === 0 ? '' : ` (${listed(underWay)})`;
  const words = [first, `${progressText(summary)}${nodes}`, remarks(summary)];
  return words.filter((part) => part !== '').join('; ');
}
