import { ActivityFailure, ApplicationFailure } from '@temporalio/workflow';

/** Fails as the activity did: its cause is the sentence that a person needs, "Activity task failed" is not. */
export async function withItsOwnFailure<T>(activity: Promise<T>): Promise<T> {
  try {
    return await activity;
  } catch (error) {
    if (error instanceof ActivityFailure && error.cause instanceof ApplicationFailure) throw error.cause;
    throw error;
  }
}
