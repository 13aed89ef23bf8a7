import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { Change } from '../kube/informer.ts';

/** Reports whether other pods may be drained: a maintenance has another spec, or is gone. Its status changes every second. */
export function isOtherDrain(change: Change<Readonly<NodeMaintenance>>): boolean {
  if (change.type !== 'Updated') return true;
  return change.object.metadata.generation !== change.previous.metadata.generation;
}
