import type { Client } from '@temporalio/client';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import {
  type ClusterScope,
  FIELD_MANAGER,
  WINDOW_FINALIZER,
  WindowOverrideAnnotation,
} from '../../api/names.ts';
import type { ConditionFacts } from '../../domain/common/conditions.ts';
import { checkTiming } from '../../domain/common/stalledRun.ts';
import type { Restarts } from '../../domain/maintenance/runRestarts.ts';
import { scheduledCondition, validCondition } from '../../domain/windows/conditions.ts';
import { scheduleOf } from '../../domain/windows/overrides.ts';
import { nextOpening } from '../../domain/windows/schedule.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { ignoreNotFound } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { JobPermission } from '../../kube/jobPermission.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import { recoveryDelayMs, type TemporalAvailability } from '../temporalAvailability.ts';
import { Schedules } from './schedules.ts';
import { windowProblems } from './problems.ts';
import { LostStarts } from '../lostStarts.ts';
import { ensureRun, type WindowRunState } from './runs.ts';
import { publishWindowStatus } from './status.ts';
import { releaseMaintenances } from './cleanup.ts';

interface Options {
  cluster: FencedCluster;
  temporal: Client;
  availability: TemporalAvailability;
  scope: ClusterScope;
  events: EventRecorder;
  mayRunJobs: JobPermission;
  log: Log;
  /** Temporal is considered unavailable if it does not answer within this time; 10 s unless given. */
  temporalTimeoutMs?: number;
  /** Requeue delay while Temporal is unavailable; 5 s unless given. */
  requeueUnavailableMs?: number;
  /** A run whose workflow task fails for so long is replaced; 0: never. */
  stalledRunTimeoutSeconds: number;
  /** Called for each run that is started because the one before ended too early. */
  onRestart?: () => void;
}
type Deps = Options & { schedules: Schedules; restarts: Map<string, Restarts>; lostStarts: LostStarts };

/** A Schedule is compared with its window this often: users may change it in Temporal. */
const resyncMs = 60_000;
/** Requeue delay while a window that is being deleted still has nodes in progress. */
const requeueInProgressMs = 2_000;
const defaultRequeueUnavailableMs = 5_000;
/** A shorter outage of Temporal is not reported. */
const reportAfterMs = 10_000;
/** A server that hangs must not occupy a worker of the queue for longer. */
const reconcileTimeoutMs = 30_000;
/** Requeue delay while a window waits for the permission to run Jobs, which is not watched. */
const requeueNotEnabledMs = 10_000;
/** Interval of the clean-up of Schedules whose window was deleted without its finalizer. */
const cleanupIntervalMs = 3_600_000;
const workers = 2;

/** Reconciles the Schedule of every MaintenanceWindow in Temporal, and reports problems as conditions of the window. */
export async function runWindowsController(options: Options, signal: AbortSignal): Promise<void> {
  const lostStarts = new LostStarts(options);
  const deps: Deps = { ...options, schedules: new Schedules(options), restarts: new Map(), lostStarts };
  const { cluster, temporal, availability, log } = deps;
  const queue = new WorkQueue('window');
  const cleanupQueue = new WorkQueue('window-cleanup');
  const unsubscribe = cluster.windows.subscribe((change) => {
    if (change.type === 'Updated' && !hasChanged(change.previous, change.object)) return;
    queue.add(change.object.metadata.name);
  });
  const unsubscribeAvailability = availability.subscribe(() => {
    const windows = cluster.windows.list();
    const delayMs = () =>
      availability.outage() === undefined ? recoveryDelayMs(windows.length) : reportAfterMs;
    for (const { metadata } of windows) queue.addAfter(metadata.name, delayMs());
    cleanupQueue.add('Schedules');
  });
  for (const { metadata } of cluster.windows.list()) queue.add(metadata.name);
  const reconcile = (name: string): Promise<Requeue | void> =>
    temporal.withDeadline(Date.now() + reconcileTimeoutMs, async () => {
      const window = cluster.windows.get(name);
      if (window === undefined) return deleteSchedule(deps, name);
      return window.metadata.deletionTimestamp === undefined
        ? reconcileWindow(deps, window)
        : finalize(deps, window);
    });
  cleanupQueue.add('Schedules');
  const cleanUp = async () => {
    // The end of the outage adds the key again: a reconciliation that waits for it would look stuck.
    if (availability.outage() !== undefined) return undefined;
    for (const name of await deps.schedules.windowNames())
      if (cluster.windows.get(name) === undefined) queue.add(name);
    return { requeueAfterMs: cleanupIntervalMs };
  };
  try {
    await Promise.all([
      queue.run({
        workers,
        reconcile,
        fieldsOf: (name) => ({ window: name }),
        signal,
        log,
        observer: cluster.queues,
      }),
      cleanupQueue.run({ workers: 1, reconcile: cleanUp, signal, log, observer: cluster.queues }),
    ]);
  } finally {
    unsubscribe();
    unsubscribeAvailability();
  }
}

