import type { HeldMeasurement } from './held.ts';
import type { BlockedMeasurement, BudgetMeasurement, DrainMeasurement } from './measure.ts';
import { successors } from './benchmarks.ts';
import { type PoliciesMeasurement, type PolicyRequest, policyRequests } from './policies.ts';
import { programCpuMsPerPod } from './programCpu.ts';
import type { ReadinessMeasurement } from './readiness.ts';
import { percentile, type Spread, spreadOf } from './statistics.ts';
import type { TakeOverMeasurement } from './takeOver.ts';
import { type TargetName, targetNames } from './targetNames.ts';
import { answersOf, type TrafficMeasurement } from './traffic.ts';

/** A measured metric, and whether its median meets its threshold. */
export interface ThresholdResult {
  metric: string;
  value: Spread | undefined;
  unit: string;
  bound?: Bound;
  /** A stricter value than the threshold, to work towards. */
  goal?: number;
  /** NOT COMPARED: its threshold is a ratio to a program that was not measured. NOT MEASURED: a figure of ours is missing. */
  result: 'MET' | 'MISSED' | 'NOT MEASURED' | 'NOT COMPARED' | 'NO THRESHOLD';
}

type Bound = { atMost: number } | { atLeast: number };

/** The most that ours may take relative to the others, and the most that it may use, of a drain. */
interface DrainBounds {
  wallTime: Partial<Record<TargetName, number>>;
  apiserverCpu: number;
  cpuMsPerPod: number;
  requestsPerPod: number;
  firstEvictionSeconds: number;
  silentSeconds: number;
}

const bounds: DrainBounds = {
  wallTime: { 'node-maintenance-operator': 1, floor: 1.3 },
  apiserverCpu: 1.2,
  cpuMsPerPod: 4,
  requestsPerPod: 3,
  firstEvictionSeconds: 0.3,
  silentSeconds: 1.5,
};

/** The bounds by the name of the benchmark. Another drain is only compared. */
const drainBounds: Readonly<Record<string, DrainBounds>> = {
  '1x250': { ...bounds, wallTime: { ...bounds.wallTime, kubectl: 0.2 } },
  '10x70': { ...bounds, wallTime: { ...bounds.wallTime, kubectl: 0.1 } },
};

export function checkDrain(benchmark: string, runs: readonly DrainMeasurement[]): ThresholdResult[] {
  const bound: Partial<DrainBounds> = drainBounds[benchmark] ?? {};
  const mine = runs.filter(({ target }) => target === 'ours');
  const own = (value: (run: DrainMeasurement) => number | undefined) => spreadOf(mine.map(value));
  return [
    ...comparedWith(runs, bound.wallTime).map((name) =>
      compare(runs, name, {
        metric: `wall time, ours / ${name}`,
        figure: ({ wallSeconds }) => wallSeconds,
        ...atMost(bound.wallTime?.[name]),
      }),
    ),
    compare(runs, 'floor', {
      metric: 'CPU of the apiserver, ours / floor',
      figure: ({ cpuSeconds }) => cpuSeconds['kube-apiserver'],
      ...atMost(bound.apiserverCpu),
    }),
    check({
      metric: 'CPU of the worker per evacuated pod',
      value: own(programCpuMsPerPod),
      unit: ' ms',
      ...atMost(bound.cpuMsPerPod),
    }),
    check({
      metric: 'requests per evacuated pod',
      value: own(({ requests, pods }) => requests.total / pods),
      unit: '',
      ...atMost(bound.requestsPerPod),
    }),
    check({
      metric: 'first eviction after the request',
      value: own(({ firstEvictionSeconds }) => firstEvictionSeconds),
      unit: ' s',
      ...atMost(bound.firstEvictionSeconds),
    }),
    check({
      metric: 'longest time without a change of the status',
      value: own(({ silentSeconds }) => silentSeconds),
      unit: ' s',
      ...atMost(bound.silentSeconds),
    }),
    check({
      metric: 'peak memory of the worker',
      value: own(({ residentMb }) => residentMb),
      unit: ' MB',
      bound: { atMost: 400 },
    }),
  ];
}

function atMost(bound: number | undefined): { bound?: Bound } {
  return bound === undefined ? {} : { bound: { atMost: bound } };
}

/** Returns the programs to compare with: those that were measured, and those that have a bound. */
function comparedWith(runs: readonly DrainMeasurement[], bound: DrainBounds['wallTime'] = {}): TargetName[] {
  const measured = othersIn(runs);
  return targetNames.filter((name) => measured.includes(name) || bound[name] !== undefined);
}

