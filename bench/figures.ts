import { assertNever } from '../domain/common/assertNever.ts';
import { successors } from './benchmarks.ts';
import {
  blockedColumns,
  budgetColumns,
  type Column,
  drainColumns,
  idleColumns,
  takeOverColumns,
} from './columns.ts';
import type { HeldMeasurement } from './held.ts';
import type { ReadinessMeasurement } from './readiness.ts';
import type { BenchmarkResult } from './report.ts';
import { percentile, type Spread, spreadOf } from './statistics.ts';
import { targetNames } from './targetNames.ts';
import { type PoliciesMeasurement, policyRequests } from './policies.ts';
import { answersOf, type Slice, type TrafficMeasurement, trafficKinds } from './traffic.ts';

/** The medians and ranges of a program, of a size of the cluster or of a kind of successor. */
export interface FigureRow {
  name: string;
  runs: number;
  /** Title with the unit -> figure. One that was not measured is missing. */
  figures: Record<string, Spread>;
}

/** Summarizes the runs of a benchmark. */
export function figuresOf(result: BenchmarkResult): FigureRow[] {
  switch (result.kind) {
    case 'Drain':
      return rowsBy(result.runs, { names: targetNames, nameOf: ({ target }) => target }, drainColumns);
    case 'Budget':
      return rowsBy(result.runs, { names: targetNames, nameOf: ({ target }) => target }, budgetColumns);
    case 'Blocked':
      return rowsBy(result.runs, { names: targetNames, nameOf: ({ target }) => target }, blockedColumns);
    case 'Readiness':
      return readinessRows(result.runs);
    case 'Held':
      return heldRows(result.runs);
    case 'Idle':
      return result.runs.map((run) => rowOf(`${run.nodes} nodes`, [run], idleColumns));
    case 'Traffic':
      return result.runs.map(trafficRow);
    case 'Policies':
      return result.runs.map(policiesRow);
    case 'TakeOver':
      return rowsBy(
        result.runs,
        { names: successors, nameOf: ({ successor }) => successor },
        takeOverColumns,
      );
    default:
      return assertNever(result);
  }
}

function rowsBy<T>(
  runs: readonly T[],
  { names, nameOf }: { names: readonly string[]; nameOf: (run: T) => string },
  columns: readonly Column<T>[],
): FigureRow[] {
  return names.flatMap((name) => {
    const own = runs.filter((run) => nameOf(run) === name);
    return own.length === 0 ? [] : [rowOf(name, own, columns)];
  });
}

function rowOf<T>(
  name: string,
  runs: readonly T[],
  columns: readonly Pick<Column<T>, 'title' | 'value'>[],
): FigureRow {
  const figures = columns.map(({ title, value }) => [title, spreadOf(runs.map(value))] as const);
  return { name, runs: runs.length, figures: measured(figures) };
}

function measured(figures: readonly (readonly [title: string, Spread | undefined])[]): FigureRow['figures'] {
  return Object.fromEntries(
    figures.flatMap(([title, spread]) => (spread === undefined ? [] : [[title, spread] as const])),
  );
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

function readinessRows(runs: readonly ReadinessMeasurement[]): FigureRow[] {
  const times = (secondsOf: (run: ReadinessMeasurement) => readonly number[]) =>
    [
      { title: 'median s', share: 0.5 },
      { title: '99th percentile s', share: 0.99 },
      { title: 'longest s', share: 1 },
    ].map(({ title, share }) => ({
      title,
      value: (run: ReadinessMeasurement) => percentile(secondsOf(run), share),
    }));
  return [
    rowOf(
      'lost agents return',
      runs,
      times(({ returning }) => returning),
    ),
    rowOf('all nodes join at once', runs, [
      ...times(({ joining }) => joining),
      { title: 'last node accepts pods s', value: ({ wallSeconds }) => wallSeconds },
    ]),
    rowOf('without a policy', runs, [
      { title: 'requests/node', value: ({ ungated }) => sum(ungated) },
      { title: 'RSS MB', value: ({ residentMb }) => residentMb.ungated },
      { title: 'RSS MB before the nodes join', value: ({ residentMb }) => residentMb.without },
    ]),
    rowOf('with gates', runs, [
      { title: 'requests/node', value: ({ gated }) => sum(gated) },
      { title: 'RSS MB', value: ({ residentMb }) => residentMb.gated },
      { title: 'peak MB', value: ({ residentMb }) => residentMb.peak },
    ]),
  ];
}

function heldRows(runs: readonly HeldMeasurement[]): FigureRow[] {
  return runs.map((run) => {
    const row = rowOf(`${run.maintenances} maintenances`, [run], heldColumns);
    const cancels = measured([
      ['cancel answered s', spreadOf(run.cancel.map(({ answerSeconds }) => answerSeconds))],
      ['cancel uncordoned s', spreadOf(run.cancel.map(({ completeSeconds }) => completeSeconds))],
    ]);
    return { ...row, figures: { ...row.figures, ...cancels } };
  });
}

const heldColumns: readonly Pick<Column<HeldMeasurement>, 'title' | 'value'>[] = [
  { title: 'all cordoned s', value: ({ startSeconds }) => startSeconds },
  { title: 'actions to start', value: ({ starting }) => sum(starting) },
  { title: 'actions/day', value: ({ heldPerDay }) => sum(heldPerDay) },
  { title: 'actions to complete', value: ({ completing }) => sum(completing) },
  { title: 'worker cores', value: ({ cores }) => cores['worker'] },
  { title: 'Temporal cores', value: ({ cores }) => cores['temporal'] },
  { title: 'apiserver cores', value: ({ cores }) => cores['kube-apiserver'] },
  { title: 'RSS MB', value: ({ residentMb }) => residentMb },
  { title: 'requests/h', value: ({ requestsPerHour }) => sum(requestsPerHour) },
];

function trafficRow({ maintenances, rounds }: TrafficMeasurement): FigureRow {
  const [bare, installed] = [rounds.map((round) => round.bare), rounds.map((round) => round.installed)];
  const cpu = (slices: readonly Slice[]) => slices.reduce((total, { cpuSeconds }) => total + cpuSeconds, 0);
  const answers = trafficKinds.flatMap((kind) =>
    [
      { title: 'median', share: 0.5 },
      { title: 'p99', share: 0.99 },
    ].flatMap(({ title, share }) => [
      [`${kind} ${title} ms`, inMs(percentile(answersOf(installed, kind), share))] as const,
      [`${kind} ${title} ms without`, inMs(percentile(answersOf(bare, kind), share))] as const,
    ]),
  );
  const figures = measured([
    ['CPU ratio', spreadOf(rounds.map((round) => round.installed.cpuSeconds / round.bare.cpuSeconds))],
    ['CPU ratio of all slices', spreadOf([cpu(installed) / cpu(bare)])],
    ...answers,
  ]);
  return { name: String(maintenances), runs: rounds.length, figures };
}

function policiesRow({ complete, open, seconds }: PoliciesMeasurement): FigureRow {
  const figures = policyRequests.map(
    (request) => [`${request} ms`, inMs(spreadOf(seconds[request])?.median)] as const,
  );
  return { name: `${complete} complete, ${open} open`, runs: 1, figures: measured(figures) };
}

function inMs(seconds: number | undefined): Spread | undefined {
  return spreadOf([seconds === undefined ? undefined : seconds * 1_000]);
}
