import { availableParallelism } from 'node:os';
import { assertNever } from '../domain/common/assertNever.ts';
import {
  checkBlocked,
  checkBudget,
  checkDrain,
  checkHeld,
  checkPolicies,
  checkReadiness,
  checkTakeOvers,
  checkTraffic,
} from './thresholds.ts';
import type { Testbed } from './testbed.ts';
import { budgetFloor } from './budgetFloor.ts';
import type { Target } from './target.ts';
import { isOperator, isOurs, type TargetName } from './targetNames.ts';
import { floor } from './floor.ts';
import { measureHeld } from './held.ts';
import { measureIdle } from './idle.ts';
import { kubectl, kubectlPerNode } from './kubectl.ts';
import { type DrainMeasurement, measureBlocked, measureBudget, measureDrain } from './measure.ts';
import type { Options } from './options.ts';
import { ours, oursLifecycle } from './ours.ts';
import type { OperatorBuilds } from './peers/build.ts';
import { operatorTarget } from './peers/target.ts';
import { measurePolicies } from './policies.ts';
import { measureReadiness } from './readiness.ts';
import type { BenchmarkResult, Failure } from './report.ts';
import { measureTakeOvers } from './takeOver.ts';
import { measureTraffic } from './traffic.ts';
import type { Benchmark, BenchmarkOf } from './benchmarks.ts';

const ownTargets = {
  ours,
  'ours-lifecycle': oursLifecycle,
  kubectl,
  'kubectl-per-node': kubectlPerNode,
  floor,
};

/** Everything that a benchmark needs in addition to its testbed. */
export interface Plan {
  options: Options;
  /** The operators among the targets. */
  builds: OperatorBuilds;
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
    case 'Idle':
      return runIdle(testbed, plan, benchmark);
    case 'Traffic':
      return runTraffic(testbed, plan, benchmark);
    case 'Policies':
      return runPolicies(testbed, plan, benchmark);
    case 'TakeOver':
      return runTakeOvers(testbed, plan, benchmark);
    default:
      return assertNever(benchmark);
  }
}

async function runDrains(
  testbed: Testbed,
  plan: Plan,
  benchmark: BenchmarkOf<'Drain'>,
): Promise<BenchmarkResult> {
  const { runs, failures } = await runAll(testbed, plan, {
    name: benchmark.name,
    schedule: schedule(plan.options),
    measure: (target, run) => measureDrain(testbed, target, benchmark, run),
  });
  return { kind: 'Drain', benchmark, runs, failures, thresholds: checkDrain(benchmark.name, runs) };
}

interface Series<T extends DrainMeasurement> {
  /** The name of the benchmark. */
  name: string;
  schedule: ScheduledRun[];
  measure(target: Target, run: number): Promise<T>;
}

/** Measures the targets in turn. A peer that fails is reported and does not end the benchmark. */
async function runAll<T extends DrainMeasurement>(
  { signal }: Testbed,
  { builds, report }: Plan,
  series: Series<T>,
): Promise<{ runs: T[]; failures: Failure[] }> {
  const runs: T[] = [];
  const failures: Failure[] = [];
  for (const { name, run } of series.schedule) {
    const title = `${series.name}, run ${run}: ${name}`;
    const target = targetOf(name, builds);
    if (typeof target === 'string') {
      if (run === 1) failures.push({ target: name, reason: target });
      continue;
    }
    report(title);
    try {
      const measurement = await series.measure(target, run);
      report(`${title} took ${measurement.wallSeconds.toFixed(2)} s${disturbance(measurement)}`);
      runs.push(measurement);
    } catch (error) {
      if (isOurs(name) || signal.aborted) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      report(`${title} failed: ${reason}`);
      failures.push({ target: name, run, reason });
    }
  }
  return { runs, failures };
}

/** Returns why the target cannot be measured, if it cannot. */
function targetOf(name: TargetName, builds: OperatorBuilds): Target | string {
  if (!isOperator(name)) return ownTargets[name];
  const build = builds[name];
  if (build === undefined) return 'it was not built';
  return build.kind === 'Built' ? operatorTarget(name, build) : build.reason;
}

/** Returns a warning when other programs used more than a tenth of the machine: such a run is not comparable. */
function disturbance({ cpuSeconds, wallSeconds, reportedSeconds }: DrainMeasurement): string {
  const elsewhere = cpuSeconds['elsewhere'] ?? 0;
  const share = elsewhere / (Math.max(wallSeconds, reportedSeconds) * availableParallelism());
  return share > 0.1 ? `; other programs used ${Math.round(share * 100)} % of the machine: run it again` : '';
}

interface ScheduledRun {
  name: TargetName;
  run: number;
}

