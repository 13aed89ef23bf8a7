import { setTimeout as sleep } from 'node:timers/promises';
import type { PodDisruptionBudget } from '../api/core.ts';
import { resources } from '../kube/resources.ts';
import { until } from '../sandbox/until.ts';
import { type BenchmarkOf, divide, podsOf, type Workload } from './benchmarks.ts';
import { cpuBetween, readCpu, serverProcesses } from './cpu.ts';
import { watchDisruptionLatency } from './disruptionLatency.ts';
import { userOf } from './identities.ts';
import type { Requests } from './requests.ts';
import { percentile } from './statistics.ts';
import type { Attempt, DrainRequest, Target, TargetMetrics } from './target.ts';
import type { TargetName } from './targetNames.ts';
import { namespace, type Testbed } from './testbed.ts';
import { placeWorkload, podLabel } from './workload.ts';

/** One measured drain. Times are in seconds since the drain was requested. */
export interface DrainMeasurement extends TargetMetrics {
  target: TargetName;
  /** Targets are compared within the same run. */
  run: number;
  pods: number;
  /** Seconds until the last pod was deleted. */
  wallSeconds: number;
  /** Seconds until the target reported that it was done: by the status of its objects, or by the end of its process. */
  reportedSeconds: number;
  /** Seconds until the first cordon and the first termination of a pod were observed. */
  firstCordonSeconds?: number | undefined;
  firstEvictionSeconds?: number | undefined;
  requests: Requests;
  /** Pods deleted in each second. */
  deletedPerSecond: number[];
  /** Seconds of CPU time by process, until the last pod was deleted and the target had reported. */
  cpuSeconds: Record<string, number>;
  /** Time from then until the target had sent its last request, and CPU time by process. */
  settling: { seconds: number; cpuSeconds: Record<string, number> };
}

const drainTimeoutMs = 900_000;

export async function measureDrain(
  testbed: Testbed,
  target: Target,
  { workload, division, isWarm }: BenchmarkOf<'Drain'>,
  run: number,
): Promise<DrainMeasurement> {
  const nodes = await placeWorkload(testbed, workload);
  const request = { nodes, maintenances: divide(nodes, division), isWarm };
  return measureDrainOf(testbed, target, { request, pods: podsOf(workload), run });
}

async function measureDrainOf(
  testbed: Testbed,
  target: Target,
  { request, pods, run, onStart }: Task,
): Promise<DrainMeasurement> {
  const { measured, metrics } = await attempt(testbed, target, request, (drain) =>
    timeDrain(testbed, drain, { request, onStart }),
  );
  const { from, to, ...times } = measured;
  const requests = await testbed.auditLog.requests(userOf(target.name), { from, to });
  return { target: target.name, run, pods, ...times, requests, ...metrics };
}

interface Task {
  request: DrainRequest;
  pods: number;
  run: number;
  /** Called when the drain is requested. */
  onStart?: (() => void) | undefined;
}

async function timeDrain(
  testbed: Testbed,
  drain: Attempt,
  { request: { nodes }, onStart }: Pick<Task, 'request' | 'onStart'>,
) {
  const finished = new AbortController();
  const signal = AbortSignal.any([testbed.signal, finished.signal]);
  const late = new Error(`It did not finish within ${drainTimeoutMs / 1_000} s`);
  const timeout = setTimeout(() => finished.abort(late), drainTimeoutMs);
  const terminations = testbed.podCount.terminations();
  const cordon = testbed.cordons.first(nodes);
  try {
    const from = testbed.auditLog.end();
    const cpuBefore = readCpu(processesOf(testbed, drain));
    const startedAt = performance.now();
    onStart?.();
    const secondsAt = (time: number) => (time - startedAt) / 1000;
    const deletions = testbed.podCount.deletions(nodes, signal);
    const reported = drain.drain(signal).then(() => performance.now());
    const [endedAt, reportedAt] = await Promise.all([deletions.ended, reported]);
    const cpuAtEnd = readCpu(processesOf(testbed, drain));
    const settlingAt = performance.now();
    await drain.settle(signal);
    const settling = {
      seconds: (performance.now() - settlingAt) / 1_000,
      cpuSeconds: ofTarget(cpuBetween(cpuAtEnd, readCpu(processesOf(testbed, drain)))),
    };
    const to = testbed.auditLog.end();
    const [firstTermination] = terminations.times.values();
    const observed = (time: number | undefined) => (time === undefined ? undefined : secondsAt(time));
    const deletedPerSecond = histogram(deletions.times.map(secondsAt));
    return {
      from,
      to,
      firstCordonSeconds: observed(cordon.at()),
      firstEvictionSeconds: observed(firstTermination),
      wallSeconds: secondsAt(endedAt),
      reportedSeconds: secondsAt(reportedAt),
      deletedPerSecond,
      cpuSeconds: ofTarget(cpuBetween(cpuBefore, cpuAtEnd)),
      settling,
    };
  } finally {
    clearTimeout(timeout);
    finished.abort();
    terminations.stop();
    cordon.stop();
  }
}

/** The processes of a target that consists of several have ended: they are the children of this one that did. */
function ofTarget({ children = 0, target = 0, ...others }: Record<string, number>): Record<string, number> {
  const used = target + children;
  return used === 0 ? others : { target: used, ...others };
}

function processesOf({ sandbox }: Testbed, { pid }: Attempt): Record<string, number | undefined> {
  return { ...serverProcesses(sandbox), target: pid, bench: process.pid };
}

