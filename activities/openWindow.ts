import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import {
  FIELD_MANAGER,
  TEMPORAL_USER,
  TurnAnnotation,
  windowWorkflowIdOf,
  workflowIdOf,
} from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { parseWindowInput, type WindowInput } from '../api/windowInput.ts';
import { denialMessage } from '../domain/admission.ts';
import { isTrue } from '../domain/conditions.ts';
import { selectsNode } from '../domain/nodeSelector.ts';
import { windowClosed, windowOpened } from '../domain/notices.ts';
import { jobWorks, verdictOnAdvance } from '../domain/turnVerdict.ts';
import { isUnfinished } from '../domain/turn.ts';
import { isToEnd } from '../domain/windowProgress.ts';
import { durationMs, opensAt, showsAgain } from '../domain/windowSchedule.ts';
import { mayDeleteNodes } from '../kube/authorization.ts';
import { resources } from '../kube/resources.ts';
import type { OpenedWindow, SomeOrders, WindowRef, WindowStart } from './contract.ts';
import type { Deps } from './deps.ts';
import { busy, invalidInput } from './failures.ts';
import { noticedWindow } from './notices.ts';
import { authorizeTemporal, orderedByTemporal } from './temporalUser.ts';
import { isResting, judge, refTo, turnsOf } from './turns.ts';
import { readWindow, updateWindowStatus } from './windowStatus.ts';

/** The first act of every run of a window, whoever started it. */
export async function openWindow(deps: Deps, start: WindowStart): Promise<OpenedWindow> {
  const input = inputOf(start);
  const window = await windowOf(deps, input.name);
  const { name, uid = '' } = window.metadata;
  const before = await refuseSecondRun(deps, window, start);
  const isInterrupted = before?.workflowId === start.workflowId && input.duration === undefined;
  const times = isInterrupted ? before : await timesOf(deps, window, { start, input });
  const { workflowId, runId } = start;
  const given = isInterrupted ? before.orders : undefined;
  const active = {
    workflowId,
    runId,
    start: times.start,
    end: times.end,
    nodes: [],
    ...(given && { orders: given }),
  };
  await updateWindowStatus(deps, { name, uid }, (status) => {
    if (status.active?.runId === runId) return status;
    if (status.active !== undefined && status.active.runId !== before?.runId)
      throw busy(secondRun(name, status.active));
    return { ...status, active };
  });
  const opened = { name, uid, start: times.start, end: times.end, ...(given && { given }) };
  if (isPast(deps, times.end)) return { ...opened, resting: [] };
  const message = `The window is open until ${times.end}.`;
  deps.events.record(window, { type: 'Normal', reason: 'WindowOpened', message });
  await deps.notices.put(windowOpened(noticedWindow(window), active, times.start));
  const resting = (await turnsOf(deps, window, 'Finish'))
    .map(({ maintenance }) => maintenance)
    .filter((one) => isResting(one) && isTrue(one.status?.conditions, 'Paused'))
    .map(({ metadata }) => workflowIdOf(metadata.name));
  return { ...opened, resting };
}

function isPast({ cluster }: Deps, time: string): boolean {
  return Date.parse(time) <= cluster.kube.now().getTime();
}

/** Between the hosts of Temporal. Milliseconds. */
const clockSkew = 60_000;

/**
 * Fails when those who start workflows may not maintain the nodes, and it is not the window's own schedule that opens it. One that has
 * waited for another run until after its end starts at its end: it is open for no time.
 */