/** Returns the runs in their order. Every run reverses the order of the targets, so that none always follows the same one. */
function schedule(options: Options): ScheduledRun[] {
  const runsOf = (name: TargetName) => (name === 'kubectl' ? options.kubectlRuns : options.runs);
  const runs = Math.max(...options.targets.map(runsOf));
  return Array.from({ length: runs }, (_, index) => index + 1).flatMap((run) => {
    const names = options.targets.filter((name) => run <= runsOf(name));
    return (run % 2 === 1 ? names : names.toReversed()).map((name) => ({ name, run }));
  });
}

/** Leaves one process of kubectl for all nodes out: it takes minutes, because it retries each rejected eviction in a loop. */
async function runBudget(
  testbed: Testbed,
  plan: Plan,
  benchmark: BenchmarkOf<'Budget'>,
): Promise<BenchmarkResult> {
  const { runs, failures } = await runAll(testbed, plan, {
    name: benchmark.name,
    schedule: schedule(plan.options).filter(({ name }) => name !== 'kubectl'),
    measure: (target, run) =>
      measureBudget(testbed, target.name === 'floor' ? budgetFloor : target, benchmark, run),
  });
  return { kind: 'Budget', benchmark, runs, failures, thresholds: checkBudget(runs) };
}

/** Leaves the floor out: it does not retry rejected evictions. */
async function runBlocked(
  testbed: Testbed,
  { options, builds, report }: Plan,
  benchmark: BenchmarkOf<'Blocked'>,
): Promise<BenchmarkResult> {
  const runs = [];
  for (const name of options.targets.filter((one) => one !== 'floor')) {
    const target = targetOf(name, builds);
    if (typeof target === 'string') continue;
    report(`${benchmark.name}: ${name}`);
    runs.push(await measureBlocked(testbed, target, benchmark.workload, benchmark.seconds));
  }
  return { kind: 'Blocked', benchmark, runs, thresholds: checkBlocked(runs) };
}

/** Returns the runs of a benchmark that has no other target than ours. */
async function runsOfOurs<Run>(
  { options, report }: Plan,
  { name }: Benchmark,
  measure: () => Promise<Run[]>,
): Promise<Run[]> {
  report(name);
  return options.targets.includes('ours') ? measure() : [];
}

/** Runs once: the measurement covers many nodes. */
async function runReadiness(
  testbed: Testbed,
  plan: Plan,
  benchmark: BenchmarkOf<'Readiness'>,
): Promise<BenchmarkResult> {
  const runs = await runsOfOurs(plan, benchmark, async () => [await measureReadiness(testbed, benchmark)]);
  return { kind: 'Readiness', benchmark, runs, thresholds: checkReadiness(runs) };
}

/** Runs once: the measurement covers many maintenances. */
async function runHeld(
  testbed: Testbed,
  plan: Plan,
  benchmark: BenchmarkOf<'Held'>,
): Promise<BenchmarkResult> {
  const measure = async () => [await measureHeld(testbed, benchmark, plan.report)];
  const runs = await runsOfOurs(plan, benchmark, measure);
  return { kind: 'Held', benchmark, runs, thresholds: checkHeld(runs) };
}

async function runIdle(
  testbed: Testbed,
  plan: Plan,
  benchmark: BenchmarkOf<'Idle'>,
): Promise<BenchmarkResult> {
  const runs = await runsOfOurs(plan, benchmark, () => measureIdle(testbed, benchmark, plan.report));
  return { kind: 'Idle', benchmark, runs, thresholds: [] };
}

async function runTraffic(
  testbed: Testbed,
  plan: Plan,
  benchmark: BenchmarkOf<'Traffic'>,
): Promise<BenchmarkResult> {
  const runs = await runsOfOurs(plan, benchmark, () => measureTraffic(testbed, benchmark, plan.report));
  return { kind: 'Traffic', benchmark, runs, thresholds: checkTraffic(runs) };
}

async function runPolicies(
  testbed: Testbed,
  plan: Plan,
  benchmark: BenchmarkOf<'Policies'>,
): Promise<BenchmarkResult> {
  const runs = await runsOfOurs(plan, benchmark, () => measurePolicies(testbed, benchmark, plan.report));
  return { kind: 'Policies', benchmark, runs, thresholds: checkPolicies(runs) };
}

async function runTakeOvers(
  testbed: Testbed,
  plan: Plan,
  benchmark: BenchmarkOf<'TakeOver'>,
): Promise<BenchmarkResult> {
  const runs = await runsOfOurs(plan, benchmark, () => measureTakeOvers(testbed, benchmark, plan.report));
  return { kind: 'TakeOver', benchmark, runs, thresholds: checkTakeOvers(runs) };
}
