import type { ObjectMeta } from '../../../api/core.ts';
import { RELEASED_ANNOTATION } from '../../../api/names.ts';
import { podTemplateHash } from '../../../domain/evacuation/podRelease.ts';
import type { Kube } from '../../../kube/client.ts';
import { isKubeError } from '../../../kube/errors.ts';
import { resources } from '../../../kube/resources.ts';

/**
 * Reports whether a JSON patch of a pod failed because the pod is gone, or its label or annotation has changed. Otherwise an
 * admission policy rejects the patch; the apiserver returns the same error for both.
 */
export async function isOutdated(
  kube: Kube,
  { name, namespace, uid, labels, annotations }: ObjectMeta,
  error: unknown,
): Promise<boolean> {
  if (isKubeError(error, 'NotFound', 'Conflict')) return true;
  if (!isKubeError(error, 'Invalid')) return false;
  const now = (await kube.get(resources.pods, { namespace, name }))?.metadata;
  return (
    now?.uid !== uid ||
    now?.labels?.[podTemplateHash] !== labels?.[podTemplateHash] ||
    now?.annotations?.[RELEASED_ANNOTATION] !== annotations?.[RELEASED_ANNOTATION]
  );
}
