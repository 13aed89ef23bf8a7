import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/client';
import { MAINTENANCE_FINALIZER, TASK_QUEUE, workflowIdOf } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { wantedStage } from '../domain/stage.ts';
import type { Cluster } from '../kube/cluster.ts';
import type { Log } from '../kube/log.ts';
import { WorkQueue } from '../kube/workQueue.ts';

interface Deps {
  cluster: Cluster;
  temporal: Client;
  log: Log;
}

/** How often an unfinished maintenance is checked for its run, which somebody may have terminated. Milliseconds. */
const checkEvery = 30_000;
/** How soon after a signal it is checked that the run took it in. Milliseconds. */
const verifyAfter = 2_000;
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
  const unsubscribe = cluster.maintenances.subscribe(({ type, object: { metadata } }) => {
    if (type === 'Deleted') deleted.set(metadata.name, metadata.uid ?? '');
    queue.add(metadata.name);
  });
  for (const { metadata } of cluster.maintenances.list()) queue.add(metadata.name);
  const orphans = setInterval(() => void tellOrphans(deps, told).catch(report), checkEvery * 10);
  const report = (error: unknown) =>
    log.warn('Runs without an object could not be listed', { error: String(error) });
  await tellOrphans(deps, told).catch(report);

  const reconcile = async (name: string) => {
    const gone = deleted.get(name);
    if (gone !== undefined) {
      await tell(deps, name, { uid: gone, kind: 'Gone' });
      deleted.delete(name);
      told.delete(name);
    }
    const maintenance = cluster.maintenances.get(name);
    if (maintenance === undefined || isFinished(maintenance)) return undefined;
    return keepRunning(deps, maintenance, told);
  };
  try {
    await queue.run({ workers, reconcile, signal, log });
  } finally {
    clearInterval(orphans);
    unsubscribe();
  }
}

async function keepRunning(
  deps: Deps,
  maintenance: NodeMaintenance,
  told: Map<string, string>,
): Promise<{ requeueAfterMs: number }> {
  const { name, uid = '', generation = 0, deletionTimestamp } = maintenance.metadata;
  const version = `${uid}/${generation}`;
  // A run of a deleted namesake takes no notice, and is on its way out: then this object's run is started here.
  if (told.get(name) === version && (await isRunning(deps, name))) {
    const observed = (maintenance.status?.observedGeneration ?? 0) >= generation;
    return { requeueAfterMs: observed ? checkEvery : verifyAfter };
  }
  const stage = wantedStage(maintenance.spec.stage, deletionTimestamp !== undefined);
  await deps.temporal.workflow.signalWithStart('nodeMaintenance', {
    workflowId: workflowIdOf(name),
    taskQueue: TASK_QUEUE,
    args: [{ name }],
    signal: 'observe',
    signalArgs: [{ uid, kind: 'StageChanged', stage, generation }],
    staticSummary: maintenance.spec.reason || `Maintenance ${name}`,
  });
  deps.log.info('Workflow told', { maintenance: name, generation, stage });
  told.set(name, version);
  return { requeueAfterMs: verifyAfter };
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
  try {
    await temporal.workflow.getHandle(workflowIdOf(name)).signal('observe', observation);
    log.info('Workflow told that its object is gone', { maintenance: name });
  } catch (error) {
    // Its run has ended, as it should.
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

/** Runs whose object was deleted while no controller was there to see it. */
async function tellOrphans(deps: Deps, told: Map<string, string>): Promise<void> {
  const query = 'WorkflowType = "nodeMaintenance" AND ExecutionStatus = "Running"';
  for await (const { workflowId } of deps.temporal.workflow.list({ query })) {
    const name = workflowId.slice(workflowIdOf('').length);
    if (deps.cluster.maintenances.get(name) !== undefined || told.has(name)) continue;
    const { uid } = await deps.temporal.workflow.getHandle(workflowId).query<{ uid: string }>('progress');
    // A run that was only just started from Temporal has yet to create its object.
    if (uid !== '') await tell(deps, name, { uid, kind: 'Gone' });
  }
}
