import type { HeldMeasurement } from './held.ts';
import type { BlockedMeasurement, BudgetMeasurement, DrainMeasurement } from './measure.ts';
import type { ReadinessMeasurement } from './readiness.ts';
import { percentile, type Spread, spreadOf } from './statistics.ts';
import { successors, type TakeOverMeasurement } from './takeOver.ts';
import type { TargetName } from './target.ts';

/** A measured metric, and whether its median meets its threshold. */
export interface ThresholdResult {
  metric: string;
  value: Spread | undefined;
  unit: string;
  bound?: Bound;
  /** A stricter value than the threshold, to work towards. */
  goal?: number;
  result: 'MET' | 'MISSED' | 'NOT MEASURED' | 'NO THRESHOLD';
}

type Bound = { atMost: number } | { atLeast: number };

/** The required speed relative to kubectl and to the floor, by the name of the benchmark. */
const speedThresholds: Record<string, { kubectl?: number; floor?: number; goal?: number }> = {
  '1x250': { kubectl: 5 },
  '10x70': { kubectl: 10, floor: 2, goal: 1.3 },
};

export function checkDrain(benchmark: string, runs: readonly DrainMeasurement[]): ThresholdResult[] {
  const { kubectl, floor, goal } = speedThresholds[benchmark] ?? {};
  const mine = runs.filter(({ target }) => target === 'ours');
  return [
    check({
      metric: 'wall time, kubectl drain / ours',
      value: ratio(runs, 'kubectl', 'ours'),
      unit: 'x',
      ...(kubectl === undefined ? {} : { bound: { atLeast: kubectl } }),
    }),
    check({
      metric: 'wall time, ours / floor',
      value: ratio(runs, 'ours', 'floor'),
      unit: 'x',
      ...(floor === undefined ? {} : { bound: { atMost: floor } }),
      ...(goal === undefined ? {} : { goal }),
    }),
    check({
      metric: 'requests per evacuated pod',
      value: spreadOf(mine.map(({ requests, pods }) => requests.total / pods)),
      unit: '',
      bound: { atMost: 6 },
      goal: 4,
    }),
    check({
      metric: 'peak memory of the worker',
      value: spreadOf(mine.map(({ residentMb }) => residentMb)),
      unit: ' MB',
      bound: { atMost: 400 },
    }),
  ];
}

/** A day of a maintenance that is held; and half a core for 500 of them. */
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
  ];
}

export function checkBlocked(runs: readonly BlockedMeasurement[]): ThresholdResult[] {
  const mine = runs.filter(({ target }) => target === 'ours');
  const value = spreadOf(mine.map(({ rejectedPerSecond }) => rejectedPerSecond));
  return [check({ metric: 'rejected evictions per second', value, unit: '', bound: { atMost: 2 } })];
}

export function checkBudget(runs: readonly BudgetMeasurement[]): ThresholdResult[] {
  const mine = runs.filter(({ target }) => target === 'ours');
  return [
    check({
      metric: 'wall time, ours / floor',
      value: ratio(runs, 'ours', 'floor'),
      unit: 'x',
      bound: { atMost: 1.2 },
    }),
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
  return [
    ...successors.map((successor) =>
      check({
        metric: `killed leader until the first eviction, ${successor}, longest`,
        value: longest(runs.filter((run) => run.successor === successor).map((run) => run.firstEviction)),
        unit: ' s',
        bound: { atMost: 5 },
      }),
    ),
    check({
      metric: 'start of a worker until it is ready',
      value: spreadOf(runs.map(({ start }) => start)),
      unit: ' s',
      bound: { atMost: 3 },
    }),
  ];
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

/** Returns the ratio of wall times within each run that has both targets, because other load affects both alike. */
function ratio(runs: readonly DrainMeasurement[], above: TargetName, below: TargetName): Spread | undefined {
  const of = (name: TargetName) => runs.filter(({ target }) => target === name);
  const ratios = of(above).map(({ run, wallSeconds }) => {
    const partner = of(below).find((other) => other.run === run);
    return partner && wallSeconds / partner.wallSeconds;
  });
  return spreadOf(ratios);
}
