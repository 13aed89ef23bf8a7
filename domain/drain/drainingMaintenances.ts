import type { Node } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { holdsNode } from '../common/nodePermission.ts';
import { stageOf } from '../common/stage.ts';

/** Returns the maintenances that drain the node and do not skip it. A maintenance that is being deleted counts as Complete. */
export function drainingMaintenances(
  node: Node,
  maintenances: readonly NodeMaintenance[],
): NodeMaintenance[] {
  return maintenances.filter(
    (maintenance) => stageOf(maintenance) === 'Drain' && holdsNode(maintenance, node),
  );
}
