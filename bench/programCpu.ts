import type { DrainMeasurement } from './measure.ts';

/**
 * Returns the CPU time of the program per pod in milliseconds, from its request until nothing is left of its drain: the same span in which its
 * requests are counted.
 */
export function programCpuMsPerPod({
  cpuSeconds,
  settling,
  pods,
}: Pick<DrainMeasurement, 'cpuSeconds' | 'settling' | 'pods'>): number | undefined {
  const { target } = cpuSeconds;
  return target === undefined ? undefined : ((target + (settling.cpuSeconds['target'] ?? 0)) * 1_000) / pods;
}
