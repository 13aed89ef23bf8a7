import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/client';
import { MAINTENANCE_FINALIZER, ORDERED_BY_ANNOTATION, TASK_QUEUE, workflowIdOf } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { awaitedOfPeople, glanceAt } from '../domain/glance.ts';
import { introductionOf } from '../domain/introduction.ts';
import { stageOf } from '../domain/stage.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { WorkQueue } from '../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  temporal: Client;
  log: Log;
}

/** How often an unfinished maintenance is checked for its run, which somebody may have terminated. Milliseconds. */
const checkEvery = 30_000;
/** How soon after a signal it is checked that the run took it in. Milliseconds. */
const verifyAfter = 2_000;
/** How often runs without an object are looked for, and how long each may take to answer. Milliseconds. */
const sweepEvery = 300_000;
const answerWithin = 5_000;
/** A run hears of what blocks its pods at most this often, so that its history stays short. Milliseconds. */
const newsEvery = 30_000;
const workers = 4;

/**
 * Sees to it that every unfinished NodeMaintenance has a run of the `nodeMaintenance` workflow, and that the run knows the
 * newest generation of its object. It decides nothing else: object -> workflow.
 */
export async function runMaintenanceController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, log } = deps;
  const queue = new WorkQueue();
  /** Object name -> the UID that was deleted under it, until its run was told. */
  const deleted = new Map<string, string>();
  /** Object name -> the generation that its run was told of last, by this process. */
  const told = new Map<string, string>();
  const blockers = new BlockerNews(deps);
  const unsubscribe = cluster.maintenances.subscribe(({ type, object: { metadata } }) => {
    if (type === 'Deleted') deleted.set(metadata.name, metadata.uid ?? '');
    queue.add(metadata.name);
  });
  for (const { metadata } of cluster.maintenances.list()) queue.add(metadata.name);
  const sweeping = sweep(deps, signal);

  const reconcile = async (name: string) => {
    const gone = deleted.get(name);
    if (gone !== undefined) {
      await tell(deps, name, { uid: gone, kind: 'Gone' });
      if (deleted.get(name) === gone) deleted.delete(name);
      told.delete(name);
    }
    const maintenance = cluster.maintenances.get(name);
    if (maintenance === undefined || isFinished(maintenance)) {
      blockers.forget(name);
      return undefined;
    }
    const { requeueAfterMs } = await keepRunning(deps, maintenance, told);
    return { requeueAfterMs: Math.min(requeueAfterMs, await blockers.tell(maintenance)) };
  };
  try {
    await queue.run({ workers, reconcile, signal, log });
  } finally {
    unsubscribe();
    await sweeping;
  }
}

async function keepRunning(
  deps: Deps,
  maintenance: NodeMaintenance,
  told: Map<string, string>,
): Promise<{ requeueAfterMs: number }> {
  const { name, uid = '', generation = 0 } = maintenance.metadata;
  const version = `${uid}/${generation}`;
  // A run of a deleted namesake takes no notice, and is on its way out: then this object's run is started here.
  if (told.get(name) === version && (await isRunning(deps, name)))
    return { requeueAfterMs: isObserved(maintenance) ? checkEvery : verifyAfter };
  const stage = stageOf(maintenance);
  await deps.temporal.workflow.signalWithStart('nodeMaintenance', {
    workflowId: workflowIdOf(name),
    taskQueue: TASK_QUEUE,
    args: [{ name }],
    signal: 'observe',
    signalArgs: [{ uid, kind: 'StageChanged', stage, generation, orderedBy: orderedBy(maintenance) }],
    ...introductionOf(maintenance),
  });
  deps.log.info('Workflow told', { maintenance: name, generation, stage });
  told.set(name, version);
  return { requeueAfterMs: verifyAfter };
}

/**
 * Tells runs what has come to need a person, or does so no longer, because it is on their page in the Temporal UI. All else they hear with
 * the results of their activities, which costs no event; of this there is little, and it must not wait.
 */
