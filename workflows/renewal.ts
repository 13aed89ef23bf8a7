import {
  CancellationScope,
  condition,
  log,
  patched,
  proxyActivities,
  workflowInfo,
} from '@temporalio/workflow';
import type { NodeMaintenanceActivities } from '../activities/contract.ts';
import { type Run, refTo } from './run.ts';

/** The maintenance Leases of the nodes, kept ours beside whatever else the workflow does (KEP-1411). */
export interface Renewal {
  /** Takes the Leases that are to be had, and goes on renewing them; does nothing when it goes on already. */
  begin(): Promise<void>;
  /** Resolves when nothing is renewed any more: what is released afterwards stays so. */
  end(): Promise<void>;
}

const { renewNodeLeases } = proxyActivities<NodeMaintenanceActivities>({
  summary: 'Take and renew the Leases of the nodes',
  startToCloseTimeout: '10 minutes',
  heartbeatTimeout: '6s',
  // Without limit: the Leases outlive many attempts.
  retry: { initialInterval: '200ms', maximumInterval: '15s' },
});

const untilRenewal = { summary: 'Until the Leases are renewed' };

/** After an error that the server does not retry. */
const failedRenewalPause = 15_000;

interface Effects {
  /** Makes the workflow look up from its work: its history has become long. */
  interrupt: () => void;
  /** Shows what has been seen meanwhile. */
  show: () => void;
}

export function createRenewal(run: Run, { interrupt, show }: Effects): Renewal {
  let isEnding = false;
  let renewing: Promise<void> | undefined;

  /** Milliseconds until the next one. */
  const renew = async () => {
    try {
      const { renewAfterSeconds, glance } = await renewNodeLeases(refTo(run));
      if (glance !== undefined) run.glance = glance;
      show();
      return renewAfterSeconds * 1_000;
    } catch (error) {
      log.warn('Node Leases were not renewed, trying again', { reason: String(error) });
      return failedRenewalPause;
    }
  };
  const goOn = async (afterMs: number) => {
    for (let pause = afterMs; !(await condition(() => isEnding, pause, untilRenewal)); ) {
      pause = await renew();
      if (workflowInfo().continueAsNewSuggested) interrupt();
    }
  };

  return {
    async begin() {
      // A run that began before there were renewals has none in its history.
      if (renewing !== undefined || !patched('node-leases')) return;
      // Ended by `end` alone: a workflow that is cancelled still has nodes to give back.
      const taken = CancellationScope.nonCancellable(renew);
      renewing = CancellationScope.nonCancellable(async () => goOn(await taken));
      await taken;
    },
    async end() {
      isEnding = true;
      await renewing;
    },
  };
}
