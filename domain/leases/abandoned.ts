import type { Lease } from '../../api/core.ts';
import { oneLine } from '../common/text.ts';
import { ADMINISTRATOR_PREFIX, CLOCK_DRIFT_MS, isAdministrator, leaseStateOf, timeOf } from './lease.ts';

/** "Renewals in intervals of less than 1 hour" (KEP-1411 > Acquisition, Risks and Mitigations). */
const maxRenewalIntervalMs = 3_600_000;
const maxHolderLength = 253;
/** The last time that a Date can represent, in milliseconds since 1970. */
const maxDateMs = 8.64e15;

export type LeaseProblemReason =
  /** The Lease expired without a release: the holder crashed, was deleted, or has a bug. */
  | 'StoppedRenewing'
  /** The Lease has not expired, but was not renewed within the hour that KEP-1411 allows. */
  | 'NotRenewedForAnHour'
  /** The Lease has a holder and no renewTime, so it blocks no client: most likely an administrator did not know the prefix. */
  | 'NeverRenewed'
  /** The clock of the holder is ahead, so the Lease blocks the node for longer than intended. */
  | 'RenewedInTheFuture';

/** A problem of a Lease that requires the attention of an operator. */
export interface LeaseProblem {
  readonly reason: LeaseProblemReason;
  /** Holder of the Lease, truncated to 253 characters. */
  readonly holder: string;
  /** Start of the problem in milliseconds since 1970; undefined if the Lease does not contain it. */
  readonly since: number | undefined;
  /** Contains the remedy. It stays the same until the Lease changes. */
  readonly message: string;
}

/**
 * Returns the problem of a held Lease: "definitive monitoring and alerting boundaries of abandoned leases" (KEP-1411 > Risks and
 * Mitigations). A Lease held by an administrator is no problem, regardless of its age. `now` is milliseconds since 1970.
 */
export function leaseProblemOf(lease: Readonly<Lease> | undefined, now: number): LeaseProblem | undefined {
  const { holderIdentity = '', renewTime, acquireTime } = lease?.spec ?? {};
  if (holderIdentity === '' || isAdministrator(holderIdentity)) return undefined;
  const holder = oneLine(holderIdentity, maxHolderLength);
  const quoted = JSON.stringify(holder);
  const renewedAt = timeOf(renewTime);
  const acquiredAt = timeOf(acquireTime);
  const acquired = acquiredAt !== undefined && acquiredAt <= now ? acquiredAt : undefined;
  if (renewedAt === undefined) {
    const message = `${quoted} is the holder of the maintenance Lease but has never renewed it, so the Lease does not block the node. Administrators must start the holder with "${ADMINISTRATOR_PREFIX}"; clients must set all fields.`;
    return { reason: 'NeverRenewed', holder, since: acquired, message };
  }
  const state = leaseStateOf(lease, now);
  if (state.kind === 'Expired') {
    const message = `${quoted} stopped renewing the maintenance Lease and did not release it; it expired at ${timeText(state.at)}. Check the node for unfinished work; any client may now acquire the Lease.`;
    return { reason: 'StoppedRenewing', holder, since: state.at, message };
  }
  if (state.kind !== 'Held') return undefined;
  const until = timeText(state.until);
  if (renewedAt > now + CLOCK_DRIFT_MS) {
    const message = `${quoted} renewed the maintenance Lease at ${timeText(renewedAt)}, which is in the future: correct the clock of its host. The node is blocked until ${until}.`;
    return { reason: 'RenewedInTheFuture', holder, since: acquired, message };
  }
  if (now <= renewedAt + maxRenewalIntervalMs) return undefined;
  const message = `${quoted} renewed the maintenance Lease at ${timeText(renewedAt)} and has not renewed it for more than an hour. The node is blocked until ${until}; if the holder no longer runs, remove holderIdentity from the Lease.`;
  return { reason: 'NotRenewedForAnHour', holder, since: renewedAt + maxRenewalIntervalMs, message };
}

/** Returns the next time at which the problem may change although the Lease does not, in milliseconds since 1970; undefined if never. */
export function leaseProblemChangesAt(lease: Readonly<Lease>, now: number): number | undefined {
  const renewedAt = timeOf(lease.spec.renewTime);
  if (renewedAt === undefined) return undefined;
  const state = leaseStateOf(lease, now);
  if (state.kind !== 'Held') return undefined;
  const changes = [
    renewedAt - CLOCK_DRIFT_MS,
    renewedAt + maxRenewalIntervalMs + 1,
    Math.floor(state.until) + 1,
  ];
  const ahead = changes.filter((at) => at > now);
  return ahead.length === 0 ? undefined : Math.min(...ahead);
}

function timeText(time: number | undefined): string {
  const isDate = time !== undefined && Math.abs(time) <= maxDateMs;
  return isDate ? new Date(time).toISOString() : 'an invalid time';
}
