import { availableParallelism } from 'node:os';
import { assertNever } from '../domain/common/assertNever.ts';
import {
  checkBlocked,
  checkBudget,
  checkDrain,
  checkHeld,
  checkReadiness,
  checkTakeOvers,
} from './thresholds.ts';
import type { Testbed } from './testbed.ts';
import { budgetFloor } from './budgetFloor.ts';
import type { Target, TargetName } from './target.ts';
import { floor } from './floor.ts';
import { measureHeld } from './held.ts';
import { kubectl } from './kubectl.ts';
import { type DrainMeasurement, measureBlocked, measureBudget, measureDrain } from './measure.ts';
import type { Options } from './options.ts';
import { ours } from './ours.ts';
import { measureReadiness } from './readiness.ts';
import type { BenchmarkResult } from './report.ts';
import { measureTakeOvers } from './takeOver.ts';
import type { Benchmark, BenchmarkOf } from './benchmarks.ts';

const targets: Record<TargetName, Target> = { ours, kubectl, floor };

/** Everything that a benchmark needs in addition to its testbed. */
export interface Plan {
  options: Options;
  report: (line: string) => void;
}

export async function runBenchmark(
  testbed: Testbed,
  plan: Plan,
  benchmark: Benchmark,
): Promise<BenchmarkResult> {
  switch (benchmark.kind) {
    case 'Drain':
      return runDrains(testbed, plan, benchmark);
    case 'Blocked':
      return runBlocked(testbed, plan, benchmark);
    case 'Budget':
      return runBudget(testbed, plan, benchmark);
    case 'Readiness':
      return runReadiness(testbed, plan, benchmark);
    case 'Held':
      return runHeld(testbed, plan, benchmark);
    case 'TakeOver':
      return runTakeOvers(testbed, plan, benchmark);
    default:
      return assertNever(benchmark);
  }
}

async function runDrains(
  testbed: Testbed,
  { options, report }: Plan,
  benchmark: BenchmarkOf<'Drain'>,
): Promise<BenchmarkResult> {
  const runs = [];
  for (const { name, run } of schedule(options)) {
    report(`${benchmark.name}, run ${run}: ${name}`);
    const measurement = await measureDrain(testbed, targets[name], benchmark.workload, run);
    report(
      `${benchmark.name}, run ${run}: ${name} took ${measurement.wallSeconds.toFixed(2)} s${disturbance(measurement)}`,
    );
    runs.push(measurement);
  }
  return { kind: 'Drain', benchmark, runs, thresholds: checkDrain(benchmark.name, runs) };
}

/** Returns a warning when other programs used more than a tenth of the machine: such a run is not comparable. */
function disturbance({ cpuSeconds, wallSeconds, reportedSeconds }: DrainMeasurement): string {
  const elsewhere = cpuSeconds['elsewhere'] ?? 0;
  const share = elsewhere / (Math.max(wallSeconds, reportedSeconds) * availableParallelism());
  return share > 0.1 ? `; other programs used ${Math.round(share * 100)} % of the machine: run it again` : '';
}

/** Returns the runs in their order. Every run reverses the order of the targets, so that none always follows the same one. */
function schedule(options: Options): { name: TargetName; run: number }[] {
  const runsOf = (name: TargetName) => (name === 'kubectl' ? options.kubectlRuns : options.runs);
  const runs = Math.max(...options.targets.map(runsOf));
  return Array.from({ length: runs }, (_, index) => index + 1).flatMap((run) => {
    const names = options.targets.filter((name) => run <= runsOf(name));
    return (run % 2 === 1 ? names : names.toReversed()).map((name) => ({ name, run }));
  });
}

/** Leaves kubectl out: it takes minutes, because it retries each rejected eviction in a loop. */
async function runBudget(
  testbed: Testbed,
  { options, report }: Plan,
  benchmark: BenchmarkOf<'Budget'>,
): Promise<BenchmarkResult> {
  const runs = [];
  const budgetTargets = { ours, floor: budgetFloor };
  for (const { name, run } of schedule(options)) {
    if (name === 'kubectl') continue;
    report(`${benchmark.name}, run ${run}: ${name}`);
    const measurement = await measureBudget(testbed, budgetTargets[name], benchmark, run);
    report(
      `${benchmark.name}, run ${run}: ${name} took ${measurement.wallSeconds.toFixed(2)} s${disturbance(measurement)}`,
    );
    runs.push(measurement);
  }
  return { kind: 'Budget', benchmark, runs, thresholds: checkBudget(runs) };
}

/** Leaves the floor out: it does not retry rejected evictions. */
async function runBlocked(
  testbed: Testbed,
  { options, report }: Plan,
  benchmark: BenchmarkOf<'Blocked'>,
): Promise<BenchmarkResult> {
  const runs = [];
  for (const name of options.targets.filter((target) => target !== 'floor')) {
    report(`${benchmark.name}: ${name}`);
    runs.push(await measureBlocked(testbed, targets[name], benchmark.workload, benchmark.seconds));
  }
  return { kind: 'Blocked', benchmark, runs, thresholds: checkBlocked(runs) };
}

/** Runs once: the measurement covers many nodes. */
async function runReadiness(
  testbed: Testbed,
  { options, report }: Plan,
  benchmark: BenchmarkOf<'Readiness'>,
): Promise<BenchmarkResult> {
  report(benchmark.name);
  const runs = options.targets.includes('ours') ? [await measureReadiness(testbed, benchmark)] : [];
  return { kind: 'Readiness', benchmark, runs, thresholds: checkReadiness(runs) };
}

/** Runs once: the measurement covers many maintenances. */
async function runHeld(
  testbed: Testbed,
  { options, report }: Plan,
  benchmark: BenchmarkOf<'Held'>,
): Promise<BenchmarkResult> {
  report(benchmark.name);
  const runs = options.targets.includes('ours') ? [await measureHeld(testbed, benchmark, report)] : [];
  return { kind: 'Held', benchmark, runs, thresholds: checkHeld(runs) };
}

async function runTakeOvers(
  testbed: Testbed,
  { options, report }: Plan,
  benchmark: BenchmarkOf<'TakeOver'>,
): Promise<BenchmarkResult> {
  report(benchmark.name);
  const runs = options.targets.includes('ours') ? await measureTakeOvers(testbed, benchmark, report) : [];
  return { kind: 'TakeOver', benchmark, runs, thresholds: checkTakeOvers(runs) };
}
