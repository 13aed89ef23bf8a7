import { ActivityFailure, ApplicationFailure, isCancellation, proxyActivities } from '@temporalio/workflow';
import type { NoticeActivities, NoticeOrder } from '../activities/contract.ts';

/** Temporal takes 400 bytes. */
const longestSummary = 200;

/** The worker answers by itself: nothing outside of it is asked. */
const { noteUndelivered } = proxyActivities<Pick<NoticeActivities, 'noteUndelivered'>>({
  startToCloseTimeout: '10s',
  summary: 'Log and count a notice that the receiver has not taken',
  retry: { maximumInterval: '1m' },
});

/**
 * Sends one notice to the receiver, which may be down for long: nobody waits for it. Its id is that of the notice, so that none is
 * ordered twice. Fails when the receiver has refused it, or has not taken it within the patience of the order.
 */
export async function notify({ event, taskQueue, ...order }: NoticeOrder): Promise<void> {
  const { deliver } = proxyActivities<Pick<NoticeActivities, 'deliver'>>({
    taskQueue,
    // By which a worker that died is noticed.
    startToCloseTimeout: (order.timeoutSeconds + 5) * 1_000,
    scheduleToCloseTimeout: order.patienceSeconds * 1_000,
    retry: { initialInterval: '1s', maximumInterval: '5m' },
    summary: `${event.type} ${event.subject}`.slice(0, longestSummary),
  });
  try {
    await deliver(event);
  } catch (error) {
    if (isCancellation(error)) throw error;
    const because = causeOf(error);
    await noteUndelivered(event, because);
    throw ApplicationFailure.nonRetryable(`The notice was not delivered: ${because}`, 'Undelivered');
  }
}

function causeOf(error: unknown): string {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  return cause?.message ?? String(error);
}
