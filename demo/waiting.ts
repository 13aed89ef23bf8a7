import { MAINTENANCE_FINALIZER } from '../api/names.ts';
import { isTrue } from '../domain/common/conditions.ts';
import type { Environment } from './environment.ts';

/** Conditions that every scenario waits for. */

export function untilLeaderElected({ until, leader }: Environment): Promise<void> {
  return until('a worker to be the leader', () => (leader() === undefined ? 'no leader' : undefined));
}

/** Waits until every replica of every workload is ready, on any node. */
export function untilPodsReady({ until, recording, clusterSpec }: Environment): Promise<void> {
  const all = clusterSpec.workloads.reduce((total, { replicas }) => total + replicas, 0);
  return until('all pods to be ready', () => {
    const ready = clusterSpec.workloads.reduce(
      (total, workload) => total + recording.readiness(workload).ready,
      0,
    );
    return ready === all ? undefined : `${ready} of ${all} are ready`;
  });
}

export function untilDrained({ cluster, until }: Environment, maintenance: string): Promise<void> {
  return until(`condition Drained of ${maintenance} to be True`, () => {
    const status = cluster.maintenances.get(maintenance)?.status;
    if (isTrue(status?.conditions, 'Drained')) return undefined;
    return (
      status?.nodeStatuses.map((node) => `${node.nodeRef.name}: ${node.drainMessage}`).join('; ') ??
      'no status'
    );
  });
}

export function untilEvacuationsDeleted({ cluster, until }: Environment): Promise<void> {
  return until('the last Evacuation to be deleted', () => {
    const remaining = cluster.evacuations.list().length;
    return remaining === 0 ? undefined : `${remaining} remain`;
  });
}

/** Waits until the stage Complete is finished and the object can be deleted. */
export function untilCompleted({ cluster, until }: Environment, maintenance: string): Promise<void> {
  return until(`the finalizer of ${maintenance} to be removed`, () => {
    const finalizers = cluster.maintenances.get(maintenance)?.metadata.finalizers ?? [];
    return finalizers.includes(MAINTENANCE_FINALIZER) ? `finalizers ${finalizers.join(', ')}` : undefined;
  });
}
