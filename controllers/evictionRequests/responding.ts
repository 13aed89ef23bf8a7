import type { Pod } from '../../api/core.ts';
import { DEPLOYMENT_RESPONDER } from '../../api/names.ts';
import { isFinal } from '../../domain/evictionRequests/conditions.ts';
import type { Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';

/**
 * Returns a function that asks the apiserver whether an Eviction in progress has the responder of Deployments: the pod must not return to its
 * ReplicaSet then. An informer could be late when a leader starts, and a pod that returns too early is lost for its replacement.
 */
export function isRespondingTo(kube: Kube): (pod: Pod) => Promise<boolean> {
  return async ({ metadata: { namespace, uid }, spec }) => {
    const isRegistered = spec.evictionResponders?.some(({ name }) => name === DEPLOYMENT_RESPONDER);
    if (isRegistered !== true) return false;
    try {
      const { items } = await kube.list(resources.evictions, {
        namespace,
        labelSelector: DEPLOYMENT_RESPONDER,
      });
      return items.some((one) => one.spec.target.pod.uid === uid && !isFinal(one));
    } catch (error) {
      // The apiserver does not serve Evictions any more.
      if (isKubeError(error, 'NotFound')) return false;
      throw error;
    }
  };
}
