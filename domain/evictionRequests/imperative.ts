import type { Node, Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { LifecycleEviction } from '../../api/lifecycle.ts';
import { MAINTENANCE_REQUESTER } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isFinished, podTypeOf } from '../common/pod.ts';
import {
  currentEvacuation,
  evacuationName,
  isDrainCancelled,
  isWithdrawn,
  keptByOthersAfterMs,
  replacementName,
} from '../evacuation/evacuation.ts';
import { inapplicableReason, registeredEvacuators } from '../evacuation/evacuatorSelection.ts';
import { activeRequesters } from './participants.ts';

/** The next step for a pod of the responder that evicts pods. */
export type ImperativeStep =
  | { readonly kind: 'Complete'; readonly message: string }
  /** Send heartbeats with this message, and wait: for a change, and no longer than this if no change may follow. */
  | { readonly kind: 'Report'; readonly message: string; readonly againInMs?: number }
  /** Create an Evacuation of this name: the pod has evacuators, which serve no other API. */
  | { readonly kind: 'Evacuate'; readonly pod: Pod; readonly name: string }
  | { readonly kind: 'Evict'; readonly pod: Pod };

interface Situation {
  /** Undefined: it does not exist. */
  readonly pod: Pod | undefined;
  /** The apiserver has accepted the eviction. */
  readonly wasEvicted: boolean;
  /** The requesters have cancelled the eviction, and their requests are about to be withdrawn. */
  readonly isCancelled: boolean;
  /** The Evacuations of the pod, also cancelled ones. */
  readonly evacuations: readonly Evacuation[];
  readonly now: Date;
}

/**
 * Reports whether the eviction was cancelled by those who asked for it: node maintenance alone requests it, no maintenance drains the node of the pod any
 * more, and one of the node completes. The withdrawal needs Temporal, and may come late. What was cancelled (`wasCancelled`) stays so if the maintenance
 * is removed before it is completed.
 */
export function isAboutToBeCancelled(
  eviction: Pick<LifecycleEviction, 'status'>,
  node: Pick<Node, 'metadata'>,
  maintenances: readonly NodeMaintenance[],
  wasCancelled = false,
): boolean {
  const requesters = activeRequesters(eviction);
  const isOurs = requesters.length > 0 && requesters.every((name) => name === MAINTENANCE_REQUESTER);
  return isOurs && isDrainCancelled(node, maintenances, wasCancelled);
}

/** Reports whether the pod has evacuators by its annotations: the admission server rejects its eviction until they have done their work. */
function hasEvacuators(pod: Pod): boolean {
  const { evacuators } = registeredEvacuators(pod);
  return evacuators.some(({ evacuatorClass }) => inapplicableReason(evacuatorClass, pod) === undefined);
}

/** Returns the next step: "ignores terminating pods", and "does not evict DaemonSet or mirror pods" (KEP-4563 > Imperative Eviction Responder). */
export function imperativeStep({
  pod,
  wasEvicted,
  isCancelled,
  evacuations,
  now,
}: Situation): ImperativeStep {
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
  const current = evacuations.find((one) => !isWithdrawn(one));
  if (current !== undefined)
    return { kind: 'Report', message: `Evacuation ${current.metadata.name} of the pod is in progress.` };
  if (isCancelled)
    return {
      kind: 'Report',
      message: 'The maintenance of the node was cancelled; its request is about to be withdrawn.',
    };
  return hasEvacuators(pod) ? evacuationStep(pod, evacuations, now) : { kind: 'Evict', pod };
}

/** A cancelled Evacuation has its name until it is gone. Finalizers may keep it, but must not keep the pod on its node. */
function evacuationStep(pod: Pod, cancelled: readonly Evacuation[], now: Date): ImperativeStep {
  const latest = currentEvacuation(cancelled);
  if (latest === undefined) return { kind: 'Evacuate', pod, name: evacuationName(pod.metadata) };
  const sinceMs = Date.parse(latest.metadata.deletionTimestamp ?? '');
  if (now.getTime() - sinceMs > keptByOthersAfterMs)
    return { kind: 'Evacuate', pod, name: replacementName(pod.metadata, latest.metadata) };
  return {
    kind: 'Report',
    message: `Evacuation ${latest.metadata.name} of the pod was cancelled, and another one follows.`,
    againInMs: keptByOthersAfterMs,
  };
}
