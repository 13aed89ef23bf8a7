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
import { readableMemo } from '../../temporal-config/readableMemo.ts';
import { listRuns } from '../../temporal-config/runs.ts';
import { isOfCluster } from '../runInspection.ts';
import { recoveryDelayMs, untilAvailable } from '../temporalAvailability.ts';
import { inTraceOf } from '../traces.ts';
import { type ClosedRun, latestClosedRun, watchClosedRuns } from './closedRuns.ts';
import { StalledRuns, type StalledRunsDeps } from './stalledRuns.ts';
import { isRunning, signalIfRunning } from '../workflowRuns.ts';

interface Deps extends StalledRunsDeps {
  /** Called for each run that is started because the one before ended too early. */
  onRestart?: () => void;
  /** Delay after a signal before the controller checks that the run has applied it; 2 s unless given. */
  verifyAfterMs?: number;
  /** Interval of lists of the runs that have ended; 2 s unless given. */
  closedRunsEveryMs?: number;
}

/** Interval of checks that an unfinished maintenance has a run. The list of closed runs and StalledRuns find those that have none much sooner. */
const checkEveryMs = 600_000;
const defaultVerifyAfterMs = 2_000;
/** Interval of searches for runs without an object. */
const sweepEveryMs = 300_000;
const queryTimeoutMs = 5_000;
/** A server that hangs must not occupy a worker of the queue for longer. */
const reconcileTimeoutMs = 15_000;
/** Shortest time between two signals about blocked pods to one run, which keeps its history short. */
const refreshEveryMs = 30_000;
/** Interval of signals while pods leave. */
const refreshProgressEveryMs = 300_000;
const workers = 4;

/**
 * Ensures that every unfinished NodeMaintenance has a run of the `nodeMaintenance` workflow, and that the run knows the newest generation of
 * its object. Writes no objects but Events and the condition Stalled. While Temporal is unavailable, it only remembers what was deleted.
 */
