import { WINDOW_LABEL, WindowAnnotation } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type ConditionFacts, withCondition } from '../../domain/common/conditions.ts';
import { stageOf } from '../../domain/common/stage.ts';
import { emptyStatus } from '../../domain/maintenance/status.ts';
import {
  type AdvanceDecision,
  canUncordonWhileClosed,
  decideAdvance,
  unknownJobProblem,
} from '../../domain/windows/advance.ts';
import { isAdvanced } from '../../domain/windows/nodeResult.ts';
import { closedWindowContext, nodeStepInput } from '../../domain/windows/nodeStepInput.ts';
import {
  possibleJobRef,
  type WindowMaintenance,
  windowMaintenanceOf,
  workTypeOf,
} from '../../domain/windows/windowMaintenance.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { ignoreNotFound } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { JobPermission } from '../../kube/jobPermission.ts';
import { kubeletLease } from '../../kube/kubeletLease.ts';
import type { Log } from '../../kube/log.ts';
import { writeMaintenanceStatus } from '../../kube/maintenanceStatus.ts';
import { resources } from '../../kube/resources.ts';
import {
  annotateWindowMaintenance,
  completeWindowMaintenance,
  readWorkJob,
} from '../../kube/windowObjects.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  events: EventRecorder;
  mayRunJobs: JobPermission;
  log: Log;
}

const workers = 2;
/** Requeue delay while a node is not ready. */
const requeueNotReadyMs = 5_000;

/**
 * Handles the annotation by which a user marks the work on a node as done. While the window is open, its workflow continues from
 * there. While it is closed, this controller uncordons the node as soon as it is ready. Users who may set the annotation may also
 * complete the NodeMaintenance, so that no further permission is needed.
 */
export async function runAdvanceController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, log } = deps;
  const queue = new WorkQueue('window-advance');
  const unsubscribe = cluster.maintenances.subscribe(({ type, object }) => {
    if (type !== 'Deleted' && isRelevant(object)) queue.add(object.metadata.name);
  });
  for (const one of cluster.maintenances.list()) if (isRelevant(one)) queue.add(one.metadata.name);
  const reconcile = async (name: string): Promise<Requeue | undefined> => {
    const maintenance = cluster.maintenances.get(name);
    const found = maintenance && windowMaintenanceOf(maintenance);
    if (found === undefined || !isRelevant(found.maintenance)) return undefined;
    return hasAnnotation(found.maintenance) ? handleAnnotation(deps, found) : uncordonIfClosed(deps, found);
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
  }
}

function isRelevant(maintenance: Readonly<NodeMaintenance>): boolean {
  const { labels, deletionTimestamp } = maintenance.metadata;
  if (labels?.[WINDOW_LABEL] === undefined || deletionTimestamp !== undefined) return false;
  return hasAnnotation(maintenance) || (isAdvanced(maintenance) && stageOf(maintenance) !== 'Complete');
}

function hasAnnotation({ metadata: { annotations } }: Readonly<NodeMaintenance>): boolean {
  return annotations?.[WindowAnnotation.WorkDone] === 'true';
}

/** Records the result of the request and removes the annotation, so that it does not apply to anything that happens later. */
async function handleAnnotation(deps: Deps, { node, maintenance }: WindowMaintenance): Promise<undefined> {
  const { cluster, events, log } = deps;
  const { name } = maintenance.metadata;
  const decision = await decide(deps, maintenance, node);
  try {
    if (decision.kind === 'Accepted') await recordResult(deps, maintenance, decision.result);
    await annotateWindowMaintenance(cluster.kube, maintenance, { [WindowAnnotation.WorkDone]: null });
  } catch (error) {
    return ignoreNotFound(error);
  }
  if (decision.kind === 'Accepted') log.info('Node advanced', { maintenance: name, node });
  else {
    const message = `Not advanced: ${decision.problem}.`;
    events.record(maintenance, { type: 'Warning', reason: 'AdvanceRejected', message });
  }
  return undefined;
}

async function decide(
  { cluster, mayRunJobs }: Deps,
  maintenance: NodeMaintenance,
  node: string,
): Promise<AdvanceDecision> {
  if (workTypeOf(maintenance) === 'Job' && !(await mayRunJobs()))
    return { kind: 'Rejected', problem: unknownJobProblem(node) };
  return decideAdvance(maintenance, node, await readWorkJob(cluster.kube, possibleJobRef(maintenance)));
}

async function recordResult(
  { cluster: { kube } }: Deps,
  { metadata, status }: Readonly<NodeMaintenance>,
  result: ConditionFacts,
): Promise<void> {
  const { conditions } = status ?? emptyStatus;
  const now = kube.now().toISOString();
  // The decision is based on this version of the object.
  await writeMaintenanceStatus(kube, metadata, { conditions: withCondition(conditions, result, now) });
}

async function uncordonIfClosed(deps: Deps, found: WindowMaintenance): Promise<Requeue | undefined> {
  const { windows, kube } = deps.cluster;
  const isOpen = windows.get(found.window)?.status?.active !== undefined;
  if (isOpen || !(await canUncordon(deps, found))) return { requeueAfterMs: requeueNotReadyMs };
  await completeWindowMaintenance(kube, found.maintenance).catch(ignoreNotFound);
  return undefined;
}

async function canUncordon(
  { cluster, mayRunJobs }: Deps,
  windowMaintenance: WindowMaintenance,
): Promise<boolean> {
  const work = workTypeOf(windowMaintenance.maintenance);
  if (work === 'Job' && !(await mayRunJobs())) return false;
  const { kube, nodes, windows } = cluster;
  const { node: name } = windowMaintenance;
  // The informer may not show a request to reboot yet.
  const node = work === 'Reboot' ? await kube.get(resources.nodes, { name }) : nodes.get(name);
  const window = windows.get(windowMaintenance.window);
  const job = await readWorkJob(kube, possibleJobRef(windowMaintenance.maintenance));
  const lease = node && (await kubeletLease(kube, node.metadata.name));
  const context = closedWindowContext(window, kube.now().getTime());
  return canUncordonWhileClosed(
    nodeStepInput({ windowMaintenance, node, job, kubeletLease: lease }, context),
  );
}
