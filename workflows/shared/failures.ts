import { ActivityFailure, ApplicationFailure } from '@temporalio/workflow';

/** Rethrows the activity's own failure: its message says what is wrong, "Activity task failed" does not. */
export async function unwrapActivityFailure<T>(activity: Promise<T>): Promise<T> {
  try {
    return await activity;
  } catch (error) {
    if (error instanceof ActivityFailure && error.cause instanceof ApplicationFailure) throw error.cause;
    throw error;
  }
}