/** Ignores what the activities write. */
function hasChanged(before: MaintenanceWindow, { metadata, status }: MaintenanceWindow): boolean {
  return (
    before.metadata.generation !== metadata.generation ||
    before.metadata.deletionTimestamp !== metadata.deletionTimestamp ||
    hasOtherOverrides(before.metadata, metadata) ||
    (before.status?.active === undefined) !== (status?.active === undefined)
  );
}

/** An annotation has no generation. */
function hasOtherOverrides(
  { annotations: before }: MaintenanceWindow['metadata'],
  { annotations }: MaintenanceWindow['metadata'],
): boolean {
  return Object.values(WindowOverrideAnnotation).some((key) => before?.[key] !== annotations?.[key]);
}

async function reconcileWindow(deps: Deps, window: MaintenanceWindow): Promise<Requeue> {
  const { kube } = deps.cluster;
  await ensureFinalizer(deps, window);
  const valid = validCondition(await windowProblems(kube, window, deps.mayRunJobs));
  const state = await deps.schedules.reconcile(window, valid.status === 'True');
  reportMissingJobs(deps, window, valid);
  const conditions = [valid, scheduledCondition(state)];
  await publishWindowStatus(kube, window, conditions);
  if (state.kind === 'Unknown') return requeueUnavailable(deps);
  const publish = (stalled: ConditionFacts, now?: Date) =>
    publishWindowStatus(kube, window, [...conditions, stalled], now);
  const run = await ensureRun(deps, window, publish);
  const now = kube.now().getTime();
  const next = nextOpening(scheduleOf(window), now) ?? Infinity;
  const requeueAfterMs = valid.reason === 'JobsNotEnabled' ? requeueNotEnabledMs : resyncAfterMs(deps, run);
  return { requeueAfterMs: Math.min(requeueAfterMs, next - now + requeueInProgressMs) };
}

/** The run of an open window is checked more often if it is to be replaced sooner. */
function resyncAfterMs({ stalledRunTimeoutSeconds }: Deps, run: WindowRunState): number {
  const { everyMs, suspectEveryMs } = checkTiming(stalledRunTimeoutSeconds);
  if (run.isStalled) return suspectEveryMs;
  return run.isOpen ? everyMs : resyncMs;
}

/** The end of a known outage queues all windows. */
function requeueUnavailable({
  availability,
  requeueUnavailableMs = defaultRequeueUnavailableMs,
}: Deps): Requeue {
  return { requeueAfterMs: availability.outage() === undefined ? requeueUnavailableMs : resyncMs };
}

/** Records an Event when the condition changes, not at every resync. */
function reportMissingJobs(
  { events }: Deps,
  window: MaintenanceWindow,
  { reason, message }: ConditionFacts,
): void {
  const before = window.status?.conditions.find(({ type }) => type === 'Valid');
  if (reason === 'JobsNotEnabled' && before?.reason !== reason)
    events.record(window, { type: 'Warning', reason, message });
}

/** Deletes the Schedule of a window that was deleted, possibly because a user removed its finalizer. */
async function deleteSchedule(deps: Deps, name: string): Promise<Requeue | undefined> {
  const problem = await deps.schedules.delete(name);
  return problem && requeueUnavailable(deps);
}

/** Deletes the Schedule at once, and removes the finalizer when the workflow that has the window open has ended. */
async function finalize(deps: Deps, window: MaintenanceWindow): Promise<Requeue | undefined> {
  const { metadata } = window;
  const finalizers = metadata.finalizers ?? [];
  if (!finalizers.includes(WINDOW_FINALIZER)) return undefined;
  const problem = await deps.schedules.delete(metadata.name);
  if (problem !== undefined) {
    await publishWindowStatus(deps.cluster.kube, window, [scheduledCondition(problem)]);
    return requeueUnavailable(deps);
  }
  const publish = (stalled: ConditionFacts, now?: Date) =>
    publishWindowStatus(deps.cluster.kube, window, [stalled], now);
  if ((await ensureRun(deps, window, publish)).isOpen) return { requeueAfterMs: requeueInProgressMs };
  await releaseMaintenances(deps, metadata.name);
  await setFinalizers(
    deps,
    metadata,
    finalizers.filter((one) => one !== WINDOW_FINALIZER),
  );
  return undefined;
}

async function ensureFinalizer(deps: Deps, { metadata }: MaintenanceWindow): Promise<void> {
  const finalizers = metadata.finalizers ?? [];
  if (!finalizers.includes(WINDOW_FINALIZER))
    await setFinalizers(deps, metadata, [...finalizers, WINDOW_FINALIZER]);
}

async function setFinalizers(
  { cluster }: Deps,
  { name, uid, resourceVersion }: MaintenanceWindow['metadata'],
  finalizers: string[],
): Promise<void> {
  const body = { metadata: { uid, resourceVersion, finalizers } };
  const options = { fieldManager: FIELD_MANAGER };
  await cluster.kube.mergePatch(resources.maintenanceWindows, { name }, body, options).catch(ignoreNotFound);
}
