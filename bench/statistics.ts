/** A measured number over several runs. */
export interface Spread {
  median: number;
  min: number;
  max: number;
}

/** Summarizes measured values. Returns undefined when there are none. */
export function spreadOf(values: readonly (number | undefined)[]): Spread | undefined {
  const sorted = values.filter((value) => value !== undefined).toSorted((a, b) => a - b);
  const [min, max] = [sorted[0], sorted.at(-1)];
  if (min === undefined || max === undefined) return undefined;
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? max;
  const median = sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? min) + upper) / 2;
  return { median, min, max };
}

/** Returns a percentile of values in ascending order. Returns undefined when there are none. */
export function percentile(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)];
}
