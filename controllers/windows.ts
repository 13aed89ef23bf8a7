import { isDeepStrictEqual } from 'node:util';
import {
  type Client,
  type ScheduleDescription,
  ScheduleNotFoundError,
  type ScheduleOptions,
  ScheduleOverlapPolicy,
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
} from '@temporalio/client';
import type { MaintenanceWindow, MaintenanceWindowStatus } from '../api/maintenanceWindow.ts';
import { DEFAULT_NODE_BUDGET } from '../api/nodeBudget.ts';
import {
  FIELD_MANAGER,
  NODE_BUDGET_NAME,
  TASK_QUEUE,
  WINDOW_FINALIZER,
  WINDOW_LABEL,
  WORK_NAMESPACE,
  windowWorkflowIdOf,
} from '../api/names.ts';
import { newTurn } from '../api/windowTurn.ts';
import { withCondition } from '../domain/conditions.ts';
import { completeDrainPlan } from '../domain/drainPlan.ts';
import { windowIntroductionOf } from '../domain/introduction.ts';
import { digest, revisionOf, turnName } from '../domain/revision.ts';
import { type ScheduleState, scheduledCondition, validCondition } from '../domain/windowConditions.ts';
import {
  cronExpressions,
  describeSchedule,
  durationMs,
  exceptionsOf,
  nextOpening,
  scheduleProblems,
} from '../domain/windowSchedule.ts';
import { workJobSpec } from '../domain/workJob.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import { isKubeError, wordsOf } from '../kube/errors.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { WorkQueue } from '../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  temporal: Client;
  events: EventRecorder;
  log: Log;
  /** By window: the Schedule as Temporal described it after it was written here. */
  written: Map<string, string>;
}

/** How often a Schedule is compared with its window: people may change it in Temporal. Milliseconds. */
const checkEvery = 60_000;
/** While a window that is being deleted still has turns to finish. Milliseconds. */
const lookAgainAfter = 2_000;
const workers = 2;
/** In the queue: the budget of the cluster. */
const noWindow = '';

/** By which a Schedule is known to be as its window says; in the memo of its action. */
const digestKey = 'maintenanceWindowDigest';
/** Why a Schedule is paused, when we paused it. */
const suspendNote = 'spec.suspend of the MaintenanceWindow';
const problemNote = 'condition Valid of the MaintenanceWindow';
const ownNotes = [suspendNote, problemNote];

/**
 * Keeps for every MaintenanceWindow a Schedule in Temporal that opens it, and says on the object what is wrong: object -> Schedule.
 * A Schedule that people made by hand, with another id, is theirs.
 */
export async function runWindowsController(given: Omit<Deps, 'written'>, signal: AbortSignal): Promise<void> {
  const deps: Deps = { ...given, written: new Map() };
  const { cluster, log } = deps;
  const queue = new WorkQueue();
  const unsubscribe = cluster.windows.subscribe((change) => {
    if (change.type === 'Updated' && !isNews(change.previous, change.object)) return;
    queue.add(change.object.metadata.name);
  });
  for (const { metadata } of cluster.windows.list()) queue.add(metadata.name);
  queue.add(noWindow);
  const reconcile = async (name: string) => {
    if (name === noWindow) return placeBudget(deps);
    const window = cluster.windows.get(name);
    if (window === undefined) return undefined;
    return window.metadata.deletionTimestamp === undefined ? keep(deps, window) : letGo(deps, window);
  };
  try {
    await queue.run({ workers, reconcile, signal, log });
  } finally {
    unsubscribe();
  }
}

/** What the activities write is none. */
function isNews(before: MaintenanceWindow, { metadata, status }: MaintenanceWindow): boolean {
  return (
    before.metadata.generation !== metadata.generation ||
    before.metadata.deletionTimestamp !== metadata.deletionTimestamp ||
    (before.status?.active === undefined) !== (status?.active === undefined)
  );
}

async function keep(deps: Deps, window: MaintenanceWindow): Promise<{ requeueAfterMs: number }> {
  const { cluster } = deps;
  await placeFinalizer(deps, window);
  const now = cluster.kube.now().getTime();
  const problems = [
    ...scheduleProblems(window.spec.schedule, now),
    ...(await templateProblems(deps, window)),
    ...(await jobProblems(deps, window)),
  ];
  const state = await scheduleState(deps, window, problems);
  await tell(deps, window, { problems, state });
  await resumeInterrupted(deps, window);
  const next = nextOpening(window.spec.schedule, now) ?? Infinity;
  return { requeueAfterMs: Math.min(checkEvery, next - now + lookAgainAfter) };
}

