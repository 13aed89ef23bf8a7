import type { Condition, Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { STATIC_POD_EVACUATOR } from '../../api/names.ts';
import { type ConditionFacts, withCondition } from '../common/conditions.ts';
import { keptByOthersAfterMs } from './evacuation.ts';
import { hasResponded, inapplicableReason, successorsOf } from './evacuatorSelection.ts';
import { finalizerNames } from './termination.ts';

/** Extension to KEP-4212: True while an Evacuation cannot make progress. Its reason is a BlockerReason. */
export const blockedCondition = 'Blocked';

export const BlockerReason = {
  /** A PodDisruptionBudget allows no disruption now. This may resolve itself when other pods become ready. */
  DisruptionBudget: 'DisruptionBudget',
  /** A PodDisruptionBudget can never allow a disruption. */
  DisruptionBudgetNeverAllows: 'DisruptionBudgetNeverAllows',
  /** "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support." */
  MultipleDisruptionBudgets: 'MultipleDisruptionBudgets',
  /** The apiserver, or an admission webhook, rejects the Evacuation. */
  EvacuationRejected: 'EvacuationRejected',
  /** The apiserver, or an admission webhook, rejects the eviction. */
  EvictionRejected: 'EvictionRejected',
  /** The apiserver, or an admission webhook, rejects the deletion of a DaemonSet pod, or of any pod at the deadline of a drain. */
  DeletionRejected: 'DeletionRejected',
  /** No responder has evicted the pod that an EvictionRequest names. */
  EvictionFailed: 'EvictionFailed',
  /** The apiserver, or an admission webhook, rejects the EvictionRequest. */
  EvictionRequestRejected: 'EvictionRequestRejected',
  /** The EvictionRequest was deleted, and finalizers keep it. */
  EvictionRequestDeleted: 'EvictionRequestDeleted',
  /** No controller has answered the EvictionRequest, or none can: the apiserver does not serve the API. */
  EvictionRequestUnanswered: 'EvictionRequestUnanswered',
  /** A controller, such as a DaemonSet, recreated its pod on the node right after the previous one was deleted. */
  PodRecreated: 'PodRecreated',
  /** The Evacuation was deleted, and its finalizers delay the creation of a new one. */
  EvacuationDeleted: 'EvacuationDeleted',
  /** The active evacuator does not respond; of a static pod, that is the agent of the node. */
  EvacuatorNotResponding: 'EvacuatorNotResponding',
  /** The pod still exists after its grace period. */
  StuckTerminating: 'StuckTerminating',
} as const;
export type BlockerReason = (typeof BlockerReason)[keyof typeof BlockerReason];

/** The reason why a pod does not leave its node. The message stays the same while the cause does. */
export interface Blocker {
  reason: string;
  message: string;
}

/** Reports whether an operator has to act. Only a PodDisruptionBudget that is used up resolves itself. */
export function requiresIntervention({ reason }: Blocker): boolean {
  return reason !== BlockerReason.DisruptionBudget;
}

const transientReasons: readonly string[] = [
  BlockerReason.StuckTerminating,
  BlockerReason.EvacuatorNotResponding,
  BlockerReason.EvictionRequestUnanswered,
];

/** Reports whether a blocker often disappears within seconds: this includes a pod or an evacuator that is late. */
export function isTransient(blocker: Blocker): boolean {
  return !requiresIntervention(blocker) || transientReasons.includes(blocker.reason);
}

/** An evacuator counts as not responding when it has written nothing this long after it became active. */
const unresponsiveAfterMs = 10_000;

/** A pod counts as stuck when it still exists this long after its grace period. */
export const stuckTerminatingAfterMs = 10_000;

/** Returns the blocker of a pod, from the pod itself or from its Evacuation. */
export function blockerOf(
  pod: Pod,
  evacuation: Pick<Evacuation, 'spec' | 'status' | 'metadata'> | undefined,
  now: Date,
): Blocker | undefined {
  if (pod.metadata.deletionTimestamp !== undefined) return stuckTerminating(pod, now);
  const { deletionTimestamp, finalizers = [] } = evacuation?.metadata ?? {};
  if (deletionTimestamp !== undefined && finalizers.length > 0) return evacuationDeleted(finalizers);
  return reportedBlocker(evacuation?.status) ?? unresponsiveEvacuator(pod, evacuation, now);
}

/**
 * Returns the blocker of a pod whose active evacuator does not respond. The next evacuator follows after minutes, and a static pod has none: without
 * this, nothing would name what the drain waits for.
 */
function unresponsiveEvacuator(
  pod: Pod,
  evacuation: Pick<Evacuation, 'spec' | 'status'> | undefined,
  now: Date,
): Blocker | undefined {
  const { activeEvacuatorClass, activeEvacuatorSince = '' } = evacuation?.status ?? {};
  if (evacuation === undefined || activeEvacuatorClass === undefined || hasResponded(evacuation))
    return undefined;
  // The next one becomes active at once.
  if (inapplicableReason(activeEvacuatorClass, pod) !== undefined) return undefined;
  const silentMs = now.getTime() - Date.parse(activeEvacuatorSince);
  if (!(silentMs > unresponsiveAfterMs)) return undefined;
  const message =
    activeEvacuatorClass === STATIC_POD_EVACUATOR
      ? `The agent of node ${pod.spec.nodeName} does not respond to the Evacuation: check its log, and that the manifest of the pod is in the folder of the kubelet.`
      : `Evacuator ${activeEvacuatorClass} does not respond to the Evacuation: check that a program serves this class; next: ${successorsOf(evacuation, activeEvacuatorClass, pod)}.`;
  return { reason: BlockerReason.EvacuatorNotResponding, message };
}

/** Returns the blocker in the status of an Evacuation. */
export function reportedBlocker(status: Evacuation['status']): Blocker | undefined {
  const blocked = status?.conditions?.find(({ type }) => type === blockedCondition);
  return blocked?.status === 'True' ? { reason: blocked.reason, message: blocked.message } : undefined;
}

/** Returns the conditions with Blocked set for the blocker, or without Blocked when there is none. */
export function blockedConditions(
  conditions: readonly Condition[],
  blocker: Blocker | undefined,
  now: Date,
): readonly Condition[] {
  if (blocker === undefined) return conditions.filter(({ type }) => type !== blockedCondition);
  const facts: ConditionFacts = { type: blockedCondition, status: 'True', ...blocker };
  return withCondition(conditions, facts, now.toISOString());
}

function evacuationDeleted(finalizers: readonly string[]): Blocker {
  const names = finalizerNames(finalizers);
  return {
    reason: BlockerReason.EvacuationDeleted,
    message: `The Evacuation of the pod was deleted but still has finalizers ${names}: unless the controllers that own them remove them within ${keptByOthersAfterMs / 1_000} s, another Evacuation of the pod is created.`,
  };
}

/** Returns the blocker of a pod that still exists `afterMs` after its grace period, which ends at its deletionTimestamp. */
export function stuckTerminating(
  { metadata, spec }: Pod,
  now: Date,
  afterMs: number = stuckTerminatingAfterMs,
): Blocker | undefined {
  const { deletionTimestamp = '', finalizers = [] } = metadata;
  if (!(now.getTime() - Date.parse(deletionTimestamp) > afterMs)) return undefined;
  const cause =
    finalizers.length > 0
      ? `finalizers ${finalizerNames(finalizers)} are still set; check the controllers that own them`
      : `the kubelet of node ${spec.nodeName} has not stopped it; check whether the node is running`;
  return {
    reason: BlockerReason.StuckTerminating,
    message: `The pod is still terminating although its grace period ended at ${deletionTimestamp}: ${cause}.`,
  };
}
