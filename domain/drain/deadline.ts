import type { Pod } from '../../api/core.ts';
import { compareNames } from '../common/names.ts';
import { gracePeriodSecondsOf, podName, podTypeOf } from '../common/pod.ts';

/** A pod that a drain evacuates, as its deadline sees it. */
export interface PodAtDeadline {
  pod: Pod;
  /** Position of the tier that evacuates it. */
  tier: number;
  /** Its Evacuation has the cancellation policy Forbid. */
  forbidsCancellation: boolean;
}

/** The deletion of one pod, due now. */
export interface PodDeletion {
  pod: Pod;
  tier: number;
  /** Grace period of the deletion, at least 1. */
  gracePeriodSeconds: number;
}

export interface DeadlineDecision {
  /** Deletions that are due, in their order. */
  due: readonly PodDeletion[];
  /** When the next pod is due, in milliseconds since the epoch. */
  nextAtMs: number | undefined;
}

/**
 * While earlier tiers have pods, those of later tiers are deleted at most this long before the deadline, and the earlier ones with them: otherwise
 * the owner of one pod with a grace period of days could have all others deleted at the start of the drain.
 */
export const maxLeadOfLaterTiersMs = 600_000;

/** A pod is deleted this long before it has to be, so that it gets its whole grace period in seconds. */
const roundingMs = 1_000;

/**
 * Decides which pods are deleted so that they are gone at the deadline. Contract:
 *
 * 1. Each pod is deleted as early as its grace period requires, and no grace period is below a second.
 * 2. No pod of a later tier is deleted before one of an earlier tier; none waits until one of an earlier tier has terminated. While pods of an earlier
 *    tier run, also those that are not deleted, or have their grace period, later tiers wait until the deadline is near.
 * 3. No static pod is deleted, because only the agent of its node stops it, and none whose Evacuation has the policy Forbid.
 * 4. A pod that is terminating, and would outlive the deadline, is deleted again with a shorter grace period, once its tier is reached or
 *    the deadline is near: in the last second, if it has been terminating for longer than is left.
 * 5. An earlier deadline deletes no pod later that is not terminating.
 */
export function decideDeletions(
  pods: readonly PodAtDeadline[],
  { timeMs, nowMs }: { timeMs: number; nowMs: number },
): DeadlineDecision {
  const deletable = pods.filter(
    ({ pod, forbidsCancellation }) => !forbidsCancellation && podTypeOf(pod) !== 'Static',
  );
  const firstTier = least(pods.filter(({ pod }) => isInUse(pod, nowMs)).map(({ tier }) => tier));
  const isNear = nowMs >= timeMs - maxLeadOfLaterTiersMs;
  const shortened = deletable
    .filter(({ tier }) => isNear || tier === firstTier)
    .flatMap((one) => {
      const atMs = shorteningTime(one.pod, { timeMs, nowMs });
      return atMs === undefined ? [] : [{ ...one, atMs }];
    });
  const deleted = deletionTimes(
    deletable.filter(({ pod }) => pod.metadata.deletionTimestamp === undefined),
    { timeMs, firstTier },
  );
  const planned = [...shortened, ...deleted];
  const due = planned
    .filter(({ atMs }) => atMs <= nowMs)
    .map(({ pod, tier }) => ({
      pod,
      tier,
      gracePeriodSeconds: Math.min(longestGraceOf(pod), secondsUntil(timeMs, nowMs)),
    }));
  const nextAtMs = least(planned.filter(({ atMs }) => atMs > nowMs).map(({ atMs }) => atMs));
  return {
    due: due.toSorted((a, b) => a.tier - b.tier || compareNames(podName(a.pod), podName(b.pod))),
    nextAtMs: nextAtMs === Infinity ? undefined : nextAtMs,
  };
}

interface PlannedDeletion extends PodAtDeadline {
  atMs: number;
}

/** Reports whether the tiers after that of the pod wait for it: not for one that is stuck, and not for a static pod, which only an agent stops. */
function isInUse(pod: Pod, nowMs: number): boolean {
  const { deletionTimestamp } = pod.metadata;
  const isStuck = deletionTimestamp !== undefined && Date.parse(deletionTimestamp) <= nowMs;
  return !isStuck && podTypeOf(pod) !== 'Static';
}

/** Returns when each pod is to be deleted. `firstTier`: the first tier that has pods, also if these are not deleted. */
export function deletionTimes(
  pods: readonly PodAtDeadline[],
  { timeMs, firstTier }: { timeMs: number; firstTier: number },
): PlannedDeletion[] {
  const byTier = [...Map.groupBy(pods, ({ tier }) => tier)].toSorted(([a], [b]) => b - a);
  let ofLaterTiers = Infinity;
  return byTier.flatMap(([tier, own]) => {
    const earliest = tier <= firstTier ? -Infinity : timeMs - maxLeadOfLaterTiersMs;
    const timed = own.map((one) => ({
      ...one,
      atMs: Math.min(ofLaterTiers, Math.max(earliest, timeMs - graceOf(one.pod) * 1_000 - roundingMs)),
    }));
    ofLaterTiers = least(timed.map(({ atMs }) => atMs));
    return timed;
  });
}

/** Returns Infinity for none. There may be more numbers than a call has room for arguments. */
function least(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => Math.min(a, b), Infinity);
}

/**
 * Returns when a terminating pod that would outlive the deadline is deleted again; undefined if it need not be. The apiserver counts the shorter
 * grace period from the first deletion, and kills the pod at once if it is over by then.
 */
function shorteningTime(
  { metadata: { deletionTimestamp, deletionGracePeriodSeconds = 0 } }: Pod,
  { timeMs, nowMs }: { timeMs: number; nowMs: number },
): number | undefined {
  const endsMs = Date.parse(deletionTimestamp ?? '');
  const left = secondsUntil(timeMs, nowMs);
  if (!(endsMs > timeMs) || left >= deletionGracePeriodSeconds) return undefined;
  const startedMs = endsMs - deletionGracePeriodSeconds * 1_000;
  const isOver = startedMs + left * 1_000 < nowMs + roundingMs;
  return isOver ? Math.max(nowMs, timeMs - roundingMs) : nowMs;
}

/** A grace period of 0 would remove the pod from the apiserver while its containers may still run. */
function graceOf(pod: Pod): number {
  return Math.max(1, gracePeriodSecondsOf(pod));
}

/** The apiserver never makes the grace period of a terminating pod longer. */
function longestGraceOf(pod: Pod): number {
  return pod.metadata.deletionGracePeriodSeconds ?? graceOf(pod);
}

function secondsUntil(timeMs: number, nowMs: number): number {
  return Math.max(1, Math.floor((timeMs - nowMs) / 1_000));
}
