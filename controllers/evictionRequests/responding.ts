import type { Pod } from '../../api/core.ts';
import type { LifecycleEviction } from '../../api/lifecycle.ts';
import { DEPLOYMENT_RESPONDER } from '../../api/names.ts';
import { isFinal } from '../../domain/evacuation/evictionRequest.ts';
import type { Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import { byTarget, type EvictionView, podKey, targetKey } from './evictionView.ts';

/**
 * Returns a function that reports whether an Eviction in progress has the responder of Deployments: the pod must not return to its ReplicaSet then.
 * The informer shows most of these. Before a pod returns, the apiserver is asked: an informer could be late when a leader starts, and a pod that
 * returns too early is lost for its replacement.
 */
export function isRespondingTo(
  kube: Kube,
  evictions: Pick<EvictionView['evictions'], 'byIndex' | 'lastError'>,
): (pod: Pod) => Promise<boolean> {
  return async (pod) => {
    const isRegistered = pod.spec.evictionResponders?.some(({ name }) => name === DEPLOYMENT_RESPONDER);
    if (isRegistered !== true) return false;
    const key = podKey(pod);
    // Without the apiserver it shows what was: the kinds may not be served any more.
    const isCurrent = evictions.lastError === undefined;
    if (isCurrent && evictions.byIndex(byTarget, key).some(isResponding)) return true;
    try {
      const { items } = await kube.list(resources.evictions, {
        namespace: pod.metadata.namespace,
        labelSelector: DEPLOYMENT_RESPONDER,
      });
      return items.some((one) => targetKey(one) === key && isResponding(one));
    } catch (error) {
      // The apiserver does not serve Evictions any more.
      if (isKubeError(error, 'NotFound')) return false;
      throw error;
    }
  };
}

function isResponding(eviction: LifecycleEviction): boolean {
  return eviction.metadata.labels?.[DEPLOYMENT_RESPONDER] !== undefined && !isFinal(eviction);
}
