import type { Condition, Pod } from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import { type ConditionFacts, withCondition } from './conditions.ts';

/** Extension to KEP-4212: the condition of an Evacuation that cannot go on by itself; its reason is a BlockerReason. */
export const blockedCondition = 'Blocked';

export const BlockerReason = {
  /** A budget allows no disruption now. It may do so by itself: when other pods become ready. */
  DisruptionBudget: 'DisruptionBudget',
  /** A budget leaves no room for any disruption, ever. */
  DisruptionBudgetNeverAllows: 'DisruptionBudgetNeverAllows',
  /** "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support." */
  SeveralDisruptionBudgets: 'SeveralDisruptionBudgets',
  /** The apiserver, or an admission webhook, does not take the Evacuation. */
  EvacuationRefused: 'EvacuationRefused',
  /** The apiserver, or an admission webhook, does not take the eviction. */
  EvictionRefused: 'EvictionRefused',
  /** The apiserver, or an admission webhook, does not take the deletion of a DaemonSet's pod. */
  DeletionRefused: 'DeletionRefused',
  /** Nothing keeps a DaemonSet's pods away from the node: one was deleted, and the next is there. */
  CameBack: 'CameBack',
  /** Somebody deleted the Evacuation, and its finalizers keep the next one from being made. */
  EvacuationDeleted: 'EvacuationDeleted',
  /** The pod should have ended by its grace period, and is still there. */
  StuckTerminating: 'StuckTerminating',
} as const;
export type BlockerReason = (typeof BlockerReason)[keyof typeof BlockerReason];

/** Why a pod does not leave. The message is the same for as long as the cause is. */
export interface Blocker {
  reason: string;
  message: string;
}

/** Whether somebody has to act: all that waiting can mend is a budget that is used up. */
export function needsAPerson({ reason }: Blocker): boolean {
  return reason !== BlockerReason.DisruptionBudget;
}

/** Whether it may be over before anybody has looked: also of a pod that is late to end. */
export function mayPass(blocker: Blocker): boolean {
  return !needsAPerson(blocker) || blocker.reason === BlockerReason.StuckTerminating;
}

/** A pod may be this late before it counts as stuck. Milliseconds. */
export const lateness = 10_000;

/** What keeps a pod that is to leave: the pod itself, or what its Evacuation reports. */
export function blockerOf(
  pod: Pod,
  evacuation: Pick<Evacuation, 'status' | 'metadata'> | undefined,
  now: Date,
): Blocker | undefined {
  if (pod.metadata.deletionTimestamp !== undefined) return stuckTerminating(pod, now);
  const { deletionTimestamp, finalizers = [] } = evacuation?.metadata ?? {};
  if (deletionTimestamp !== undefined && finalizers.length > 0) return formerEvacuation(finalizers);
  return reportedBlocker(evacuation?.status);
}

/** What the Evacuation says to be blocked by. */
export function reportedBlocker(status: Evacuation['status']): Blocker | undefined {
  const blocked = status?.conditions?.find(({ type }) => type === blockedCondition);
  return blocked?.status === 'True' ? { reason: blocked.reason, message: blocked.message } : undefined;
}

/** The conditions of an Evacuation that this blocks, or nothing: then they do not mention it. */
export function blockedConditions(
  conditions: readonly Condition[],
  blocker: Blocker | undefined,
  now: Date,
): readonly Condition[] {
  if (blocker === undefined) return conditions.filter(({ type }) => type !== blockedCondition);
  const facts: ConditionFacts = { type: blockedCondition, status: 'True', ...blocker };
  return withCondition(conditions, facts, now.toISOString());
}

function formerEvacuation(finalizers: readonly string[]): Blocker {
  const names = finalizers.toSorted().join(', ');
  return {
    reason: BlockerReason.EvacuationDeleted,
    message: `Somebody deleted its Evacuation; the next can only be made when its finalizers ${names} are gone: see to the controllers that own them.`,
  };
}

/** A pod's deletionTimestamp is the moment at which its grace period is over. */
export function stuckTerminating({ metadata, spec }: Pod, now: Date): Blocker | undefined {
  const { deletionTimestamp = '', finalizers = [] } = metadata;
  if (!(now.getTime() - Date.parse(deletionTimestamp) > lateness)) return undefined;
  const cause =
    finalizers.length > 0
      ? `its finalizers ${finalizers.toSorted().join(', ')} hold it: see to the controllers that own them`
      : `the kubelet of node ${spec.nodeName} has not ended it: see whether the node is alive`;
  return {
    reason: BlockerReason.StuckTerminating,
    message: `It should have ended at ${deletionTimestamp}, but ${cause}.`,
  };
}