async function timesOf(
  deps: Deps,
  window: MaintenanceWindow,
  { start: { workflowId, scheduledAt, startedAt }, input }: { start: WindowStart; input: WindowInput },
): Promise<{ start: string; end: string }> {
  const { schedule, suspend } = window.spec;
  const nominal = Date.parse(scheduledAt ?? '');
  // Whoever starts a run may give it a nominal time: one that is still to come is no schedule's.
  const isScheduled = nominal <= Date.parse(startedAt) + clockSkew;
  const openedAt = isScheduled ? nominal : Date.parse(startedAt);
  // One that was due before Temporal heard of it, or has waited for another since.
  if (
    isScheduled &&
    suspend &&
    workflowId.startsWith(`${windowWorkflowIdOf(window.metadata.name)}-${scheduledAt?.slice(0, 4)}`)
  )
    throw invalidInput(`The window was not opened: MaintenanceWindow "${window.metadata.name}" is suspended`);
  // What its own schedule opens, for as long as it says, was ordered by whoever wrote the window.
  const isItsOwn = isScheduled && !suspend && input.duration === undefined && opensAt(schedule, openedAt);
  if (!isItsOwn) await authorizeWindow(deps, window);
  const isSecond = isScheduled && showsAgain(schedule, openedAt);
  const lasts = isSecond ? 0 : durationMs(input.duration ?? schedule.duration);
  const end = new Date(openedAt + lasts).toISOString();
  return { start: isPast(deps, end) ? end : new Date(openedAt).toISOString(), end };
}

function inputOf({ input, workflowId }: WindowStart): WindowInput {
  const parsed = parseWindowInput(input);
  if (!parsed.ok) throw invalidInput(`The window was not opened: ${parsed.problems.join('; ')}`);
  const { name } = parsed.input;
  const expected = windowWorkflowIdOf(name);
  if (workflowId === expected || workflowId.startsWith(`${expected}-`)) return parsed.input;
  throw invalidInput(
    `workflow id: expected "${expected}" for the window "${name}" (got "${workflowId}"); a Schedule appends the time to it`,
  );
}

async function windowOf({ cluster }: Deps, name: string): Promise<MaintenanceWindow> {
  const window = await cluster.kube.get(resources.maintenanceWindows, { name });
  if (window !== undefined) return window;
  throw invalidInput(`name: there is no MaintenanceWindow "${name}"; kubectl get mw lists them`);
}

type ActiveWindow = NonNullable<NonNullable<MaintenanceWindow['status']>['active']>;

/** Resolves with what an earlier run left behind that ended without having closed the window. */
async function refuseSecondRun(
  deps: Deps,
  { metadata, status }: MaintenanceWindow,
  { workflowId, scheduledAt }: WindowStart,
): Promise<ActiveWindow | undefined> {
  const { active } = status ?? {};
  // Of one workflow id Temporal itself runs one at a time.
  if (active === undefined || active.workflowId === workflowId) return active;
  if (!(await deps.isRunning(active.workflowId))) return active;
  const problem = secondRun(metadata.name, active);
  // Nobody would open it again for a schedule: it waits, and ends at its own time all the same.
  throw scheduledAt === undefined ? invalidInput(problem) : busy(problem);
}

function secondRun(name: string, { workflowId, start }: ActiveWindow): string {
  return `name: MaintenanceWindow "${name}" is open already, by workflow ${workflowId} since ${start}; it opens again when that has ended`;
}

function selectedBy({ cluster }: Deps, { spec }: MaintenanceWindow): string[] {
  const nodes = cluster.nodes.list().filter((node) => selectsNode(spec.nodeSelector, node));
  return nodes.map(({ metadata }) => metadata.name);
}

/** Whether those who may start workflows and send messages may maintain the nodes of a window, and the one that they name. */
async function authorizeWindow(deps: Deps, window: MaintenanceWindow, node?: string): Promise<void> {
  const { cluster } = deps;
  // The turn of a node goes on when the window does not select it any more.
  const names = new Set([...selectedBy(deps, window), ...(node === undefined ? [] : [node])]);
  const permission = await mayDeleteNodes(cluster.kube, { username: TEMPORAL_USER }, [...names].toSorted());
  if (permission.kind === 'Denied') throw invalidInput(denialMessage({ user: TEMPORAL_USER, ...permission }));
}

