import type { ResourceSample } from './resources.ts';
import { type Growth, growthOf, highOf, isGrowing, type Point } from './growth.ts';

/** The recorded outcome of `npm run endurance`. */
export interface EnduranceRecord {
  minutes: number;
  /** Seed of the first run. */
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

/** Returns what was read in each sample, by name: `memory of worker 1, MB`. */
export function valuesOf(sample: ResourceSample): Record<string, number> {
  const workers = sample.workers.flatMap(({ peakMb, objectsMb, externalMb, handles }, index) => [
    [`peak memory of worker ${index + 1}, MB`, peakMb],
    [`JavaScript objects of worker ${index + 1}, MB`, objectsMb],
    [`external memory of worker ${index + 1}, MB`, externalMb],
    [`file descriptors of worker ${index + 1}`, handles],
  ]);
  return {
    ...(Object.fromEntries(workers) as Record<string, number>),
    ...sample.objects,
    'open workflow runs': sample.openRuns,
    'events of their histories': sample.openEvents,
    'events of the histories of a run': sample.historyEvents,
    'size of the histories of a run, KB': sample.historyKb,
    'events of its longest history': sample.longestHistory,
    'objects in etcd, MB': sample.etcdMb,
  };
}

/**
 * Returns the growth of each value in the second half of the time. In the first half caches fill, and the apiserver keeps Events for an hour. Of a worker
 * that was started again only the time of its last process counts. A value grows only if it also reaches more than before: the kernel may take memory back,
 * and what returns to where it was is no leak.
 */
export function growthOfAll(samples: readonly ResourceSample[]): EnduranceRecord['growth'] {
  const end = samples.at(-1);
  if (end === undefined) return {};
  const isLater = ({ seconds }: ResourceSample) => seconds >= end.seconds / 2;
  const growth: EnduranceRecord['growth'] = {};
  for (const name of Object.keys(valuesOf(end))) {
    const own = samples.filter((sample) => isSameProcess(name, sample, end));
    const pointOf = (sample: ResourceSample): Point => ({
      hours: sample.seconds / 3_600,
      value: valuesOf(sample)[name] ?? 0,
    });
    const later = own.filter(isLater).map(pointOf);
    const earlier = own.filter((sample) => !isLater(sample)).map(pointOf);
    const found = growthOf(later);
    if (found !== undefined)
      growth[name] = { ...found, isGrowing: isGrowing(found) && highOf(later) > highOf(earlier) };
  }
  return growth;
}

function isSameProcess(name: string, sample: ResourceSample, end: ResourceSample): boolean {
  const [, worker] = /worker (\d+)/.exec(name) ?? [];
  if (worker === undefined) return true;
  const index = Number(worker) - 1;
  return sample.workers[index]?.pid === end.workers[index]?.pid;
}

/** Returns how often a worker had another process than in the sample before. */
export function restartsOf(samples: readonly ResourceSample[]): number {
  return samples.slice(1).reduce((count, { workers }, index) => {
    const before = samples[index]?.workers ?? [];
    return count + workers.filter(({ pid }, worker) => pid !== before[worker]?.pid).length;
  }, 0);
}