/** Compares a figure of ours with the same of another program. */
function compare(
  runs: readonly DrainMeasurement[],
  name: TargetName,
  {
    metric,
    figure,
    bound,
  }: { metric: string; figure: (run: DrainMeasurement) => number | undefined; bound?: Bound },
): ThresholdResult {
  const value = ratio(runs, ['ours', name], figure);
  const compared = { metric, value, unit: 'x', ...(bound && { bound }) };
  if (value === undefined && bound !== undefined && !othersIn(runs).includes(name))
    return { ...compared, result: 'NOT COMPARED' };
  return check(compared);
}

/** Returns the results that fail a check: thresholds that are missed, and those of ours without a figure. */
export function failuresOf(results: readonly ThresholdResult[]): ThresholdResult[] {
  return results.filter(
    ({ result, bound }) => result === 'MISSED' || (result === 'NOT MEASURED' && bound !== undefined),
  );
}

/** Returns the results whose thresholds say nothing: they compare with a program that was not measured. */
export function uncheckedOf(results: readonly ThresholdResult[]): ThresholdResult[] {
  return results.filter(({ result }) => result === 'NOT COMPARED');
}

function othersIn(runs: readonly DrainMeasurement[]): TargetName[] {
  return targetNames.filter((name) => name !== 'ours' && runs.some(({ target }) => target === name));
}

/** A day of a maintenance that is held; half a core for 500 of them; and an order in the meantime. */
export function checkHeld(runs: readonly HeldMeasurement[]): ThresholdResult[] {
  return [
    check({
      metric: 'billed actions per maintenance and day while held',
      value: spreadOf(runs.map(({ heldPerDay }) => sum(heldPerDay))),
      unit: '',
      bound: { atMost: 400 },
    }),
    check({
      metric: 'CPU of the worker while held',
      value: spreadOf(runs.map(({ cores }) => cores['worker'] ?? 0)),
      unit: ' cores',
      bound: { atMost: 0.5 },
    }),
    check({
      metric: 'CPU of Temporal while held',
      value: spreadOf(runs.map(({ cores }) => cores['temporal'] ?? 0)),
      unit: ' cores',
      bound: { atMost: 0.5 },
    }),
    check({
      metric: 'cancel of one until its node is uncordoned',
      value: spreadOf(runs.flatMap(({ cancel }) => cancel.map(({ completeSeconds }) => completeSeconds))),
      unit: ' s',
      bound: { atMost: 2 },
    }),
  ];
}

/** CPU time is compared round by round, because both slices of a round find the machine in about the same state. */
export function checkTraffic(runs: readonly TrafficMeasurement[]): ThresholdResult[] {
  return runs.flatMap(({ maintenances, rounds }) => [
    check({
      metric: `CPU of the apiserver for ordinary requests with ${maintenances} open maintenances, with / without this project`,
      value: spreadOf(rounds.map(({ bare, installed }) => installed.cpuSeconds / bare.cpuSeconds)),
      unit: 'x',
      bound: { atMost: 1.02 },
    }),
    check({
      metric: `99th percentile of the time to create a pod with ${maintenances} open maintenances, with / without this project`,
      value: spreadOf([p99Of(rounds, 'installed') / p99Of(rounds, 'bare')]),
      unit: 'x',
      bound: { atMost: 1.1 },
    }),
  ]);
}

/** Complete maintenances, and nodes, must cost requests of others nothing. */
export function checkPolicies(runs: readonly PoliciesMeasurement[]): ThresholdResult[] {
  const medianOf = (run: PoliciesMeasurement | undefined, request: PolicyRequest) =>
    run === undefined ? NaN : (percentile(run.seconds[request], 0.5) ?? NaN);
  const without = runs.find(({ complete, open }) => complete + open === 0);
  return runs
    .filter((run) => run !== without)
    .flatMap((run) =>
      policyRequests.map((request) =>
        check({
          metric: `time to ${request} with ${run.complete} complete and ${run.open} open maintenances, compared with none`,
          value: spreadOf([medianOf(run, request) / medianOf(without, request)]),
          unit: 'x',
          ...atMost(run.open === 0 ? 1.5 : undefined),
        }),
      ),
    );
}

function p99Of(rounds: TrafficMeasurement['rounds'], plane: 'bare' | 'installed'): number {
  const slices = rounds.map((round) => round[plane]);
  return percentile(answersOf(slices, 'create pod'), 0.99) ?? NaN;
}

