import type { Lease } from '../../api/core.ts';
import { oneLine } from '../common/text.ts';

/** "renewTime + leaseDurationSeconds + 3 seconds (to allow for some clock drift)" (KEP-1411 > Acquisition). */
export const CLOCK_DRIFT_MS = 3_000;
/** "Any value beginning with" it "is reserved for administrator use" (KEP-1411 > Acquisition). */
export const ADMINISTRATOR_PREFIX = 'kubeadm';
/** "As short as is reasonable, not to exceed 1 hour" (KEP-1411 > Acquisition). */
const maxDurationSeconds = 3_600;
const maxHolderLength = 253;

/** The state of a maintenance Lease. Times are milliseconds since 1970. */
export type LeaseState =
  | { readonly kind: 'Missing' }
  /** It has no holder, or its holder released it. */
  | { readonly kind: 'Free' }
  /** Any client may acquire it. `at` is undefined if the holder never set renewTime. */
  | { readonly kind: 'Expired'; readonly holder: string; readonly at: number | undefined }
  | { readonly kind: 'Held'; readonly holder: string; readonly until: number }
  /** "Always considered held": an administrator does not need to renew. */
  | { readonly kind: 'HeldByAdministrator'; readonly holder: string };

/** Returns the state from the point of view of all clients except the holder (KEP-1411 > Acquisition). */
export function leaseStateOf(lease: Readonly<Lease> | undefined, now: number): LeaseState {
  if (lease === undefined) return { kind: 'Missing' };
  const { holderIdentity: holder = '', leaseDurationSeconds = 0 } = lease.spec;
  if (holder === '') return { kind: 'Free' };
  if (isAdministrator(holder)) return { kind: 'HeldByAdministrator', holder };
  const renewedAt = timeOf(lease.spec.renewTime);
  const until =
    renewedAt === undefined ? undefined : renewedAt + leaseDurationSeconds * 1_000 + CLOCK_DRIFT_MS;
  if (until !== undefined && now <= until) return { kind: 'Held', holder, until };
  // "If the lease is still held, set leaseDurationSeconds to 0" (KEP-1411 > Release); an apiserver rejects 0, but accepts a missing duration.
  return leaseDurationSeconds === 0 ? { kind: 'Free' } : { kind: 'Expired', holder, at: until };
}

/** Returns who else holds the Lease; undefined if `holder` holds it, or may acquire it. */
export function otherHolderOf(
  lease: Readonly<Lease> | undefined,
  holder: string,
  now: number,
): string | undefined {
  const state = leaseStateOf(lease, now);
  const isOther = state.kind === 'Held' && state.holder !== holder;
  return isOther || state.kind === 'HeldByAdministrator' ? state.holder : undefined;
}

/**
 * Reports whether the holder itself may still act. It has to stop before others may start, earlier by the clock drift that they
 * allow for: the state `Held` is not sufficient for the holder.
 */
export function isHeldBy(lease: Readonly<Lease> | undefined, holder: string, now: number): boolean {
  if (lease === undefined || holder === '' || lease.spec.holderIdentity !== holder) return false;
  const renewedAt = timeOf(lease.spec.renewTime);
  return renewedAt !== undefined && now < renewedAt + (lease.spec.leaseDurationSeconds ?? 0) * 1_000;
}

/** Reports whether the holder has the Lease for less than half of its duration any more. */
export function isRenewalDue(lease: Readonly<Lease> | undefined, holder: string, now: number): boolean {
  const halfMs = ((lease?.spec.leaseDurationSeconds ?? 0) * 1_000) / 2;
  return isHeldBy(lease, holder, now) && !isHeldBy(lease, holder, now + halfMs);
}

/** A client that acquires Leases. */
export interface LeaseClient {
  readonly holder: string;
  /** Set by every renewal. */
  readonly leaseDurationSeconds: number;
}

/** All fields of a Lease: "If a client acquires a lease, it must set all fields" (KEP-1411 > Acquisition). */
export interface LeaseTerm {
  readonly holderIdentity: string;
  readonly leaseDurationSeconds: number;
  readonly acquireTime: Date;
  readonly renewTime: Date;
  readonly leaseTransitions: number;
}

export type AcquisitionDecision =
  /** Write the term unless the Lease was changed since it was read. The client then holds it until `renewTime + leaseDurationSeconds`. */
  | { readonly kind: 'Acquire'; readonly term: LeaseTerm }
  | { readonly kind: 'Renew'; readonly term: LeaseTerm }
  /** `until` is undefined if an administrator holds the Lease. */
  | { readonly kind: 'HeldByAnother'; readonly holder: string; readonly until: number | undefined };

/** Decides how a client acquires or renews a Lease that it has just read. */
export function decideAcquisition(
  lease: Readonly<Lease> | undefined,
  { holder, leaseDurationSeconds }: LeaseClient,
  now: number,
): AcquisitionDecision {
  const renewTime = new Date(now);
  const { leaseTransitions = 0, acquireTime, holderIdentity = '' } = lease?.spec ?? {};
  const term = { holderIdentity: holder, leaseDurationSeconds, renewTime };
  const acquiredAt = timeOf(acquireTime);
  if (isHeldBy(lease, holder, now) && acquiredAt !== undefined)
    return { kind: 'Renew', term: { ...term, acquireTime: new Date(acquiredAt), leaseTransitions } };
  const state = leaseStateOf(lease, now);
  if (state.kind === 'HeldByAdministrator')
    return { kind: 'HeldByAnother', holder: state.holder, until: undefined };
  if (state.kind === 'Held' && state.holder !== holder)
    return { kind: 'HeldByAnother', holder: state.holder, until: state.until };
  const isFirst = lease?.spec.leaseTransitions === undefined && holderIdentity === '';
  const transitions = isFirst || holderIdentity === holder ? leaseTransitions : leaseTransitions + 1;
  return { kind: 'Acquire', term: { ...term, acquireTime: renewTime, leaseTransitions: transitions } };
}

/** Reports whether the holder is to release the Lease: also after it expired, unless another client acquired it. */
export function isReleasable(lease: Readonly<Lease> | undefined, holder: string): boolean {
  return holder !== '' && lease?.spec.holderIdentity === holder;
}

/** Returns the problem of an invalid client and how to fix it, or undefined. */
export function leaseClientProblem({ holder, leaseDurationSeconds }: LeaseClient): string | undefined {
  if (holder.trim() === '') return 'holder: required; set a name that shows who holds the node';
  if (holder.length > maxHolderLength)
    return `holder: expected at most ${maxHolderLength} characters (got ${holder.length})`;
  if (isAdministrator(holder))
    return `holder: "${oneLine(holder, maxHolderLength)}" starts with "${ADMINISTRATOR_PREFIX}", which KEP-1411 reserves for administrators; choose another name`;
  const isDuration =
    Number.isInteger(leaseDurationSeconds) &&
    leaseDurationSeconds >= 1 &&
    leaseDurationSeconds <= maxDurationSeconds;
  if (isDuration) return undefined;
  return `leaseDurationSeconds: expected a whole number from 1 to ${maxDurationSeconds} (got ${leaseDurationSeconds})`;
}

/** Reports whether a holder "is reserved for administrator use". */
export function isAdministrator(holder: string): boolean {
  return holder.startsWith(ADMINISTRATOR_PREFIX);
}

/** Parses a time to milliseconds since 1970. Returns undefined for a missing or invalid time. */
export function timeOf(text: string | undefined): number | undefined {
  const time = Date.parse(text ?? '');
  return Number.isNaN(time) ? undefined : time;
}
