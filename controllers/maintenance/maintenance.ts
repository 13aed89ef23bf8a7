import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { REQUESTED_BY_ANNOTATION, TASK_QUEUE, workflowIdOf } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isCompleted, stageOf } from '../../domain/common/stage.ts';
import { detailsSnapshotAt, interventionReasons } from '../../domain/maintenance/detailsSnapshot.ts';
import { staticSummaryOf } from '../../domain/maintenance/staticSummary.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { WorkQueue } from '../../kube/workQueue.ts';
import { isRunning, signalIfRunning } from '../workflowRuns.ts';

interface Deps {
  cluster: FencedCluster;
  temporal: Client;
  log: Log;
}

/** Interval of checks that an unfinished maintenance has a run, because a user may have terminated it. */
const checkEveryMs = 30_000;
/** Delay after a signal before the controller checks that the run has applied it. */
const verifyAfterMs = 2_000;
/** Interval of searches for runs without an object. */
const sweepEveryMs = 300_000;
const queryTimeoutMs = 5_000;
/** Shortest time between two signals about blocked pods to one run, which keeps its history short. */
const refreshEveryMs = 30_000;
const workers = 4;

/**
 * Ensures that every unfinished NodeMaintenance has a run of the `nodeMaintenance` workflow, and that the run knows the newest generation of
 * its object. Writes no objects.
 */
export async function runMaintenanceController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, log } = deps;
  const queue = new WorkQueue();
  const reconciler = new MaintenanceReconciler(deps);
  const unsubscribe = cluster.maintenances.subscribe(({ type, object: { metadata } }) => {
    if (type === 'Deleted') reconciler.deleted(metadata.name, metadata.uid ?? '');
    queue.add(metadata.name);
  });
  for (const { metadata } of cluster.maintenances.list()) queue.add(metadata.name);
  const sweeping = sweep(deps, signal);
  try {
    await queue.run({ workers, reconcile: (name) => reconciler.reconcile(name), signal, log });
  } finally {
    unsubscribe();
    await sweeping;
  }
}

class MaintenanceReconciler {
  readonly #deps: Deps;
  /** Object name -> the UID that was deleted under it, until its run has been signalled. */
  readonly #deleted = new Map<string, string>();
  /** Object name -> the UID and generation that this process has signalled last. */
  readonly #signalled = new Map<string, string>();
  readonly #details: DetailsRefresher;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#details = new DetailsRefresher(deps);
  }

  deleted(name: string, uid: string): void {
    this.#deleted.set(name, uid);
  }

  async reconcile(name: string): Promise<{ requeueAfterMs: number } | undefined> {
    await this.#signalGone(name);
    const maintenance = this.#deps.cluster.maintenances.get(name);
    if (maintenance === undefined || isFinished(maintenance)) {
      this.#details.forget(name);
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
    const { temporal, log } = this.#deps;
    const { name, uid = '', generation = 0 } = maintenance.metadata;
    const workflowId = workflowIdOf(name);
    const version = `${uid}/${generation}`;
    // The run of a deleted object of the same name ignores the signal and ends; the next check starts a run for this object.
    if (this.#signalled.get(name) === version && (await isRunning(temporal, workflowId)))
      return isObserved(maintenance) ? checkEveryMs : verifyAfterMs;
    const stage = stageOf(maintenance);
    await temporal.workflow.signalWithStart('nodeMaintenance', {
      workflowId,
      taskQueue: TASK_QUEUE,
      args: [{ name }],
      signal: 'observe',
      signalArgs: [{ uid, kind: 'StageChanged', stage, generation, requestedBy: requestedBy(maintenance) }],
      ...staticSummaryOf(maintenance),
    });
    log.info('Workflow signalled', { maintenance: name, generation, stage });
    this.#signalled.set(name, version);
    return verifyAfterMs;
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
    const { cluster, temporal } = this.#deps;
    const details = detailsSnapshotAt(maintenance, cluster.kube.now().toISOString());
    const handle = temporal.workflow.getHandle(workflowIdOf(name));
    await signalIfRunning(handle.signal('refreshDetails', { uid, details }));
    this.#sent.set(name, { reasons, at: Date.now() });
    return refreshEveryMs;
  }
}

/** Returns the author of the change, for the history, which outlives the object. No policy can record who deletes an object. */
function requestedBy({ metadata: { annotations, deletionTimestamp } }: NodeMaintenance): string | undefined {
  return deletionTimestamp === undefined ? annotations?.[REQUESTED_BY_ANNOTATION] : undefined;
}

/** Returns true if the run has applied the newest generation. */
function isObserved({ metadata, status }: NodeMaintenance): boolean {
  return (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
}

/** Returns true if the maintenance needs no run any more. */
function isFinished(maintenance: NodeMaintenance): boolean {
  return maintenance.spec.stage === 'Complete' && isCompleted(maintenance);
}

async function signalGone({ temporal, log }: Deps, name: string, uid: string): Promise<void> {
  const handle = temporal.workflow.getHandle(workflowIdOf(name));
  const isSent = await signalIfRunning(handle.signal('observe', { uid, kind: 'Gone' }));
  if (isSent) log.info('Workflow signalled that its object is gone', { maintenance: name });
}

/** Searches for runs without an object, now and then periodically, until the signal. */
async function sweep(deps: Deps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
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
  const query = 'WorkflowType = "nodeMaintenance" AND ExecutionStatus = "Running"';
  for await (const { workflowId } of deps.temporal.workflow.list({ query })) {
    const name = workflowId.slice(workflowIdOf('').length);
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
  const { cluster, temporal } = deps;
  const handle = temporal.workflow.getHandle(workflowIdOf(name));
  const query = () => handle.query<{ uid: string }>('progress');
  const { uid } = await temporal.withDeadline(Date.now() + queryTimeoutMs, query);
  // A run that was started from Temporal a moment ago has not created its object yet.
  if (uid === '') return;
  const existing = await cluster.kube.get(resources.nodeMaintenances, { name });
  if (existing?.metadata.uid !== uid) await signalGone(deps, name, uid);
}