export async function runMaintenanceController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, temporal, availability, log } = deps;
  const queue = new WorkQueue('maintenance');
  const stalled = new StalledRuns(deps);
  const reconciler = new MaintenanceReconciler(deps, stalled);
  const unsubscribe = cluster.maintenances.subscribe(({ type, object: { metadata } }) => {
    if (type === 'Deleted') reconciler.onDeleted(metadata.name, metadata.uid ?? '');
    queue.add(metadata.name);
  });
  const unsubscribeAvailability = availability.subscribe(() => {
    if (availability.outage() !== undefined) return;
    const names = reconciler.names();
    for (const name of names) {
      // The Temporal that answers now may be another one, without the runs of the one before.
      reconciler.checkAgain(name);
      queue.addAfter(name, recoveryDelayMs(names.length));
    }
  });
  for (const { metadata } of cluster.maintenances.list()) queue.add(metadata.name);
  const sweeping = sweep(deps, signal);
  const checking = stalled.watch((name) => {
    reconciler.checkAgain(name);
    queue.add(name);
  }, signal);
  const watching = watchClosedRuns(
    deps,
    (run) => {
      reconciler.onRunClosed(run);
      queue.add(run.name);
    },
    signal,
  );
  const reconcile = async (name: string) => {
    if (availability.outage() !== undefined) return undefined;
    return temporal.withDeadline(Date.now() + reconcileTimeoutMs, () => reconciler.reconcile(name));
  };
  try {
    await queue.run({
      workers,
      reconcile,
      fieldsOf: (name) => ({ maintenance: name }),
      signal,
      log,
      observer: cluster.queues,
    });
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
  /** Object name -> when this process has to check again that it has a run, by performance.now(). */
  readonly #checkAt = new Map<string, number>();
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

  get #verifyAfterMs(): number {
    return this.#deps.verifyAfterMs ?? defaultVerifyAfterMs;
  }

  /** Returns the names of all objects that may need a signal or a run. */
  names(): string[] {
    const existing = this.#deps.cluster.maintenances.list().map(({ metadata }) => metadata.name);
    return [...new Set([...existing, ...this.#deleted.keys()])];
  }

  onDeleted(name: string, uid: string): void {
    this.#deleted.set(name, uid);
  }

  /** A run that has completed has done its work, or lost its object: another one is for a new object, unless this happens again and again. */
  onRunClosed(run: ClosedRun): void {
    if (run.hasCompleted && !this.#restarts.has(run.name)) this.checkAgain(run.name);
    else this.#closed.set(run.name, run);
  }

  /** The maintenance may have no run: the next pass asks Temporal. */
  checkAgain(name: string): void {
    this.#checkAt.delete(name);
  }

  async reconcile(name: string): Promise<{ requeueAfterMs: number } | undefined> {
    await this.#signalGone(name);
    const maintenance = this.#deps.cluster.maintenances.get(name);
    if (maintenance === undefined || isFinished(maintenance)) {
      this.#details.forget(name);
      this.#closed.delete(name);
      this.#restarts.delete(name);
      this.#checkAt.delete(name);
      return undefined;
    }
    const requeueAfterMs = await inTraceOf(maintenance, () => this.#ensureRun(maintenance));
    return { requeueAfterMs: Math.min(requeueAfterMs, await this.#details.refresh(maintenance)) };
  }

  async #signalGone(name: string): Promise<void> {
    const uid = this.#deleted.get(name);
    if (uid === undefined) return;
    await signalGone(this.#deps, name, uid);
    if (this.#deleted.get(name) === uid) this.#deleted.delete(name);
    this.#signalled.delete(name);
  }

  /** Resolves with the time after which the run is checked again. Asks Temporal nothing when only the status has changed. */
  async #ensureRun(maintenance: NodeMaintenance): Promise<number> {
    const { name, uid = '', generation = 0 } = maintenance.metadata;
    const version = `${uid}/${generation}`;
    // A run that has applied this generation needs no signal from a new leader. Only a signal updates the timers of a deadline.
    const isKnown = isObserved(maintenance) && maintenance.spec.drainDeadline === undefined;
    if (isKnown && !this.#signalled.has(name)) this.#signalled.set(name, version);
    const knownForMs = await this.#knownForMs(maintenance, this.#signalled.get(name) === version);
    if (knownForMs > 0) return knownForMs;
    const delayMs = this.#restartDelay(name);
    if (delayMs > 0) return delayMs;
    if (!(await this.#signal(maintenance))) return this.#verifyAfterMs;
    this.#signalled.set(name, version);
    return this.#checkAgainAfter(name, this.#verifyAfterMs);
  }

  /**
   * Returns for how long nothing needs to be done, because the run knows the newest generation; 0 if something does. The run of a deleted object of
   * the same name ignores the signal and ends; the next check starts a run for this object.
   */
  async #knownForMs(maintenance: NodeMaintenance, isSignalled: boolean): Promise<number> {
    const { temporal, scope } = this.#deps;
    const { name } = maintenance.metadata;
    const isClosed = this.#closed.has(name);
    const remainingMs = (this.#checkAt.get(name) ?? 0) - performance.now();
    if (isSignalled && !isClosed && remainingMs > 0) return remainingMs;
    if (!isSignalled && !isClosed) return 0;
    if (!(await isRunning(temporal, scope.names.maintenanceId(name)))) return 0;
    this.#closed.delete(name);
    if (!isSignalled) return 0;
    return this.#checkAgainAfter(name, isObserved(maintenance) ? checkEveryMs : this.#verifyAfterMs);
  }

  /** Signals the run, or starts one. Resolves with false if none is needed. */
  async #signal(maintenance: NodeMaintenance): Promise<boolean> {
    const { temporal, scope, log } = this.#deps;
    const { name, uid = '', generation = 0 } = maintenance.metadata;
    const workflowId = scope.names.maintenanceId(name);
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
      if (!(await this.#needsRun(maintenance))) return false;
      const closed = await this.#closedRunOf(maintenance);
      const summary = staticSummaryOf(maintenance, scope);
      const { signaledRunId: runId } = await temporal.workflow.signalWithStart('nodeMaintenance', {
        workflowId,
        taskQueue: scope.names.taskQueue,
        args: [{ name }],
        signal: 'observe',
        signalArgs: [observation],
        ...summary,
        memo: readableMemo(summary.memo),
      });
      if (closed !== undefined) await this.#recordRestart(maintenance, closed);
      log.info('Workflow started', { maintenance: name, uid, workflowId, runId });
    }
    log.info('Workflow signalled', { maintenance: name, workflowId, generation, stage });
    return true;
  }

  #checkAgainAfter(name: string, ms: number): number {
    this.#checkAt.set(name, performance.now() + ms);
    return ms;
  }

  /** Returns how long a maintenance whose run has ended too early waits for another one. */
  #restartDelay(name: string): number {
    return this.#closed.has(name) ? restartDelayMs(this.#restarts.get(name), performance.now()) : 0;
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
    const restarts = afterRestart(this.#restarts.get(name), closed, performance.now());
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
 * Refreshes the current details of runs when the blockers that require intervention change, and rarely while pods leave. Runs get all other
 * details with the results of their activities, which add no event to their histories.
 */
class DetailsRefresher {
  readonly #deps: Deps;
  /** Object name -> the latest signal of this process, or what it saw first. */
  readonly #sent = new Map<string, Refresh>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  forget(name: string): void {
    this.#sent.delete(name);
  }

  /** Resolves with the time after which another refresh may be needed. */
  async refresh(maintenance: NodeMaintenance): Promise<number> {
    const { name, uid = '' } = maintenance.metadata;
    const reasons = `${uid}${interventionReasons(maintenance)}`;
    const pods = podsText(maintenance);
    const sent = this.#sent.get(name) ?? { reasons: uid, pods, at: performance.now(), isSent: false };
    this.#sent.set(name, sent);
    if (reasons === sent.reasons && pods === sent.pods) return checkEveryMs;
    const waitMs = reasons === sent.reasons ? refreshProgressEveryMs : refreshEveryMs;
    const remainingMs = sent.at + waitMs - performance.now();
    if (remainingMs > 0 && (sent.isSent || reasons === sent.reasons)) return remainingMs;
    const { cluster, temporal, scope } = this.#deps;
    const details = detailsSnapshotAt(maintenance, cluster.kube.now().toISOString());
    const handle = temporal.workflow.getHandle(scope.names.maintenanceId(name));
    await signalIfRunning(handle.signal('refreshDetails', { uid, details }));
    this.#sent.set(name, { reasons, pods, at: performance.now(), isSent: true });
    return refreshEveryMs;
  }
}

interface Refresh {
  reasons: string;
  pods: string;
  /** Milliseconds, as `performance.now()`. */
  at: number;
  isSent: boolean;
}

function podsText({ status }: NodeMaintenance): string {
  const left = status?.nodeStatuses.map((node) => node.podsPendingEvacuation + node.podsEvacuating) ?? [];
  return `${left.reduce((sum, pods) => sum + pods, 0)} ${status?.podsBlocked ?? 0}`;
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
  for await (const { workflowId, memo } of listRuns(deps.temporal, query)) {
    if (!isOfCluster(uid, memo)) continue;
    const name = workflowId.slice(prefix.length);
    const maintenance = deps.cluster.maintenances.get(name);
    if (maintenance !== undefined && isObserved(maintenance)) continue;
    // A run that does not answer must not delay the signals to others.
    await signalIfOrphan(deps, name).catch((error: unknown) => {
      if (!signal.aborted)
        deps.log.warn('Run did not answer a query for its object', {
          maintenance: name,
          workflowId,
          error: String(error),
        });
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
