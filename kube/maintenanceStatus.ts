import type { ObjectMeta } from '../api/core.ts';
import { FIELD_MANAGER } from '../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStatus } from '../api/nodeMaintenance.ts';
import type { Kube } from './client.ts';
import { resources } from './resources.ts';

/** Writes fields of the status of exactly this version of a NodeMaintenance. Rejects with a Conflict if it has changed since. */
export function writeMaintenanceStatus(
  kube: Kube,
  { name, uid, resourceVersion }: Pick<ObjectMeta, 'name' | 'uid' | 'resourceVersion'>,
  status: Partial<NodeMaintenanceStatus>,
): Promise<NodeMaintenance> {
  const body = { metadata: { uid, resourceVersion }, status };
  const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
  return kube.mergePatch(resources.nodeMaintenances, { name }, body, options);
}
