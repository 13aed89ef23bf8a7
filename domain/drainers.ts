import type { Node } from '../api/core.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { selectsNode } from './nodeSelector.ts';
import { stageOf } from './stage.ts';

/** The maintenances that drain a node; one that is being deleted is on its way to Complete. */
export function drainersOf(node: Node, maintenances: readonly NodeMaintenance[]): NodeMaintenance[] {
  return maintenances.filter(
    (maintenance) => stageOf(maintenance) === 'Drain' && selectsNode(maintenance.spec.nodeSelector, node),
  );
}
