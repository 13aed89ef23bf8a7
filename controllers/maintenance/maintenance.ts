import { setTimeout as sleep } from 'node:timers/promises';
import { REQUESTED_BY_ANNOTATION } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { stageOf } from '../../domain/common/stage.ts';
import { detailsSnapshotAt, interventionReasons } from '../../domain/maintenance/detailsSnapshot.ts';
import { isFinished, isObserved } from '../../domain/maintenance/runNeed.ts';
import {
  afterRestart,
  failsRepeatedly,
  restartDelayMs,
  type Restarts,
} from '../../domain/maintenance/runRestarts.ts';
import { staticSummaryOf } from '../../domain/maintenance/staticSummary.ts';
import { resources } from '../../kube/resources.ts';
import { WorkQueue } from '../../kube/workQueue.ts';
import { isOfCluster } from '../runInspection.ts';
import { recoveryDelayMs, untilAvailable } from '../temporalAvailability.ts';
import { type ClosedRun, latestClosedRun, watchClosedRuns } from './closedRuns.ts';
import { StalledRuns, type StalledRunsDeps } from './stalledRuns.ts';
import { isRunning, signalIfRunning } from '../workflowRuns.ts';

interface Deps extends StalledRunsDeps {
  /** Called for each run that is started because the one before ended too early. */
  onRestart?: () => void;
}

/** Interval of checks that an unfinished maintenance has a run, because a user may have terminated it. */
const checkEveryMs = 30_000;
/** Delay after a signal before the controller checks that the run has applied it. */
const verifyAfterMs = 2_000;
/** Interval of searches for runs without an object. */
const sweepEveryMs = 300_000;
const queryTimeoutMs = 5_000;
/** A server that hangs must not occupy a worker of the queue for longer. */
const reconcileTimeoutMs = 15_000;
/** Shortest time between two signals about blocked pods to one run, which keeps its history short. */
const refreshEveryMs = 30_000;
const workers = 4;

/**
 * Ensures that every unfinished NodeMaintenance has a run of the `nodeMaintenance` workflow, and that the run knows the newest generation of
 * its object. Writes no objects but Events and the condition Stalled. While Temporal is unavailable, it only remembers what was deleted.
 */
export async function runMaintenanceController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, temporal, availability, log } = deps;
  const queue = new WorkQueue();
  const stalled = new StalledRuns(deps);
  const reconciler = new MaintenanceReconciler(deps, stalled);
  const unsubscribe = cluster.maintenances.subscribe(({ type, object: { metadata } }) => {
    if (type === 'Deleted') reconciler.deleted(metadata.name, metadata.uid ?? '');
    queue.add(metadata.name);
  });
  const unsubscribeAvailability = availability.subscribe(() => {
    if (availability.outage() !== undefined) return;
    const names = reconciler.names();
    for (const name of names) queue.addAfter(name, recoveryDelayMs(names.length));
  });
  for (const { metadata } of cluster.maintenances.list()) queue.add(metadata.name);
  const sweeping = sweep(deps, signal);
  const checking = stalled.watch(signal);
  const watching = watchClosedRuns(
    deps,
    (run) => {
      reconciler.closed(run);
      queue.add(run.name);
    },
    signal,
  );
  const reconcile = async (name: string) => {
    if (availability.outage() !== undefined) return undefined;
    return temporal.withDeadline(Date.now() + reconcileTimeoutMs, () => reconciler.reconcile(name));
  };
  try {
    await queue.run({ workers, reconcile, signal, log });
  } finally {
    unsubscribe();
    unsubscribeAvailability();
    await Promise.all([sweeping, watching, checking]);
  }
}

class MaintenanceReconciler {
  readonly #deps: Deps;
  /** Object name -> the UID that was deleted under it, until its run has been signalled. */
  readonly #deleted = new Map<string, string>();
  /** Object name -> the UID and generation that this process has signalled last. */
  readonly #signalled = new Map<string, string>();
  /** Object name -> how its latest run ended, until it has another one. */
  readonly #closed = new Map<string, ClosedRun>();
  /** Object name -> the runs that were started because one had ended too early. */
  readonly #restarts = new Map<string, Restarts>();
  readonly #details: DetailsRefresher;
  readonly #stalled: StalledRuns;

  constructor(deps: Deps, stalled: StalledRuns) {
    this.#deps = deps;
    this.#stalled = stalled;
    this.#details = new DetailsRefresher(deps);
  }

