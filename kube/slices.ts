import { setImmediate } from 'node:timers/promises';

/** A computation occupies the process for this long at a time. */
const sliceMs = 10;

/** A computation in steps. */
interface Steps<Result> {
  next: () => IteratorResult<undefined, Result>;
}

/**
 * Performs the steps of a computation, and lets everything else of the process continue in between. Resolves with undefined if it takes longer than
 * `maxMs`. `tookMs`: without what was done in between.
 */
export async function inSlices<Result>(
  steps: Steps<Result>,
  maxMs = Infinity,
): Promise<{ result: Result; tookMs: number } | undefined> {
  const endsAt = performance.now() + maxMs;
  let tookMs = 0;
  for (;;) {
    const startedAt = performance.now();
    do {
      const { done, value } = steps.next();
      if (done === true) return { result: value, tookMs: tookMs + performance.now() - startedAt };
    } while (performance.now() < startedAt + sliceMs);
    tookMs += performance.now() - startedAt;
    if (performance.now() >= endsAt) return undefined;
    await setImmediate();
  }
}