function histogram(seconds: readonly number[]): number[] {
  const counts: number[] = Array.from({ length: Math.ceil(seconds.at(-1) ?? 0) }, () => 0);
  for (const second of seconds) {
    const index = Math.min(Math.floor(second), counts.length - 1);
    counts[index] = (counts[index] ?? 0) + 1;
  }
  return counts;
}

/** Prepares and measures a drain, and always ends it. */
async function attempt<T>(
  testbed: Testbed,
  target: Target,
  request: DrainRequest,
  measure: (drain: Attempt) => Promise<T>,
): Promise<{ measured: T; metrics: TargetMetrics }> {
  const drain = await target.prepare(testbed, request);
  let measured: T;
  try {
    measured = await measure(drain);
  } catch (error) {
    // Report the first failure only.
    await drain.end().catch(() => undefined);
    throw error;
  }
  return { measured, metrics: await drain.end() };
}

/** One drain of pods that share a PodDisruptionBudget. */
export interface BudgetMeasurement extends DrainMeasurement {
  rejectedPerSecond: number;
  /** Seconds until all disruptions that were allowed before the drain were used. */
  budgetStartSeconds: number;
  /** Seconds until a disruption that became allowed was used: the longest, and the 99th percentile. */
  longestWait: number;
  p99Wait: number;
}

export async function measureBudget(
  testbed: Testbed,
  target: Target,
  { workload, maxUnavailable }: BenchmarkOf<'Budget'>,
  run: number,
): Promise<BudgetMeasurement> {
  const nodes = await placeWorkload(testbed, workload);
  const request = { nodes, maintenances: [nodes], isWarm: true };
  return withBudget(testbed, { pods: podsOf(workload), maxUnavailable }, async (signal) => {
    const latency = await watchDisruptionLatency(testbed.kube, namespace, { log: testbed.log, signal });
    const onStart = () => latency.start(performance.now());
    const drain = await measureDrainOf(testbed, target, { request, pods: podsOf(workload), run, onStart });
    const { starts, waits } = latency;
    return {
      ...drain,
      rejectedPerSecond: drain.requests.rejected / drain.wallSeconds,
      budgetStartSeconds: starts.at(-1) ?? 0,
      longestWait: waits.at(-1) ?? 0,
      p99Wait: percentile(waits, 0.99) ?? 0,
    };
  });
}

/** One drain that a PodDisruptionBudget blocks. */
export interface BlockedMeasurement {
  target: TargetName;
  pods: number;
  rejectedPerSecond: number;
  requestsPerSecond: number;
}

export async function measureBlocked(
  testbed: Testbed,
  target: Target,
  workload: Workload,
  seconds: number,
): Promise<BlockedMeasurement> {
  const nodes = await placeWorkload(testbed, workload);
  const request = { nodes, maintenances: [nodes], isWarm: false };
  return withBudget(testbed, { pods: podsOf(workload), maxUnavailable: 0 }, async () => {
    const { measured } = await attempt(testbed, target, request, (drain) =>
      waitBlocked(testbed, drain, seconds),
    );
    const { rejected, total } = await testbed.auditLog.requests(userOf(target.name), measured);
    return {
      target: target.name,
      pods: podsOf(workload),
      rejectedPerSecond: rejected / seconds,
      requestsPerSecond: total / seconds,
    };
  });
}

async function waitBlocked(testbed: Testbed, drain: Attempt, seconds: number) {
  const finished = new AbortController();
  const signal = AbortSignal.any([testbed.signal, finished.signal]);
  const from = testbed.auditLog.end();
  const drained = drain.drain(signal).then(() => {
    throw new Error('The drain ended although a PodDisruptionBudget forbids every eviction');
  });
  try {
    await Promise.race([drained, sleep(seconds * 1000, undefined, { signal })]);
    return { from, to: testbed.auditLog.end() };
  } finally {
    drained.catch(() => undefined); // The drain rejects because this function aborts it.
    finished.abort();
  }
}

/** Runs `use` with one PodDisruptionBudget for all pods, which it may delete. Its signal aborts at the end. */
export async function withBudget<T>(
  testbed: Testbed,
  { pods, maxUnavailable }: { pods: number; maxUnavailable: number },
  use: (signal: AbortSignal, deleteBudget: () => Promise<unknown>) => Promise<T>,
): Promise<T> {
  const { kube } = testbed;
  const finished = new AbortController();
  const budget = {
    metadata: { name: 'shared', namespace },
    spec: { selector: { matchLabels: podLabel }, maxUnavailable },
  };
  const created = await kube.create(resources.podDisruptionBudgets, budget as PodDisruptionBudget);
  const { name, uid = '' } = created.metadata;
  const deleteBudget = () => kube.delete(resources.podDisruptionBudgets, { namespace, name }, { uid });
  try {
    const uncounted = async () => {
      const current = await kube.get(resources.podDisruptionBudgets, { namespace, name });
      const { expectedPods = 0, disruptionsAllowed = 0 } = current?.status ?? {};
      if (expectedPods === pods && disruptionsAllowed === maxUnavailable) return undefined;
      return `it counts ${expectedPods} pods of ${pods} and allows ${disruptionsAllowed} disruptions`;
    };
    const wait = { timeoutMs: 60_000, signal: testbed.signal };
    await until('the PodDisruptionBudget to count its pods', uncounted, wait);
    return await use(AbortSignal.any([testbed.signal, finished.signal]), deleteBudget);
  } finally {
    finished.abort();
    await deleteBudget();
  }
}
