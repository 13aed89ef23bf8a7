import type { Pace } from '../domain/maintenanceSummary.ts';

/** What "of late" means. Milliseconds. */
const longest = 60_000;
/** Less says nothing. */
const shortest = 5_000;

/** How fast pods leave, as whoever watches has seen it. */
export class Paces {
  readonly #samples = new Map<string, { at: number; evacuated: number }[]>();

  /** Takes in how many pods of a maintenance have left by now, in milliseconds of one clock. */
  see(name: string, evacuated: number, at: number): void {
    const known = this.#samples.get(name) ?? [];
    const fresh = known.filter((sample, i) => at - sample.at <= longest || isNewestOld(known, i, at));
    this.#samples.set(name, [...fresh, { at, evacuated }]);
  }

  paceOf(name: string): Pace | undefined {
    const samples = this.#samples.get(name) ?? [];
    const [first, last] = [samples[0], samples.at(-1)];
    if (first === undefined || last === undefined || last.at - first.at < shortest) return undefined;
    return { pods: Math.max(0, last.evacuated - first.evacuated), ms: last.at - first.at };
  }
}

/** The last one before the minute is kept: where nothing has changed since, it is still true. */
function isNewestOld(samples: readonly { at: number }[], index: number, now: number): boolean {
  const next = samples[index + 1];
  return next === undefined || now - next.at <= longest;
}
