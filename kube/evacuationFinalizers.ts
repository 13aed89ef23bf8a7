import type { Evacuation } from '../api/evacuation.ts';
import { FIELD_MANAGER } from '../api/names.ts';
import type { Kube } from './client.ts';
import { resources } from './resources.ts';

/** Replaces the finalizers of this version of an Evacuation. Rejects as Conflict if there is a newer one. */
export function setFinalizers(
  kube: Kube,
  { metadata }: Pick<Evacuation, 'metadata'>,
  finalizers: readonly string[],
): Promise<Evacuation> {
  const { name, namespace = '', uid, resourceVersion } = metadata;
  const patch = { metadata: { uid, resourceVersion, finalizers } };
  return kube.mergePatch(resources.evacuations, { namespace, name }, patch, { fieldManager: FIELD_MANAGER });
}
