import type { Node } from '../../api/core.ts';
import { NODE_EXISTS_LABEL } from '../../api/names.ts';
import type { NodeReadiness } from '../../api/nodeReadiness.ts';

/** Reports whether the NodeReadiness is marked as that of this Node, and not one that was created before its Node. */
export function isAdoptedBy(readiness: NodeReadiness | undefined, node: Node): boolean {
  return isOwnedBy(readiness, node) && readiness?.metadata.labels?.[NODE_EXISTS_LABEL] === 'true';
}

function isOwnedBy(readiness: NodeReadiness | undefined, { metadata: { uid } }: Node): boolean {
  return readiness?.metadata.ownerReferences?.some((owner) => owner.uid === uid) === true;
}

/** Reports whether the NodeReadiness is owned by a previous Node object of the same name: the garbage collector deletes it. */
export function isOfPreviousNode(readiness: NodeReadiness | undefined, node: Node): boolean {
  const owners = readiness?.metadata.ownerReferences ?? [];
  const hasNodeOwner = owners.some(({ apiVersion, kind }) => apiVersion === 'v1' && kind === 'Node');
  return hasNodeOwner && !isOwnedBy(readiness, node);
}
