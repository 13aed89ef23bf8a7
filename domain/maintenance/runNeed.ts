import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isCompleted } from '../common/stage.ts';

/** Returns true if the maintenance needs no run any more. */
export function isFinished(maintenance: NodeMaintenance): boolean {
  return maintenance.spec.stage === 'Complete' && isCompleted(maintenance);
}

/** Returns true if the run has applied the newest generation. */
export function isObserved({ metadata, status }: NodeMaintenance): boolean {
  return (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
}
