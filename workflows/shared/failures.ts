import {
  ActivityFailure,
  ApplicationFailure,
  type CancellationScope,
  isCancellation,
} from '@temporalio/workflow';

/** Rethrows the activity's own failure: its message says what is wrong, "Activity task failed" does not. */
export async function unwrapActivityFailure<T>(activity: Promise<T>): Promise<T> {
  try {
    return await activity;
  } catch (error) {
    if (error instanceof ActivityFailure && error.cause instanceof ApplicationFailure) throw error.cause;
    throw error;
  }
}

/**
 * Returns true if the work of the scope ended because the scope was cancelled. Temporal retries no activity that it was asked to cancel:
 * one whose worker has died ends with the timeout of its heartbeat, and one whose worker was stopping with that failure.
 */
export function isEndOfCancelled(error: unknown, scope: CancellationScope): boolean {
  return isCancellation(error) || (scope.consideredCancelled && error instanceof ActivityFailure);
}
