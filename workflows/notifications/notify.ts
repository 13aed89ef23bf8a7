import { ActivityFailure, ApplicationFailure, isCancellation, proxyActivities } from '@temporalio/workflow';
import type { NotificationActivities, NotificationRequest } from '../../activities/contract.ts';
import { isNameOrUid, isRecord } from '../../domain/common/untrusted.ts';
import { cloudEventProblem } from '../../domain/notifications/cloudEvent.ts';

/** Temporal accepts 400 bytes. */
const maxSummaryLength = 200;

/** Runs in the worker's own process and calls nothing else. */
const { recordDropped } = proxyActivities<Pick<NotificationActivities, 'recordDropped'>>({
  startToCloseTimeout: '10s',
  summary: 'Log and count the dropped notification',
  retry: { maximumInterval: '1m' },
});

/**
 * Delivers one notification to the endpoint, which may be down for hours; no maintenance waits for it. The workflow ID contains the
 * notification's `id`, so each notification has one run. Fails when the endpoint rejects the notification, or does not accept it in time.
 */
export async function notify(request: NotificationRequest): Promise<void> {
  const problem = requestProblem(request);
  if (problem !== undefined) throw ApplicationFailure.nonRetryable(problem, 'InvalidInput');
  const { event, taskQueue } = request;
  const { deliver } = proxyActivities<Pick<NotificationActivities, 'deliver'>>({
    taskQueue,
    // Detects a worker that died.
    startToCloseTimeout: (request.timeoutSeconds + 5) * 1_000,
    scheduleToCloseTimeout: request.retryUntilSeconds * 1_000,
    retry: { initialInterval: '1s', maximumInterval: '5m' },
    summary: `${event.type} ${event.subject}`.slice(0, maxSummaryLength),
  });
  try {
    await deliver(event);
  } catch (error) {
    if (isCancellation(error)) throw error;
    const reason = causeOf(error);
    await recordDropped(event, reason);
    throw ApplicationFailure.nonRetryable(`The notification was not delivered: ${reason}`, 'Undelivered');
  }
}

const maxTimeoutSeconds = 60;
const maxRetrySeconds = 168 * 3_600;

/** Any client may start this workflow. The endpoint is a setting of the worker, and no input changes it. */
function requestProblem(request: unknown): string | undefined {
  if (!isRecord(request)) return 'expected one JSON object: the worker starts this workflow';
  const { event, taskQueue, timeoutSeconds, retryUntilSeconds } = request;
  if (!isNameOrUid(taskQueue)) return 'taskQueue: expected the name of a task queue';
  if (!isSeconds(timeoutSeconds, maxTimeoutSeconds)) return 'timeoutSeconds: expected 1 to 60 seconds';
  if (!isSeconds(retryUntilSeconds, maxRetrySeconds)) return 'retryUntilSeconds: expected up to 168 hours';
  return cloudEventProblem(event);
}

function isSeconds(value: unknown, max: number): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= max;
}

function causeOf(error: unknown): string {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  return cause?.message ?? String(error);
}
