import type { ActivityOptions } from '@temporalio/workflow';

/** Of a short step. Retried without limit: an apiserver that is down must end nothing. A worker that dies is noticed by the heartbeat. */
export const quick = {
  startToCloseTimeout: '60s',
  heartbeatTimeout: '6s',
  retry: {
    initialInterval: '200ms',
    maximumInterval: '15s',
    nonRetryableErrorTypes: ['InvalidInput', 'Invalid'],
  },
} satisfies ActivityOptions;

/**
 * Of what runs until something has changed. Its end is awaited when it is cancelled (left out, the option is TRY_CANCEL): what it
 * still writes must come before what follows.
 */
export const lasting = {
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
  startToCloseTimeout: '30 days',
  heartbeatTimeout: '6s',
  retry: { initialInterval: '200ms', maximumInterval: '10s' },
} satisfies ActivityOptions;
