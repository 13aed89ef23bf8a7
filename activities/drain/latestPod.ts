import type { Pod } from '../../api/core.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';

/** The pod that a request names. */
interface RequestedPod {
  namespace: string;
  name: string;
  uid: string;
}

/** Returns the pod as the informer shows it. */
export function cachedPod(
  { pods }: Pick<Cluster, 'pods'>,
  { namespace, name, uid }: { namespace?: string | undefined; name: string; uid?: string | undefined },
): Pod | undefined {
  const pod = pods.get(`${namespace}/${name}`);
  return pod?.metadata.uid === uid ? pod : undefined;
}

/**
 * Returns the pod. It is read from the apiserver unless the informer shows it on a node: another worker, whose informer is ahead of this one, may have
 * made the request.
 */
export async function latestPod(cluster: Cluster, requested: RequestedPod): Promise<Pod | undefined> {
  const cached = cachedPod(cluster, requested);
  if (cached?.spec.nodeName !== undefined) return cached;
  const { namespace, name, uid } = requested;
  const pod = await cluster.kube.get(resources.pods, { namespace, name });
  return pod?.metadata.uid === uid ? trimPod(pod) : undefined;
}
