import type { Client } from '@temporalio/client';
import type { ClusterScope } from '../../api/names.ts';
import type { Log } from '../../kube/log.ts';
import { listRuns } from '../../temporal-config/runs.ts';
import { repeat } from '../repeat.ts';
import { findRun, hasFailed, isOfCluster } from '../runInspection.ts';
import { type TemporalAvailability, untilAvailable } from '../temporalAvailability.ts';

interface Deps {
  temporal: Client;
  availability: TemporalAvailability;
  scope: ClusterScope;
  log: Log;
  /** Interval of lists; 2 s unless given. */
  closedRunsEveryMs?: number;
}

/** A run that ended. */
export interface ClosedRun {
  /** Name of its NodeMaintenance. */
  name: string;
  runId: string;
  /** End of the run, as the predicate of a sentence. */
  ending: string;
  /** It failed or timed out by itself. */
  hasFailed: boolean;
  /** It ended by itself, without an error. */
  hasCompleted: boolean;
}

const endings: Readonly<Record<string, string>> = {
  TERMINATED: 'was terminated',
  CANCELLED: 'was cancelled',
  FAILED: 'failed',
  TIMED_OUT: 'timed out',
};

/** One request for all maintenances: a check of each would cost more the more there are. */
const defaultListEveryMs = 2_000;
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
  const pass = async () => {
    await untilAvailable(deps.availability, signal);
    if (signal.aborted) return;
    const closed = await deps.temporal.withAbortSignal(signal, () => listClosed(deps));
    for (const run of closed.filter(isNew)) onClosed(run);
    seen = new Set(closed.map(({ runId }) => runId));
  };
  await repeat(pass, {
    everyMs: deps.closedRunsEveryMs ?? defaultListEveryMs,
    failure: 'Closed runs could not be listed',
    log: deps.log,
    signal,
  });
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
  for await (const { workflowId, runId, status, memo } of listRuns(temporal, query))
    if (isOfCluster(uid, memo)) closed.push(closedRun(workflowId.slice(prefix.length), runId, status));
  return closed;
}

/** Returns the newest run of a NodeMaintenance if it has ended; undefined if there is none, or if it is one of another cluster. */
export async function latestClosedRun(
  { temporal, scope: { names, uid } }: Pick<Deps, 'temporal' | 'scope'>,
  name: string,
): Promise<ClosedRun | undefined> {
  const run = await findRun(temporal, names.maintenanceId(name), uid);
  return run === undefined || run.isOpen ? undefined : closedRun(name, run.runId, run.status);
}

function closedRun(name: string, runId: string, status: string): ClosedRun {
  const hasCompleted = status === 'COMPLETED';
  return { name, runId, ending: endings[status] ?? 'ended', hasFailed: hasFailed(status), hasCompleted };
}
