import type { Lease } from '../api/core.ts';
import { AGENT_LEASE_NAMESPACE } from '../api/names.ts';
import type { Kube } from './client.ts';
import { resources } from './resources.ts';

/** Returns the identity Lease of the agent of a node, or undefined if there is none. */
export function readAgentLease(kube: Kube, node: string): Promise<Lease | undefined> {
  return kube.get(resources.leases, { namespace: AGENT_LEASE_NAMESPACE, name: node });
}
