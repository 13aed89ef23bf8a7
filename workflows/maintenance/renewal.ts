import { CancellationScope, condition, log, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { NodeMaintenanceActivities } from '../../activities/contract.ts';
import { applySnapshot, type Run, refTo } from './run.ts';

/** Holds the maintenance Leases of the nodes, concurrently with all other work of the workflow (KEP-1411). */
export interface Renewal {
  /** Acquires the Leases that are free and starts to renew them; does nothing if it was started before. */
  start(): Promise<void>;
  /** Resolves when nothing is renewed any more: a Lease that is released afterwards stays released. */
  stop(): Promise<void>;
}

const { renewNodeLeases } = proxyActivities<NodeMaintenanceActivities>({
  summary: 'Acquire and renew the Leases of the nodes',
  startToCloseTimeout: '10 minutes',
  heartbeatTimeout: '6s',
  // Unlimited: the Leases outlive many attempts.
  retry: { initialInterval: '200ms', maximumInterval: '15s' },
});

const untilRenewal = { summary: 'Until the Leases are renewed' };

/** Pause after an error that the server does not retry. */
const failedRenewalPauseMs = 15_000;

interface Effects {
  /** Interrupts the work of the stage, because the history has become long. */
  interrupt: () => void;
  /** Renders the current details. */
  renderDetails: () => void;
}

export function createRenewal(run: Run, { interrupt, renderDetails }: Effects): Renewal {
  let isStopping = false;
  let renewing: Promise<void> | undefined;

  /** Resolves with the milliseconds until the next renewal. */
  const renew = async () => {
    try {
      const { renewAfterSeconds, details } = await renewNodeLeases(refTo(run));
      applySnapshot(run, details);
      renderDetails();
      return renewAfterSeconds > 0 ? renewAfterSeconds * 1_000 : failedRenewalPauseMs;
    } catch (error) {
      log.warn('Node Leases were not renewed, retrying', { reason: String(error) });
      return failedRenewalPauseMs;
    }
  };
  const renewUntilStopped = async (firstPauseMs: number) => {
    for (let pauseMs = firstPauseMs; !(await condition(() => isStopping, pauseMs, untilRenewal)); ) {
      pauseMs = await renew();
      if (workflowInfo().continueAsNewSuggested) interrupt();
    }
  };

  return {
    async start() {
      if (renewing !== undefined) return;
      // Only `stop` ends it: a cancelled workflow still has nodes to uncordon.
      const acquired = CancellationScope.nonCancellable(renew);
      renewing = CancellationScope.nonCancellable(async () => renewUntilStopped(await acquired));
      await acquired;
    },
    async stop() {
      isStopping = true;
      await renewing;
    },
  };
}
