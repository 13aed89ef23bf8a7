import type { Node } from '../../api/core.ts';
import { AUTOSCALER_ANNOTATIONS, FIELD_MANAGER } from '../../api/names.ts';
import type { NodeMaintenanceNodeStatus } from '../../api/nodeMaintenance.ts';
import { isManagedBy, type Managed } from './managedFields.ts';
import { compareNames } from './names.ts';

/**
 * Annotations that keep autoscalers from removing a node while a maintenance holds it. An annotation that the node had before belongs to
 * someone else, and is neither changed nor removed.
 */

type NodeRecord = Pick<NodeMaintenanceNodeStatus, 'unschedulableBefore' | 'autoscalerAnnotationsBefore'>;

const value = 'true';

/** Returns the keys of these annotations that the node has, whatever their value is. */
export function autoscalerAnnotationsOf({ metadata }: Pick<Node, 'metadata'>): string[] {
  return AUTOSCALER_ANNOTATIONS.filter((key) => metadata.annotations?.[key] !== undefined).toSorted(
    compareNames,
  );
}

/**
 * Returns the keys that the node had before the first maintenance held it; undefined if maintenances set none on it. As with the cordon, a
 * recorded value never changes, a maintenance that joins a node of another one inherits its record, and without a record the managed fields of the
 * node show whose the annotations are: a maintenance that was completed a moment ago leaves its own to those that hold the node.
 */
export function autoscalerAnnotationsBefore(
  node: Pick<Node, 'metadata'> & Managed,
  own: NodeRecord | undefined,
  { holders, enabled }: { holders: readonly (NodeRecord | undefined)[]; enabled: boolean },
): string[] | undefined {
  const recorded = [own, ...holders].find((record) => record?.unschedulableBefore !== undefined);
  if (recorded !== undefined) return recorded.autoscalerAnnotationsBefore;
  if (!enabled) return undefined;
  const ours = ownAutoscalerAnnotations(node);
  return autoscalerAnnotationsOf(node).filter((key) => !ours.includes(key));
}

/** Returns the annotations to set on a node that the maintenance holds. Empty if none is missing. */
export function missingAutoscalerAnnotations(
  { metadata }: Pick<Node, 'metadata'>,
  record: NodeRecord | undefined,
): Record<string, string> {
  const missing = ownKeys(record).filter((key) => metadata.annotations?.[key] === undefined);
  return Object.fromEntries(missing.map((key) => [key, value]));
}

/** Returns the keys to remove from a node that no maintenance holds any more. A value that someone has changed since is theirs. */
export function autoscalerAnnotationsToRemove(
  { metadata }: Pick<Node, 'metadata'>,
  record: NodeRecord | undefined,
): string[] {
  return ownKeys(record).filter((key) => metadata.annotations?.[key] === value);
}

/** Returns the keys that the apiserver knows to be set by a maintenance, also after its object was removed by force. */
export function ownAutoscalerAnnotations(node: Pick<Node, 'metadata'> & Managed): string[] {
  return AUTOSCALER_ANNOTATIONS.filter(
    (key) =>
      node.metadata.annotations?.[key] === value &&
      isManagedBy(node, FIELD_MANAGER, ['f:metadata', 'f:annotations', `f:${key}`]),
  );
}

function ownKeys(record: NodeRecord | undefined): string[] {
  const before = record?.autoscalerAnnotationsBefore;
  return before === undefined ? [] : AUTOSCALER_ANNOTATIONS.filter((key) => !before.includes(key));
}
