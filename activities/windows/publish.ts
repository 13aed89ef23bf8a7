import { isDeepStrictEqual } from 'node:util';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { approvalNeeded } from '../../domain/notifications/events.ts';
import type { WindowDecision } from '../../domain/windows/decideWindow.ts';
import type { WindowRef } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { notifiedWindowOf } from '../notifications/notifications.ts';
import { readWindow, updateWindowStatus } from './status.ts';

/** The number of node names in the status, which keeps it small. */
const maxNodes = 100;

/** Writes the state of an open window to the status of the MaintenanceWindow. */
export async function publishWindow(
  deps: Deps,
  ref: WindowRef,
  window: MaintenanceWindow,
  { state: { waiting, inProgress, failed }, progress }: Pick<WindowDecision, 'state' | 'progress'>,
): Promise<void> {
  const { active, progress: before } = window.status ?? {};
  const nodes = [...inProgress, ...failed].map(({ node }) => node).slice(0, maxNodes);
  const isPublished = isDeepStrictEqual([active?.nodes, active?.waiting], [nodes, waiting]);
  if (isDeepStrictEqual(progress, before) && (active === undefined || isPublished)) return;
  if (waiting?.reason === 'JobsNotEnabled' && active?.waiting?.reason !== waiting.reason)
    deps.events.record(window, { type: 'Warning', reason: waiting.reason, message: waiting.message });
  // Enqueued first: once the status shows it, no other pass reports it.
  if (waiting?.reason === 'ApprovalNeeded') await notifyApprovalNeeded(deps, ref, waiting.message);
  await updateWindowStatus(deps, ref, ({ active: newest, ...status }) => {
    if (newest === undefined) return { ...status, progress };
    const { waiting: _before, ...open } = newest;
    return { ...status, progress, active: { ...open, nodes, ...(waiting && { waiting }) } };
  });
}

async function notifyApprovalNeeded(deps: Deps, ref: WindowRef, message: string): Promise<void> {
  const window = await readWindow(deps, ref);
  const active = window?.status?.active;
  if (window === undefined || active === undefined) return;
  const now = deps.cluster.kube.now().toISOString();
  const isWhole = window.spec.approval === 'PerWindow';
  const notification = approvalNeeded(notifiedWindowOf(window), { ...active, message, isWhole }, now);
  await deps.notifications.enqueue(notification);
  deps.events.record(window, { type: 'Normal', reason: 'ApprovalNeeded', message });
}
