import type { Lease } from '../../api/core.ts';
import { ADMINISTRATOR_PREFIX, leaseStateOf, type LeaseTerm, timeOf } from './lease.ts';

/**
 * A node that an administrator holds, with a holder identity "beginning with kubeadm" (KEP-1411 > Acquisition):
 * `kubeadm:<user>@<host>: <reason>`. It does not expire.
 */
export interface AdministratorHold extends Administrator {
  readonly reason: string;
}

/** The host is part of the identity: all users of one kubeconfig may be the same user, `kubernetes-admin`. */
export interface Administrator {
  readonly user: string;
  readonly host: string;
}

/** The reason is shown to all clients that wait for the node. */
const maxReasonLength = 200;
/** Has no effect, but "all fields" are set: the maximum that KEP-1411 allows. */
const leaseDurationSeconds = 3_600;
const format = new RegExp(`^${ADMINISTRATOR_PREFIX}:(?<user>.+?)@(?<host>[^@:\\s]+): (?<reason>.*)$`, 's');

export function holderIdentityOf({ user, host, reason }: AdministratorHold): string {
  return `${ADMINISTRATOR_PREFIX}:${user}@${host}: ${reason}`;
}

/** Parses a holder identity. Returns undefined for another format, for example `kubeadm` alone. */
export function administratorHoldOf(holder: string): AdministratorHold | undefined {
  const { user, host, reason } = format.exec(holder)?.groups ?? {};
  return user === undefined || host === undefined || reason === undefined
    ? undefined
    : { user, host, reason };
}

/** Returns the problem of an invalid reason and how to fix it, or undefined. */
export function reasonProblem(reason: string): string | undefined {
  if (reason.trim() === '') return 'required; describe why you hold the node';
  if (/\p{Cc}/u.test(reason)) return 'expected one line of text';
  if (reason.length <= maxReasonLength) return undefined;
  return `expected at most ${maxReasonLength} characters (got ${reason.length})`;
}

/** Another client or administrator holds the node. `until` is milliseconds since 1970, and undefined for an administrator. */
export interface HeldByAnother {
  readonly kind: 'HeldByAnother';
  readonly holder: string;
  readonly until: number | undefined;
}

/** The holder before the Lease was acquired. */
export interface PreviousHolder {
  readonly holder: string;
  /** The holder still held the Lease, which was therefore acquired by force. */
  readonly isForced: boolean;
}

export type AdministratorAcquisitionDecision =
  | {
      readonly kind: 'Acquire';
      readonly term: LeaseTerm;
      readonly previous: PreviousHolder | undefined;
    }
  | HeldByAnother;

/** Decides whether an administrator acquires a Lease. With `force` the current holder loses it. */
export function decideAdministratorAcquisition(
  lease: Readonly<Lease> | undefined,
  hold: AdministratorHold,
  { force, now }: { readonly force: boolean; readonly now: number },
): AdministratorAcquisitionDecision {
  const { holderIdentity: before = '', leaseTransitions, acquireTime } = lease?.spec ?? {};
  const isOwn = isHoldOf(before, hold);
  const another = isOwn ? undefined : currentHolder(lease, now);
  if (another !== undefined && !force) return another;
  const isFirst = before === '' && leaseTransitions === undefined;
  const term: LeaseTerm = {
    holderIdentity: holderIdentityOf(hold),
    leaseDurationSeconds,
    acquireTime: new Date((isOwn ? timeOf(acquireTime) : undefined) ?? now),
    renewTime: new Date(now),
    leaseTransitions: (leaseTransitions ?? 0) + (isOwn || isFirst ? 0 : 1),
  };
  const isOther = before !== '' && before !== term.holderIdentity;
  return {
    kind: 'Acquire',
    term,
    previous: isOther ? { holder: before, isForced: another !== undefined } : undefined,
  };
}

export type AdministratorRelease =
  | { readonly kind: 'Release'; readonly holder: string }
  | { readonly kind: 'NotHeld' }
  | HeldByAnother;

/**
 * Decides whether an administrator may release a Lease: their own, one without a user (`kubeadm` alone), or an expired one. With
 * `force` they may release any Lease.
 */
export function decideAdministratorRelease(
  lease: Readonly<Lease>,
  administrator: Administrator,
  { force, now }: { readonly force: boolean; readonly now: number },
): AdministratorRelease {
  const { holderIdentity: holder = '' } = lease.spec;
  if (holder === '') return { kind: 'NotHeld' };
  const isOurs = holder === ADMINISTRATOR_PREFIX || isHoldOf(holder, administrator);
  const another = isOurs ? undefined : currentHolder(lease, now);
  return another === undefined || force ? { kind: 'Release', holder } : another;
}

function isHoldOf(holder: string, { user, host }: Administrator): boolean {
  const hold = administratorHoldOf(holder);
  return hold?.user === user && hold.host === host;
}

function currentHolder(lease: Readonly<Lease> | undefined, now: number): HeldByAnother | undefined {
  const state = leaseStateOf(lease, now);
  if (state.kind === 'Held') return { kind: 'HeldByAnother', holder: state.holder, until: state.until };
  if (state.kind !== 'HeldByAdministrator') return undefined;
  return { kind: 'HeldByAnother', holder: state.holder, until: undefined };
}
