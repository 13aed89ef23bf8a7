/** The new runs that a maintenance got because the one before ended too early. */
export interface Restarts {
  count: number;
  /** When the latest was started: milliseconds since the epoch. */
  latestMs: number;
}

const firstDelayMs = 2_000;
const maxDelayMs = 60_000;
/** A run that lasts so long has worked: the next one starts at once. */
const forgottenAfterMs = 600_000;

/** Returns how long the next run has to wait: a run that fails at once, again and again, must not keep Temporal busy. */
export function restartDelayMs(restarts: Restarts | undefined, nowMs: number): number {
  if (restarts === undefined || nowMs - restarts.latestMs >= forgottenAfterMs) return 0;
  const delayMs = Math.min(firstDelayMs * 2 ** (restarts.count - 1), maxDelayMs);
  return Math.max(restarts.latestMs + delayMs - nowMs, 0);
}

/** Returns the restarts with one more. */
export function afterRestart(restarts: Restarts | undefined, nowMs: number): Restarts {
  const isForgotten = restarts === undefined || nowMs - restarts.latestMs >= forgottenAfterMs;
  return { count: isForgotten ? 1 : restarts.count + 1, latestMs: nowMs };
}