/** Takes an order down on the object, where a run that follows this one finds it; fails when it is none that could be given. */
export async function authorizeOrder(
  deps: Deps,
  ref: WindowRef,
  { approvedNodes = [], ...flags }: SomeOrders,
): Promise<void> {
  const window = await readWindow(deps, ref);
  if (window === undefined) return;
  await authorizeWindow(deps, window);
  const selected = new Set(selectedBy(deps, window));
  const strange = approvedNodes.find((node) => !selected.has(node));
  if (strange !== undefined)
    throw invalidInput(`node: "${strange}" is no node that MaintenanceWindow "${ref.name}" selects`);
  await updateWindowStatus(deps, ref, ({ active, ...status }) => {
    if (active === undefined) return status;
    const nodes = [...new Set([...(active.orders?.approvedNodes ?? []), ...approvedNodes])];
    const orders = { ...active.orders, ...flags, ...(nodes.length > 0 && { approvedNodes: nodes }) };
    return { ...status, active: { ...active, orders } };
  });
}

/** Notes that somebody says that the work on a node is done, or need not be done: its turn goes on from there. */
export async function advanceTurn(deps: Deps, ref: WindowRef, node: string): Promise<void> {
  const window = await readWindow(deps, ref);
  if (window === undefined) return;
  await authorizeWindow(deps, window, node);
  const turns = await turnsOf(deps, window, 'Finish');
  const turn = turns.find((one) => one.node === node && isToEnd(one.maintenance));
  if (turn === undefined)
    throw invalidInput(`node: "${node}" has no turn in window "${ref.name}" that could be ended`);
  const { job, maintenance } = turn;
  if (isUnfinished(job)) throw invalidInput(`node: ${jobWorks(job, node)}`);
  await authorizeTemporal(deps, maintenance.spec);
  await noteOrder(deps, maintenance);
  await judge(deps, refTo(maintenance), verdictOnAdvance(maintenance, job));
}

async function noteOrder({ cluster }: Deps, { metadata: { name, uid } }: NodeMaintenance): Promise<void> {
  const body = { metadata: { uid, annotations: orderedByTemporal } };
  const options = { fieldManager: FIELD_MANAGER };
  await cluster.kube.mergePatch(resources.nodeMaintenances, { name }, body, options);
}

export async function closeWindow(deps: Deps, ref: WindowRef, runId: string): Promise<void> {
  await tellLeftBehind(deps, ref);
  await tellClosed(deps, ref, runId);
  await updateWindowStatus(deps, ref, ({ active, ...status }) =>
    active === undefined || active.runId === runId ? status : { ...status, active },
  );
}

async function tellClosed(deps: Deps, ref: WindowRef, runId: string): Promise<void> {
  const window = await readWindow(deps, ref);
  if (window === undefined || wasNeverOpen(window)) return;
  const notice = windowClosed(noticedWindow(window), runId, deps.cluster.kube.now().toISOString());
  await deps.notices.put(notice);
  deps.events.record(window, { type: 'Normal', reason: 'WindowClosed', message: notice.data.message });
}

function wasNeverOpen({ status }: MaintenanceWindow): boolean {
  return status?.active !== undefined && status.active.start === status.active.end;
}

/** Nobody looks after these until the next window. */
async function tellLeftBehind(deps: Deps, ref: WindowRef): Promise<void> {
  const window = await readWindow(deps, ref);
  if (window === undefined) return;
  for (const { node, maintenance, step } of await turnsOf(deps, window, 'Finish')) {
    if (step.kind !== 'Failed' || step.isOver) continue;
    const message = `Window ${ref.name} has closed, and node ${node} stays out of service (${step.reason}): kubectl annotate nm ${maintenance.metadata.name} ${TurnAnnotation.Advance}=true gives it back when nothing is left to do.`;
    deps.events.record(maintenance, { type: 'Warning', reason: 'TurnLeftBehind', message });
  }
}
