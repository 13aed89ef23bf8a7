import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds; what has not come soon is looked for less often, so that many who wait leave the machine to what they wait for. */
const lookEvery = 25;
const soon = 1_000;
const lookLaterEvery = 100;
/** Longer than anything waited for should take, for a machine that is busy with other things. */
const patience = 60_000;

/**
 * Looks until `look` throws no more, and resolves with what it returned. `look` is written with `expect`, so that the
 * failure after the deadline, `Waited 20 s in vain for <fact>; last seen: ...`, holds the last observed state.
 */
export async function eventually<T>(
  fact: string,
  look: () => T | Promise<T>,
  { within = patience }: { within?: number } = {},
): Promise<T> {
  const began = performance.now();
  for (;;) {
    try {
      return await look();
    } catch (error) {
      if (performance.now() - began > within) throw inVain(fact, within, error);
    }
    await sleep(performance.now() - began < soon ? lookEvery : lookLaterEvery);
  }
}

/** Looks for `ms`, and fails at the first look that throws: for what must not happen, when nothing else tells its end. */
export async function throughout<T>(fact: string, ms: number, look: () => T | Promise<T>): Promise<void> {
  const began = performance.now();
  while (performance.now() - began < ms) {
    try {
      await look();
    } catch (error) {
      const after = ((performance.now() - began) / 1_000).toFixed(1);
      throw new Error(`After ${after} s it was no longer so that ${fact}: ${wordsOf(error)}`, {
        cause: error,
      });
    }
    await sleep(lookEvery);
  }
}

function inVain(fact: string, within: number, error: unknown): Error {
  return new Error(`Waited ${within / 1_000} s in vain for ${fact}; last seen: ${wordsOf(error)}`, {
    cause: error,
  });
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
