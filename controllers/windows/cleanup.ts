import { stageOf } from '../../domain/common/stage.ts';
import { type WindowMaintenance, windowMaintenancesOf } from '../../domain/windows/windowMaintenance.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { EventRecorder } from '../../kube/events.ts';
import { deleteWindowMaintenance } from '../../kube/windowObjects.ts';

interface Deps {
  cluster: FencedCluster;
  events: EventRecorder;
}

/**
 * Cleans up after a deleted window: deletes the NodeMaintenances of nodes in service. Nodes that are paused or have failed stay cordoned,
 * and an Event reports each of them.
 */
export async function releaseMaintenances({ cluster, events }: Deps, window: string): Promise<void> {
  for (const found of windowMaintenancesOf(window, cluster.maintenances.list())) {
    const { maintenance } = found;
    const { metadata, spec } = maintenance;
    if (stageOf(maintenance) !== 'Complete') events.record(maintenance, nodeKeptCordoned(found));
    const isFinished = spec.stage === 'Complete' && (metadata.finalizers ?? []).length === 0;
    if (isFinished) await deleteWindowMaintenance(cluster.kube, maintenance);
  }
}

function nodeKeptCordoned({ window, node, maintenance }: WindowMaintenance) {
  return {
    type: 'Warning',
    reason: 'NodeKeptCordoned',
    message: `Window ${window} was deleted, and node ${node} stays cordoned: when nothing works on it any more, run kubectl delete nm ${maintenance.metadata.name} to uncordon it.`,
  } as const;
}
