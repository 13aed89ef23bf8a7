import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Pauses between two checks: the longer the wait, and the more a check costs, the longer they are. This leaves the processor to what
 * the test waits for.
 */
const pausesMs = [
  { afterMs: 5_000, pauseMs: 250 },
  { afterMs: 1_000, pauseMs: 100 },
  { afterMs: 0, pauseMs: 25 },
];
const maxPauseMs = 1_000;
/**
 * Far longer than anything takes, even on a machine several times slower. A wait ends when the fact is there, so a long
 * deadline costs nothing.
 */
const deadlineMs = 180_000;
/** Longest text of the last observed state in a failure. */
const longestText = 4_000;

/**
 * Repeats `check` until it does not throw, and returns its result. Write `check` with `expect`: the failure after the
 * deadline then shows the last observed state.
 */
export async function eventually<T>(
  fact: string,
  check: () => T | Promise<T>,
  { timeoutMs = deadlineMs }: { timeoutMs?: number } = {},
): Promise<T> {
  const started = performance.now();
  for (;;) {
    const checkedAt = performance.now();
    try {
      return await check();
    } catch (error) {
      if (performance.now() - started > timeoutMs) throw timedOut(fact, timeoutMs, error);
    }
    const costMs = Math.min(performance.now() - checkedAt, maxPauseMs);
    await sleep(Math.max(pauseAfter(checkedAt - started), costMs));
  }
}

function pauseAfter(elapsedMs: number): number {
  return pausesMs.find(({ afterMs }) => elapsedMs >= afterMs)?.pauseMs ?? 0;
}

/** Repeats `observe` until `holds` accepts its result, and returns that. */
export function eventuallyHolds<T>(
  fact: string,
  observe: () => Promise<T> | T,
  holds: (observed: T) => boolean,
): Promise<T> {
  return eventually(fact, async () => {
    const observed = await observe();
    if (!holds(observed)) throw new Error(JSON.stringify(observed, null, 1)?.slice(0, longestText));
    return observed;
  });
}

/** Repeats `check` for `ms` and fails as soon as it throws. For what must not happen, when no event marks its end. */
export async function throughout<T>(fact: string, ms: number, check: () => T | Promise<T>): Promise<void> {
  const started = performance.now();
  while (performance.now() - started < ms) {
    try {
      await check();
    } catch (error) {
      const seconds = ((performance.now() - started) / 1_000).toFixed(1);
      throw new Error(`No longer true after ${seconds} s: ${fact}: ${errorMessage(error)}`, { cause: error });
    }
    await sleep(pauseAfter(0));
  }
}

function timedOut(fact: string, timeoutMs: number, error: unknown): Error {
  return new Error(
    `Timed out after ${timeoutMs / 1_000} s waiting for ${fact}; last seen: ${errorMessage(error)}`,
    {
      cause: error,
    },
  );
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
