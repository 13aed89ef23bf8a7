import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import { TEMPORAL_USER, windowWorkflowIdOf, workflowIdOf } from '../api/names.ts';
import { parseWindowInput, type WindowInput } from '../api/windowInput.ts';
import { denialMessage } from '../domain/admission.ts';
import { isTrue } from '../domain/conditions.ts';
import { selectsNode } from '../domain/nodeSelector.ts';
import { turnAdvanced } from '../domain/turnVerdict.ts';
import { durationMs, opensAt, showsAgain } from '../domain/windowSchedule.ts';
import { mayDeleteNodes } from '../kube/authorization.ts';
import { resources } from '../kube/resources.ts';
import type { OpenedWindow, WindowRef, WindowStart } from './contract.ts';
import type { Deps } from './deps.ts';
import { invalidInput } from './failures.ts';
import { requestStage } from './stage.ts';
import { judge, refTo, turnsOf } from './turns.ts';
import { readWindow, updateWindowStatus } from './windowStatus.ts';

/** The first act of every run of a window, whoever started it. */
export async function openWindow(deps: Deps, start: WindowStart): Promise<OpenedWindow> {
  const input = inputOf(start);
  const window = await windowOf(deps, input.name);
  const { name, uid = '' } = window.metadata;
  await refuseSecondRun(deps, window, start);
  const openedAt = Date.parse(start.scheduledAt ?? start.startedAt);
  const { schedule } = window.spec;
  // What its own schedule opens was ordered by whoever wrote the window.
  if (start.scheduledAt === undefined || !opensAt(schedule, openedAt)) await authorizeWindow(deps, window);
  const isSecond = start.scheduledAt !== undefined && showsAgain(schedule, openedAt);
  const times = {
    start: new Date(openedAt).toISOString(),
    end: new Date(openedAt + (isSecond ? 0 : durationMs(input.duration ?? schedule.duration))).toISOString(),
  };
  const { workflowId, runId } = start;
  await updateWindowStatus(deps, { name, uid }, (status) =>
    status.active?.runId === runId
      ? status
      : { ...status, active: { workflowId, runId, ...times, nodes: [] } },
  );
  const message = `The window is open until ${times.end}.`;
  deps.events.record(window, { type: 'Normal', reason: 'WindowOpened', message });
  const resting = turnsOf(deps, window, 'Finish')
    .filter(({ maintenance }) => isTrue(maintenance.status?.conditions, 'Paused'))
    .map(({ maintenance }) => workflowIdOf(maintenance.metadata.name));
  return { name, uid, ...times, resting };
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

async function refuseSecondRun(deps: Deps, window: MaintenanceWindow, start: WindowStart): Promise<void> {
  const { active } = window.status ?? {};
  // Of one workflow id Temporal itself runs one at a time.
  if (active === undefined || active.workflowId === start.workflowId) return;
  if (!(await deps.isRunning(active.workflowId))) return;
  throw invalidInput(
    `name: MaintenanceWindow "${window.metadata.name}" is open already, by workflow ${active.workflowId} since ${active.start}; it opens again when that has ended`,
  );
}

/** Whether those who may start workflows and send messages may maintain the nodes of a window. */
async function authorizeWindow({ cluster }: Deps, { spec }: MaintenanceWindow): Promise<void> {
  const names = cluster.nodes
    .list()
    .filter((node) => selectsNode(spec.nodeSelector, node))
    .map(({ metadata }) => metadata.name);
  const permission = await mayDeleteNodes(cluster.kube, { username: TEMPORAL_USER }, names.toSorted());
  if (permission.kind === 'Denied') throw invalidInput(denialMessage({ user: TEMPORAL_USER, ...permission }));
}

export async function authorizeOrder(deps: Deps, ref: WindowRef): Promise<void> {
  const window = await readWindow(deps, ref);
  if (window !== undefined) await authorizeWindow(deps, window);
}

/** Ends the turn of a node, because somebody says that its work is done, or need not be done. */
export async function advanceTurn(deps: Deps, ref: WindowRef, node: string): Promise<void> {
  const window = await readWindow(deps, ref);
  if (window === undefined) return;
  await authorizeWindow(deps, window);
  const turn = turnsOf(deps, window, 'Finish').find((one) => one.node === node && one.step.kind !== 'Over');
  if (turn === undefined)
    throw invalidInput(`node: "${node}" has no turn in window "${ref.name}" that could be ended`);
  const { job, maintenance, step } = turn;
  const isWorking = job !== undefined && step.kind === 'Wait' && job.status?.conditions === undefined;
  if (isWorking)
    throw invalidInput(
      `node: Job ${job.metadata.name} works on "${node}"; its turn ends with it, or delete the Job first`,
    );
  await judge(deps, refTo(maintenance), turnAdvanced);
  await requestStage(deps, refTo(maintenance), 'Complete');
}

export async function closeWindow(deps: Deps, ref: WindowRef, runId: string): Promise<void> {
  await updateWindowStatus(deps, ref, ({ active, ...status }) =>
    active === undefined || active.runId === runId ? status : { ...status, active },
  );
}
