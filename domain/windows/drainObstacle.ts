import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { DrainObstacle } from '../capacity/obstacle.ts';
import { isTrue } from '../common/conditions.ts';
import { NODES_AUTHORIZED } from '../common/nodePermission.ts';
import { isDrained } from '../common/stage.ts';
import { NODE_LEASES_HELD } from '../leases/nodeLease.ts';
import { isCancelled, nodeResultOf } from './nodeResult.ts';
import { windowMaintenanceOf, workTypeOf } from './windowMaintenance.ts';

/** Returns why a maintenance in stage Drain does not go on by itself; undefined if it does. */
export function drainObstacleOf(maintenance: NodeMaintenance): DrainObstacle | undefined {
  const conditions = maintenance.status?.conditions ?? [];
  const find = (wanted: string) => conditions.find(({ type }) => type === wanted);
  if (isTrue(conditions, 'Paused')) return DrainObstacle.Paused;
  if (find(NODE_LEASES_HELD)?.status === 'False') return DrainObstacle.WaitingForNodeLease;
  if (find(NODES_AUTHORIZED)?.status === 'False') return DrainObstacle.NotAuthorized;
  if (isDrained(maintenance)) return endsByItself(maintenance) ? undefined : DrainObstacle.Drained;
  return find('Drained')?.reason === 'Blocked' ? DrainObstacle.Blocked : undefined;
}

/** Reports whether the nodes of a drained maintenance are returned without a person: by a window whose work has not failed. */
export function endsByItself(maintenance: NodeMaintenance): boolean {
  const result = nodeResultOf(maintenance);
  const hasFailed = result?.status === 'False' && !isCancelled(result);
  return windowMaintenanceOf(maintenance) !== undefined && workTypeOf(maintenance) !== 'None' && !hasFailed;
}
