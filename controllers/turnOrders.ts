import type { Job } from '../api/core.ts';
import { FIELD_MANAGER, TurnAnnotation, WINDOW_LABEL, WORK_NAMESPACE } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { withCondition } from '../domain/conditions.ts';
import { jobName } from '../domain/revision.ts';
import { stageOf } from '../domain/stage.ts';
import { emptyStatus } from '../domain/status.ts';
import { decideTurn, isUnfinished } from '../domain/turn.ts';
import { isAdvanced, jobWorks, verdictOnAdvance } from '../domain/turnVerdict.ts';
import { isToEnd, isTurnOf } from '../domain/windowProgress.ts';
import type { FencedKube } from '../kube/client.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import { ignoreIfOutdated } from '../kube/errors.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Log } from '../kube/log.ts';
import { lastHeard } from '../kube/kubeletLease.ts';
import { resources } from '../kube/resources.ts';
import { WorkQueue } from '../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  events: EventRecorder;
  log: Log;
}

const workers = 2;
/** While a node is to come back first. Milliseconds. */
const lookAgainAfter = 5_000;

/**
 * Takes in what somebody says, by annotation of a NodeMaintenance, of a turn: that its work is done, or need not be done. While the
 * window is open its run goes on from there; while it is closed the node is given back from here, as soon as it is ready. Whoever
 * may write the annotation may complete the maintenance too.
 */
export async function runTurnOrdersController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, log } = deps;
  const queue = new WorkQueue();
  const unsubscribe = cluster.maintenances.subscribe(({ type, object }) => {
    if (type !== 'Deleted' && isOfConcern(object)) queue.add(object.metadata.name);
  });
  for (const one of cluster.maintenances.list()) if (isOfConcern(one)) queue.add(one.metadata.name);
  const reconcile = async (name: string) => {
    const turn = cluster.maintenances.get(name);
    if (turn === undefined || !isOfConcern(turn)) return undefined;
    return hasOrder(turn) ? takeIn(deps, turn) : giveBack(deps, turn);
  };
  try {
    await queue.run({ workers, reconcile, signal, log });
  } finally {
    unsubscribe();
  }
}

function isOfConcern(turn: Readonly<NodeMaintenance>): boolean {
  const { labels, deletionTimestamp } = turn.metadata;
  if (labels?.[WINDOW_LABEL] === undefined || deletionTimestamp !== undefined) return false;
  return hasOrder(turn) || (isAdvanced(turn) && stageOf(turn) !== 'Complete');
}

function hasOrder({ metadata: { annotations } }: Readonly<NodeMaintenance>): boolean {
  return annotations?.[TurnAnnotation.Advance] === 'true';
}

/** Carried out or not, the order is no more then: what comes later is another matter. */
async function takeIn(deps: Deps, turn: Readonly<NodeMaintenance>): Promise<void> {
  const { cluster, events, log } = deps;
  const { name } = turn.metadata;
  const job = await jobOf(deps, turn);
  const problem = isToEnd(turn) ? isUnfinished(job) && jobWorks(job, nodeOf(turn)) : 'the turn is over';
  try {
    if (problem === false) await noteAdvanced(cluster.kube, turn, job);
    const annotations = { [TurnAnnotation.Advance]: null };
    await patched(cluster.kube, turn, { metadata: { annotations } });
  } catch (error) {
    ignoreIfOutdated(error);
    return;
  }
  if (problem === false) log.info('Turn advanced', { maintenance: name });
  else
    events.record(turn, { type: 'Warning', reason: 'TurnNotAdvanced', message: `Not advanced: ${problem}.` });
}

async function noteAdvanced(
  kube: FencedKube,
  { metadata: { name, uid, resourceVersion }, ...turn }: Readonly<NodeMaintenance>,
  job: Job | undefined,
): Promise<void> {
  const { conditions } = turn.status ?? emptyStatus;
  const now = kube.now().toISOString();
  const status = { conditions: withCondition(conditions, verdictOnAdvance(turn, job), now) };
  const judged = { metadata: { uid, resourceVersion }, status };
  const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
  await kube.mergePatch(resources.nodeMaintenances, { name }, judged, options);
}

async function giveBack(
  deps: Deps,
  turn: Readonly<NodeMaintenance>,
): Promise<{ requeueAfterMs: number } | undefined> {
  const { cluster } = deps;
  const window = cluster.windows.get(turn.metadata.labels?.[WINDOW_LABEL] ?? '');
  const isOpen = window?.status?.active !== undefined;
  if (isOpen || !(await isToComplete(deps, turn))) return { requeueAfterMs: lookAgainAfter };
  await patched(cluster.kube, turn, { spec: { stage: 'Complete' } }).catch(ignoreIfOutdated);
  return undefined;
}

/** As an open window judges it, but that no time is counted: every look is the first. */
async function isToComplete(deps: Deps, turn: Readonly<NodeMaintenance>): Promise<boolean> {
  const { kube, nodes } = deps.cluster;
  const job = await jobOf(deps, turn);
  if (isUnfinished(job)) return false;
  const machine = nodes.get(nodeOf(turn));
  const nodeUid = turn.metadata.annotations?.[TurnAnnotation.NodeUid] ?? '';
  const { kind } = decideTurn({
    maintenance: turn,
    // One that is no more has nothing to wait for.
    node: isTurnOf({ nodeUid, maintenance: turn }, machine) ? machine : undefined,
    work: 'None',
    isOutdated: false,
    job,
    heardAt: machine && (await lastHeard(kube, machine.metadata.name)),
    policy: 'Finish',
    readyTimeoutSeconds: 0,
    now: kube.now().getTime(),
  });
  return kind === 'Complete' || kind === 'Cancel';
}

function nodeOf({ metadata: { annotations } }: Readonly<NodeMaintenance>): string {
  return annotations?.[TurnAnnotation.Node] ?? '';
}

function jobOf({ cluster }: Deps, { metadata: { name } }: Readonly<NodeMaintenance>) {
  return cluster.kube.get(resources.jobs, { namespace: WORK_NAMESPACE, name: jobName(name) });
}

async function patched(
  kube: FencedKube,
  { metadata: { name, uid } }: Readonly<NodeMaintenance>,
  { metadata = {}, ...change }: { metadata?: object; spec?: object },
): Promise<void> {
  const body = { metadata: { uid, ...metadata }, ...change };
  await kube.mergePatch(resources.nodeMaintenances, { name }, body, { fieldManager: FIELD_MANAGER });
}