export function checkBlocked(runs: readonly BlockedMeasurement[]): ThresholdResult[] {
  const mine = runs.filter(({ target }) => target === 'ours');
  const value = spreadOf(mine.map(({ rejectedPerSecond }) => rejectedPerSecond));
  return [check({ metric: 'rejected evictions per second', value, unit: '', bound: { atMost: 2 } })];
}

export function checkBudget(runs: readonly BudgetMeasurement[]): ThresholdResult[] {
  const mine = runs.filter(({ target }) => target === 'ours');
  return [
    ...comparedWith(runs, { floor: 1.2 }).map((name) =>
      compare(runs, name, {
        metric: `wall time, ours / ${name}`,
        figure: ({ wallSeconds }) => wallSeconds,
        ...atMost(name === 'floor' ? 1.2 : undefined),
      }),
    ),
    check({
      metric: 'rejected evictions per second',
      value: spreadOf(mine.map(({ rejectedPerSecond }) => rejectedPerSecond)),
      unit: '',
      bound: { atMost: 2 },
    }),
    check({
      metric: 'longest wait after the budget allows a disruption',
      value: spreadOf(mine.map(({ longestWait }) => longestWait)),
      unit: ' s',
      bound: { atMost: 2 },
    }),
  ];
}

export function checkReadiness(runs: readonly ReadinessMeasurement[]): ThresholdResult[] {
  return [
    check({
      metric: 'last gate Ready until the taint is removed, 99th percentile, lost agents return',
      value: spreadOf(runs.map(({ returning }) => percentile(returning, 0.99))),
      unit: ' s',
      bound: { atMost: 1 },
    }),
    check({
      metric: 'the same, all nodes join at the same time',
      value: spreadOf(runs.map(({ joining }) => percentile(joining, 0.99))),
      unit: ' s',
      bound: { atMost: 1 },
    }),
    check({
      metric: 'requests per node with gates',
      value: spreadOf(runs.map(({ gated }) => sum(gated))),
      unit: '',
    }),
    check({
      metric: 'requests per node without a policy',
      value: spreadOf(runs.map(({ ungated }) => sum(ungated))),
      unit: '',
    }),
    check({
      metric: 'peak memory of the worker',
      value: spreadOf(runs.map(({ residentMb }) => residentMb.peak)),
      unit: ' MB',
      bound: { atMost: 400 },
    }),
  ];
}

export function checkTakeOvers(runs: readonly TakeOverMeasurement[]): ThresholdResult[] {
  const longest = (times: readonly number[]) => spreadOf(times.length === 0 ? [] : [Math.max(...times)]);
  return successors.flatMap((successor) => {
    const own = runs.filter((run) => run.successor === successor);
    return [
      check({
        metric: `killed leader until the first eviction, ${successor}, longest`,
        value: longest(own.map(({ firstEviction }) => firstEviction)),
        unit: ' s',
        bound: { atMost: 5 },
      }),
      check({
        metric: `killed leader until the drain continues, ${successor}, longest`,
        value: longest(own.map(({ drainContinues }) => drainContinues)),
        unit: ' s',
      }),
      check({
        metric: `start of a worker until it is ready, ${successor}`,
        value: spreadOf(own.map(({ start }) => start)),
        unit: ' s',
        bound: { atMost: 3 },
      }),
    ];
  });
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

function check(measured: Omit<ThresholdResult, 'result'>): ThresholdResult {
  const { value, bound } = measured;
  if (value === undefined) return { ...measured, result: 'NOT MEASURED' };
  if (bound === undefined) return { ...measured, result: 'NO THRESHOLD' };
  const isMet = 'atMost' in bound ? value.median <= bound.atMost : value.median >= bound.atLeast;
  return { ...measured, result: isMet ? 'MET' : 'MISSED' };
}

/** Returns the ratio of a figure within each run that has both targets, because other load affects both alike. */
function ratio(
  runs: readonly DrainMeasurement[],
  [above, below]: readonly [TargetName, TargetName],
  figure: (run: DrainMeasurement) => number | undefined,
): Spread | undefined {
  const of = (name: TargetName) => runs.filter(({ target }) => target === name);
  const ratios = of(above).map((mine) => {
    const partner = of(below).find(({ run }) => run === mine.run);
    const [numerator, denominator] = [figure(mine), partner && figure(partner)];
    return numerator === undefined || denominator === undefined ? undefined : numerator / denominator;
  });
  return spreadOf(ratios);
}
