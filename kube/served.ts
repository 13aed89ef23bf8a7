import type { KubeObject } from '../api/core.ts';
import type { Kube, RequestOptions, Selection } from './client.ts';
import { isKubeError } from './errors.ts';
import type { Resource } from './resources.ts';

/** Lists the objects of a kind; none if the cluster does not serve it. */
export async function listIfServed<T extends KubeObject>(
  kube: Kube,
  resource: Resource<T>,
  selection: Selection & RequestOptions = {},
): Promise<T[]> {
  try {
    return (await kube.list(resource, selection)).items;
  } catch (error) {
    if (isKubeError(error, 'NotFound')) return [];
    throw error;
  }
}
