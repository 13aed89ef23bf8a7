import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { isOfWindow } from '../../api/names.ts';
import { parseWindowInput, type WindowInput } from '../../api/windowInput.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import { stageOf } from '../../domain/common/stage.ts';
import { joinedProblems } from '../../domain/common/text.ts';
import { windowOpened } from '../../domain/notifications/events.ts';
import { scheduleOf, skippedBecause } from '../../domain/windows/overrides.ts';
import { durationMs, isRepeatedOpening, opensAt } from '../../domain/windows/schedule.ts';
import { type ActiveWindow, wasClosed } from '../../domain/windows/openWindow.ts';
import { isPausedByWindow, windowMaintenancesOf } from '../../domain/windows/windowMaintenance.ts';
import { resources } from '../../kube/resources.ts';
import type { OpenedWindow, WindowStart } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { type Execution, requireOwnCluster, requireWindowWorkflow } from '../execution.ts';
import { busy, invalidInput } from '../failures.ts';
import { notifiedWindowOf } from '../notifications/notifications.ts';
import { authorizeWindow } from './requests.ts';
import { updateWindowStatus } from './status.ts';

/** A start with the facts that Temporal reports about the run, instead of those that the workflow claims. */
interface Opening extends Execution {
  input: WindowInput;
  /** Times in milliseconds since the epoch. Neither lies in the future. */
  startedAtMs: number;
  /** Undefined if no Schedule started the run. */
  nominalMs: number | undefined;
}

/** Opens a window. This is the first activity of every workflow run of the window. */
export async function openWindow(deps: Deps, start: WindowStart): Promise<OpenedWindow> {
  requireOwnCluster(deps.scope, start.clusterUid);
  const opening = checkedOpening(deps, start);
  const { input, workflowId, runId } = opening;
  const window = await findWindow(deps, input.name);
  const { name, uid = '' } = window.metadata;
  const before = await rejectSecondRun(deps, window, opening);
  const isInterrupted = before !== undefined && continues(deps, before, opening);
  const times = isInterrupted ? before : await openingTimes(deps, window, opening);
  const requests = isInterrupted ? before.requests : undefined;
  const cluster = { name: deps.scope.name, uid: deps.scope.uid };
  const opened = { start: times.start, end: times.end, ...(requests && { requests }) };
  const active = { workflowId, runId, nodes: [], ...opened };
  await updateWindowStatus(deps, { name, uid }, (status) => {
    if (status.active?.runId === runId) return status;
    if (status.active !== undefined && status.active.runId !== before?.runId)
      throw busy(secondRunProblem(name, status.active));
    return { ...status, active };
  });
  // A window that starts at its own end is never open: it resumes nothing, and nobody is notified.
  const { heartbeatTimeoutSeconds } = deps;
  const result = { name, uid, cluster, heartbeatTimeoutSeconds, ...opened };
  if (isPast(deps, times.end)) return { ...result, pausedByWindow: [] };
  const message = `The window is open until ${times.end}.`;
  deps.events.record(window, { type: 'Normal', reason: 'WindowOpened', message });
  await deps.notifications.enqueue(windowOpened(notifiedWindowOf(window), active, times.start));
  return { ...result, pausedByWindow: pausedWorkflows(deps, name) };
}

/** The difference between the clocks of Temporal's hosts that is tolerated. */
const clockSkewMs = 60_000;

/** Validates a start. Users who start a run can set its nominal time: no Schedule sets one that lies in the future. */
function checkedOpening(deps: Deps, { input, startedAt, scheduledAt }: WindowStart): Opening {
  const parsed = parseWindowInput(input);
  if (!parsed.ok) throw invalidInput(`The window was not opened: ${joinedProblems(parsed.problems)}`);
  const nowMs = deps.cluster.kube.now().getTime();
  const startedAtMs = Math.min(timeOf(startedAt) ?? nowMs, nowMs);
  const nominalMs = timeOf(scheduledAt);
  const isScheduled = nominalMs !== undefined && nominalMs <= startedAtMs + clockSkewMs;
  const { workflowId, runId } = requireWindowWorkflow(deps.scope, parsed.input.name);
  return {
    input: parsed.input,
    workflowId,
    runId,
    startedAtMs,
    nominalMs: isScheduled ? nominalMs : undefined,
  };
}

function timeOf(text: unknown): number | undefined {
  const ms = typeof text === 'string' ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}

/**
 * Reports whether a run continues an opening that an earlier run has not closed, with its end and its requests. Another run of the same opening
 * must not lose a pause or a cancellation.
 */
