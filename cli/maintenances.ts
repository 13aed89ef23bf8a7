import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { Kube } from '../kube/client.ts';
import { resources } from '../kube/resources.ts';
import { Refusal } from './output.ts';

export const remedy = 'bind the ClusterRole node-maintenance-operator';

/** `name`, or as kubectl prints it: `nm/name`, `nodemaintenance/name`. */
export function maintenanceName(text: string): string {
  return text.replace(/^(nm|nodemaintenances?)(\.nodemaintenance\.k8s\.io)?\//, '');
}

export async function maintenanceCalled(kube: Kube, name: string): Promise<NodeMaintenance> {
  const found = await kube.get(resources.nodeMaintenances, { name });
  if (found === undefined)
    throw new Refusal(`there is no NodeMaintenance "${name}"; kubectl get nm lists them`);
  return found;
}

/** How this program calls one. */
export function titleOf(name: string): string {
  return `nodemaintenance/${name}`;
}
