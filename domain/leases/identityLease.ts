import type { Lease } from '../../api/core.ts';
import type { IdentityAnnotation } from '../../api/names.ts';

/** The duration that our processes write, assumed for a Lease without one. */
const defaultDurationSeconds = 3_600;
const renewIntervalAnnotation: typeof IdentityAnnotation.RenewIntervalSeconds =
  'nodemaintenance.k8s.io/renew-interval-seconds';
/** Assumed for a Lease that does not contain a valid one. */
const defaultRenewIntervalSeconds = 10;
/** The longest that the settings accept. */
const maxRenewIntervalSeconds = 3_600;
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
 * show that: such a Lease counts from its creation, and must have stayed unchanged for several renewals.
 */
export function isCollectable(
  lease: Readonly<Lease>,
  { now, unchangedForMs }: { readonly now: Date; readonly unchangedForMs: number },
): boolean {
  if (isExpired(lease, now)) return true;
  const isAhead = Date.parse(lease.spec.renewTime ?? '') > now.getTime() + maxAheadMs;
  const isSilent = unchangedForMs >= maxMissedRenewals * renewIntervalSecondsOf(lease) * 1_000;
  return isAhead && isSilent && hasPassed(createdAt(lease), lease, now);
}

/** Returns the interval in which the process of the Lease renews it. */
export function renewIntervalSecondsOf({ metadata: { annotations = {} } }: Readonly<Lease>): number {
  const seconds = Number(annotations[renewIntervalAnnotation]);
  return seconds > 0 && seconds <= maxRenewIntervalSeconds ? seconds : defaultRenewIntervalSeconds;
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

/**
 * The holder of an identity Lease ends with a UUID that is new for each start of a process; the identity of the process in Temporal ends with the
 * first digits of that UUID.
 */
const startIdPattern = /_([0-9a-f]{8})(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?$/;

/** Returns what identifies the start of the process that has this identity, in Leases or in Temporal; undefined for any other identity. */
export function startIdOf(identity: string): string | undefined {
  return startIdPattern.exec(identity)?.[1];
}

/** Returns the identity of a process in Temporal. It differs for a process that starts again under the same PID in the same pod. */
export function temporalIdentity(process: string, uuid: string): string {
  return `${process}_${uuid.slice(0, 8)}`;
}

/** Returns an identity as users know the process: `<pid>@<hostname>`. */
export function processOf(identity: string): string {
  return identity.replace(startIdPattern, '');
}
