import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../kube/log.ts';

interface Waiting {
  what: string;
  remedy: string;
  log: Log;
  signal: AbortSignal;
  /** Errors that waiting cannot mend are thrown on. Default: none is. */
  isFinal?: (error: unknown) => boolean;
}

/** Milliseconds. */
const longestPause = 5_000;

/** Tries until it works; says once, and whenever the reason changes, what it waits for. */
export async function untilItAnswers<T>(
  { what, remedy, log, signal, isFinal }: Waiting,
  attempt: () => Promise<T>,
): Promise<T> {
  let said: string | undefined;
  for (let pause = 200; ; pause = Math.min(pause * 2, longestPause)) {
    try {
      return await attempt();
    } catch (error) {
      signal.throwIfAborted();
      if (isFinal?.(error)) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== said) log.warn(`Waiting for ${what}`, { reason, remedy });
      said = reason;
      await sleep(pause, undefined, { signal });
    }
  }
}