class BlockerNews {
  readonly #deps: Deps;
  /** Object name -> what its run was told last by this process, and when; Date.now(). */
  readonly #told = new Map<string, { news: string; at: number }>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  forget(name: string): void {
    this.#told.delete(name);
  }

  /** Resolves with the time after which there may be something to tell that cannot be told yet. Milliseconds. */
  async tell(maintenance: NodeMaintenance): Promise<number> {
    const { name, uid = '' } = maintenance.metadata;
    const told = this.#told.get(name) ?? { news: uid, at: 0 };
    const news = `${uid}${awaitedOfPeople(maintenance)}`;
    if (news === told.news) return checkEvery;
    const early = told.at + newsEvery - Date.now();
    if (early > 0) return early;
    const { cluster, temporal } = this.#deps;
    const glance = glanceAt(maintenance, cluster.kube.now().toISOString());
    await toRun(temporal.workflow.getHandle(workflowIdOf(name)).signal('glance', { uid, glance }));
    this.#told.set(name, { news, at: Date.now() });
    return newsEvery;
  }
}

/** For the history, which outlives the object. No policy can note on an object who deletes it. */
function orderedBy({ metadata: { annotations, deletionTimestamp } }: NodeMaintenance): string | undefined {
  return deletionTimestamp === undefined ? annotations?.[ORDERED_BY_ANNOTATION] : undefined;
}

/** Whether the run has taken in the newest generation. */
function isObserved({ metadata, status }: NodeMaintenance): boolean {
  return (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
}

/** "The finalizer is not removed until the Complete stage has been completed": then there is nothing left to run. */
function isFinished({ metadata, spec, status }: NodeMaintenance): boolean {
  const begun = status?.stageStatuses.some((stage) => stage.name === 'Complete') ?? false;
  return spec.stage === 'Complete' && begun && !metadata.finalizers?.includes(MAINTENANCE_FINALIZER);
}

async function isRunning({ temporal }: Deps, name: string): Promise<boolean> {
  try {
    const { status } = await temporal.workflow.getHandle(workflowIdOf(name)).describe();
    return status.name === 'RUNNING';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

async function tell(
  { temporal, log }: Deps,
  name: string,
  observation: { uid: string; kind: 'Gone' },
): Promise<void> {
  const isTold = await toRun(temporal.workflow.getHandle(workflowIdOf(name)).signal('observe', observation));
  if (isTold) log.info('Workflow told that its object is gone', { maintenance: name });
}

/** Resolves with whether there was a run to take it. */
async function toRun(signal: Promise<void>): Promise<boolean> {
  try {
    await signal;
    return true;
  } catch (error) {
    // Its run has ended, as it should.
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    return false;
  }
}

/** Looks for runs without an object now, and every some minutes, until the signal. */
async function sweep(deps: Deps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await deps.temporal
      .withAbortSignal(signal, () => tellOrphans(deps, signal))
      .catch((error: unknown) => {
        if (!signal.aborted)
          deps.log.warn('Runs without an object could not be listed', { error: String(error) });
      });
    await sleep(sweepEvery, undefined, { signal }).catch(() => undefined);
  }
}

/** Runs whose object was deleted, and perhaps followed by a namesake, while no controller was there to see it. */
async function tellOrphans(deps: Deps, signal: AbortSignal): Promise<void> {
  const query = 'WorkflowType = "nodeMaintenance" AND ExecutionStatus = "Running"';
  for await (const { workflowId } of deps.temporal.workflow.list({ query })) {
    const name = workflowId.slice(workflowIdOf('').length);
    const maintenance = deps.cluster.maintenances.get(name);
    if (maintenance !== undefined && isObserved(maintenance)) continue;
    // One run that does not answer must not keep the others from being told.
    await tellIfOrphan(deps, name).catch((error: unknown) => {
      if (!signal.aborted) deps.log.warn('Run did not tell its object', { workflowId, error: String(error) });
    });
  }
}

async function tellIfOrphan(deps: Deps, name: string): Promise<void> {
  const { cluster, temporal } = deps;
  const handle = temporal.workflow.getHandle(workflowIdOf(name));
  const ask = () => handle.query<{ uid: string }>('progress');
  const { uid } = await temporal.withDeadline(Date.now() + answerWithin, ask);
  // A run that was only just started from Temporal has yet to create its object.
  if (uid === '') return;
  const living = await cluster.kube.get(resources.nodeMaintenances, { name });
  if (living?.metadata.uid !== uid) await tell(deps, name, { uid, kind: 'Gone' });
}
