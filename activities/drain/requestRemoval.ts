import type { EvictionRequest } from '../../api/lifecycle.ts';
import { FIELD_MANAGER, NODE_MAINTENANCE } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isLive, isOurs } from '../../domain/evacuation/evictionRequest.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { withdrawRequest } from '../../kube/evictionRequests.ts';
import { ignoreConflict, isKubeError } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import { latestPod } from './latestPod.ts';
import { type OtherDrains, othersThatNeed } from './otherDrains.ts';
import type { Withdrawals } from './withdrawals.ts';

const concurrentWrites = 24;

interface Removal {
  maintenance: NodeMaintenance;
  /** Names of its nodes. */
  nodes: ReadonlySet<string>;
  others: OtherDrains;
  withdrawals: Withdrawals;
}

/**
 * Withdraws the EvictionRequests on the nodes of a maintenance that no other one needs, and leaves those to the others that they need. Resolves with
 * the number of those left when the time was up. Lists them from the apiserver, because the last one may have been created a moment ago.
 */
export async function withdrawRequests(
  cluster: Cluster,
  { maintenance, nodes, others, withdrawals }: Removal,
  endsAt: number,
): Promise<number> {
  const requests = (await listRequests(cluster)).filter((one) => isOurs(one) && isLive(one));
  return forEachBounded(
    concurrentWrites,
    requests,
    async (request) => {
      const { metadata, spec } = request;
      const pod = await latestPod(cluster, { namespace: metadata.namespace ?? '', ...spec.target.pod });
      if (pod === undefined || !nodes.has(pod.spec.nodeName ?? '')) return;
      const needing = othersThatNeed(cluster, others, pod);
      await withdrawals.perform(request, (one) =>
        needing.length === 0
          ? withdrawRequest(cluster.kube, one)
          : leaveTo(cluster, one, { from: maintenance, to: needing }),
      );
    },
    { endsAt },
  );
}

/** Returns none if the apiserver does not serve them any more. */
async function listRequests({ kube }: Cluster): Promise<EvictionRequest[]> {
  try {
    return (await kube.list(resources.evictionRequests)).items;
  } catch (error) {
    if (!isKubeError(error, 'NotFound', 'Forbidden')) throw error;
    return [];
  }
}

/** Replaces the maintenance as the owner: the request must not be deleted with it. */
async function leaveTo(
  { kube }: Cluster,
  { metadata }: EvictionRequest,
  { from, to }: { from: NodeMaintenance; to: readonly NodeMaintenance[] },
): Promise<void> {
  const { name, namespace = '', uid, resourceVersion, ownerReferences = [] } = metadata;
  if (!ownerReferences.some((owner) => owner.uid === from.metadata.uid)) return;
  const uids = new Set(to.map((one) => one.metadata.uid));
  const kept = ownerReferences.filter((owner) => owner.uid !== from.metadata.uid && !uids.has(owner.uid));
  const { apiVersion, kind } = NODE_MAINTENANCE;
  const added = to.map((one) => ({
    apiVersion,
    kind,
    name: one.metadata.name,
    uid: one.metadata.uid ?? '',
  }));
  const patch = { metadata: { uid, resourceVersion, ownerReferences: [...kept, ...added] } };
  await kube
    .mergePatch(resources.evictionRequests, { namespace, name }, patch, { fieldManager: FIELD_MANAGER })
    .catch(ignoreConflict);
}
