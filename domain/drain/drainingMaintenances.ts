import type { Node, Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { holdsNode } from '../common/nodePermission.ts';
import { stageOf } from '../common/stage.ts';
import { planOf, positionOf } from './plan.ts';
import { type DrainTargets, desiredTargetsAt, join, targetsPod } from './targets.ts';

/** Returns the maintenances that drain the node and do not skip it. A maintenance that is being deleted counts as Complete. */
export function drainingMaintenances(
  node: Node,
  maintenances: readonly NodeMaintenance[],
): NodeMaintenance[] {
  return maintenances.filter(
    (maintenance) => stageOf(maintenance) === 'Drain' && holdsNode(maintenance, node),
  );
}

/** Returns the maintenances that drain the node and target the pod, now or since before: one that was fast-forwarded targets more than its position. */
export function maintenancesTargeting(
  pod: Pod,
  node: Node,
  maintenances: readonly NodeMaintenance[],
): NodeMaintenance[] {
  return drainingMaintenances(node, maintenances).filter((one) => {
    const own = one.status?.nodeStatuses.find(({ nodeRef }) => nodeRef.name === node.metadata.name);
    return targetsPod(join([desiredTargetsOf(one), own?.drainTargets ?? []]), pod);
  });
}

function desiredTargetsOf(maintenance: NodeMaintenance): DrainTargets {
  return desiredTargetsAt(planOf(maintenance), positionOf(maintenance));
}
