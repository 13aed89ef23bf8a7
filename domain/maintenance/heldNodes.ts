import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isCompleted, stageOf } from '../common/stage.ts';
import { hasCordonRecord } from './status.ts';

/** Returns the names of the nodes that maintenances have cordoned and not uncordoned yet. */
export function heldNodes(maintenances: readonly Readonly<NodeMaintenance>[]): ReadonlySet<string> {
  const names = maintenances
    .filter((maintenance) => stageOf(maintenance) !== 'Idle' && !isCompleted(maintenance))
    .flatMap(({ status }) => status?.nodeStatuses ?? [])
    .filter(hasCordonRecord)
    .map(({ nodeRef }) => nodeRef.name);
  return new Set(names);
}
