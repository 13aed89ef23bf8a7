import type { Lease } from '../api/core.ts';
import { AGENT_LEASE_NAMESPACE } from '../api/names.ts';
import type { Kube } from './client.ts';
import { isKubeError } from './errors.ts';
import { resources } from './resources.ts';

/** Returns the identity Lease of the agent of a node, or undefined if there is none. */
export function readAgentLease(kube: Kube, node: string): Promise<Lease | undefined> {
  return kube.get(resources.leases, { namespace: AGENT_LEASE_NAMESPACE, name: node });
}

/** Returns the identity Leases of all node agents. None if the manifests of the installation do not let the process read them. */
export async function listAgentLeases(kube: Kube): Promise<readonly Lease[]> {
  try {
    return (await kube.list(resources.leases, { namespace: AGENT_LEASE_NAMESPACE })).items;
  } catch (error) {
    if (isKubeError(error, 'Forbidden')) return [];
    throw error;
  }
}
