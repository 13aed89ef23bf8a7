import type { Lease } from '../api/core.ts';

/** Of a Lease that does not say for how long it counts: what our processes write. Seconds. */
const usualDuration = 3_600;
/** A renewal that is further ahead was written by hand, or by the clock of an apiserver that is wrong. Milliseconds. */
const furthestAhead = 60_000;
/** A process that lives misses fewer in a row. */
const manyRenewals = 6;
/** Longest value of a label. */
const longestValue = 63;

/** Whether a Lease that was `holder`'s is now another process's, which started later on the same host. */
export function isTakenOver({ spec: { holderIdentity = '' } }: Readonly<Lease>, holder: string): boolean {
  return holderIdentity !== '' && holderIdentity !== holder;
}

/**
 * Whether the process of an identity Lease is gone: it has not renewed it for as long as the Lease says. One that tells no
 * time, because people wrote it, counts from its creation. One of a time to come has not expired.
 */
export function isExpired(lease: Readonly<Lease>, now: Date): boolean {
  const renewed = Date.parse(lease.spec.renewTime ?? '');
  return hasPassed(Number.isNaN(renewed) ? createdAt(lease) : renewed, lease, now);
}

/**
 * Whether a Lease may be deleted, which one that is refreshed must not be. A time far ahead does not tell which one that is: such a
 * Lease counts from its creation, and must have been seen unchanged for `missedRenewals`.
 */
export function isCollectable(
  lease: Readonly<Lease>,
  { now, missedRenewals }: { readonly now: Date; readonly missedRenewals: number },
): boolean {
  if (isExpired(lease, now)) return true;
  const isAhead = Date.parse(lease.spec.renewTime ?? '') > now.getTime() + furthestAhead;
  return isAhead && missedRenewals >= manyRenewals && hasPassed(createdAt(lease), lease, now);
}

function createdAt({ metadata }: Readonly<Lease>): number {
  return Date.parse(metadata.creationTimestamp ?? '');
}

function hasPassed(since: number, { spec }: Readonly<Lease>, now: Date): boolean {
  return since + (spec.leaseDurationSeconds ?? usualDuration) * 1_000 < now.getTime();
}

/** The hostname where it can be the value of a label, else what of it can: other characters become `-`, and its end is cut off. */
export function hostnameLabel(hostname: string): string {
  return hostname
    .replaceAll(/[^A-Za-z0-9_.-]/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, longestValue)
    .replace(/[^A-Za-z0-9]+$/, '');
}
