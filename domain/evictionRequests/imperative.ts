import type { Pod } from '../../api/core.ts';
import { isFinished, podTypeOf } from '../common/pod.ts';
import { inapplicableReason, registeredEvacuators } from '../evacuation/evacuatorSelection.ts';

/** What the responder that evicts pods does next with one of them. */
export type ImperativeStep =
  | { readonly kind: 'Complete'; readonly message: string }
  /** Send heartbeats with this message, and wait. */
  | { readonly kind: 'Report'; readonly message: string }
  /** Create an Evacuation: the pod has evacuators, which serve no other API. */
  | { readonly kind: 'Evacuate'; readonly pod: Pod }
  | { readonly kind: 'Evict'; readonly pod: Pod };

interface Situation {
  /** Undefined: it does not exist. */
  readonly pod: Pod | undefined;
  /** The apiserver has accepted the eviction. */
  readonly wasEvicted: boolean;
  /** Name of an Evacuation of the pod that is in progress. */
  readonly evacuation: string | undefined;
}

/** Reports whether the pod has evacuators by its annotations: the admission server rejects its eviction until they have done their work. */
function hasEvacuators(pod: Pod): boolean {
  const { evacuators } = registeredEvacuators(pod);
  return evacuators.some(({ evacuatorClass }) => inapplicableReason(evacuatorClass, pod) === undefined);
}

/** Returns the next step: "ignores terminating pods", and "does not evict DaemonSet or mirror pods" (KEP-4563 > Imperative Eviction Responder). */
export function imperativeStep({ pod, wasEvicted, evacuation }: Situation): ImperativeStep {
  if (pod === undefined) return { kind: 'Complete', message: 'The pod is gone.' };
  if (isFinished(pod)) return { kind: 'Complete', message: 'The pod has terminated.' };
  if (pod.metadata.deletionTimestamp !== undefined || wasEvicted)
    return { kind: 'Report', message: 'The pod is terminating.' };
  const podType = podTypeOf(pod);
  if (podType === 'DaemonSet')
    return {
      kind: 'Complete',
      message: 'Pods of DaemonSets are not evicted: they would return to the node.',
    };
  if (podType === 'Static')
    return { kind: 'Complete', message: 'Static pods are not evicted: the kubelet would start them again.' };
  if (evacuation !== undefined)
    return { kind: 'Report', message: `Evacuation ${evacuation} of the pod is in progress.` };
  return { kind: hasEvacuators(pod) ? 'Evacuate' : 'Evict', pod };
}
