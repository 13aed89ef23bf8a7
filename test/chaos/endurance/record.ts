import type { Census } from './census.ts';
import { type Growth, growthOf, isGrowing } from './growth.ts';

/** The recorded outcome of `npm run endurance`. */
export interface EnduranceRecord {
  minutes: number;
  /** Of the first run. */
  seed: number;
  runs: number;
  maintenances: number;
  evicted: number;
  /** Fault -> how often it was caused. */
  faults: Record<string, number>;
  /** Seeds of runs that broke a promise. */
  broken: number[];
  /** Workers that ended by themselves and were started again, as a kubelet does. */
  restarts: number;
  /** Value -> its growth in the second half of the time. */
  growth: Record<string, Growth & { isGrowing: boolean }>;
}

/** Returns what was read in each census, by name: `memory of worker 1, MB`. */
export function valuesOf(census: Census): Record<string, number> {
  const workers = census.workers.flatMap(({ memoryMb, handles }, index) => [
    [`memory of worker ${index + 1}, MB`, memoryMb],
    [`file descriptors of worker ${index + 1}`, handles],
  ]);
  return {
    ...(Object.fromEntries(workers) as Record<string, number>),
    ...census.objects,
    'open workflow runs': census.openRuns,
    'events of their histories': census.historyEvents,
    'database of etcd, MB': census.etcdMb,
  };
}

/**
 * Returns the growth of each value in the second half of the time. In the first half caches fill, and the apiserver keeps Events for an hour. Of a worker
 * that was started again only the time of its last process counts.
 */
export function growthOfAll(censuses: readonly Census[]): EnduranceRecord['growth'] {
  const end = censuses.at(-1);
  if (end === undefined) return {};
  const later = censuses.filter(({ seconds }) => seconds >= end.seconds / 2);
  const growth: EnduranceRecord['growth'] = {};
  for (const name of Object.keys(valuesOf(end))) {
    const points = later
      .filter((census) => isSameProcess(name, census, end))
      .map((census) => ({ hours: census.seconds / 3_600, value: valuesOf(census)[name] ?? 0 }));
    const found = growthOf(points);
    if (found !== undefined) growth[name] = { ...found, isGrowing: isGrowing(found) };
  }
  return growth;
}

function isSameProcess(name: string, census: Census, end: Census): boolean {
  const [, worker] = /worker (\d+)/.exec(name) ?? [];
  if (worker === undefined) return true;
  const index = Number(worker) - 1;
  return census.workers[index]?.pid === end.workers[index]?.pid;
}

/** Returns how often a worker had another process than in the census before. */
export function restartsOf(censuses: readonly Census[]): number {
  return censuses.slice(1).reduce((count, { workers }, index) => {
    const before = censuses[index]?.workers ?? [];
    return count + workers.filter(({ pid }, worker) => pid !== before[worker]?.pid).length;
  }, 0);
}