async function scheduleState(
  deps: Deps,
  window: MaintenanceWindow,
  problems: readonly string[],
): Promise<ScheduleState> {
  try {
    return problems.length === 0 ? await keepSchedule(deps, window) : await pauseSchedule(deps, window);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    // What Temporal finds wrong with it, or that it does not answer.
    const message = error.cause instanceof Error ? error.cause.message : error.message;
    return { kind: isInvalidArgument(error) ? 'Refused' : 'Unknown', message };
  }
}

/** Whether the apiserver would take the NodeMaintenance of a turn. */
async function templateProblems({ cluster }: Deps, window: MaintenanceWindow): Promise<string[]> {
  const revision = revisionOf(window.spec);
  const turn = newTurn(window, {
    name: turnName(window.metadata.name, revision, noNode.name),
    revision,
    drainPlan: completeDrainPlan(window.spec.template.drainPlan),
    node: noNode,
  });
  try {
    await cluster.kube.create(resources.nodeMaintenances, turn, {
      fieldManager: FIELD_MANAGER,
      dryRun: true,
    });
    return [];
  } catch (error) {
    if (!isKubeError(error, 'Invalid', 'Forbidden')) throw error;
    return [`template: the apiserver refuses its NodeMaintenance, ${wordsOf(error)}`];
  }
}

const noNode = { name: 'no-node', uid: 'none' };

/** Whether the apiserver would take the Job of a turn. */
async function jobProblems({ cluster }: Deps, { spec }: MaintenanceWindow): Promise<string[]> {
  const { job } = spec.work;
  if (job === undefined) return [];
  const object = {
    metadata: { name: 'work-on-no-node', namespace: WORK_NAMESPACE },
    spec: workJobSpec(job, noNode.name),
  };
  try {
    await cluster.kube.create(resources.jobs, object, { fieldManager: FIELD_MANAGER, dryRun: true });
    return [];
  } catch (error) {
    if (!isKubeError(error, 'Invalid', 'Forbidden')) throw error;
    return [`work.job.template: the apiserver refuses its Job, ${wordsOf(error)}`];
  }
}

async function keepSchedule(deps: Deps, window: MaintenanceWindow): Promise<ScheduleState> {
  const { temporal, events, log, written } = deps;
  const { name } = window.metadata;
  const wanted = scheduleOf(window);
  const handle = temporal.schedule.getHandle(wanted.scheduleId);
  const found = await handle.describe().catch(unlessNotFound);
  if (found === undefined) {
    await temporal.schedule.create(wanted);
    log.info('Schedule created', { window: name });
  } else if (!isAsWanted(found, window) || written.get(name) !== textOf(found)) {
    const { spec, action, policies } = wanted;
    await handle.update((previous) => ({ ...previous, spec, action, ...(policies && { policies }) }));
    log.info('Schedule changed', { window: name });
    // Otherwise it is as somebody made it in Temporal.
    if (isAsWanted(found, window) && written.has(name)) events.record(window, repaired);
  } else return keepPaused(handle, found, window);
  const now = await handle.describe();
  written.set(name, textOf(now));
  return keepPaused(handle, now, window);
}

const repaired = {
  type: 'Warning',
  reason: 'ScheduleRepaired',
  message:
    'Somebody edited the Schedule of the window in Temporal: it was set back. Edit the MaintenanceWindow, or make a Schedule with another id.',
} as const;

/** What a Schedule takes from its window, as Temporal has it. */
function textOf({ spec, action, policies }: ScheduleDescription): string {
  return JSON.stringify([spec, action, policies]);
}

type Handle = ReturnType<Client['schedule']['getHandle']>;

async function keepPaused(
  handle: Handle,
  { state: { paused, note = '' } }: ScheduleDescription,
  { spec }: MaintenanceWindow,
): Promise<ScheduleState> {
  if (spec.suspend) {
    if (!paused) await handle.pause(suspendNote);
    return { kind: 'Suspended' };
  }
  if (!paused) return { kind: 'AsWanted' };
  if (!ownNotes.includes(note)) return { kind: 'PausedInTemporal', note };
  await handle.unpause('The MaintenanceWindow opens again');
  return { kind: 'AsWanted' };
}

