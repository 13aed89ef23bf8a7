import { type Verdict } from './bars.ts';
import { type ContenderName, contenderNames } from './contender.ts';
import type { BlockedMeasurement, BudgetMeasurement, DrainMeasurement } from './measure.ts';
import type { ReadinessMeasurement } from './readiness.ts';
import { percentile, type Spread, spreadOf } from './statistics.ts';
import type { Scene, Work } from './works.ts';

/** Everything that was measured of one work; this is what the JSON file holds. */
export type WorkResult = { verdicts: Verdict[] } & (
  | { kind: 'Drain'; work: Work & { kind: 'Drain' }; runs: DrainMeasurement[] }
  | { kind: 'Blocked'; work: Work & { kind: 'Blocked' }; runs: BlockedMeasurement[] }
  | { kind: 'Budget'; work: Work & { kind: 'Budget' }; runs: BudgetMeasurement[] }
  | { kind: 'History'; work: Work & { kind: 'History' }; events?: { small: number; large: number } }
  | { kind: 'Readiness'; work: Work & { kind: 'Readiness' }; runs: ReadinessMeasurement[] }
);

/** The result of a work, for people. */
export function textOf(result: WorkResult): string {
  const body = [...tableOf(result), ...result.verdicts.map(verdictLine)];
  return [titleOf(result.work), '', ...body, ''].join('\n');
}

function titleOf(work: Work): string {
  if (work.kind === 'Drain') return `${work.name}: ${sceneText(work.scene)}`;
  if (work.kind === 'Blocked')
    return `${work.name}: ${sceneText(work.scene)}, a PodDisruptionBudget that lets none go, ${work.seconds} s`;
  if (work.kind === 'Budget')
    return `${work.name}: ${sceneText(work.scene)}, one PodDisruptionBudget of maxUnavailable ${work.maxUnavailable}`;
  if (work.kind === 'Readiness')
    return `${work.name}: ${work.nodes} nodes that join at once, each with ${work.gates} readiness gates`;
  return `${work.name}: ${sceneText(work.small)}, then ${sceneText(work.large)}`;
}

function sceneText({ nodes, podsPerNode }: Scene): string {
  return `${nodes} ${nodes === 1 ? 'node' : 'nodes'} x ${podsPerNode} pods`;
}

function tableOf(result: WorkResult): string[] {
  switch (result.kind) {
    case 'Drain':
      return [...drainTable(result.runs), '', ...costLines(result.runs), ''];
    case 'Blocked':
      return [...blockedTable(result.runs), ''];
    case 'Budget':
      return [...table(budgetColumns, result.runs), '', ...costLines(result.runs), ''];
    case 'History':
      return result.events === undefined
        ? []
        : [`  ${result.events.small} history events, then ${result.events.large}`, ''];
    case 'Readiness':
      return result.runs.flatMap(readinessLines);
    default:
      return assertNever(result);
  }
}

function readinessLines(run: ReadinessMeasurement): string[] {
  const { joining, returning, wallSeconds, ungated, gated, residentMb } = run;
  const times = (seconds: readonly number[]) =>
    [0.5, 0.9, 0.99, 1]
      .map(
        (share) =>
          `${share === 1 ? 'longest' : `p${share * 100}`} ${percentile(seconds, share)?.toFixed(2)} s`,
      )
      .join(', ');
  const kinds = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .map(([kind, count]) => `${kind} ${count.toFixed(2)}`)
      .join(', ');
  const memory = Object.entries(residentMb).map(([when, mb]) => `${when} ${mb.toFixed(0)}`);
  return [
    `  last gate Ready until the taint is gone, agents that are back: ${times(returning)}`,
    `  the same, all nodes joining at once: ${times(joining)}; the last one took pods after ${wallSeconds.toFixed(1)} s`,
    `  requests per node without a policy: ${kinds(ungated)}`,
    `  requests per node with gates: ${kinds(gated)}`,
    `  memory of the worker, MB: ${memory.join(', ')}`,
    '',
  ];
}

