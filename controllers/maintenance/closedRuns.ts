import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, type WorkflowExecutionInfo, WorkflowNotFoundError } from '@temporalio/client';
import { CLUSTER_UID_MEMO, type ClusterScope } from '../../api/names.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { type TemporalAvailability, untilAvailable } from '../temporalAvailability.ts';

interface Deps {
  temporal: Client;
  availability: TemporalAvailability;
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
  /** It failed or timed out by itself. */
  hasFailed: boolean;
}

const endings: Readonly<Record<string, string>> = {
  TERMINATED: 'was terminated',
  CANCELLED: 'was cancelled',
  FAILED: 'failed',
  TIMED_OUT: 'timed out',
};

const failures = ['FAILED', 'TIMED_OUT'];

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
  for (;;) {
    await untilAvailable(deps.availability, signal);
    if (signal.aborted) return;
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
  for await (const run of temporal.workflow.list({ query }))
    if (isOf(uid, run)) closed.push(closedRun(run.workflowId.slice(prefix.length), run));
  return closed;
}

/** Returns the newest run of a NodeMaintenance if it has ended; undefined if there is none, or if it is one of another cluster. */
export async function latestClosedRun(
  { temporal, scope: { names, uid } }: Pick<Deps, 'temporal' | 'scope'>,
  name: string,
): Promise<ClosedRun | undefined> {
  try {
    const run = await temporal.workflow.getHandle(names.maintenanceId(name)).describe();
    return isOf(uid, run) && run.status.name !== 'RUNNING' ? closedRun(name, run) : undefined;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

function isOf(clusterUid: string, { memo }: Pick<WorkflowExecutionInfo, 'memo'>): boolean {
  return (memo?.[CLUSTER_UID_MEMO] ?? clusterUid) === clusterUid;
}

function closedRun(
  name: string,
  { runId, status }: Pick<WorkflowExecutionInfo, 'runId' | 'status'>,
): ClosedRun {
  return {
    name,
    runId,
    ending: endings[status.name] ?? 'ended',
    hasFailed: failures.includes(status.name),
  };
}
