import { TurnAnnotation, WINDOW_LABEL } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { stageOf } from '../domain/stage.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import type { EventRecorder } from '../kube/events.ts';
import { resources } from '../kube/resources.ts';

interface Deps {
  cluster: FencedCluster;
  events: EventRecorder;
}

/** The turns of a window that goes: records are deleted; turns that rest, or have failed, keep their nodes, and say so. */
export async function leaveTurns({ cluster, events }: Deps, window: string): Promise<void> {
  for (const turn of cluster.maintenances.list()) {
    if (turn.metadata.labels?.[WINDOW_LABEL] !== window) continue;
    if (stageOf(turn) !== 'Complete') events.record(turn, leftBehind(turn, window));
    if (isOver(turn)) await forget(cluster, turn);
  }
}

function isOver({ metadata, spec }: NodeMaintenance): boolean {
  return spec.stage === 'Complete' && (metadata.finalizers ?? []).length === 0;
}

async function forget({ kube }: FencedCluster, { metadata }: NodeMaintenance): Promise<void> {
  const { name, uid = '' } = metadata;
  await kube.delete(resources.nodeMaintenances, { name }, { uid, propagationPolicy: 'Background' });
}

function leftBehind({ metadata: { name, annotations } }: NodeMaintenance, window: string) {
  const node = annotations?.[TurnAnnotation.Node] ?? '';
  return {
    type: 'Warning',
    reason: 'TurnLeftBehind',
    message: `Window ${window} was deleted, and node ${node} stays out of service: kubectl delete nm ${name} gives it back when nothing works on it any more.`,
  } as const;
}
