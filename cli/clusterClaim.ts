import { clusterInTaskQueue, type TemporalNames, temporalNames } from '../api/names.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import { claimedTaskQueues } from '../temporal-config/clusterClaims.ts';
import { CommandError } from './output.ts';
import type { Temporal } from './temporal.ts';

/**
 * Returns the names under which the workers of this cluster run in Temporal. Other clusters may share the namespace: the claim of each says
 * which names it has. Rejects with a CommandError if this cluster has none, because this is then the Temporal of others.
 */
export async function claimedNames(kube: Kube, temporal: Temporal): Promise<TemporalNames> {
  const uid = await clusterUid(kube);
  for await (const taskQueue of claimedTaskQueues(temporal.client, uid))
    return temporalNames(clusterInTaskQueue(taskQueue));
  const { namespace, address } = temporal;
  throw new CommandError(
    `no worker of this cluster (UID ${uid}) uses Temporal namespace ${namespace} at ${address}: check TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and the kubeconfig context; kubectl maintenance workers shows the settings of the workers`,
  );
}

/** Returns the UID that identifies the cluster. Rejects with a CommandError that names the missing right. */
export async function clusterUid(kube: Kube): Promise<string> {
  try {
    const found = await kube.get(resources.namespaces, { name: 'kube-system' });
    return found?.metadata.uid ?? '';
  } catch (error) {
    if (!isKubeError(error, 'Forbidden')) throw error;
    throw new CommandError(
      'the cluster cannot be identified: request the verb get on namespace kube-system, which ClusterRole node-maintenance-view permits',
      { cause: error },
    );
  }
}
