/** A package of a build, and how much work it is compared with the others. */
export interface BuildStep {
  path: string;
  imports: readonly string[];
  cost: number;
}

/**
 * Estimates how far a build is. Go compiles a package after all that it imports, so a package that is being compiled shows
 * that its imports are finished, whether they were compiled now or found in Go's cache.
 */
export class BuildProgress {
  readonly #steps: ReadonlyMap<string, BuildStep>;
  readonly #totalCost: number;
  readonly #finished = new Set<string>();
  readonly #expectedSeconds: number;
  #finishedCost = 0;
  #secondsLeft: number;
  #estimatedAtSeconds = 0;

  /** `expectedSeconds` is the estimate before anything is known about this machine. */
  constructor(steps: readonly BuildStep[], expectedSeconds: number) {
    this.#steps = new Map(steps.map((step) => [step.path, step]));
    this.#totalCost = steps.reduce((sum, { cost }) => sum + cost, 0);
    this.#expectedSeconds = expectedSeconds;
    this.#secondsLeft = expectedSeconds;
  }

  /** Takes note that Go compiles a package, `atSeconds` after the start of the build. */
  compiling(path: string, atSeconds: number): void {
    const before = this.#finishedCost;
    const unfinished = [...(this.#steps.get(path)?.imports ?? [])];
    for (let next = unfinished.pop(); next !== undefined; next = unfinished.pop()) {
      const step = this.#steps.get(next);
      if (step === undefined || this.#finished.has(next)) continue;
      this.#finished.add(next);
      this.#finishedCost += step.cost;
      unfinished.push(...step.imports);
    }
    if (this.#finishedCost > before) this.#estimate(atSeconds);
  }

  /** The finished part of the build, from 0 to 1. */
  get fraction(): number {
    return this.#totalCost === 0 ? 0 : this.#finishedCost / this.#totalCost;
  }

  get finishedPackages(): number {
    return this.#finished.size;
  }

  get packages(): number {
    return this.#steps.size;
  }

  /** Returns the estimated time until the end of the build. */
  secondsLeft(atSeconds: number): number {
    return Math.max(0, this.#secondsLeft - (atSeconds - this.#estimatedAtSeconds));
  }

  /** Extrapolates from the time so far. At the beginning, the expectation prevails. */
  #estimate(atSeconds: number): void {
    const total =
      (this.#expectedSeconds * expectationWeight + atSeconds) / (expectationWeight + this.fraction);
    this.#secondsLeft = total * (1 - this.fraction);
    this.#estimatedAtSeconds = atSeconds;
  }
}

/** The fraction of the build from which on the measured speed counts more than the expectation. */
const expectationWeight = 0.05;
