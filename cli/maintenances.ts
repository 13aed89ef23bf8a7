import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import { remedied } from '../node-lease/remedy.ts';
import { Refusal, UsageError } from './output.ts';

const remedy = 'bind the ClusterRole node-maintenance-operator';
const remedyToLook = 'bind the ClusterRole node-maintenance-view';

/** What the promise gives; whoever has no right to it is told whom to ask for. What admission refuses, it explains itself. */
export async function permitted<T>(work: Promise<T>, forRights = remedy): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const isOfAdmission = isKubeError(error, 'Forbidden') && error.details?.kind === undefined;
    throw isOfAdmission ? error : remedied(error, forRights);
  }
}

/** The same for what only looks. */
export function permittedToLook<T>(work: Promise<T>): Promise<T> {
  return permitted(work, remedyToLook);
}

/** `name`, or as kubectl prints it: `nm/name`, `nodemaintenance/name`. Throws a UsageError for the empty name. */
export function maintenanceName(text: string): string {
  const name = text.replace(/^(nm|nodemaintenances?)(\.nodemaintenance\.k8s\.io)?\//, '');
  if (name === '')
    throw new UsageError(`expected the name of a NodeMaintenance (got "${text}"); kubectl get nm lists them`);
  return name;
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
