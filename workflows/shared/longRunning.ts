import { CancellationScope, condition, isCancellation, workflowInfo } from '@temporalio/workflow';
import { isEndOfCancelled } from './failures.ts';

/**
 * Runs a long-running activity until it ends. Only a history that has become long cancels it: then resolves with undefined. No request does, because
 * a cancellation reaches an activity only with the answer to its next heartbeat, possibly minutes later: the workflow makes the object say what
 * was requested, and the activity, which watches the object, ends at once.
 */
export async function runLongRunning<T>(work: () => Promise<T>): Promise<T | undefined> {
  const scope = new CancellationScope();
  const watching = new CancellationScope();
  watching
    .run(() => condition(() => workflowInfo().continueAsNewSuggested))
    .then(() => scope.cancel())
    .catch((error: unknown) => {
      if (!isCancellation(error)) throw error;
    });
  try {
    return await scope.run(work);
  } catch (error) {
    if (isEndOfCancelled(error, scope)) return undefined;
    throw error;
  } finally {
    watching.cancel();
  }
}

/** Calls back once if the run is cancelled from Temporal. The callback handles its own errors. */
export function onCancellation(handle: () => Promise<void>): void {
  CancellationScope.current().cancelRequested.catch(() => CancellationScope.nonCancellable(handle));
}
