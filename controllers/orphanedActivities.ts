import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { ClusterScope } from '../api/names.ts';
import { startIdOf } from '../domain/leases/identityLease.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { describeRun, listRuns } from '../temporal-config/runs.ts';
import { failActivity } from './lostStarts.ts';
import { isOfCluster, isStarted } from './runInspection.ts';
import { type TemporalAvailability, untilAvailable } from './temporalAvailability.ts';
import type { WorkerLiveness } from './workerLiveness.ts';

interface Deps {
  temporal: Client;
  availability: TemporalAvailability;
  scope: ClusterScope;
  workers: Pick<WorkerLiveness, 'isDead' | 'dead' | 'forget'>;
  log: Log;
  /** Interval of checks whether a worker has died, 1 s unless given: they read nothing but memory. */
  checkEveryMs?: number;
}

const defaultCheckEveryMs = 1_000;
const retryMs = 5_000;
/** Temporal may give tasks to the polls of a host that has disappeared until they end, after about a minute. */
const lostPollsMs = 90_000;
const maxConcurrentRuns = 8;

/**
 * Starts the activities of dead workers again, on other ones: their heartbeats are so rare that the server would notice it late. It fails each of
 * them by its id, and their retry policy starts them again. It searches them when it begins to lead, and twice for each death.
 */
export async function runOrphanedActivitiesController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { temporal, availability, log, checkEveryMs = defaultCheckEveryMs } = deps;
  const search = new OrphanSearch(deps);
  for (;;) {
    await untilAvailable(availability, signal);
    if (signal.aborted) return;
    let delayMs = checkEveryMs;
    try {
      await temporal.withAbortSignal(signal, () => search.runIfDue());
    } catch (error) {
      if (!signal.aborted)
        log.warn('Activities of dead workers could not be searched', { reason: errorMessage(error) });
      delayMs = retryMs;
    }
    await sleep(delayMs, undefined, { signal }).catch(() => undefined);
  }
}

/** Remembers for which dead workers it has searched. */
class OrphanSearch {
  readonly #deps: Deps;
  /** Dead worker -> when its activities are searched again. */
  readonly #nextSearch = new Map<string, number>();
  /** Workers that had activities at the last search and were not known to be dead. */
  #others: readonly string[] | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async runIfDue(): Promise<void> {
    const { workers } = this.#deps;
    const now = performance.now();
    const dead = [...new Set([...workers.dead(), ...(this.#others ?? [])])].filter((id) =>
      workers.isDead(id),
    );
    // A worker that was only believed to be dead may die later.
    for (const id of this.#nextSearch.keys()) if (!dead.includes(id)) this.#nextSearch.delete(id);
    const due = dead.filter((id) => (this.#nextSearch.get(id) ?? 0) <= now);
    if (this.#others !== undefined && due.length === 0) return;
    this.#others = await startAgain(this.#deps);
    for (const id of due) {
      if (this.#nextSearch.delete(id)) workers.forget(id);
      else this.#nextSearch.set(id, now + lostPollsMs);
    }
  }
}

/** Resolves with the workers that have activities and are not known to be dead. */
async function startAgain(deps: Deps): Promise<string[]> {
  const { temporal, scope, workers, log } = deps;
  const runs: Run[] = [];
  const query = `WorkflowType IN ("nodeMaintenance", "maintenanceWindow") AND TaskQueue = "${scope.names.taskQueue}" AND ExecutionStatus = "Running"`;
  for await (const { workflowId, runId, memo } of listRuns(temporal, query))
    if (isOfCluster(scope.uid, memo)) runs.push({ workflowId, runId });
  const others = new Set<string>();
  const counts = new Map<string, number>();
  await forEachBounded(maxConcurrentRuns, runs, async (run) => {
    for (const { activityId, worker } of await startedActivities(temporal, run)) {
      const id = startIdOf(worker);
      if (id === undefined) continue;
      if (!workers.isDead(id)) others.add(id);
      else if (await failActivity(temporal, { ...run, activityId }, deathOf(worker)))
        counts.set(worker, (counts.get(worker) ?? 0) + 1);
    }
  });
  for (const [worker, activities] of counts)
    log.warn('Activities of a dead worker are started again', { worker, activities });
  return [...others];
}

interface Run {
  workflowId: string;
  runId: string;
}

async function startedActivities(
  temporal: Client,
  run: Run,
): Promise<{ activityId: string; worker: string }[]> {
  const described = await describeRun(temporal, run);
  return (described?.raw.pendingActivities ?? [])
    .filter(isStarted)
    .map(({ activityId, lastWorkerIdentity }) => ({
      activityId: activityId ?? '',
      worker: lastWorkerIdentity ?? '',
    }));
}

function deathOf(worker: string) {
  return { type: 'WorkerDied', message: `worker ${worker} has died` };
}
