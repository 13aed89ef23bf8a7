import { type ActivityOptions, workflowInfo } from '@temporalio/workflow';
import { longRunningTaskQueueOf } from '../../api/names.ts';

/** Detects a worker that died, in an activity whose delay users notice. */
const quickHeartbeatSeconds = 6;
const maxHeartbeatSeconds = 3_600;

/**
 * Options of an activity that takes one short step. Retries are unlimited, because an apiserver that is down must not fail a
 * maintenance. The heartbeat detects a worker that died.
 */
export const shortActivity = {
  startToCloseTimeout: '60s',
  heartbeatTimeout: quickHeartbeatSeconds * 1_000,
  retry: {
    initialInterval: '200ms',
    maximumInterval: '15s',
    nonRetryableErrorTypes: ['InvalidInput', 'Invalid'],
  },
} satisfies ActivityOptions;

/**
 * Options of an activity that runs until something has changed, on a task queue of its own. Temporal bills every heartbeat, so an activity
 * that only waits sends few of them; the controller ends it sooner if its worker has died (ADR 41). The workflow waits for its end when it is
 * cancelled (the default is TRY_CANCEL), so that its last writes precede whatever follows.
 */
export function longRunningActivity(
  heartbeatTimeoutSeconds: number = quickHeartbeatSeconds,
): ActivityOptions {
  // The result of an activity, which any client of the namespace may have completed: the server rejects some numbers.
  const isValid = heartbeatTimeoutSeconds >= 1 && heartbeatTimeoutSeconds <= maxHeartbeatSeconds;
  return {
    taskQueue: longRunningTaskQueueOf(workflowInfo().taskQueue),
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    startToCloseTimeout: '30 days',
    heartbeatTimeout: Math.floor((isValid ? heartbeatTimeoutSeconds : quickHeartbeatSeconds) * 1_000),
    retry: { initialInterval: '200ms', maximumInterval: '10s' },
  };
}
