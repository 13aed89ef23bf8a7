/** The new runs that a maintenance got because the one before ended too early. */
export interface Restarts {
  count: number;
  /** How many runs have failed in a row. */
  failures: number;
  /** When the latest was started, in milliseconds of a monotonic clock. */
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

/** Returns the restarts with one more, after a run that ended like this. */
export function afterRestart(
  restarts: Restarts | undefined,
  { hasFailed }: { hasFailed: boolean },
  nowMs: number,
): Restarts {
  const known = restarts !== undefined && nowMs - restarts.latestMs < forgottenAfterMs ? restarts : none;
  return { count: known.count + 1, failures: hasFailed ? known.failures + 1 : 0, latestMs: nowMs };
}

const none: Restarts = { count: 0, failures: 0, latestMs: 0 };

/** This many failures in a row are not a coincidence. */
const reportedFailures = 3;

export function failsRepeatedly({ failures }: Restarts): boolean {
  return failures >= reportedFailures;
}
