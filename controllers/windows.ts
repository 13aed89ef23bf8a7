import type { Client } from '@temporalio/client';
import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import { FIELD_MANAGER, WINDOW_FINALIZER } from '../api/names.ts';
import { scheduledCondition, validCondition } from '../domain/windowConditions.ts';
import { nextOpening } from '../domain/windowSchedule.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import { isKubeError } from '../kube/errors.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { type Requeue, WorkQueue } from '../kube/workQueue.ts';
import { Schedules } from './schedules.ts';
import { windowProblems } from './windowProblems.ts';
import { keepOpen } from './windowRuns.ts';
import { showWindow } from './windowStatus.ts';
import { leaveTurns } from './windowTurns.ts';

interface Given {
  cluster: FencedCluster;
  temporal: Client;
  events: EventRecorder;
  log: Log;
}
type Deps = Given & { schedules: Schedules };

/** How often a Schedule is compared with its window: people may change it in Temporal. Milliseconds. */
const checkEvery = 60_000;
/** While a window that is being deleted still has turns to finish. Milliseconds. */
const lookAgainAfter = 2_000;
/** While Temporal does not answer. Milliseconds. */
const askAgainAfter = 5_000;
/** How often Schedules are looked for whose window is gone without having let go of them. Milliseconds. */
const sweepEvery = 3_600_000;
const workers = 2;

/** Keeps for every MaintenanceWindow a Schedule in Temporal that opens it, and says on the object what is wrong: object -> Schedule. */
export async function runWindowsController(given: Given, signal: AbortSignal): Promise<void> {
  const deps: Deps = { ...given, schedules: new Schedules(given) };
  const { cluster, log } = deps;
  const queue = new WorkQueue();
  const unsubscribe = cluster.windows.subscribe((change) => {
    if (change.type === 'Updated' && !isNews(change.previous, change.object)) return;
    queue.add(change.object.metadata.name);
  });
  for (const { metadata } of cluster.windows.list()) queue.add(metadata.name);
  const reconcile = async (name: string): Promise<Requeue | void> => {
    const window = cluster.windows.get(name);
    if (window === undefined) return forget(deps, name);
    return window.metadata.deletionTimestamp === undefined ? keep(deps, window) : letGo(deps, window);
  };
  const sweeping = new WorkQueue();
  sweeping.add('Schedules');
  const sweep = async () => {
    for (const name of await deps.schedules.windows())
      if (cluster.windows.get(name) === undefined) queue.add(name);
    return { requeueAfterMs: sweepEvery };
  };
  try {
    await Promise.all([
      queue.run({ workers, reconcile, signal, log }),
      sweeping.run({ workers: 1, reconcile: sweep, signal, log }),
    ]);
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

async function keep(deps: Deps, window: MaintenanceWindow): Promise<Requeue> {
  const { kube } = deps.cluster;
  await placeFinalizer(deps, window);
  const problems = await windowProblems(kube, window);
  const state = await deps.schedules.keep(window, problems.length === 0);
  await showWindow(kube, window, [validCondition(problems), scheduledCondition(state)]);
  if (state.kind === 'Unknown') return { requeueAfterMs: askAgainAfter };
  await keepOpen(deps, window);
  const now = kube.now().getTime();
  const next = nextOpening(window.spec.schedule, now) ?? Infinity;
  return { requeueAfterMs: Math.min(checkEvery, next - now + lookAgainAfter) };
}

/** Of a window that is gone, perhaps because somebody took its finalizer away. */
async function forget({ schedules }: Deps, name: string): Promise<Requeue | undefined> {
  const problem = await schedules.drop(name);
  return problem && { requeueAfterMs: askAgainAfter };
}

/** Its Schedule goes at once; the object, when the run that has it open has seen its turns through. */
async function letGo(deps: Deps, window: MaintenanceWindow): Promise<Requeue | undefined> {
  const { metadata } = window;
  const finalizers = metadata.finalizers ?? [];
  if (!finalizers.includes(WINDOW_FINALIZER)) return undefined;
  const problem = await deps.schedules.drop(metadata.name);
  if (problem !== undefined) {
    await showWindow(deps.cluster.kube, window, [scheduledCondition(problem)]);
    return { requeueAfterMs: askAgainAfter };
  }
  if (await keepOpen(deps, window)) return { requeueAfterMs: lookAgainAfter };
  await leaveTurns(deps, metadata.name);
  await setFinalizers(
    deps,
    metadata,
    finalizers.filter((one) => one !== WINDOW_FINALIZER),
  );
  return undefined;
}

async function placeFinalizer(deps: Deps, { metadata }: MaintenanceWindow): Promise<void> {
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
  await cluster.kube.mergePatch(resources.maintenanceWindows, { name }, body, options).catch(unlessGone);
}

/** A conflict is news, which comes with the next look. */
function unlessGone(error: unknown): undefined {
  if (!isKubeError(error, 'NotFound')) throw error;
}
