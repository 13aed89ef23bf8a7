import { KUBELET_LEASE_NAMESPACE } from '../api/names.ts';
import type { Kube } from './client.ts';
import { resources } from './resources.ts';

/** Returns when the kubelet last renewed the Lease of its node, or undefined if the node has no such Lease. */
export async function kubeletRenewTimeMs(kube: Kube, node: string): Promise<number | undefined> {
  const lease = await kube.get(resources.leases, { namespace: KUBELET_LEASE_NAMESPACE, name: node });
  const renewed = Date.parse(lease?.spec.renewTime ?? '');
  return Number.isNaN(renewed) ? undefined : renewed;
}
