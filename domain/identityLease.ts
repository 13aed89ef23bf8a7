import type { Lease } from '../api/core.ts';

/** Of a Lease that does not say for how long it counts: what our processes write. Seconds. */
const usualDuration = 3_600;
/** Renewals follow the apiserver's clock, within a second or two: one that is further ahead was never made. Milliseconds. */
const furthestAhead = 60_000;
/** Longest value of a label. */
const longestValue = 63;

/** Whether a Lease that was `holder`'s is now another process's, which started later on the same host. */
export function isTakenOver({ spec: { holderIdentity = '' } }: Readonly<Lease>, holder: string): boolean {
  return holderIdentity !== '' && holderIdentity !== holder;
}

/**
 * Whether the process of an identity Lease is gone: it has not renewed it for as long as the Lease says. One that tells no
 * sensible time, because people wrote it, counts from its creation.
 */
export function isExpired({ metadata, spec }: Readonly<Lease>, now: Date): boolean {
  const renewed = Date.parse(spec.renewTime ?? '');
  const isSensible = renewed <= now.getTime() + furthestAhead;
  const since = isSensible ? renewed : Date.parse(metadata.creationTimestamp ?? '');
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
