import type { DrainRate } from '../../domain/maintenance/summary.ts';

/** Length of the sliding window. */
const windowMs = 60_000;
/** Minimum time between the first and the last sample of a rate. */
const minSpanMs = 5_000;

/** Measures the current drain rate of each maintenance while it is watched. */
export class DrainRates {
  readonly #samples = new Map<string, { atMs: number; evacuated: number }[]>();

  /** Records the number of evacuated pods of a maintenance; `atMs` is a monotonic time. */
  record(name: string, evacuated: number, atMs: number): void {
    const known = this.#samples.get(name) ?? [];
    const current = known.filter(
      (sample, i) => atMs - sample.atMs <= windowMs || isNewestExpired(known, i, atMs),
    );
    this.#samples.set(name, [...current, { atMs, evacuated }]);
  }

  rateOf(name: string): DrainRate | undefined {
    const samples = this.#samples.get(name) ?? [];
    const [first, last] = [samples[0], samples.at(-1)];
    if (first === undefined || last === undefined || last.atMs - first.atMs < minSpanMs) return undefined;
    return { pods: Math.max(0, last.evacuated - first.evacuated), ms: last.atMs - first.atMs };
  }
}

/** The newest sample before the window is kept: without a change since then it is still valid. */
function isNewestExpired(samples: readonly { atMs: number }[], index: number, now: number): boolean {
  const next = samples[index + 1];
  return next === undefined || now - next.atMs <= windowMs;
}
