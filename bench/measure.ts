import { setTimeout as sleep } from 'node:timers/promises';
import type { PodDisruptionBudget } from '../api/core.ts';
import { resources } from '../kube/resources.ts';
import { type ServerName, serverNames } from '../sandbox/layout.ts';
import { until } from '../sandbox/until.ts';
import type { Bed } from './bed.ts';
import type { Account, Attempt, Contender, ContenderName } from './contender.ts';
import { cpuBetween, readCpu } from './cpu.ts';
import { readRequests, type Requests, requestsBetween } from './requests.ts';
import { watchFreed } from './freed.ts';
import { namespace, podLabel, setScene } from './scene.ts';
import { percentile } from './statistics.ts';
import { podsOf, type Scene, type WorkOf } from './works.ts';

/** One measured drain. Times are in seconds since the order was sent. */
export interface DrainMeasurement extends Account {
  contender: ContenderName;
  /** Contenders are compared within the same run. */
  run: number;
  pods: number;
  /** Until the last pod was seen to be gone. */
  wallSeconds: number;
  /** Until the contender itself said that it is done: Drained=True, the end of the process. */
  reportedSeconds: number;
  requests: Requests;
  /** Pods gone in each second. */
  gonePerSecond: number[];
  /** Seconds of CPU time by process, until the last pod was gone. */
  cpuSeconds: Record<string, number>;
}

/** Milliseconds that any drain may take. */
const drainedWithin = 900_000;

export async function measureDrain(
  bed: Bed,
  contender: Contender,
  scene: Scene,
  run: number,
): Promise<DrainMeasurement> {
  const targets = await setScene(bed, scene);
  return measureDrainOf(bed, contender, { targets, pods: podsOf(scene), run });
}

async function measureDrainOf(
  bed: Bed,
  contender: Contender,
  { targets, pods, run, onOrder }: Task,
): Promise<DrainMeasurement> {
  const { measured, account } = await attempt(bed, contender, targets, (drain) =>
    clock(bed, drain, { targets, onOrder }),
  );
  const { before, after, ...times } = measured;
  const requests = requestsBetween(before, after, contender.name);
  return { contender: contender.name, run, pods, ...times, requests, ...account };
}

interface Task {
  targets: readonly string[];
  pods: number;
  run: number;
  /** Called when the order is given. */
  onOrder?: (() => void) | undefined;
}

async function clock(bed: Bed, drain: Attempt, { targets, onOrder }: Pick<Task, 'targets' | 'onOrder'>) {
  const over = new AbortController();
  const signal = AbortSignal.any([bed.signal, over.signal, AbortSignal.timeout(drainedWithin)]);
  try {
    const before = await readRequests(bed.server);
    const cpuBefore = readCpu(processesOf(bed, drain));
    const ordered = performance.now();
    onOrder?.();
    const secondsAt = (time: number) => (time - ordered) / 1000;
    const departures = bed.census.departures(targets, signal);
    const reported = drain.drain(signal).then(() => performance.now());
    const [endedAt, reportedAt] = await Promise.all([departures.ended, reported]);
    const cpuSeconds = cpuBetween(cpuBefore, readCpu(processesOf(bed, drain)));
    await drain.settle(signal);
    const after = await readRequests(bed.server);
    const gonePerSecond = histogram(departures.times.map(secondsAt));
    return {
      before,
      after,
      wallSeconds: secondsAt(endedAt),
      reportedSeconds: secondsAt(reportedAt),
      gonePerSecond,
      cpuSeconds,
    };
  } finally {
    over.abort();
  }
}

function processesOf({ sandbox }: Bed, { pid }: Attempt): Record<string, number | undefined> {
  const servers = serverNames.map((name): [ServerName, number | undefined] => [
    name,
    sandbox.server(name).pid(),
  ]);
  return { ...Object.fromEntries(servers), contender: pid, bench: process.pid };
}

function histogram(seconds: readonly number[]): number[] {
  const counts: number[] = Array.from({ length: Math.ceil(seconds.at(-1) ?? 0) }, () => 0);
  for (const second of seconds) {
    const index = Math.min(Math.floor(second), counts.length - 1);
    counts[index] = (counts[index] ?? 0) + 1;
  }
  return counts;
}

