import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type ConditionFacts, withCondition } from '../../domain/common/conditions.ts';
import { progressingCondition, progressProblemOf } from '../../domain/maintenance/progressing.ts';
import { emptyStatus } from '../../domain/maintenance/status.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { ignoreNotFound } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { writeMaintenanceStatus } from '../../kube/maintenanceStatus.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import type { TemporalAvailability } from '../temporalAvailability.ts';

interface Deps {
  cluster: FencedCluster;
  availability: TemporalAvailability;
  events: EventRecorder;
  log: Log;
  /** A shorter outage is not reported; 10 s unless given. */
  reportAfterMs?: number;
}

/** A restart of Temporal takes a few seconds: it is not worth a write for each maintenance. */
const defaultReportAfterMs = 10_000;
const workers = 4;

/**
 * Reports an outage of Temporal on each NodeMaintenance that waits for it, as condition Progressing and as an Event, once for each outage. The
 * activities write the other conditions of the status: every write is based on the version that it was decided from.
 */
export async function runProgressingController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, availability, log } = deps;
  const queue = new WorkQueue('progressing');
  const enqueueAll = () => {
    for (const { metadata } of cluster.maintenances.list()) queue.add(metadata.name);
  };
  const unsubscribe = [
    availability.subscribe(enqueueAll),
    cluster.maintenances.subscribe(({ type, object }) => {
      const isConcerned = availability.outage() !== undefined || progressProblemOf(object) !== undefined;
      if (type !== 'Deleted' && isConcerned) queue.add(object.metadata.name);
    }),
  ];
  enqueueAll();
  try {
    await queue.run({
      workers,
      reconcile: (name) => reconcile(deps, name),
      fieldsOf: (name) => ({ maintenance: name }),
      signal,
      log,
      observer: cluster.queues,
    });
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

async function reconcile(deps: Deps, name: string): Promise<Requeue | undefined> {
  const { cluster, availability, events, reportAfterMs = defaultReportAfterMs } = deps;
  const maintenance = cluster.maintenances.get(name);
  if (maintenance === undefined) return undefined;
  const outage = availability.outage();
  const facts = progressingCondition(maintenance, outage?.reason);
  if (facts === undefined) return undefined;
  if (outage !== undefined && facts.status === 'False') {
    const remainingMs = outage.sinceMs + reportAfterMs - Date.now();
    if (remainingMs > 0) return { requeueAfterMs: remainingMs };
  }
  try {
    await publish(cluster, maintenance, facts);
  } catch (error) {
    return ignoreNotFound(error);
  }
  if (facts.status === 'False')
    events.record(maintenance, { type: 'Warning', reason: 'TemporalUnavailable', message: facts.message });
  return undefined;
}

async function publish(
  { kube }: FencedCluster,
  { metadata, status = emptyStatus }: Readonly<NodeMaintenance>,
  facts: ConditionFacts,
): Promise<void> {
  const conditions = withCondition(status.conditions, facts, kube.now().toISOString());
  await writeMaintenanceStatus(kube, metadata, { conditions });
}
