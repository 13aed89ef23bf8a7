import type { Lease } from '../api/core.ts';
import { ADMINISTRATOR_PREFIX, leaseStateOf, type LeaseTerm, timeOf } from './lease.ts';

/**
 * A node that a person holds by hand, by a holder identity "beginning with kubeadm" (KEP-1411 > Acquisition):
 * `kubeadm:<user>@<host>: <reason>`. It does not expire.
 */
export interface AdministratorHold extends Administrator {
  readonly reason: string;
}

/** The host belongs to it: whoever has the kubeconfig of a cluster may be the same user, `kubernetes-admin`. */
export interface Administrator {
  readonly user: string;
  readonly host: string;
}

/** Whoever else wants the node sees this, so it is kept short. */
const longestReason = 200;
/** Means nothing, but "all fields" are set: the most that KEP-1411 allows to clients. */
const leaseDurationSeconds = 3_600;
const format = new RegExp(`^${ADMINISTRATOR_PREFIX}:(?<user>.+?)@(?<host>[^@:\\s]+): (?<reason>.*)$`, 's');

export function holderOf({ user, host, reason }: AdministratorHold): string {
  return `${ADMINISTRATOR_PREFIX}:${user}@${host}: ${reason}`;
}

/** Undefined for what was written in another way, for example `kubeadm` alone. */
export function administratorHoldOf(holder: string): AdministratorHold | undefined {
  const { user, host, reason } = format.exec(holder)?.groups ?? {};
  return user === undefined || host === undefined || reason === undefined
    ? undefined
    : { user, host, reason };
}

/** What is wrong with a reason, with the remedy; undefined when nothing is. */
export function reasonProblem(reason: string): string | undefined {
  if (reason.trim() === '') return 'say why you hold the node (got none)';
  if (/\p{Cc}/u.test(reason)) return 'expected one line of text';
  if (reason.length <= longestReason) return undefined;
  return `expected at most ${longestReason} characters (got ${reason.length})`;
}

/** Somebody else has the node; `until` is missing for an administrator's hold. Milliseconds since 1970. */
export interface HeldByAnother {
  readonly kind: 'HeldByAnother';
  readonly holder: string;
  readonly until: number | undefined;
}

/** What the Lease said before, if that was something else. */
export interface Predecessor {
  readonly holder: string;
  /** Its hold ends by force. */
  readonly isOusted: boolean;
}

export type AdministratorClaim =
  | { readonly kind: 'Take'; readonly term: LeaseTerm; readonly from: Predecessor | undefined }
  | HeldByAnother;

/** What becomes of a Lease that an administrator wants; by force whoever has it. */
export function claimByAdministrator(
  lease: Readonly<Lease> | undefined,
  hold: AdministratorHold,
  { force, now }: { readonly force: boolean; readonly now: number },
): AdministratorClaim {
  const { holderIdentity: before = '', leaseTransitions, acquireTime } = lease?.spec ?? {};
  const isOwn = isHoldOf(before, hold);
  const another = isOwn ? undefined : holderNow(lease, now);
  if (another !== undefined && !force) return another;
  const isFirst = before === '' && leaseTransitions === undefined;
  const term: LeaseTerm = {
    holderIdentity: holderOf(hold),
    leaseDurationSeconds,
    acquireTime: new Date((isOwn ? timeOf(acquireTime) : undefined) ?? now),
    renewTime: new Date(now),
    leaseTransitions: (leaseTransitions ?? 0) + (isOwn || isFirst ? 0 : 1),
  };
  const isOther = before !== '' && before !== term.holderIdentity;
  return {
    kind: 'Take',
    term,
    from: isOther ? { holder: before, isOusted: another !== undefined } : undefined,
  };
}

export type AdministratorRelease =
  | { readonly kind: 'Release'; readonly holder: string }
  | { readonly kind: 'NotHeld' }
  | HeldByAnother;

/**
 * Whether an administrator may release a Lease: their own hold, one that names nobody (`kubeadm` alone), and what has
 * expired; by force everything.
 */
export function releaseByAdministrator(
  lease: Readonly<Lease>,
  administrator: Administrator,
  { force, now }: { readonly force: boolean; readonly now: number },
): AdministratorRelease {
  const { holderIdentity: holder = '' } = lease.spec;
  if (holder === '') return { kind: 'NotHeld' };
  const isOurs = holder === ADMINISTRATOR_PREFIX || isHoldOf(holder, administrator);
  const another = isOurs ? undefined : holderNow(lease, now);
  return another === undefined || force ? { kind: 'Release', holder } : another;
}

function isHoldOf(holder: string, { user, host }: Administrator): boolean {
  const hold = administratorHoldOf(holder);
  return hold?.user === user && hold.host === host;
}

function holderNow(lease: Readonly<Lease> | undefined, now: number): HeldByAnother | undefined {
  const state = leaseStateOf(lease, now);
  if (state.kind === 'Held') return { kind: 'HeldByAnother', holder: state.holder, until: state.until };
  if (state.kind !== 'HeldByAdministrator') return undefined;
  return { kind: 'HeldByAnother', holder: state.holder, until: undefined };
}
