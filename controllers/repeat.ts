import { sleep } from '../kube/abort.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';

interface Options {
  everyMs: number;
  /** The log line for a pass that has failed. */
  failure: string;
  log: Log;
  signal: AbortSignal;
}

/** Makes a pass at once and then periodically, until the signal. Logs the reason of a failure once, and again when it changes. */
export async function repeat(
  pass: () => Promise<void>,
  { everyMs, failure, log, signal }: Options,
): Promise<void> {
  let loggedReason: string | undefined;
  while (!signal.aborted) {
    try {
      await pass();
      loggedReason = undefined;
    } catch (error) {
      const reason = errorMessage(error);
      if (!signal.aborted && reason !== loggedReason) log.warn(failure, { reason });
      loggedReason = reason;
    }
    await sleep(everyMs, signal);
  }
}
