import { assertNever } from '../domain/common/assertNever.ts';
import { type Benchmark, successors, type Workload } from './benchmarks.ts';
import {
  blockedColumns,
  budgetColumns,
  type Column,
  drainColumns,
  idleColumns,
  takeOverColumns,
} from './columns.ts';
import type { HeldMeasurement } from './held.ts';
import type { IdleMeasurement } from './idle.ts';
import type { BlockedMeasurement, BudgetMeasurement, DrainMeasurement } from './measure.ts';
import { type PoliciesMeasurement, policyRequests } from './policies.ts';
import type { ReadinessMeasurement } from './readiness.ts';
import { percentile, type Spread, spreadOf } from './statistics.ts';
import { answersOf, type TrafficKind, trafficKinds, type TrafficMeasurement, type Slice } from './traffic.ts';
import type { TakeOverMeasurement } from './takeOver.ts';
import { type TargetName, targetNames } from './targetNames.ts';
import { aligned, spreadText } from './textTable.ts';
import { failuresOf, type ThresholdResult, uncheckedOf } from './thresholds.ts';

/** A run that has no figures, and why; without its number, all runs of the target. */
export interface Failure {
  target: TargetName;
  run?: number;
  reason: string;
}

/** All measurements of one benchmark; the JSON file holds these. */
export type BenchmarkResult = { thresholds: ThresholdResult[] } & (
  | {
      kind: 'Drain';
      benchmark: Benchmark & { kind: 'Drain' };
      runs: DrainMeasurement[];
      failures: Failure[];
    }
  | { kind: 'Blocked'; benchmark: Benchmark & { kind: 'Blocked' }; runs: BlockedMeasurement[] }
  | {
      kind: 'Budget';
      benchmark: Benchmark & { kind: 'Budget' };
      runs: BudgetMeasurement[];
      failures: Failure[];
    }
  | { kind: 'Readiness'; benchmark: Benchmark & { kind: 'Readiness' }; runs: ReadinessMeasurement[] }
  | { kind: 'Held'; benchmark: Benchmark & { kind: 'Held' }; runs: HeldMeasurement[] }
  | { kind: 'Idle'; benchmark: Benchmark & { kind: 'Idle' }; runs: IdleMeasurement[] }
  | { kind: 'Traffic'; benchmark: Benchmark & { kind: 'Traffic' }; runs: TrafficMeasurement[] }
  | { kind: 'Policies'; benchmark: Benchmark & { kind: 'Policies' }; runs: PoliciesMeasurement[] }
  | { kind: 'TakeOver'; benchmark: Benchmark & { kind: 'TakeOver' }; runs: TakeOverMeasurement[] }
);

/** Renders the result of a benchmark as text. */
export function textOf(result: BenchmarkResult): string {
  const body = [...tableOf(result), ...result.thresholds.map(thresholdLine)];
  return [titleOf(result.benchmark), '', ...body, ''].join('\n');
}

export function titleOf(benchmark: Benchmark): string {
  if (benchmark.kind === 'Drain')
    return `${benchmark.name}: ${workloadText(benchmark.workload)}${divisionText(benchmark)}`;
  if (benchmark.kind === 'Blocked')
    return `${benchmark.name}: ${workloadText(benchmark.workload)}, a PodDisruptionBudget that allows no disruption, ${benchmark.seconds} s`;
  if (benchmark.kind === 'Budget')
    return `${benchmark.name}: ${workloadText(benchmark.workload)}, one PodDisruptionBudget of maxUnavailable ${benchmark.maxUnavailable}`;
  if (benchmark.kind === 'Held')
    return `${benchmark.name}: ${benchmark.maintenances} maintenances in Cordon, each with one node, observed for ${benchmark.seconds} s`;
  if (benchmark.kind === 'Idle')
    return `${benchmark.name}: up to ${benchmark.nodes} nodes x ${benchmark.podsPerNode} pods, no maintenance is open`;
  if (benchmark.kind === 'Traffic')
    return `${benchmark.name}: requests of workloads and kubelets, ${benchmark.rounds} rounds, beside a control plane without this project`;
  if (benchmark.kind === 'Policies')
    return `${benchmark.name}: requests of others with ${benchmark.objects} complete maintenances and ${benchmark.objects} NodeReadinesses, no worker`;
  if (benchmark.kind === 'TakeOver')
    return `${benchmark.name}: the leader is killed ${benchmark.runs} times during a drain, for each kind of successor`;
  return `${benchmark.name}: ${benchmark.nodes} nodes that join at the same time, each with ${benchmark.gates} readiness gates`;
}

