import { setTimeout as sleep } from 'node:timers/promises';
import type { PodDisruptionBudget } from '../api/core.ts';
import { resources } from '../kube/resources.ts';
import { type ServerName, serverNames } from '../sandbox/layout.ts';
import { until } from '../sandbox/until.ts';
import type { Bed } from './bed.ts';
import type { Account, Attempt, Contender, ContenderName } from './contender.ts';
import { cpuBetween, readCpu } from './cpu.ts';
import { readRequests, type Requests, requestsBetween } from './requests.ts';
import { namespace, podLabel, setScene } from './scene.ts';
import { podsOf, type Scene } from './works.ts';

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
  const { measured, account } = await attempt(bed, contender, targets, (drain) => clock(bed, drain, targets));
  const { before, after, ...times } = measured;
  const requests = requestsBetween(before, after, contender.name);
  return { contender: contender.name, run, pods: podsOf(scene), ...times, requests, ...account };
}

async function clock(bed: Bed, drain: Attempt, targets: readonly string[]) {
  const over = new AbortController();
  const signal = AbortSignal.any([bed.signal, over.signal, AbortSignal.timeout(drainedWithin)]);
  try {
    const before = await readRequests(bed.server);
    const cpuBefore = readCpu(processesOf(bed, drain));
    const ordered = performance.now();
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
  const budget = await blockEvictions(bed, podsOf(scene));
  try {
    const { measured } = await attempt(bed, contender, targets, (drain) => waitBlocked(bed, drain, seconds));
    const { refused, total } = requestsBetween(measured.before, measured.after, contender.name);
    return {
      contender: contender.name,
      pods: podsOf(scene),
      refusedPerSecond: refused / seconds,
      requestsPerSecond: total / seconds,
    };
  } finally {
    const { name, uid = '' } = budget.metadata;
    await bed.kube.delete(resources.podDisruptionBudgets, { namespace, name }, { uid });
  }
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

async function blockEvictions({ kube, signal }: Bed, pods: number): Promise<PodDisruptionBudget> {
  const budget = {
    metadata: { name: 'nothing-may-go', namespace },
    spec: { selector: { matchLabels: podLabel }, maxUnavailable: 0 },
  };
  const created = await kube.create(resources.podDisruptionBudgets, budget as PodDisruptionBudget);
  const { name } = created.metadata;
  const unseen = async () => {
    const seen = await kube.get(resources.podDisruptionBudgets, { namespace, name });
    const expected = seen?.status?.expectedPods ?? 0;
    return expected === pods ? undefined : `it counts ${expected} pods of ${pods}`;
  };
  await until('the PodDisruptionBudget to count its pods', unseen, { within: 60_000, signal });
  return created;
}
