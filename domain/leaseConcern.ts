import type { Lease } from '../api/core.ts';
import { ADMINISTRATOR_PREFIX, CLOCK_DRIFT, isAdministrator, leaseStateOf, timeOf } from './lease.ts';

/** "Renewals in intervals of less than 1 hour" (KEP-1411 > Acquisition, Risks and Mitigations). Milliseconds. */
const longestSilence = 3_600_000;
const longestHolder = 253;
/** The last moment that a Date knows. Milliseconds since 1970. */
const lastDate = 8.64e15;

export type LeaseConcernReason =
  /** Its time ran out without a release: the holder crashed, was deleted, or forgot it. */
  | 'StoppedRenewing'
  /** It still has time, and was not renewed within the hour that KEP-1411 allows. */
  | 'NotRenewedForAnHour'
  /** It has a holder and no time, which keeps nobody away: most likely a person who did not know of the prefix. */
  | 'NeverRenewed'
  /** By a clock that is ahead; it blocks the node for longer than its holder meant. */
  | 'RenewedInTheFuture';

/** Why somebody should look after a Lease. */
export interface LeaseConcern {
  readonly reason: LeaseConcernReason;
  /** At most 253 characters of it. */
  readonly holder: string;
  /** Milliseconds since 1970; undefined where the Lease does not tell. */
  readonly since: number | undefined;
  /** For people, with the remedy; the same for as long as the Lease does not change. */
  readonly message: string;
}

/**
 * What is wrong with the hold of a Lease: "definitive monitoring and alerting boundaries of abandoned leases" (KEP-1411 > Risks
 * and Mitigations). An administrator's hold is no concern, however old. `now` is milliseconds since 1970.
 */
export function concernOf(lease: Readonly<Lease> | undefined, now: number): LeaseConcern | undefined {
  const { holderIdentity = '', renewTime, acquireTime } = lease?.spec ?? {};
  if (holderIdentity === '' || isAdministrator(holderIdentity)) return undefined;
  const holder = holderIdentity.slice(0, longestHolder);
  const who = JSON.stringify(holder);
  const renewedAt = timeOf(renewTime);
  const acquiredAt = timeOf(acquireTime);
  const acquired = acquiredAt !== undefined && acquiredAt <= now ? acquiredAt : undefined;
  if (renewedAt === undefined) {
    const message = `${who} is the holder of the maintenance Lease and never renewed it, so it keeps nobody off the node. People begin the holder with "${ADMINISTRATOR_PREFIX}"; clients set all fields.`;
    return { reason: 'NeverRenewed', holder, since: acquired, message };
  }
  const state = leaseStateOf(lease, now);
  if (state.kind === 'Expired') {
    const message = `${who} stopped renewing the maintenance Lease and did not release it; it expired at ${timeText(state.at)}. See what it left undone on the node; whoever wants the Lease may take it.`;
    return { reason: 'StoppedRenewing', holder, since: state.at, message };
  }
  if (state.kind !== 'Held') return undefined;
  const until = timeText(state.until);
  if (renewedAt > now + CLOCK_DRIFT) {
    const message = `${who} renewed the maintenance Lease at ${timeText(renewedAt)}, which is still to come: set the clock of its host right. The node is blocked until ${until}.`;
    return { reason: 'RenewedInTheFuture', holder, since: acquired, message };
  }
  if (now <= renewedAt + longestSilence) return undefined;
  const message = `${who} renewed the maintenance Lease at ${timeText(renewedAt)} and not again within an hour. The node is blocked until ${until}; if the holder is gone, take its name from the Lease.`;
  return { reason: 'NotRenewedForAnHour', holder, since: renewedAt + longestSilence, message };
}

/** When the concern may next be another one although nobody changes the Lease; undefined when never. Milliseconds since 1970. */
export function concernChangesAt(lease: Readonly<Lease>, now: number): number | undefined {
  const renewedAt = timeOf(lease.spec.renewTime);
  if (renewedAt === undefined) return undefined;
  const state = leaseStateOf(lease, now);
  if (state.kind !== 'Held') return undefined;
  const changes = [renewedAt - CLOCK_DRIFT, renewedAt + longestSilence + 1, Math.floor(state.until) + 1];
  const ahead = changes.filter((at) => at > now);
  return ahead.length === 0 ? undefined : Math.min(...ahead);
}

function timeText(time: number | undefined): string {
  const isDate = time !== undefined && Math.abs(time) <= lastDate;
  return isDate ? new Date(time).toISOString() : 'a time that no calendar knows';
}
