import type { DrainMeasurement } from '../../bench/measure.ts';

/** Returns a measured drain that meets every threshold together with a floor of the same figures. */
export function measurementOf(given: Partial<DrainMeasurement>): DrainMeasurement {
  return {
    target: 'ours',
    run: 1,
    pods: 250,
    wallSeconds: 10,
    reportedSeconds: 10,
    firstCordonSeconds: 0.1,
    firstEvictionSeconds: 0.2,
    silentSeconds: 1,
    residentMb: 300,
    requests: { total: 500, byKind: { 'create pods/eviction 201': 250 }, rejected: 0 },
    deletedPerSecond: [],
    cpuSeconds: { target: 0.5, 'kube-apiserver': 5, temporal: 0.5 },
    settling: { seconds: 1, cpuSeconds: { target: 0.25, 'kube-apiserver': 1 } },
    ...given,
  };
}
