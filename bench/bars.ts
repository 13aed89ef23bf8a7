import type { ContenderName } from './contender.ts';
import type { BlockedMeasurement, BudgetMeasurement, DrainMeasurement } from './measure.ts';
import type { ReadinessMeasurement } from './readiness.ts';
import { percentile, type Spread, spreadOf } from './statistics.ts';

/** A number that the project is judged by, and whether it is good enough; by the median. */
export interface Verdict {
  what: string;
  value: Spread | undefined;
  unit: string;
  bound?: Bound;
  /** Better than the bound demands. */
  aim?: number;
  verdict: 'MET' | 'MISSED' | 'NOT MEASURED' | 'NO BAR';
}

type Bound = { atMost: number } | { atLeast: number };

/** How much faster than kubectl, and how close to the floor, by the name of the work. */
const speedBars: Record<string, { kubectl?: number; floor?: number; aim?: number }> = {
  '1x250': { kubectl: 5 },
  '10x70': { kubectl: 10, floor: 2, aim: 1.3 },
};

export function judgeDrain(work: string, runs: readonly DrainMeasurement[]): Verdict[] {
  const { kubectl, floor, aim } = speedBars[work] ?? {};
  const mine = runs.filter(({ contender }) => contender === 'ours');
  return [
    judge({
      what: 'wall time, kubectl drain / ours',
      value: ratio(runs, 'kubectl', 'ours'),
      unit: 'x',
      ...(kubectl === undefined ? {} : { bound: { atLeast: kubectl } }),
    }),
    judge({
      what: 'wall time, ours / floor',
      value: ratio(runs, 'ours', 'floor'),
      unit: 'x',
      ...(floor === undefined ? {} : { bound: { atMost: floor } }),
      ...(aim === undefined ? {} : { aim }),
    }),
    judge({
      what: 'requests per evacuated pod',
      value: spreadOf(mine.map(({ requests, pods }) => requests.total / pods)),
      unit: '',
      bound: { atMost: 6 },
      aim: 4,
    }),
    judge({
      what: 'peak memory of the worker',
      value: spreadOf(mine.map(({ residentMb }) => residentMb)),
      unit: ' MB',
      bound: { atMost: 400 },
    }),
  ];
}

export function judgeBlocked(runs: readonly BlockedMeasurement[]): Verdict[] {
  const mine = runs.filter(({ contender }) => contender === 'ours');
  const value = spreadOf(mine.map(({ refusedPerSecond }) => refusedPerSecond));
  return [judge({ what: 'refused evictions per second', value, unit: '', bound: { atMost: 2 } })];
}

export function judgeBudget(runs: readonly BudgetMeasurement[]): Verdict[] {
  const mine = runs.filter(({ contender }) => contender === 'ours');
  return [
    judge({
      what: 'wall time, ours / floor',
      value: ratio(runs, 'ours', 'floor'),
      unit: 'x',
      bound: { atMost: 1.2 },
    }),
    judge({
      what: 'refused evictions per second',
      value: spreadOf(mine.map(({ refusedPerSecond }) => refusedPerSecond)),
      unit: '',
      bound: { atMost: 2 },
    }),
    judge({
      what: 'longest wait after the budget frees',
      value: spreadOf(mine.map(({ longestWait }) => longestWait)),
      unit: ' s',
      bound: { atMost: 2 },
    }),
  ];
}

export function judgeHistory(events: { small: number; large: number } | undefined): Verdict[] {
  const value = spreadOf([events && (events.large / events.small - 1) * 100]);
  return [
    judge({ what: 'more history events for ten times the pods', value, unit: ' %', bound: { atMost: 10 } }),
  ];
}

export function judgeReadiness(runs: readonly ReadinessMeasurement[]): Verdict[] {
  return [
    judge({
      what: 'last gate Ready until the taint is gone, 99th percentile, agents that are back',
      value: spreadOf(runs.map(({ returning }) => percentile(returning, 0.99))),
      unit: ' s',
      bound: { atMost: 1 },
    }),
    judge({
      what: 'the same, all nodes joining at once',
      value: spreadOf(runs.map(({ joining }) => percentile(joining, 0.99))),
      unit: ' s',
      bound: { atMost: 1 },
    }),
    judge({
      what: 'nodes without the taint in their first version',
      value: spreadOf(runs.map(({ bornOpen }) => bornOpen)),
      unit: '',
      bound: { atMost: 0 },
    }),
    judge({
      what: 'requests per node with gates',
      value: spreadOf(runs.map(({ gated }) => sum(gated))),
      unit: '',
    }),
    judge({
      what: 'requests per node without a policy',
      value: spreadOf(runs.map(({ ungated }) => sum(ungated))),
      unit: '',
    }),
    judge({
      what: 'peak memory of the worker',
      value: spreadOf(runs.map(({ residentMb }) => residentMb.peak)),
      unit: ' MB',
      bound: { atMost: 400 },
    }),
  ];
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

function judge(measured: Omit<Verdict, 'verdict'>): Verdict {
  const { value, bound } = measured;
  if (value === undefined) return { ...measured, verdict: 'NOT MEASURED' };
  if (bound === undefined) return { ...measured, verdict: 'NO BAR' };
  const isMet = 'atMost' in bound ? value.median <= bound.atMost : value.median >= bound.atLeast;
  return { ...measured, verdict: isMet ? 'MET' : 'MISSED' };
}

/** Of the wall times, within each run that has both: what the machine does besides weighs on both. */
function ratio(
  runs: readonly DrainMeasurement[],
  above: ContenderName,
  below: ContenderName,
): Spread | undefined {
  const of = (name: ContenderName) => runs.filter(({ contender }) => contender === name);
  const ratios = of(above).map(({ run, wallSeconds }) => {
    const partner = of(below).find((other) => other.run === run);
    return partner && wallSeconds / partner.wallSeconds;
  });
  return spreadOf(ratios);
}
