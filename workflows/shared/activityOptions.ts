import type { ActivityOptions } from '@temporalio/workflow';

/**
 * Options of an activity that takes one short step. Retries are unlimited, because an apiserver that is down must not fail a
 * maintenance. The heartbeat detects a worker that died.
 */
export const shortActivity = {
  startToCloseTimeout: '60s',
  heartbeatTimeout: '6s',
  retry: {
    initialInterval: '200ms',
    maximumInterval: '15s',
    nonRetryableErrorTypes: ['InvalidInput', 'Invalid'],
  },
} satisfies ActivityOptions;

/**
 * Options of an activity that runs until something has changed. The workflow waits for its end when it is cancelled (the default is
 * TRY_CANCEL), so that its last writes precede whatever follows.
 */
export const longActivity = {
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
  startToCloseTimeout: '30 days',
  heartbeatTimeout: '6s',
  retry: { initialInterval: '200ms', maximumInterval: '10s' },
} satisfies ActivityOptions;
