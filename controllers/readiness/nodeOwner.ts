import type { Node, ObjectMeta } from '../../api/core.ts';
import { NODE_EXISTS_LABEL } from '../../api/names.ts';
import type { NodeReadiness } from '../../api/nodeReadiness.ts';

/** Reports whether the NodeReadiness has the owner and the label of one whose Node exists. */
export function isAdoptedBy(readiness: NodeReadiness | undefined, node: Node): boolean {
  return isOwnedBy(readiness, node) && readiness?.metadata.labels?.[NODE_EXISTS_LABEL] === 'true';
}

/**
 * Reports whether the NodeReadiness has the label, and no Node owns it: it was restored or copied, or its Node was deleted without it. The apiserver
 * would not taint the next Node of its name.
 */
export function isLabelledWithoutNode({ metadata }: NodeReadiness): boolean {
  return metadata.labels?.[NODE_EXISTS_LABEL] !== undefined && !hasNodeOwner(metadata);
}

export function isOwnedBy(readiness: NodeReadiness | undefined, { metadata: { uid } }: Node): boolean {
  return readiness?.metadata.ownerReferences?.some((owner) => owner.uid === uid) === true;
}

/** Reports whether the NodeReadiness is owned by a previous Node object of the same name: the garbage collector deletes it. */
export function isOfPreviousNode(readiness: NodeReadiness | undefined, node: Node): boolean {
  return readiness !== undefined && hasNodeOwner(readiness.metadata) && !isOwnedBy(readiness, node);
}

function hasNodeOwner({ ownerReferences = [] }: ObjectMeta): boolean {
  return ownerReferences.some(({ apiVersion, kind }) => apiVersion === 'v1' && kind === 'Node');
}
