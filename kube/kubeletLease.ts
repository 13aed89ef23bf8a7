import { KUBELET_LEASE_NAMESPACE } from '../api/names.ts';
import type { Kube } from './client.ts';
import { resources } from './resources.ts';

/** When the kubelet of a node last renewed its Lease, in milliseconds; undefined of a node that has none. */
export async function lastHeard(kube: Kube, node: string): Promise<number | undefined> {
  const lease = await kube.get(resources.leases, { namespace: KUBELET_LEASE_NAMESPACE, name: node });
  const renewed = Date.parse(lease?.spec.renewTime ?? '');
  return Number.isNaN(renewed) ? undefined : renewed;
}
