import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { StoppedReason } from '../capacity/stoppedReason.ts';
import { isTrue } from '../common/conditions.ts';
import { NODES_AUTHORIZED } from '../common/nodePermission.ts';
import { isDrained } from '../common/stage.ts';
import { NODE_LEASES_HELD } from '../leases/nodeLease.ts';
import { isCancelled, nodeResultOf, workResultOf } from './nodeResult.ts';
import { windowMaintenanceOf, workTypeOf } from './windowMaintenance.ts';

/** The work on a drained node begins within this time, unless the window has closed: then it begins at the next opening. */
const workBeginsMs = 60_000;

/** Returns why a maintenance in stage Drain does not proceed by itself; undefined if it does. */
export function stoppedReasonOf(maintenance: NodeMaintenance, now: Date): StoppedReason | undefined {
  const conditions = maintenance.status?.conditions ?? [];
  const find = (wanted: string) => conditions.find(({ type }) => type === wanted);
  if (isTrue(conditions, 'Paused')) return StoppedReason.Paused;
  if (find(NODE_LEASES_HELD)?.status === 'False') return StoppedReason.WaitingForNodeLease;
  if (find(NODES_AUTHORIZED)?.status === 'False') return StoppedReason.NotAuthorized;
  if (isDrained(maintenance)) return endsByItself(maintenance, now) ? undefined : StoppedReason.Drained;
  return find('Drained')?.reason === 'Blocked' ? StoppedReason.Blocked : undefined;
}

/** Reports whether the nodes are returned without an operator when they are drained: by a window that works on them. */
export function endsByItself(maintenance: NodeMaintenance, now: Date): boolean {
  const result = nodeResultOf(maintenance);
  if (windowMaintenanceOf(maintenance) === undefined || workTypeOf(maintenance) === 'None') return false;
  if (result !== undefined) return result.status !== 'False' || isCancelled(result);
  if (!isDrained(maintenance) || workResultOf(maintenance) !== undefined) return true;
  const drained = maintenance.status?.conditions.find(({ type }) => type === 'Drained');
  return now.getTime() - Date.parse(drained?.lastTransitionTime ?? '') < workBeginsMs;
}
