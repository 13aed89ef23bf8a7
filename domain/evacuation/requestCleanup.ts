import type { RequestState } from './evictionRequest.ts';

/** Time within which a controller may still report how the eviction of a pod that is gone has ended. */
const reportWithinMs = 10_000;
/** A withdrawn request is deleted after this time, although its Eviction has not been cancelled. */
const cancelWithinMs = 60_000;
/** Anything that no drain needs is withdrawn after this time. The drain that has created it may not have published its targets yet. */
export const unneededAfterMs = 60_000;

/** An EvictionRequest of node maintenance, as the leader sees it. */
export interface CleanupFacts {
  state: RequestState;
  /** The pod exists. */
  hasPod: boolean;
  /** The pod has an Eviction, and it or the request does not say yet how it has ended. */
  isUnreported: boolean;
  /** A drain of the node of the pod targets it. */
  isNeeded: boolean;
  /** Node maintenance requests an Evacuation of the pod. */
  hasEvacuation: boolean;
}

/** Phase of a request. Its time counts from when the leader first observed the phase. */
export type CleanupPhase = 'Needed' | 'Unneeded' | 'Withdrawn' | 'PodGone';

export type CleanupStep = { kind: 'Keep'; againInMs: number } | { kind: 'Withdraw' } | { kind: 'Delete' };

export function cleanupPhase({ state, hasPod, isNeeded }: CleanupFacts): CleanupPhase {
  if (!hasPod) return 'PodGone';
  if (state.kind === 'Withdrawn') return 'Withdrawn';
  return isNeeded ? 'Needed' : 'Unneeded';
}

/** Decides what is done with the request, which is in its phase for this long. */
export function cleanupStep(facts: CleanupFacts, forMs: number): CleanupStep {
  const { state, isUnreported, hasEvacuation } = facts;
  const phase = cleanupPhase(facts);
  if (phase === 'PodGone')
    return isUnreported ? keepUntil(reportWithinMs, forMs, { kind: 'Delete' }) : { kind: 'Delete' };
  if (state.kind === 'Withdrawn')
    return state.isSettled ? { kind: 'Delete' } : keepUntil(cancelWithinMs, forMs, { kind: 'Delete' });
  // Never by both APIs: an Evacuation continues.
  if (hasEvacuation) return { kind: 'Withdraw' };
  return phase === 'Unneeded'
    ? keepUntil(unneededAfterMs, forMs, { kind: 'Withdraw' })
    : { kind: 'Keep', againInMs: unneededAfterMs };
}

function keepUntil(ms: number, forMs: number, then: CleanupStep): CleanupStep {
  return forMs >= ms ? then : { kind: 'Keep', againInMs: ms - forMs };
}
