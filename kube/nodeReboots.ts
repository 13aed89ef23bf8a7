import type { Node } from '../api/core.ts';
import { FIELD_MANAGER, type RebootAnnotation } from '../api/names.ts';
import type { Kube } from './client.ts';
import { isKubeError } from './errors.ts';
import { resources } from './resources.ts';

/**
 * Changes the annotations about reboots of this version of a Node; null removes one. Returns false if the Node was changed or deleted since it was
 * read.
 */
export async function annotateReboot(
  kube: Kube,
  { metadata: { name, uid, resourceVersion } }: Node,
  annotations: Partial<Record<(typeof RebootAnnotation)[keyof typeof RebootAnnotation], string | null>>,
): Promise<boolean> {
  const body = { metadata: { uid, resourceVersion, annotations } };
  try {
    await kube.mergePatch(resources.nodes, { name }, body, { fieldManager: FIELD_MANAGER });
    return true;
  } catch (error) {
    if (isKubeError(error, 'Conflict', 'NotFound')) return false;
    throw error;
  }
}
