import type { EvictionRequest } from '../api/lifecycle.ts';
import { FIELD_MANAGER } from '../api/names.ts';
import type { Kube } from './client.ts';
import { ignoreConflict } from './errors.ts';
import { resources } from './resources.ts';

/** Asks the controller to end the eviction, unless that was done. A request that was changed, or is gone, is left to the next attempt. */
export async function withdrawRequest(kube: Kube, { metadata, spec }: EvictionRequest): Promise<void> {
  if (spec.intent === 'Withdrawn' || metadata.deletionTimestamp !== undefined) return;
  const { name, namespace = '', uid } = metadata;
  const patch = { metadata: { uid }, spec: { intent: 'Withdrawn' } };
  await kube
    .mergePatch(resources.evictionRequests, { namespace, name }, patch, { fieldManager: FIELD_MANAGER })
    .catch(ignoreConflict);
}

/** Deletes exactly this version of a request. "Early delete counts as withdraw" (KEP-4563). */
export async function deleteRequest(kube: Kube, { metadata }: EvictionRequest): Promise<void> {
  const { name, namespace = '', uid = '', resourceVersion } = metadata;
  const options = { uid, resourceVersion, ignoresConflicts: true };
  await kube.delete(resources.evictionRequests, { namespace, name }, options).catch(ignoreConflict);
}