/** Prepares, measures, and ends the drain, whatever happens. */
async function attempt<T>(
  bed: Bed,
  contender: Contender,
  targets: readonly string[],
  measure: (drain: Attempt) => Promise<T>,
): Promise<{ measured: T; account: Account }> {
  const drain = await contender.prepare(bed, targets);
  let measured: T;
  try {
    measured = await measure(drain);
  } catch (error) {
    // What failed first is what is worth reading.
    await drain.end().catch(() => undefined);
    throw error;
  }
  return { measured, account: await drain.end() };
}

/** One drain of pods that share a budget. */
export interface BudgetMeasurement extends DrainMeasurement {
  refusedPerSecond: number;
  /** Seconds until the disruptions that were free before the order were all made use of. */
  start: number;
  /** Seconds for which a disruption that became free lay idle: the longest time, and the 99th percentile. */
  longestWait: number;
  p99Wait: number;
}

export async function measureBudget(
  bed: Bed,
  contender: Contender,
  { scene, maxUnavailable }: WorkOf<'Budget'>,
  run: number,
): Promise<BudgetMeasurement> {
  const targets = await setScene(bed, scene);
  return withBudget(bed, { pods: podsOf(scene), maxUnavailable }, async (signal) => {
    const freed = await watchFreed(bed.kube, namespace, { log: bed.log, signal });
    const onOrder = () => freed.begin(performance.now());
    const drain = await measureDrainOf(bed, contender, { targets, pods: podsOf(scene), run, onOrder });
    const { starts, waits } = freed;
    return {
      ...drain,
      refusedPerSecond: drain.requests.refused / drain.wallSeconds,
      start: starts.at(-1) ?? 0,
      longestWait: waits.at(-1) ?? 0,
      p99Wait: percentile(waits, 0.99) ?? 0,
    };
  });
}

/** One drain that a budget blocks. */
export interface BlockedMeasurement {
  contender: ContenderName;
  pods: number;
  refusedPerSecond: number;
  requestsPerSecond: number;
}

export async function measureBlocked(
  bed: Bed,
  contender: Contender,
  scene: Scene,
  seconds: number,
): Promise<BlockedMeasurement> {
  const targets = await setScene(bed, scene);
  return withBudget(bed, { pods: podsOf(scene), maxUnavailable: 0 }, async () => {
    const { measured } = await attempt(bed, contender, targets, (drain) => waitBlocked(bed, drain, seconds));
    const { refused, total } = requestsBetween(measured.before, measured.after, contender.name);
    return {
      contender: contender.name,
      pods: podsOf(scene),
      refusedPerSecond: refused / seconds,
      requestsPerSecond: total / seconds,
    };
  });
}

async function waitBlocked(bed: Bed, drain: Attempt, seconds: number) {
  const over = new AbortController();
  const signal = AbortSignal.any([bed.signal, over.signal]);
  const before = await readRequests(bed.server);
  const drained = drain.drain(signal).then(() => {
    throw new Error('The drain ended although a PodDisruptionBudget forbids every eviction');
  });
  try {
    await Promise.race([drained, sleep(seconds * 1000, undefined, { signal })]);
    return { before, after: await readRequests(bed.server) };
  } finally {
    drained.catch(() => undefined); // ended by us, and says so
    over.abort();
  }
}

/** One budget for all the pods while `use` runs; its signal aborts when the budget goes. */
async function withBudget<T>(
  bed: Bed,
  { pods, maxUnavailable }: { pods: number; maxUnavailable: number },
  use: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { kube } = bed;
  const over = new AbortController();
  const budget = {
    metadata: { name: 'shared', namespace },
    spec: { selector: { matchLabels: podLabel }, maxUnavailable },
  };
  const created = await kube.create(resources.podDisruptionBudgets, budget as PodDisruptionBudget);
  const { name, uid = '' } = created.metadata;
  try {
    const unseen = async () => {
      const seen = await kube.get(resources.podDisruptionBudgets, { namespace, name });
      const { expectedPods = 0, disruptionsAllowed = 0 } = seen?.status ?? {};
      if (expectedPods === pods && disruptionsAllowed === maxUnavailable) return undefined;
      return `it counts ${expectedPods} pods of ${pods} and allows ${disruptionsAllowed} disruptions`;
    };
    const within = { within: 60_000, signal: bed.signal };
    await until('the PodDisruptionBudget to count its pods', unseen, within);
    return await use(AbortSignal.any([bed.signal, over.signal]));
  } finally {
    over.abort();
    await kube.delete(resources.podDisruptionBudgets, { namespace, name }, { uid });
  }
}
