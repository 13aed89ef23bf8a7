import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import { addRemedy } from '../../node-lease/remedy.ts';
import { CommandError, UsageError } from '../output.ts';

const remedy = 'bind the ClusterRole node-maintenance-operator';
const readRemedy = 'bind the ClusterRole node-maintenance-view';

/** Adds a remedy to a Forbidden error of RBAC. The message of a rejection by admission is sufficient. */
export async function permitted<T>(work: Promise<T>, withRemedy = remedy): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw isFromAdmission(error) ? error : addRemedy(error, withRemedy);
  }
}

/** A rejection by a webhook names no kind, and one by an admission policy has a cause. */
export function isFromAdmission(error: unknown): boolean {
  if (!isKubeError(error, 'Forbidden')) return false;
  return error.details?.kind === undefined || (error.details.causes ?? []).length > 0;
}

/** The same as `permitted`, for read access. */
export function permittedToRead<T>(work: Promise<T>): Promise<T> {
  return permitted(work, readRemedy);
}

/** Parses `name`, `nm/name` or `nodemaintenance/name`. Throws a UsageError if the name is empty. */
export function maintenanceName(text: string): string {
  const name = text.replace(/^(nm|nodemaintenances?)(\.nodemaintenance\.k8s\.io)?\//, '');
  if (name === '')
    throw new UsageError(`expected the name of a NodeMaintenance (got "${text}"); kubectl get nm lists them`);
  return name;
}

export async function getMaintenance(kube: Kube, name: string): Promise<NodeMaintenance> {
  const found = await kube.get(resources.nodeMaintenances, { name });
  if (found === undefined)
    throw new CommandError(`NodeMaintenance "${name}" not found; kubectl get nm lists them`);
  return found;
}

/** Returns the name of a NodeMaintenance in output, as kubectl prints it. */
export function titleOf(name: string): string {
  return `nodemaintenance/${name}`;
}
