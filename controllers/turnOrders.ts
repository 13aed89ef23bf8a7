import { FIELD_MANAGER, TurnAnnotation, WINDOW_LABEL, WORK_NAMESPACE } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { withCondition } from '../domain/conditions.ts';
import { jobName } from '../domain/revision.ts';
import { emptyStatus } from '../domain/status.ts';
import { isUnfinished } from '../domain/turn.ts';
import { verdictOnAdvance } from '../domain/turnVerdict.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import { isKubeError } from '../kube/errors.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { WorkQueue } from '../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  events: EventRecorder;
  log: Log;
}

const workers = 2;
/** While a Job is to end first. Milliseconds. */
const lookAgainAfter = 10_000;

/**
 * Ends turns of windows whose work somebody says, by annotation of their NodeMaintenance, is done or need not be done: also while
 * their window is not open. Whoever may write it may complete the maintenance too.
 */
export async function runTurnOrdersController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, log } = deps;
  const queue = new WorkQueue();
  const unsubscribe = cluster.maintenances.subscribe(({ type, object }) => {
    if (type !== 'Deleted' && isToEnd(object)) queue.add(object.metadata.name);
  });
  for (const one of cluster.maintenances.list()) if (isToEnd(one)) queue.add(one.metadata.name);
  const reconcile = async (name: string) => {
    const turn = cluster.maintenances.get(name);
    return turn !== undefined && isToEnd(turn) ? end(deps, turn) : undefined;
  };
  try {
    await queue.run({ workers, reconcile, signal, log });
  } finally {
    unsubscribe();
  }
}

function isToEnd({
  metadata: { labels, annotations, deletionTimestamp },
}: Readonly<NodeMaintenance>): boolean {
  if (labels?.[WINDOW_LABEL] === undefined || deletionTimestamp !== undefined) return false;
  return annotations?.[TurnAnnotation.Advance] === 'true';
}

async function end(
  { cluster, events, log }: Deps,
  turn: Readonly<NodeMaintenance>,
): Promise<{ requeueAfterMs: number } | undefined> {
  const { kube } = cluster;
  const { name, uid, resourceVersion } = turn.metadata;
  if (isUnfinished(await kube.get(resources.jobs, { namespace: WORK_NAMESPACE, name: jobName(name) }))) {
    const message = `Job ${jobName(name)} is not done: the turn ends with it, or delete the Job first.`;
    events.record(turn, { type: 'Warning', reason: 'TurnNotAdvanced', message });
    return { requeueAfterMs: lookAgainAfter };
  }
  const { conditions } = turn.status ?? emptyStatus;
  const verdict = verdictOnAdvance(conditions);
  const status = { conditions: withCondition(conditions, verdict, kube.now().toISOString()) };
  const judged = { metadata: { uid, resourceVersion }, status };
  const options = { fieldManager: FIELD_MANAGER };
  try {
    await kube.mergePatch(resources.nodeMaintenances, { name }, judged, {
      ...options,
      subresource: 'status',
    });
    // Carried out, the order is no more: a failure that comes later is another matter.
    const annotations = { [TurnAnnotation.Advance]: null };
    const completed = { metadata: { uid, annotations }, spec: { stage: 'Complete' } };
    await kube.mergePatch(resources.nodeMaintenances, { name }, completed, options);
    log.info('Turn advanced', { maintenance: name });
  } catch (error) {
    // A conflict is news, which comes with the next look.
    if (!isKubeError(error, 'NotFound', 'Conflict')) throw error;
  }
  return undefined;
}
