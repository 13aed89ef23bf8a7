import type { Lease } from '../api/core.ts';
import { KUBELET_LEASE_NAMESPACE } from '../api/names.ts';
import type { Kube } from './client.ts';
import { resources } from './resources.ts';

/** Returns the Lease that the kubelet of the node renews as its heartbeat, with its managedFields; undefined if it has none. */
export function kubeletLease(kube: Kube, node: string): Promise<Lease | undefined> {
  return kube.get(resources.leases, { namespace: KUBELET_LEASE_NAMESPACE, name: node });
}
