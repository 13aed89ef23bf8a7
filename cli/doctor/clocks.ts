import type { Lease } from '../../api/core.ts';
import { KUBELET_LEASE_NAMESPACE, NODE_LEASE_NAMESPACE } from '../../api/names.ts';
import type { Managed } from '../../domain/common/managedFields.ts';
import type { ClockFacts } from '../../domain/doctor/processes.ts';
import { lastRenewal } from '../../domain/leases/heartbeat.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';

/**
 * Compares clocks with that of the apiserver: that of this host by the Date of a response, those of clients by Leases, which contain the time of
 * the client (renewTime) and the time at which the apiserver stored it (managedFields).
 */
export async function clockFacts(
  kube: Kube,
  namespace: string,
  signal: AbortSignal,
): Promise<{ clocks: ClockFacts[]; localSkewMs: number }> {
  const namespaces = [KUBELET_LEASE_NAMESPACE, NODE_LEASE_NAMESPACE, namespace];
  const lists = await Promise.all(
    namespaces.map(async (one) => {
      const { items } = await kube.list(resources.leases, { namespace: one, signal });
      return items.flatMap((lease) => clockOf(lease, one) ?? []);
    }),
  );
  return { clocks: lists.flat(), localSkewMs: Date.now() - kube.now().getTime() };
}

function clockOf(lease: Lease & Managed, namespace: string): ClockFacts | undefined {
  const renewal = lastRenewal(lease);
  if (renewal?.storedMs === undefined) return undefined;
  const holder = lease.spec.holderIdentity ?? '';
  const clock =
    namespace === KUBELET_LEASE_NAMESPACE
      ? `node ${lease.metadata.name}`
      : `the holder of Lease ${namespace}/${lease.metadata.name}${holder === '' ? '' : ` (${holder})`}`;
  return { clock, skewMs: renewal.clientMs - renewal.storedMs };
}