function divisionText({ division, isWarm }: Benchmark & { kind: 'Drain' }): string {
  const maintenances = {
    One: '',
    Each: ', a maintenance of each node',
    Overlapping: ', two maintenances that have half of their nodes in common',
  };
  return `${maintenances[division]}${isWarm ? '' : ', the first drain after the start'}`;
}

function workloadText({ nodes, podsPerNode }: Workload): string {
  return `${nodes} ${nodes === 1 ? 'node' : 'nodes'} x ${podsPerNode} pods`;
}

function tableOf(result: BenchmarkResult): string[] {
  switch (result.kind) {
    case 'Drain':
      return [
        ...drainTable(result.runs),
        ...result.failures.map(failureLine),
        '',
        ...costLines(result.runs),
        '',
      ];
    case 'Blocked':
      return [...blockedTable(result.runs), ''];
    case 'Budget':
      return [
        ...table(budgetColumns, result.runs),
        ...result.failures.map(failureLine),
        '',
        ...costLines(result.runs),
        '',
      ];
    case 'Readiness':
      return result.runs.flatMap(readinessLines);
    case 'Held':
      return result.runs.flatMap(heldLines);
    case 'Idle':
      return [...idleTable(result.runs), ''];
    case 'Traffic':
      return result.runs.flatMap(trafficLines);
    case 'Policies':
      return [...policiesTable(result.runs), ''];
    case 'TakeOver':
      return [...takeOverTable(result.runs), ''];
    default:
      return assertNever(result);
  }
}

function heldLines(run: HeldMeasurement): string[] {
  const { starting, heldPerDay, completing, describesPerDay, startSeconds, cores, residentMb } = run;
  return [
    `  billed actions to start and cordon, per maintenance: ${countsText(starting, 1)}; all are held after ${startSeconds.toFixed(0)} s`,
    `  billed actions while held, per maintenance and day: ${countsText(heldPerDay, 0)}; DescribeWorkflowExecution ${describesPerDay.toFixed(0)}`,
    `  billed actions to complete, per maintenance: ${countsText(completing, 1)}`,
    `  a cancel while the others are held: answered after ${secondsText(run.cancel.map((one) => one.answerSeconds))}, node uncordoned after ${secondsText(run.cancel.map((one) => one.completeSeconds))}`,
    `  requests to Kubernetes while held, per maintenance and hour: ${countsText(run.requestsPerHour, 1)}`,
    `  cores while held: ${countsText(cores, 2)}; memory of the worker ${residentMb.toFixed(0)} MB`,
    '',
  ];
}

function policiesTable(runs: readonly PoliciesMeasurement[]): string[] {
  const titles = ['complete', 'open', ...policyRequests.map((request) => `${request} ms`)];
  const rows = runs.map(({ complete, open, seconds }) => {
    const times = policyRequests.map((request) => spreadOf(seconds[request].map((one) => one * 1_000)));
    return [`${complete}`, `${open}`, ...times.map((time) => spreadText(time, 1))];
  });
  return aligned([titles, ...rows]);
}

function idleTable(runs: readonly IdleMeasurement[]): string[] {
  const rows = runs.map((run) => idleColumns.map(({ value, digits }) => value(run)?.toFixed(digits) ?? '-'));
  return aligned([idleColumns.map(({ title }) => title), ...rows]);
}

function trafficLines({ maintenances, rounds }: TrafficMeasurement): string[] {
  const total = (slices: readonly Slice[]) => slices.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0);
  const [bare, installed] = [rounds.map((round) => round.bare), rounds.map((round) => round.installed)];
  const times = (slices: readonly Slice[], kind: TrafficKind) => {
    const sorted = answersOf(slices, kind);
    const text = (share: number) => ((percentile(sorted, share) ?? NaN) * 1_000).toFixed(1);
    return `${text(0.5)} / ${text(0.99)}`;
  };
  return [
    `  ${maintenances} open maintenances: CPU of the apiserver ${total(bare).toFixed(1)} s without, ${total(installed).toFixed(1)} s with this project`,
    ...trafficKinds.map(
      (kind) => `    ${kind}, ms p50 / p99: ${times(bare, kind)} without, ${times(installed, kind)} with`,
    ),
    '',
  ];
}

function secondsText(seconds: readonly number[]): string {
  const { median, max } = spreadOf(seconds) ?? { median: NaN, max: NaN };
  return `${median.toFixed(2)} s (median of ${seconds.length}; at most ${max.toFixed(2)} s)`;
}

