import type { Histogram, Registry } from 'prom-client';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { defaultEvictionApi } from '../../domain/common/evictionApi.ts';
import { stageOf } from '../../domain/common/stage.ts';
import type { BlockedPod } from '../../domain/drain/decide.ts';
import { isOurs, requestedEviction } from '../../domain/evacuation/evictionRequest.ts';
import { evictionBlocker } from '../../domain/evacuation/progress.ts';
import { blockedPodsByReason, drainSecondsOf, nodesByStage } from '../../domain/maintenance/statistics.ts';
import { waitingReasonOf } from '../../domain/maintenance/waiting.ts';
import { aborted } from '../../kube/abort.ts';
import { byNamespace, type Cluster } from '../../kube/cluster.ts';
import { metricDefinitions } from './definitions.ts';
import { oldest } from './oldest.ts';
import { registerGauge } from './register.ts';

/** Registers the metrics of maintenances, their nodes and pods. */
export function observeMaintenances(registry: Registry, cluster: Cluster): void {
  const { maintenances, evacuations, lifecycle } = cluster;
  registerGauge(registry, metricDefinitions.maintenances, (gauge) => {
    for (const { spec } of maintenances.list()) gauge.inc({ stage: spec.stage });
  });
  registerGauge(registry, metricDefinitions.nodes, (gauge) => {
    for (const [stage, count] of Object.entries(nodesByStage(maintenances.list())))
      gauge.set({ stage }, count);
  });
  registerGauge(registry, metricDefinitions.maintenanceWaiting, (gauge) => {
    for (const labels of waitingMaintenances(maintenances.list())) gauge.set(labels, 1);
  });
  registerGauge(registry, metricDefinitions.blockedPods, (gauge) => {
    const counts = blockedPodsByReason(maintenances.list(), evacuations.list(), blockedByRequest(cluster));
    for (const [reason, count] of counts) gauge.set({ reason }, count);
  });
  registerGauge(registry, metricDefinitions.evacuations, (gauge) => gauge.set(evacuations.list().length));
  registerGauge(registry, metricDefinitions.evictionRequests, (gauge) =>
    gauge.set(lifecycle.requests.list().filter((one) => isOurs(one)).length),
  );
}

/** Returns the pods with an EvictionRequest of ours that cannot leave. */
function blockedByRequest({ kube, lifecycle, pods, budgets }: Cluster): BlockedPod[] {
  const now = kube.now();
  const own = lifecycle.requests.list().filter((one) => isOurs(one));
  return own.flatMap(({ metadata: { namespace = '' }, spec }) => {
    const { name, uid } = spec.target.pod;
    const pod = pods.get(`${namespace}/${name}`);
    if (pod?.metadata.uid !== uid || pod === undefined) return [];
    const requested = requestedEviction(
      lifecycle.requestsOf(pod.metadata),
      lifecycle.evictionsOf(pod.metadata),
    );
    const view = { now, responseMs, budgets: budgets.byIndex(byNamespace, namespace) };
    const blocker = evictionBlocker(pod, requested, view);
    return blocker === undefined ? [] : [{ pod, blocker }];
  });
}

const responseMs = defaultEvictionApi.responseSeconds * 1_000;

function waitingMaintenances(
  all: readonly NodeMaintenance[],
): Record<'maintenance' | 'stage' | 'reason', string>[] {
  const waiting = all.flatMap((object) => {
    const reason = waitingReasonOf(object);
    return reason === undefined ? [] : [{ object, reason }];
  });
  return oldest(waiting).map(({ object, reason }) => ({
    maintenance: object.metadata.name,
    stage: stageOf(object),
    reason,
  }));
}

/**
 * Observes the duration of each drain that ends while this process leads, once: a maintenance that is drained again, because a pod appeared
 * late or after a pause, does not count again. Drains that end while no process leads are not counted.
 */
export async function observeDrains(
  durations: Histogram,
  { maintenances }: Pick<Cluster, 'maintenances'>,
  leading: AbortSignal,
): Promise<void> {
  const isDrained = (maintenance: NodeMaintenance) => drainSecondsOf(maintenance) !== undefined;
  /** UIDs of the maintenances that were counted, or drained before. */
  const counted = new Set(maintenances.list().filter(isDrained).map(uidOf));
  const unsubscribe = maintenances.subscribe(({ type, object }) => {
    if (type === 'Deleted') {
      counted.delete(uidOf(object));
      return;
    }
    const seconds = drainSecondsOf(object);
    if (seconds === undefined || counted.has(uidOf(object))) return;
    counted.add(uidOf(object));
    durations.observe(seconds);
  });
  await aborted(leading);
  unsubscribe();
}

function uidOf({ metadata }: NodeMaintenance): string {
  return metadata.uid ?? '';
}
