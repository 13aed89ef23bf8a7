import type { Node } from '../api/core.ts';
import { FIELD_MANAGER, UNCORDONED_BY_ANNOTATION } from '../api/names.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import type { InjectedDeps } from './injectedDeps.ts';

/** A change of a node. What is missing stays as it is. */
export interface NodeChange {
  unschedulable?: boolean;
  /** Null removes the annotation. */
  annotations: Readonly<Record<string, string | null>>;
}

/**
 * Changes this Node object with one request, unless it has changed since it was read (`Changed`): another maintenance, or another worker, may have
 * uncordoned it and released its Lease, and someone else may have cordoned it then. Resolves with the changed Node; a Node that is `Gone` needs no change.
 */
export async function changeNode(
  { cluster }: Pick<InjectedDeps, 'cluster'>,
  node: Node,
  { unschedulable, annotations }: NodeChange,
): Promise<Node | 'Gone' | 'Changed'> {
  const { name, uid, resourceVersion } = node.metadata;
  const patch =
    unschedulable === undefined
      ? { metadata: { uid, resourceVersion, annotations } }
      : {
          metadata: {
            uid,
            resourceVersion,
            annotations: { ...annotations, [UNCORDONED_BY_ANNOTATION]: null },
          },
          spec: { unschedulable },
        };
  try {
    return await cluster.kube.mergePatch(resources.nodes, { name }, patch, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (isKubeError(error, 'NotFound')) return 'Gone';
    if (isKubeError(error, 'Conflict')) return 'Changed';
    throw error;
  }
}
