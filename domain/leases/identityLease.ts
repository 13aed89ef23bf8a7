import type { Lease } from '../../api/core.ts';

/** The duration that our processes write, assumed for a Lease without one. */
const defaultDurationSeconds = 3_600;
/** A renewTime further in the future was written by a user, or by an apiserver with a wrong clock. */
const maxAheadMs = 60_000;
/** A live process misses fewer renewals in a row. */
const maxMissedRenewals = 6;
const maxLabelValueLength = 63;

/** Reports whether the Lease of `holder` is now held by another process, which started later on the same host. */
export function isTakenOver({ spec: { holderIdentity = '' } }: Readonly<Lease>, holder: string): boolean {
  return holderIdentity !== '' && holderIdentity !== holder;
}

/**
 * Reports whether an identity Lease has expired: its process has not renewed it within the duration. A Lease without a valid renewTime
 * counts from its creation. A Lease with a renewTime in the future has not expired.
 */
export function isExpired(lease: Readonly<Lease>, now: Date): boolean {
  const renewed = Date.parse(lease.spec.renewTime ?? '');
  return hasPassed(Number.isNaN(renewed) ? createdAt(lease) : renewed, lease, now);
}

/**
 * Reports whether a Lease may be deleted, which must never happen to one that is still renewed. A renewTime far in the future does not
 * show that: such a Lease counts from its creation, and must have stayed unchanged for `missedRenewals` renewals.
 */
export function isCollectable(
  lease: Readonly<Lease>,
  { now, missedRenewals }: { readonly now: Date; readonly missedRenewals: number },
): boolean {
  if (isExpired(lease, now)) return true;
  const isAhead = Date.parse(lease.spec.renewTime ?? '') > now.getTime() + maxAheadMs;
  return isAhead && missedRenewals >= maxMissedRenewals && hasPassed(createdAt(lease), lease, now);
}

function createdAt({ metadata }: Readonly<Lease>): number {
  return Date.parse(metadata.creationTimestamp ?? '');
}

function hasPassed(since: number, { spec }: Readonly<Lease>, now: Date): boolean {
  return since + (spec.leaseDurationSeconds ?? defaultDurationSeconds) * 1_000 < now.getTime();
}

/** Converts a hostname to a label value: invalid characters become `-`, and the end is truncated. */
export function hostnameLabel(hostname: string): string {
  return hostname
    .replaceAll(/[^A-Za-z0-9_.-]/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, maxLabelValueLength)
    .replace(/[^A-Za-z0-9]+$/, '');
}
