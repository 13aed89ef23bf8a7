import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import type { ClusterScope } from '../../api/names.ts';
import { windowStaticSummaryOf } from '../../domain/maintenance/staticSummary.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { isRunning } from '../workflowRuns.ts';

interface Deps {
  cluster: FencedCluster;
  temporal: Client;
  scope: ClusterScope;
  events: EventRecorder;
  log: Log;
}

type ActiveWindow = NonNullable<NonNullable<MaintenanceWindow['status']>['active']>;

/**
 * Ensures that a workflow runs as long as the window is open. If its workflow was terminated or failed, a new run continues until the
 * recorded end. Returns whether the window is open.
 */
export async function ensureRun(
  deps: Deps,
  { metadata: { name, uid }, status }: MaintenanceWindow,
): Promise<boolean> {
  const { active } = status ?? {};
  if (active === undefined) return false;
  if (await isRunning(deps.temporal, active.workflowId)) return true;
  // Read after the check above: a workflow closes its window before it ends, and a closed window must not be opened again.
  const newest = await deps.cluster.kube.get(resources.maintenanceWindows, { name });
  const recorded = newest?.metadata.uid === uid ? newest?.status?.active : undefined;
  if (newest === undefined || recorded === undefined) return false;
  if (recorded.runId === active.runId) await startRun(deps, newest, recorded);
  return true;
}

async function startRun(
  { temporal, scope, events, log }: Deps,
  window: MaintenanceWindow,
  { workflowId, end }: ActiveWindow,
): Promise<void> {
  const { name } = window.metadata;
  try {
    await temporal.workflow.start('maintenanceWindow', {
      taskQueue: scope.names.taskQueue,
      workflowId,
      args: [{ name }],
      ...windowStaticSummaryOf(window, scope),
    });
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return;
    throw error;
  }
  log.warn('Window resumed', { window: name, workflowId });
  events.record(window, {
    type: 'Warning',
    reason: 'WindowResumed',
    message: `Workflow ${workflowId} ended without closing the window: a new run continues until ${end}. Cancel the window to end it.`,
  });
}
