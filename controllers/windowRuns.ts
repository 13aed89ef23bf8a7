import { type Client, WorkflowExecutionAlreadyStartedError, WorkflowNotFoundError } from '@temporalio/client';
import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import { TASK_QUEUE } from '../api/names.ts';
import { windowIntroductionOf } from '../domain/introduction.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';

interface Deps {
  cluster: FencedCluster;
  temporal: Client;
  events: EventRecorder;
  log: Log;
}

/**
 * Whether a run has the window open. One that was terminated, or has failed, is followed by another one, which sees its turns through
 * until the recorded time.
 */
export async function keepOpen(
  deps: Deps,
  { metadata: { name, uid }, status }: MaintenanceWindow,
): Promise<boolean> {
  const { active } = status ?? {};
  if (active === undefined) return false;
  if (await isRunning(deps, active.workflowId)) return true;
  // Asked for only now: a run closes its window before it ends, and one that is closed must not be opened again.
  const newest = await deps.cluster.kube.get(resources.maintenanceWindows, { name });
  const recorded = newest?.metadata.uid === uid ? newest?.status?.active : undefined;
  if (newest === undefined || recorded === undefined) return false;
  if (recorded.runId === active.runId) await openAgain(deps, newest, recorded);
  return true;
}

async function isRunning({ temporal }: Deps, workflowId: string): Promise<boolean> {
  try {
    return (await temporal.workflow.getHandle(workflowId).describe()).status.name === 'RUNNING';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

type ActiveWindow = NonNullable<NonNullable<MaintenanceWindow['status']>['active']>;

async function openAgain(
  { temporal, events, log }: Deps,
  window: MaintenanceWindow,
  { workflowId, end }: ActiveWindow,
): Promise<void> {
  const { name } = window.metadata;
  try {
    await temporal.workflow.start('maintenanceWindow', {
      taskQueue: TASK_QUEUE,
      workflowId,
      args: [{ name }],
      ...windowIntroductionOf(window),
    });
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return;
    throw error;
  }
  log.warn('Window resumed', { window: name, workflowId });
  events.record(window, {
    type: 'Warning',
    reason: 'WindowResumed',
    message: `Workflow ${workflowId} ended without having closed the window: another run sees its turns through until ${end}. To end a window, cancel it.`,
  });
}
