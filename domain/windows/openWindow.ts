import type { MaintenanceWindow, MaintenanceWindowStatus } from '../../api/maintenanceWindow.ts';
import { numbered } from '../common/text.ts';
import type { InProgressPolicy } from './nodeStepInput.ts';
import { pauseOf } from './overrides.ts';

/**
 * The `.status.active` of its object decides what an open window may do, never what its workflow says: a client that may write to the
 * Temporal namespace controls the input of workflows and activities (ADR 29).
 */

export type ActiveWindow = NonNullable<MaintenanceWindowStatus['active']>;

/** The requests that the object records, and its end. */
export interface RecordedRequests {
  end: string;
  approved: boolean;
  approvedNodes: string[];
  paused: boolean;
  cancelled: boolean;
}

export function recordedRequests({ end, requests = {} }: ActiveWindow): RecordedRequests {
  const { approved = false, approvedNodes = [], paused = false, cancelled = false } = requests;
  return { end, approved, approvedNodes, paused, cancelled };
}

/** Returns the requests that the opening is subject to: an annotation of the window pauses it as well. */
export function effectiveRequests(window: MaintenanceWindow, active: ActiveWindow): RecordedRequests {
  const recorded = recordedRequests(active);
  return { ...recorded, paused: recorded.paused || pauseOf(window) !== undefined };
}

/** Returns the record of the open window if this workflow has it open. */
export function openedBy({ status }: MaintenanceWindow, workflowId: string): ActiveWindow | undefined {
  return status?.active?.workflowId === workflowId ? status.active : undefined;
}

/** The phase of an open window. */
export interface WindowPhase {
  policy: InProgressPolicy;
  /** No further node starts. */
  isEnding: boolean;
}

/** Decides the phase of a window from its spec and the requests that it has accepted. */
export function decidePhase(
  { metadata, spec }: MaintenanceWindow,
  { cancelled, ended, end }: { cancelled: boolean; ended: boolean; end: string },
  nowMs: number,
): WindowPhase {
  if (cancelled) return { policy: 'Cancel', isEnding: true };
  const isDeleted = metadata.deletionTimestamp !== undefined;
  if (!isDeleted && !ended && !(nowMs >= Date.parse(end))) return { policy: 'Finish', isEnding: false };
  const policies = { FinishCurrent: 'Finish', HoldCurrent: 'Hold', CancelCurrent: 'Cancel' } as const;
  const policy = policies[spec.onWindowEnd];
  // A deleted window does not open again, so that nothing could continue.
  return { policy: policy === 'Hold' && isDeleted ? 'Finish' : policy, isEnding: true };
}

/** Returns true while the window maintains nodes, so that it may resume the drains that an earlier opening has paused. */
export function mayResumeNodes(window: MaintenanceWindow, nowMs: number): boolean {
  const active = window.status?.active;
  if (active === undefined) return false;
  return decidePhase(window, { ...recordedRequests(active), ended: false }, nowMs).policy === 'Finish';
}

/** The difference between the clocks of two workers that is tolerated. */
const clockSkewMs = 60_000;

/**
 * Returns why an open window may not be closed; undefined if it may: it has ended, was cancelled or deleted, or the published progress shows
 * that nothing is left to do.
 */
export function closingProblem({ metadata, status }: MaintenanceWindow, nowMs: number): string | undefined {
  const active = status?.active;
  if (active === undefined || metadata.deletionTimestamp !== undefined) return undefined;
  const { end, cancelled } = recordedRequests(active);
  if (cancelled || nowMs >= Date.parse(end) - clockSkewMs) return undefined;
  const { remaining = 0, inProgress = 0, failed = 0 } = status?.progress ?? {};
  const left = remaining + inProgress + failed;
  if (left === 0) return undefined;
  return `MaintenanceWindow "${metadata.name}" is open until ${end}, and ${numbered(left, 'node')} of it are not done: cancel it to end it now`;
}

/**
 * Returns true if the schedule's own opening at this time has been closed already. It opens once: after a cancellation, another run of the same
 * opening needs the permission to maintain the nodes.
 */
export function wasClosed({ status }: MaintenanceWindow, openedAtMs: number): boolean {
  const { lastClosed } = status ?? {};
  return lastClosed !== undefined && openedAtMs <= Date.parse(lastClosed);
}

/** Returns the status with the start of the latest opening that was closed. A window that started at its own end was never open. */
export function withLastClosed(
  status: MaintenanceWindowStatus,
  { start, end }: Pick<ActiveWindow, 'start' | 'end'>,
): MaintenanceWindowStatus {
  const { lastClosed = start } = status;
  if (start === end) return status;
  return { ...status, lastClosed: Date.parse(start) > Date.parse(lastClosed) ? start : lastClosed };
}
