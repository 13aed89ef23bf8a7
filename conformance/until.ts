import { setTimeout as sleep } from 'node:timers/promises';

const intervalMs = 100;

/** Repeats `check` until it does not throw, and resolves with its result. Rejects with its last error. */
export async function until<T>(fact: string, check: () => Promise<T>, timeoutMs = 60_000): Promise<T> {
  const endsAt = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > endsAt)
        throw new Error(`not within ${timeoutMs / 1_000} s: ${fact}: ${errorMessage(error)}`, {
          cause: error,
        });
    }
    await sleep(intervalMs);
  }
}

/** Repeats `check` for this time, and rejects as soon as it does. */
export async function throughout(fact: string, ms: number, check: () => Promise<unknown>): Promise<void> {
  const endsAt = performance.now() + ms;
  while (performance.now() < endsAt) {
    try {
      await check();
    } catch (error) {
      throw new Error(`no longer: ${fact}: ${errorMessage(error)}`, { cause: error });
    }
    await sleep(intervalMs);
  }
}

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