function countsText(counts: Readonly<Record<string, number>>, digits: number): string {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const parts = Object.entries(counts).map(([kind, count]) => `${kind} ${count.toFixed(digits)}`);
  return `${total.toFixed(digits)} (${parts.join(', ')})`;
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
    `  last gate Ready until the taint is removed, lost agents return: ${times(returning)}`,
    `  the same, all nodes join at the same time: ${times(joining)}; the last one accepts pods after ${wallSeconds.toFixed(1)} s`,
    `  requests per node without a policy: ${kinds(ungated)}`,
    `  requests per node with gates: ${kinds(gated)}`,
    `  memory of the worker, MB: ${memory.join(', ')}`,
    '',
  ];
}

function takeOverTable(runs: readonly TakeOverMeasurement[]): string[] {
  const rows = successors.map((successor) => {
    const own = runs.filter((run) => run.successor === successor);
    const cells = takeOverColumns.map(({ value, digits }) => longestText(spreadOf(own.map(value)), digits));
    return [successor, String(own.length), ...cells];
  });
  return aligned([['', 'runs', ...takeOverColumns.map(({ title }) => `${title} (p50, max)`)], ...rows]);
}

/** Returns the median and the longest time. */
export function longestText(spread: Spread | undefined, digits: number): string {
  return spread === undefined ? '-' : `${spread.median.toFixed(digits)}, ${spread.max.toFixed(digits)}`;
}

export function failureLine({ target, run, reason }: Failure): string {
  return `  ${target}  ${run === undefined ? 'not measured' : `run ${run} failed`}: ${reason}`;
}

function drainTable(runs: readonly DrainMeasurement[]): string[] {
  return table(drainColumns, runs);
}

function blockedTable(runs: readonly BlockedMeasurement[]): string[] {
  return table(blockedColumns, runs);
}

function table<T extends { target: TargetName }>(
  columns: readonly Column<T>[],
  runs: readonly T[],
): string[] {
  return aligned(rowsOf(columns, runs));
}

/** Returns the titles, and one row per target: the median of its runs and their spread. */
export function rowsOf<T extends { target: TargetName }>(
  columns: readonly Column<T>[],
  runs: readonly T[],
): string[][] {
  const rows = targetNames.flatMap((name) => {
    const own = runs.filter(({ target }) => target === name);
    if (own.length === 0) return [];
    const cells = columns.map(({ value, digits }) => spreadText(spreadOf(own.map(value)), digits));
    return [[name, String(own.length), ...cells]];
  });
  return [['', 'runs', ...columns.map(({ title }) => title)], ...rows];
}

/** Lists the requests by kind, and the CPU time by process, of each target's first run. */
export function costLines(runs: readonly DrainMeasurement[]): string[] {
  return targetNames.flatMap((name) => {
    const first = runs.find(({ target }) => target === name);
    if (first === undefined) return [];
    const kinds = Object.entries(first.requests.byKind).map(([kind, count]) => `${kind} ${count}`);
    return [
      `  ${name}, requests: ${kinds.join(', ')}`,
      `  ${name}, CPU s: ${cpuText(first.cpuSeconds)}`,
      `  ${name}, CPU s of the ${first.settling.seconds.toFixed(1)} s afterwards, until its last request: ${cpuText(first.settling.cpuSeconds)}`,
    ];
  });
}

function cpuText(cpuSeconds: Readonly<Record<string, number>>): string {
  return Object.entries(cpuSeconds)
    .map(([process, seconds]) => `${process} ${seconds.toFixed(1)}`)
    .join(', ');
}

export function thresholdLine({ result, metric, value, unit, bound, goal }: ThresholdResult): string {
  const limit = bound && ('atMost' in bound ? `at most ${bound.atMost}` : `at least ${bound.atLeast}`);
  const wanted = [limit, goal === undefined ? undefined : `goal ${goal}`].filter(Boolean).join(', ');
  const measured = `${spreadText(value, 2)}${value === undefined ? '' : unit}`;
  return `  ${result.padEnd(12)}  ${metric}: ${measured}${wanted === '' ? '' : ` (${wanted})`}`;
}

/** Returns the lines about the thresholds that are missed, or whose figures of ours are missing, and about those that nothing was compared with. */
export function checkResults(results: readonly BenchmarkResult[]): {
  failures: string[];
  unchecked: string[];
} {
  const lines = (select: (all: readonly ThresholdResult[]) => ThresholdResult[]) =>
    results.flatMap(({ benchmark, thresholds }) =>
      select(thresholds).map((one) => `${benchmark.name}: ${thresholdLine(one).trim()}`),
    );
  return { failures: lines(failuresOf), unchecked: lines(uncheckedOf) };
}