/** A window that has problems opens none. Its Schedule stays, with the pause that a person may have given it. */
async function pauseSchedule(
  { temporal, log }: Deps,
  { metadata }: MaintenanceWindow,
): Promise<ScheduleState> {
  const handle = temporal.schedule.getHandle(windowWorkflowIdOf(metadata.name));
  const found = await handle.describe().catch(unlessNotFound);
  if (found !== undefined && !found.state.paused) {
    await handle.pause(problemNote);
    log.info('Schedule paused', { window: metadata.name });
  }
  return { kind: 'NotValid' };
}

async function dropSchedule(
  { temporal, log, written }: Deps,
  { metadata }: MaintenanceWindow,
): Promise<void> {
  written.delete(metadata.name);
  const handle = temporal.schedule.getHandle(windowWorkflowIdOf(metadata.name));
  const found = await handle.describe().catch(unlessNotFound);
  if (found === undefined) return;
  await handle.delete().catch(unlessNotFound);
  log.info('Schedule deleted', { window: metadata.name });
}

/** The turns of a run that was terminated, or has failed, are seen through by another one, until the recorded time. */
async function resumeInterrupted(
  { cluster, temporal, events, log }: Deps,
  { metadata: { name, uid } }: MaintenanceWindow,
): Promise<void> {
  if (cluster.windows.get(name)?.status?.active === undefined) return;
  const window = await cluster.kube.get(resources.maintenanceWindows, { name });
  const active = window?.status?.active;
  if (window === undefined || window.metadata.uid !== uid || active === undefined) return;
  if (await isRunning({ temporal }, active.workflowId)) return;
  try {
    await temporal.workflow.start('maintenanceWindow', {
      taskQueue: TASK_QUEUE,
      workflowId: active.workflowId,
      args: [{ name }],
      ...windowIntroductionOf(window),
    });
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return;
    throw error;
  }
  log.warn('Window resumed', { window: name, workflowId: active.workflowId });
  events.record(window, {
    type: 'Warning',
    reason: 'WindowResumed',
    message: `Workflow ${active.workflowId} ended without having closed the window: another run sees its turns through until ${active.end}. To end a window, cancel it.`,
  });
}