  /** Returns the names of all objects that may need a signal or a run. */
  names(): string[] {
    const existing = this.#deps.cluster.maintenances.list().map(({ metadata }) => metadata.name);
    return [...new Set([...existing, ...this.#deleted.keys()])];
  }

  deleted(name: string, uid: string): void {
    this.#deleted.set(name, uid);
  }

  closed(run: ClosedRun): void {
    this.#closed.set(run.name, run);
  }

  async reconcile(name: string): Promise<{ requeueAfterMs: number } | undefined> {
    await this.#signalGone(name);
    const maintenance = this.#deps.cluster.maintenances.get(name);
    if (maintenance === undefined || isFinished(maintenance)) {
      this.#details.forget(name);
      this.#closed.delete(name);
      this.#restarts.delete(name);
      return undefined;
    }
    const requeueAfterMs = await this.#ensureRun(maintenance);
    return { requeueAfterMs: Math.min(requeueAfterMs, await this.#details.refresh(maintenance)) };
  }

  async #signalGone(name: string): Promise<void> {
    const uid = this.#deleted.get(name);
    if (uid === undefined) return;
    await signalGone(this.#deps, name, uid);
    if (this.#deleted.get(name) === uid) this.#deleted.delete(name);
    this.#signalled.delete(name);
  }

  /** Resolves with the time after which the run is checked again. */
  async #ensureRun(maintenance: NodeMaintenance): Promise<number> {
    const { temporal, scope, log } = this.#deps;
    const { name, uid = '', generation = 0 } = maintenance.metadata;
    const workflowId = scope.names.maintenanceId(name);
    const version = `${uid}/${generation}`;
    // The run of a deleted object of the same name ignores the signal and ends; the next check starts a run for this object.
    const isSignalled = this.#signalled.get(name) === version;
    if ((isSignalled || this.#closed.has(name)) && (await isRunning(temporal, workflowId))) {
      this.#closed.delete(name);
      if (isSignalled) return isObserved(maintenance) ? checkEveryMs : verifyAfterMs;
    }
    const delayMs = this.#restartDelay(name);
    if (delayMs > 0) return delayMs;
    const stage = stageOf(maintenance);
    const observation = {
      uid,
      kind: 'StageChanged',
      stage,
      generation,
      requestedBy: requestedBy(maintenance),
    };
    const handle = temporal.workflow.getHandle(workflowId);
    if (!(await signalIfRunning(handle.signal('observe', observation)))) {
      if (!(await this.#needsRun(maintenance))) return verifyAfterMs;
      const closed = await this.#closedRunOf(maintenance);
      await temporal.workflow.signalWithStart('nodeMaintenance', {
        workflowId,
        taskQueue: scope.names.taskQueue,
        args: [{ name }],
        signal: 'observe',
        signalArgs: [observation],
        ...staticSummaryOf(maintenance, scope),
      });
      if (closed !== undefined) await this.#recordRestart(maintenance, closed);
    }
    log.info('Workflow signalled', { maintenance: name, generation, stage });
    this.#signalled.set(name, version);
    return verifyAfterMs;
  }

  /** Returns how long a maintenance whose run has ended too early waits for another one. */
  #restartDelay(name: string): number {
    return this.#closed.has(name) ? restartDelayMs(this.#restarts.get(name), Date.now()) : 0;
  }

  /** Its run may have ended because it was done, which the informer does not show yet. */
  async #needsRun({ metadata: { name, uid } }: NodeMaintenance): Promise<boolean> {
    const latest = await this.#deps.cluster.kube.get(resources.nodeMaintenances, { name });
    return latest !== undefined && latest.metadata.uid === uid && !isFinished(latest);
  }

  /** Returns the run that the next one replaces. It may have ended a moment ago, so that it was not listed yet. */
  async #closedRunOf({ metadata: { name }, status }: NodeMaintenance): Promise<ClosedRun | undefined> {
    const hadRun = status?.observedGeneration !== undefined;
    return this.#closed.get(name) ?? (hadRun ? latestClosedRun(this.#deps, name) : undefined);
  }

  async #recordRestart(maintenance: NodeMaintenance, closed: ClosedRun): Promise<void> {
    const { name } = maintenance.metadata;
    this.#closed.delete(name);
    const restarts = afterRestart(this.#restarts.get(name), closed, Date.now());
    this.#restarts.set(name, restarts);
    this.#deps.onRestart?.();
    const workflowId = this.#deps.scope.names.maintenanceId(name);
    this.#deps.log.warn('Workflow restarted', { maintenance: name, runId: closed.runId });
    this.#deps.events.record(maintenance, {
      type: 'Warning',
      reason: 'WorkflowRestarted',
      message: `Workflow ${workflowId} ${closed.ending} before the maintenance was complete: a new run continues from the state of the object. Complete the maintenance to end it.`,
    });
    if (failsRepeatedly(restarts)) await this.#stalled.reportFailing(maintenance, closed.runId);
  }
}

/**
 * Refreshes the current details of runs when the blockers that require intervention change. Runs get all other details with the results of
 * their activities, which add no event to their histories.
 */
class DetailsRefresher {
  readonly #deps: Deps;
  /** Object name -> the latest signal of this process: its reasons, and when it was sent, in milliseconds since the epoch. */
  readonly #sent = new Map<string, { reasons: string; at: number }>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  forget(name: string): void {
    this.#sent.delete(name);
  }

  /** Resolves with the time after which another refresh may be needed. */
  async refresh(maintenance: NodeMaintenance): Promise<number> {
    const { name, uid = '' } = maintenance.metadata;
    const sent = this.#sent.get(name) ?? { reasons: uid, at: 0 };
    const reasons = `${uid}${interventionReasons(maintenance)}`;
    if (reasons === sent.reasons) return checkEveryMs;
    const remainingMs = sent.at + refreshEveryMs - Date.now();
    if (remainingMs > 0) return remainingMs;
    const { cluster, temporal, scope } = this.#deps;
    const details = detailsSnapshotAt(maintenance, cluster.kube.now().toISOString());
    const handle = temporal.workflow.getHandle(scope.names.maintenanceId(name));
    await signalIfRunning(handle.signal('refreshDetails', { uid, details }));
    this.#sent.set(name, { reasons, at: Date.now() });
    return refreshEveryMs;
  }
}

/** Returns the author of the change, for the history, which outlives the object. No policy can record who deletes an object. */
function requestedBy({ metadata: { annotations, deletionTimestamp } }: NodeMaintenance): string | undefined {
  return deletionTimestamp === undefined ? annotations?.[REQUESTED_BY_ANNOTATION] : undefined;
}

async function signalGone({ temporal, scope, log }: Deps, name: string, uid: string): Promise<void> {
  const handle = temporal.workflow.getHandle(scope.names.maintenanceId(name));
  const isSent = await signalIfRunning(handle.signal('observe', { uid, kind: 'Gone' }));
  if (isSent) log.info('Workflow signalled that its object is gone', { maintenance: name });
}

/** Searches for runs without an object, now and then periodically, until the signal. */
async function sweep(deps: Deps, signal: AbortSignal): Promise<void> {
  for (;;) {
    await untilAvailable(deps.availability, signal);
    if (signal.aborted) return;
    await deps.temporal
      .withAbortSignal(signal, () => signalOrphans(deps, signal))
      .catch((error: unknown) => {
        if (!signal.aborted)
          deps.log.warn('Runs without an object could not be listed', { error: String(error) });
      });
    await sleep(sweepEveryMs, undefined, { signal }).catch(() => undefined);
  }
}

/** Signals runs whose object was deleted, and possibly replaced by another of the same name, while no controller was running. */
async function signalOrphans(deps: Deps, signal: AbortSignal): Promise<void> {
  const { names, uid } = deps.scope;
  const prefix = names.maintenanceId('');
  const query = `WorkflowType = "nodeMaintenance" AND WorkflowId STARTS_WITH "${prefix}" AND ExecutionStatus = "Running"`;
  for await (const { workflowId, memo } of deps.temporal.workflow.list({ query })) {
    if (!isOfCluster(uid, memo)) continue;
    const name = workflowId.slice(prefix.length);
    const maintenance = deps.cluster.maintenances.get(name);
    if (maintenance !== undefined && isObserved(maintenance)) continue;
    // A run that does not answer must not delay the signals to others.
    await signalIfOrphan(deps, name).catch((error: unknown) => {
      if (!signal.aborted)
        deps.log.warn('Run did not answer a query for its object', { workflowId, error: String(error) });
    });
  }
}

async function signalIfOrphan(deps: Deps, name: string): Promise<void> {
  const { cluster, temporal, scope } = deps;
  const handle = temporal.workflow.getHandle(scope.names.maintenanceId(name));
  const query = () => handle.query<{ uid: string; cluster?: { uid: string } }>('progress');
  const progress = await temporal.withDeadline(Date.now() + queryTimeoutMs, query);
  const { uid } = progress;
  // A run that was started from Temporal a moment ago has not created its object yet.
  if (uid === '' || progress.cluster?.uid !== scope.uid) return;
  const existing = await cluster.kube.get(resources.nodeMaintenances, { name });
  if (existing?.metadata.uid !== uid) await signalGone(deps, name, uid);
}
