import { setTimeout as sleep } from 'node:timers/promises';
import { backOffMs } from '../kube/backOff.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';

/** Options of a start that waits for what it depends on. */
export interface WaitOptions {
  log: Log;
  signal: AbortSignal;
  /** Called with what the start waits for and why; with undefined when it continues. */
  report: (waiting: string | undefined) => void;
}

/** State of a start, for the readiness endpoint. */
export interface StartupState {
  waiting?: string | undefined;
}

/** Returns options that record in `state` what the start waits for. */
export function waitOptionsOf(state: StartupState, log: Log, signal: AbortSignal): WaitOptions {
  const report = (waiting: string | undefined) => {
    state.waiting = waiting;
  };
  return { log, signal, report };
}

interface Dependency extends WaitOptions {
  name: string;
  remedy: string;
}

const pauses = { firstMs: 200, capMs: 5_000 };

/** Calls `attempt` until it succeeds, at random intervals: many processes may wait. Logs the reason of a failure once, and again when it changes. */
export async function retryUntilAvailable<T>(
  { name, remedy, log, signal, report }: Dependency,
  attempt: () => Promise<T>,
): Promise<T> {
  let loggedReason: string | undefined;
  for (let failures = 0; ; failures += 1) {
    try {
      const result = await attempt();
      report(undefined);
      return result;
    } catch (error) {
      signal.throwIfAborted();
      const reason = errorMessage(error);
      if (reason !== loggedReason) log.warn(`Waiting for ${name}`, { reason, remedy });
      loggedReason = reason;
      report(`waiting for ${name}: ${reason}: ${remedy}`);
      await sleep(backOffMs(failures, pauses), undefined, { signal });
    }
  }
}
