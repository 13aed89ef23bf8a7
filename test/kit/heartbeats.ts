import { KUBELET_LEASE_NAMESPACE } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';
import { ignoreNotFound } from '../../kube/errors.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { resources } from '../../kube/resources.ts';

const everyMs = 1_000;

/**
 * Renews the Leases of these kubelets every second, until the returned function is called: a window continues only after a heartbeat of its node, and
 * kwok sends one every ten seconds, as kubelets do.
 */
export function sendHeartbeats(kube: Kube, nodes: () => readonly string[]): () => void {
  const renew = async (name: string) => {
    const spec = { renewTime: microTime(kube.now()) };
    await kube.mergePatch(resources.leases, { namespace: KUBELET_LEASE_NAMESPACE, name }, { spec });
  };
  const timer = setInterval(() => {
    for (const name of nodes()) void renew(name).catch(ignoreNotFound);
  }, everyMs);
  return () => clearInterval(timer);
}
