import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { WindowAnnotation } from '../../api/names.ts';
import { isCompleted } from '../../domain/common/stage.ts';
import { windowClosed } from '../../domain/notifications/events.ts';
import { nodeOutcomeOf } from '../../domain/windows/nodeOutcome.ts';
import { closingProblem, openedBy, withLastClosed } from '../../domain/windows/openWindow.ts';
import { windowMaintenancesOf } from '../../domain/windows/windowMaintenance.ts';
import type { WindowRef } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { currentExecution } from '../execution.ts';
import { invalidInput } from '../failures.ts';
import { notifiedWindowOf } from '../notifications/notifications.ts';
import { readWindow, updateWindowStatus } from './status.ts';

/** Marks a window as closed, if this run has it open. Fails while it is open and nodes are left. */
export async function closeWindow(deps: Deps, ref: WindowRef, runId: string): Promise<void> {
  const window = await readWindow(deps, ref);
  if (window === undefined) return;
  const { workflowId } = currentExecution();
  const active = openedBy(window, workflowId);
  if (active === undefined || active.runId !== runId) return;
  const problem = closingProblem(window, deps.cluster.kube.now().getTime());
  if (problem !== undefined) throw invalidInput(problem);
  recordKeptNodes(deps, ref.name);
  await notifyClosed(deps, window, runId);
  await updateWindowStatus(deps, ref, ({ active: open, ...status }) => {
    if (open === undefined) return status;
    const isOurs = open.workflowId === workflowId && open.runId === runId;
    return isOurs ? withLastClosed(status, open) : { ...status, active: open };
  });
}

async function notifyClosed(deps: Deps, window: MaintenanceWindow, runId: string): Promise<void> {
  if (wasNeverOpen(window)) return;
  const now = deps.cluster.kube.now().toISOString();
  const notification = windowClosed(notifiedWindowOf(window), runId, now);
  await deps.notifications.enqueue(notification);
  deps.events.record(window, { type: 'Normal', reason: 'WindowClosed', message: notification.data.message });
}

function wasNeverOpen({ status }: MaintenanceWindow): boolean {
  return status?.active !== undefined && status.active.start === status.active.end;
}

/** Records an Event for every failed node that stays cordoned: no workflow watches it until the next opening. */
function recordKeptNodes({ cluster, events }: Deps, window: string): void {
  for (const { node, maintenance } of windowMaintenancesOf(window, cluster.maintenances.list())) {
    const outcome = nodeOutcomeOf(maintenance);
    if (outcome.state !== 'Failed' || isCompleted(maintenance)) continue;
    const { name } = maintenance.metadata;
    const message = `Window ${window} has closed, and node ${node} stays cordoned (${outcome.reason}): when nothing is left to do, run kubectl annotate nm ${name} ${WindowAnnotation.WorkDone}=true to uncordon it.`;
    events.record(maintenance, { type: 'Warning', reason: 'NodeKeptCordoned', message });
  }
}
