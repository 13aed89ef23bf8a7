import type { Node } from '../../api/core.ts';
import { RebootAnnotation } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { stageOf } from '../common/stage.ts';
import { isCancelled, nodeResultOf, workResultOf } from './nodeResult.ts';
import { endedBootIdOf } from './rebootPhases.ts';
import { belongsToNode, windowMaintenanceOf, workTypeOf } from './windowMaintenance.ts';

/** Reports whether the agent of the node is asked to reboot it. */
export function hasRebootRequest({ metadata }: Pick<Node, 'metadata'>): boolean {
  const { Requested, Started } = RebootAnnotation;
  return [Requested, Started].some((key) => metadata.annotations?.[key] !== undefined);
}

/**
 * Reports whether a window still waits for the reboot that the Node is asked for. A maintenance that was cancelled or advanced, or whose node has a
 * Lease of another client (`leaseHolder`), waits only if the agent has started the reboot, and one that has failed does not.
 */
export function isRebootWanted(
  node: Node,
  maintenances: readonly NodeMaintenance[],
  leaseHolder?: string,
): boolean {
  const { [RebootAnnotation.Requested]: requested, [RebootAnnotation.Started]: started } =
    node.metadata.annotations ?? {};
  return maintenances.some((maintenance) => {
    const found = windowMaintenanceOf(maintenance);
    if (found === undefined || workTypeOf(maintenance) !== 'Reboot' || stageOf(maintenance) !== 'Drain')
      return false;
    const isItsRequest = requested !== undefined && endedBootIdOf(maintenance) === requested;
    if (!isItsRequest || !belongsToNode(found, node)) return false;
    const result = nodeResultOf(maintenance);
    const isWaiting = result === undefined || isCancelled(result) || result.status === 'Unknown';
    if (started === requested) return isWaiting;
    const isInProgress = result === undefined && workResultOf(maintenance)?.status === 'Unknown';
    return isInProgress && leaseHolder === undefined;
  });
}
