import { MAINTENANCE_FINALIZER } from '../api/names.ts';
import { isTrue } from '../domain/conditions.ts';
import type { Setting } from './setting.ts';

/** Facts that every story waits for. */

export function untilLeads({ until, leader }: Setting): Promise<void> {
  return until('the worker to lead', () => (leader() === undefined ? 'none leads' : undefined));
}

/** Every replica of every Deployment is ready, wherever. */
export function untilReady({ until, recording, scene }: Setting): Promise<void> {
  const all = scene.workloads.reduce((total, { replicas }) => total + replicas, 0);
  return until('all pods to be ready', () => {
    const ready = scene.workloads.reduce((total, workload) => total + recording.readiness(workload).ready, 0);
    return ready === all ? undefined : `${ready} of ${all} are ready`;
  });
}

export function untilDrained({ cluster, until }: Setting, maintenance: string): Promise<void> {
  return until(`condition Drained of ${maintenance} to be True`, () => {
    const status = cluster.maintenances.get(maintenance)?.status;
    if (isTrue(status?.conditions, 'Drained')) return undefined;
    return (
      status?.nodeStatuses.map((node) => `${node.nodeRef.name}: ${node.drainMessage}`).join('; ') ??
      'no status'
    );
  });
}

export function untilNoEvacuationIsLeft({ cluster, until }: Setting): Promise<void> {
  return until('the last Evacuation to be removed', () => {
    const left = cluster.evacuations.list().length;
    return left === 0 ? undefined : `${left} are left`;
  });
}

/** Complete has done its work: the object may go. */
export function untilFinished({ cluster, until }: Setting, maintenance: string): Promise<void> {
  return until(`the finalizer of ${maintenance} to be removed`, () => {
    const finalizers = cluster.maintenances.get(maintenance)?.metadata.finalizers ?? [];
    return finalizers.includes(MAINTENANCE_FINALIZER) ? `finalizers ${finalizers.join(', ')}` : undefined;
  });
}