function continues(deps: Deps, before: ActiveWindow, { workflowId, input, nominalMs }: Opening): boolean {
  if (input.duration !== undefined) return false;
  if (nominalMs === undefined && isOfFormerCluster(deps, input.name, before)) return true;
  return before.workflowId === workflowId || nominalMs === Date.parse(before.start);
}

/** Reports whether the opening was recorded under another value of `--cluster`. */
function isOfFormerCluster({ scope }: Deps, window: string, { workflowId }: ActiveWindow): boolean {
  return !isOfWindow(scope.names, window, workflowId);
}

/** Returns the workflow ids of the NodeMaintenances that an earlier window paused, and that are not complete. */
function pausedWorkflows({ cluster, scope }: Deps, window: string): string[] {
  return windowMaintenancesOf(window, cluster.maintenances.list())
    .map(({ maintenance }) => maintenance)
    .filter((one) => stageOf(one) !== 'Complete')
    .filter((one) => isPausedByWindow(one) && isTrue(one.status?.conditions, 'Paused'))
    .map(({ metadata }) => scope.names.maintenanceId(metadata.name));
}

function isPast({ cluster }: Deps, time: string): boolean {
  return Date.parse(time) <= cluster.kube.now().getTime();
}

/**
 * Returns when the window opens and ends. Fails if users who start workflows may not maintain the nodes, unless the window's own
 * schedule opens it. A run that waited for another run until after its own end starts at its end, so that it is never open.
 */
async function openingTimes(
  deps: Deps,
  window: MaintenanceWindow,
  opening: Opening,
): Promise<{ start: string; end: string }> {
  const schedule = scheduleOf(window);
  const { input, startedAtMs, nominalMs } = opening;
  const openedAt = nominalMs ?? startedAtMs;
  const isScheduled = nominalMs !== undefined;
  const isRepeated = isScheduled && isRepeatedOpening(schedule, openedAt);
  const skipped = isScheduled ? skippedBecause(window, openedAt) : undefined;
  if (skipped !== undefined) rejectOwnSchedule(deps, window, opening, skipped);
  // The author of the window authorized the openings of its own schedule, each once, for the duration in its spec. A repeated one opens nothing.
  const isItsOwn =
    isScheduled &&
    skipped === undefined &&
    input.duration === undefined &&
    (isRepeated || opensAt(schedule, openedAt)) &&
    !wasClosed(window, openedAt);
  if (!isItsOwn) await authorizeWindow(deps, window);
  const openForMs = isRepeated ? 0 : durationMs(input.duration ?? schedule.duration);
  const end = new Date(openedAt + openForMs).toISOString();
  return { start: isPast(deps, end) ? end : new Date(openedAt).toISOString(), end };
}

/** The window's own Schedule may start it nevertheless: before Temporal knew about it, or when it waited for another run or for a worker. */
function rejectOwnSchedule(
  { scope }: Deps,
  { metadata: { name } }: MaintenanceWindow,
  { workflowId, nominalMs = 0 }: Opening,
  because: string,
): void {
  const year = new Date(nominalMs).toISOString().slice(0, 4);
  if (workflowId.startsWith(`${scope.names.windowId(name)}-${year}`))
    throw invalidInput(`The window was not opened: MaintenanceWindow "${name}" ${because}`);
}

async function findWindow({ cluster }: Deps, name: string): Promise<MaintenanceWindow> {
  const window = await cluster.kube.get(resources.maintenanceWindows, { name });
  if (window !== undefined) return window;
  throw invalidInput(`name: MaintenanceWindow "${name}" not found; kubectl get mw lists all windows`);
}

/** Fails while another run has the window open. Returns the record of an earlier run that ended without having closed the window. */
async function rejectSecondRun(
  deps: Deps,
  { metadata, status }: MaintenanceWindow,
  { workflowId, nominalMs }: Opening,
): Promise<ActiveWindow | undefined> {
  const { active } = status ?? {};
  // Temporal runs one workflow of an id at a time.
  if (active === undefined || active.workflowId === workflowId) return active;
  // No worker runs it any more.
  if (isOfFormerCluster(deps, metadata.name, active)) return active;
  if (!(await deps.isRunning(active.workflowId))) return active;
  const problem = secondRunProblem(metadata.name, active);
  // Nobody repeats the start of a Schedule: its run waits, and ends at its own time all the same.
  throw nominalMs === undefined ? invalidInput(problem) : busy(problem);
}

function secondRunProblem(name: string, { workflowId, start }: ActiveWindow): string {
  return `name: MaintenanceWindow "${name}" has been open since ${start}, by workflow ${workflowId}; it can be opened again when that workflow has ended`;
}