const drainColumns: readonly Column<DrainMeasurement>[] = [
  { title: 'gone s', value: ({ wallSeconds }) => wallSeconds, digits: 2 },
  { title: 'reported s', value: ({ reportedSeconds }) => reportedSeconds, digits: 2 },
  { title: 'pods/s', value: ({ pods, wallSeconds }) => pods / wallSeconds, digits: 1 },
  { title: 'requests/pod', value: ({ requests, pods }) => requests.total / pods, digits: 2 },
  { title: 'own count/pod', value: ({ ownRequests, pods }) => ownRequests && ownRequests / pods, digits: 2 },
  { title: 'refused', value: ({ requests }) => requests.refused, digits: 0 },
  { title: 'RSS MB', value: ({ residentMb }) => residentMb, digits: 0 },
  { title: 'history', value: ({ historyEvents }) => historyEvents, digits: 0 },
];

const blockedColumns: readonly Column<BlockedMeasurement>[] = [
  { title: 'refused/s', value: ({ refusedPerSecond }) => refusedPerSecond, digits: 2 },
  { title: 'requests/s', value: ({ requestsPerSecond }) => requestsPerSecond, digits: 2 },
];

const budgetColumns: readonly Column<BudgetMeasurement>[] = [
  ...drainColumns,
  { title: 'start s', value: ({ start }) => start, digits: 2 },
  { title: 'longest wait s', value: ({ longestWait }) => longestWait, digits: 2 },
  { title: 'p99 wait s', value: ({ p99Wait }) => p99Wait, digits: 2 },
];

interface Column<T> {
  title: string;
  value: (run: T) => number | undefined;
  digits: number;
}

function drainTable(runs: readonly DrainMeasurement[]): string[] {
  return table(drainColumns, runs);
}

function blockedTable(runs: readonly BlockedMeasurement[]): string[] {
  return table(blockedColumns, runs);
}

/** One row for each contender: the median of its runs, and how far they spread. */
function table<T extends { contender: ContenderName }>(
  columns: readonly Column<T>[],
  runs: readonly T[],
): string[] {
  const rows = contenderNames.flatMap((name) => {
    const own = runs.filter(({ contender }) => contender === name);
    if (own.length === 0) return [];
    const cells = columns.map(({ value, digits }) => spreadText(spreadOf(own.map(value)), digits));
    return [[name, String(own.length), ...cells]];
  });
  return aligned([['', 'runs', ...columns.map(({ title }) => title)], ...rows]);
}

function aligned(rows: readonly string[][]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')}`.trimEnd(),
  );
}

/** What the requests of each contender's first run were for, and which processes worked for it. */
function costLines(runs: readonly DrainMeasurement[]): string[] {
  return contenderNames.flatMap((name) => {
    const first = runs.find(({ contender }) => contender === name);
    if (first === undefined) return [];
    const kinds = Object.entries(first.requests.byKind).map(([kind, count]) => `${kind} ${count}`);
    const cpu = Object.entries(first.cpuSeconds).map(
      ([process, seconds]) => `${process} ${seconds.toFixed(1)}`,
    );
    return [`  ${name}, requests: ${kinds.join(', ')}`, `  ${name}, CPU s: ${cpu.join(', ')}`];
  });
}

function verdictLine({ verdict, what, value, unit, bound, aim }: Verdict): string {
  const limit = bound && ('atMost' in bound ? `at most ${bound.atMost}` : `at least ${bound.atLeast}`);
  const wanted = [limit, aim === undefined ? undefined : `aim ${aim}`].filter(Boolean).join(', ');
  const measured = `${spreadText(value, 2)}${value === undefined ? '' : unit}`;
  return `  ${verdict.padEnd(12)}  ${what}: ${measured}${wanted === '' ? '' : ` (${wanted})`}`;
}

function spreadText(spread: Spread | undefined, digits: number): string {
  if (spread === undefined) return '-';
  const [median, min, max] = [spread.median, spread.min, spread.max].map((number) => number.toFixed(digits));
  return min === max ? `${median}` : `${median} (${min}..${max})`;
}

function assertNever(value: never): never {
  throw new Error(`unexpected ${JSON.stringify(value)}`);
}
