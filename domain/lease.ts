import type { Lease } from '../api/core.ts';

/** "renewTime + leaseDurationSeconds + 3 seconds (to allow for some clock drift)" (KEP-1411 > Acquisition). Milliseconds. */
export const CLOCK_DRIFT = 3_000;
/** "Any value beginning with" it "is reserved for administrator use" (KEP-1411 > Acquisition). */
export const ADMINISTRATOR_PREFIX = 'kubeadm';
/** "As short as is reasonable, not to exceed 1 hour" (KEP-1411 > Acquisition). Seconds. */
const longestDuration = 3_600;
const longestHolder = 253;

/** Who has a node, as far as its maintenance Lease tells. Times are milliseconds since 1970. */
export type LeaseState =
  | { readonly kind: 'Missing' }
  /** It has no holder, or one that has released it. */
  | { readonly kind: 'Free' }
  /** `at` is missing where the holder never said when it renewed. Whoever wants it may take it. */
  | { readonly kind: 'Expired'; readonly holder: string; readonly at: number | undefined }
  | { readonly kind: 'Held'; readonly holder: string; readonly until: number }
  /** "Always considered held": an administrator need not renew. */
  | { readonly kind: 'HeldByAdministrator'; readonly holder: string };

/** The state as everybody but the holder has to see it (KEP-1411 > Acquisition). */
export function leaseStateOf(lease: Readonly<Lease> | undefined, now: number): LeaseState {
  if (lease === undefined) return { kind: 'Missing' };
  const { holderIdentity: holder = '', leaseDurationSeconds = 0 } = lease.spec;
  if (holder === '') return { kind: 'Free' };
  if (isAdministrator(holder)) return { kind: 'HeldByAdministrator', holder };
  const renewedAt = timeOf(lease.spec.renewTime);
  const until = renewedAt === undefined ? undefined : renewedAt + leaseDurationSeconds * 1_000 + CLOCK_DRIFT;
  if (until !== undefined && now <= until) return { kind: 'Held', holder, until };
  // "If the lease is still held, set leaseDurationSeconds to 0" (KEP-1411 > Release); an apiserver stores no 0, only nothing.
  return leaseDurationSeconds === 0 ? { kind: 'Free' } : { kind: 'Expired', holder, at: until };
}

/**
 * Whether the holder itself may still act: it stops before the others may begin, by the clock drift that they allow for.
 * `Held` by somebody is not enough to know that.
 */
export function isHeldBy(lease: Readonly<Lease> | undefined, holder: string, now: number): boolean {
  if (lease === undefined || holder === '' || lease.spec.holderIdentity !== holder) return false;
  const renewedAt = timeOf(lease.spec.renewTime);
  return renewedAt !== undefined && now < renewedAt + (lease.spec.leaseDurationSeconds ?? 0) * 1_000;
}

/** A client that wants Leases. */
export interface Claimant {
  readonly holder: string;
  /** Of every renewal. */
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

export type Claim =
  /** Write this, if the Lease is still as it was read: then it is the claimant's until `renewTime + leaseDurationSeconds`. */
  | { readonly kind: 'Acquire'; readonly term: LeaseTerm }
  | { readonly kind: 'Renew'; readonly term: LeaseTerm }
  /** `until` is missing for an administrator's hold. */
  | { readonly kind: 'HeldByAnother'; readonly holder: string; readonly until: number | undefined };

/** What a claimant does about a Lease that it has just read. */
export function claim(lease: Readonly<Lease> | undefined, claimant: Claimant, now: number): Claim {
  const { holder, leaseDurationSeconds } = claimant;
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

/** Whether there is something to release: also what has expired meanwhile, as long as nobody else took it. */
export function isReleasable(lease: Readonly<Lease> | undefined, holder: string): boolean {
  return holder !== '' && lease?.spec.holderIdentity === holder;
}

/** What is wrong with a claimant, with the remedy; undefined when nothing is. */
export function claimantProblem({ holder, leaseDurationSeconds }: Claimant): string | undefined {
  if (holder.trim() === '') return 'holder: expected a name that tells people who holds the node (got none)';
  if (holder.length > longestHolder)
    return `holder: expected at most ${longestHolder} characters (got ${holder.length})`;
  if (isAdministrator(holder))
    return `holder: "${holder}" begins with "${ADMINISTRATOR_PREFIX}", which KEP-1411 reserves for administrators; choose another name`;
  const isDuration =
    Number.isInteger(leaseDurationSeconds) &&
    leaseDurationSeconds >= 1 &&
    leaseDurationSeconds <= longestDuration;
  if (isDuration) return undefined;
  return `leaseDurationSeconds: expected a whole number from 1 to ${longestDuration} (got ${leaseDurationSeconds})`;
}

/** Whether a holder "is reserved for administrator use". */
export function isAdministrator(holder: string): boolean {
  return holder.startsWith(ADMINISTRATOR_PREFIX);
}

/** Milliseconds since 1970; undefined for what is missing or no time. */
export function timeOf(text: string | undefined): number | undefined {
  const time = Date.parse(text ?? '');
  return Number.isNaN(time) ? undefined : time;
}