/** The first worker makes one with the default, so that whoever maintains nodes by hand is warned from then on. */
async function placeBudget({ cluster: { kube, nodeBudgets } }: Deps): Promise<{ requeueAfterMs: number }> {
  const again = { requeueAfterMs: checkEvery };
  if (nodeBudgets.get(NODE_BUDGET_NAME) !== undefined) return again;
  const budget = { metadata: { name: NODE_BUDGET_NAME }, spec: { maxUnavailable: DEFAULT_NODE_BUDGET } };
  try {
    await kube.create(resources.nodeBudgets, budget, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (!isKubeError(error, 'AlreadyExists')) throw error;
  }
  return again;
}

function unlessNotFound(error: unknown): undefined {
  if (!(error instanceof ScheduleNotFoundError)) throw error;
}

const invalidArgument = 3;

function isInvalidArgument({ cause }: ServiceError): boolean {
  return (cause as { code?: number } | undefined)?.code === invalidArgument;
}

/** The Schedule of a window, as it is created. */
function scheduleOf(window: MaintenanceWindow): ScheduleOptions {
  const { name } = window.metadata;
  const { schedule, suspend } = window.spec;
  const introduction = windowIntroductionOf(window);
  return {
    scheduleId: windowWorkflowIdOf(name),
    spec: {
      cronExpressions: cronExpressions(schedule),
      skip: exceptionsOf(schedule).map(({ year, month, day }) => ({
        year,
        month: months[month - 1] ?? 'JANUARY',
        dayOfMonth: day,
        hour: '*',
        minute: '*',
        second: '*',
      })),
      timezone: schedule.timeZone,
    },
    action: {
      type: 'startWorkflow',
      workflowType: 'maintenanceWindow',
      workflowId: windowWorkflowIdOf(name),
      taskQueue: TASK_QUEUE,
      args: [{ name }],
      ...introduction,
      memo: { ...introduction.memo, [digestKey]: digestOf(window) },
    },
    policies: {
      // One that lasts beyond its end is followed by the next at once, which ends at its own time.
      overlap: ScheduleOverlapPolicy.BUFFER_ONE,
      // Opened late, after an outage, a window still ends at its time: later than that there is nothing to catch up with.
      catchupWindow: durationMs(schedule.duration),
    },
    state: { paused: suspend, note: suspend ? suspendNote : `Kept by MaintenanceWindow ${name}` },
  };
}

const months = [
  'JANUARY',
  'FEBRUARY',
  'MARCH',
  'APRIL',
  'MAY',
  'JUNE',
  'JULY',
  'AUGUST',
  'SEPTEMBER',
  'OCTOBER',
  'NOVEMBER',
  'DECEMBER',
] as const;

/** Of all that a Schedule takes from its window. */
function digestOf({ metadata, spec }: MaintenanceWindow): string {
  return digest(JSON.stringify([metadata.uid, spec.schedule, spec.template.reason ?? '']));
}

function isAsWanted({ action }: ScheduleDescription, window: MaintenanceWindow): boolean {
  return action.type === 'startWorkflow' && action.memo?.[digestKey] === digestOf(window);
}

async function tell(
  { cluster }: Deps,
  { metadata, spec, status }: MaintenanceWindow,
  { problems, state }: { problems: readonly string[]; state: ScheduleState },
): Promise<void> {
  const { kube } = cluster;
  const { name, uid, generation = 0 } = metadata;
  const now = kube.now();
  const facts = [validCondition(problems), scheduledCondition(state)];
  const conditions = facts.reduce(
    (all, one) => withCondition(all, { ...one, observedGeneration: generation }, now.toISOString()),
    status?.conditions ?? [],
  );
  const next = state.kind === 'AsWanted' ? nextOpening(spec.schedule, now.getTime()) : undefined;
  const said: Partial<MaintenanceWindowStatus> = {
    conditions,
    observedGeneration: generation,
    schedule: describeSchedule(spec.schedule).slice(0, 256),
    ...(next !== undefined && { nextTime: new Date(next).toISOString() }),
  };
  const { active: _active, progress: _progress, ...before } = status ?? {};
  if (isDeepStrictEqual(said, before)) return;
  // The rest of the status is the activities'; of the conditions we are the only writer.
  const body = { metadata: { uid }, status: { ...said, ...(next === undefined && { nextTime: null }) } };
  const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
  await kube.mergePatch(resources.maintenanceWindows, { name }, body, options).catch(unlessGone);
}

async function placeFinalizer(deps: Deps, { metadata }: MaintenanceWindow): Promise<void> {
  const finalizers = metadata.finalizers ?? [];
  if (!finalizers.includes(WINDOW_FINALIZER))
    await setFinalizers(deps, metadata, [...finalizers, WINDOW_FINALIZER]);
}

/** Its Schedule goes at once; the object, when the run that has it open has seen its turns through. */
async function letGo(deps: Deps, window: MaintenanceWindow): Promise<{ requeueAfterMs: number } | undefined> {
  const { metadata, status } = window;
  const finalizers = metadata.finalizers ?? [];
  if (!finalizers.includes(WINDOW_FINALIZER)) return undefined;
  await dropSchedule(deps, window);
  const { active } = status ?? {};
  if (active !== undefined && (await isRunning(deps, active.workflowId)))
    return { requeueAfterMs: lookAgainAfter };
  await deleteTurns(deps, metadata.name);
  await setFinalizers(
    deps,
    metadata,
    finalizers.filter((one) => one !== WINDOW_FINALIZER),
  );
  return undefined;
}

async function isRunning({ temporal }: Pick<Deps, 'temporal'>, workflowId: string): Promise<boolean> {
  try {
    return (await temporal.workflow.getHandle(workflowId).describe()).status.name === 'RUNNING';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

/** The records of turns that are over. Others keep their nodes as they are: a person has to see to them. */
async function deleteTurns({ cluster }: Deps, window: string): Promise<void> {
  for (const { metadata, spec } of cluster.maintenances.list()) {
    if (metadata.labels?.[WINDOW_LABEL] !== window) continue;
    if (spec.stage !== 'Complete' || (metadata.finalizers ?? []).length > 0) continue;
    const { name, uid = '' } = metadata;
    await cluster.kube.delete(resources.nodeMaintenances, { name }, { uid, propagationPolicy: 'Background' });
  }
}

async function setFinalizers(
  { cluster }: Deps,
  { name, uid, resourceVersion }: MaintenanceWindow['metadata'],
  finalizers: string[],
): Promise<void> {
  const body = { metadata: { uid, resourceVersion, finalizers } };
  const options = { fieldManager: FIELD_MANAGER };
  await cluster.kube.mergePatch(resources.maintenanceWindows, { name }, body, options).catch(unlessGone);
}

/** A conflict is news, which comes with the next look. */
function unlessGone(error: unknown): undefined {
  if (!isKubeError(error, 'NotFound')) throw error;
}
