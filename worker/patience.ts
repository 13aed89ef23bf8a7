import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../kube/log.ts';

/** How a start waits. */
export interface Patience {
  log: Log;
  signal: AbortSignal;
  /** Told what is waited for, and why; undefined when it is there. */
  tell: (waiting: string | undefined) => void;
}

/** What the health endpoint reports. */
export interface Waits {
  /** What is waited for now. */
  waiting?: string | undefined;
}

/** Patience that notes there what it waits for. */
export function patienceOf(parts: Waits, log: Log, signal: AbortSignal): Patience {
  const tell = (waiting: string | undefined) => {
    parts.waiting = waiting;
  };
  return { log, signal, tell };
}

interface Waiting extends Patience {
  what: string;
  remedy: string;
}

/** Milliseconds. */
const longestPause = 5_000;

/** Tries until it works; says once, and whenever the reason changes, what it waits for. */
export async function untilItAnswers<T>(
  { what, remedy, log, signal, tell }: Waiting,
  attempt: () => Promise<T>,
): Promise<T> {
  let said: string | undefined;
  for (let pause = 200; ; pause = Math.min(pause * 2, longestPause)) {
    try {
      const answer = await attempt();
      tell(undefined);
      return answer;
    } catch (error) {
      signal.throwIfAborted();
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== said) log.warn(`Waiting for ${what}`, { reason, remedy });
      said = reason;
      tell(`waiting for ${what}: ${reason}: ${remedy}`);
      await sleep(pause, undefined, { signal });
    }
  }
}
