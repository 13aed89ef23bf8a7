import type { Pod } from '../../api/core.ts';
import type { EvictionRequest, LifecycleEviction } from '../../api/lifecycle.ts';
import { type RequestedEviction, requestedEviction } from '../../domain/evacuation/evictionRequest.ts';
import type { Kube } from '../../kube/client.ts';
import { identityKey, targetOf } from '../../kube/evictionInformers.ts';
import { resources } from '../../kube/resources.ts';
import { listIfServed } from '../../kube/served.ts';

/** Reads the EvictionRequests of these pods, by the UIDs of the pods; none if the apiserver does not serve them. */
export async function readRequests(
  kube: Kube,
  pods: readonly Pod[],
): Promise<Map<string, RequestedEviction>> {
  const [requests, evictions] = await Promise.all([
    listIfServed(kube, resources.evictionRequests),
    listIfServed(kube, resources.evictions),
  ]);
  const keyOf = (object: EvictionRequest | LifecycleEviction) => identityKey(targetOf(object));
  const [byPod, evictionsByPod] = [Map.groupBy(requests, keyOf), Map.groupBy(evictions, keyOf)];
  const ofPod = (key: string) => requestedEviction(byPod.get(key) ?? [], evictionsByPod.get(key) ?? []);
  return new Map(pods.map(({ metadata }) => [metadata.uid ?? '', ofPod(identityKey(metadata))] as const));
}
