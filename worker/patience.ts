import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../kube/log.ts';

interface Waiting {
  what: string;
  remedy: string;
  log: Log;
  signal: AbortSignal;
}

/** Milliseconds. */
const longestPause = 5_000;

/** Tries until it works; says once, and whenever the reason changes, what it waits for. */
export async function untilItAnswers<T>(
  { what, remedy, log, signal }: Waiting,
  attempt: () => Promise<T>,
): Promise<T> {
  let said: string | undefined;
  for (let pause = 200; ; pause = Math.min(pause * 2, longestPause)) {
    try {
      return await attempt();
    } catch (error) {
      signal.throwIfAborted();
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== said) log.warn(`Waiting for ${what}`, { reason, remedy });
      said = reason;
      await sleep(pause, undefined, { signal });
    }
  }
}
