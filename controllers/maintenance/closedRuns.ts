import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { CLUSTER_UID_MEMO, type ClusterScope } from '../../api/names.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';

interface Deps {
  temporal: Client;
  scope: ClusterScope;
  log: Log;
}

/** A run that ended. */
export interface ClosedRun {
  /** Name of its NodeMaintenance. */
  name: string;
  runId: string;
  /** What happened to it, as the predicate of a sentence. */
  ending: string;
}

const endings: Readonly<Record<string, string>> = {
  TERMINATED: 'was terminated',
  CANCELLED: 'was cancelled',
  FAILED: 'failed',
  TIMED_OUT: 'timed out',
};

/** One request for all maintenances: a check of each would cost more the more there are. */
const listEveryMs = 2_000;
/** More than Temporal needs to list a run that has ended, and the clocks differ. */
const lookBackMs = 120_000;

/** Calls back once with every run that ends, until the signal. Misses those that end while no controller runs. */
export async function watchClosedRuns(
  deps: Deps,
  onClosed: (run: ClosedRun) => void,
  signal: AbortSignal,
): Promise<void> {
  let seen = new Set<string>();
  const isNew = ({ runId }: ClosedRun) => !seen.has(runId);
  let failure: string | undefined;
  while (!signal.aborted) {
    try {
      const closed = await deps.temporal.withAbortSignal(signal, () => listClosed(deps));
      for (const run of closed.filter(isNew)) onClosed(run);
      seen = new Set(closed.map(({ runId }) => runId));
      failure = undefined;
    } catch (error) {
      const reason = errorMessage(error);
      if (!signal.aborted && reason !== failure) deps.log.warn('Closed runs could not be listed', { reason });
      failure = reason;
    }
    await sleep(listEveryMs, undefined, { signal }).catch(() => undefined);
  }
}

async function listClosed({ temporal, scope: { names, uid } }: Deps): Promise<ClosedRun[]> {
  const prefix = names.maintenanceId('');
  const since = new Date(Date.now() - lookBackMs).toISOString();
  const query = [
    'WorkflowType = "nodeMaintenance"',
    `WorkflowId STARTS_WITH "${prefix}"`,
    'ExecutionStatus IN ("Completed", "Failed", "Canceled", "Terminated", "TimedOut")',
    `CloseTime > "${since}"`,
  ].join(' AND ');
  const closed: ClosedRun[] = [];
  for await (const { workflowId, runId, status, memo } of temporal.workflow.list({ query }))
    if ((memo?.[CLUSTER_UID_MEMO] ?? uid) === uid)
      closed.push({ name: workflowId.slice(prefix.length), runId, ending: endings[status.name] ?? 'ended' });
  return closed;
}
