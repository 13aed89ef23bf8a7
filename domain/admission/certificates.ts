/** Decides when the certificates of the admission server are issued, used and dropped. Times are milliseconds since the epoch. */

export interface Validity {
  notBefore: number;
  notAfter: number;
}

/** The stored certificates: the trusted authorities, oldest first, and the serving certificate. */
export interface Issued {
  authorities: readonly Validity[];
  serving: (Validity & { issuer: number | undefined; hosts: readonly string[] }) | undefined;
}

export interface Lifetimes {
  authorityMs: number;
  servingMs: number;
  /** Time for which a new authority is trusted before it signs: until then the apiserver may not know it. */
  settleMs: number;
  /** The maximum time by which another clock is behind. */
  skewMs: number;
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

export const defaultLifetimes: Lifetimes = {
  authorityMs: 90 * day,
  servingMs: 3 * day,
  settleMs: hour,
  skewMs: 5 * minute,
};

export type CertificateStep =
  | { kind: 'DropAuthority'; authority: number }
  | { kind: 'IssueAuthority' }
  | { kind: 'IssueServing'; authority: number }
  | { kind: 'Wait'; until: number };

/**
 * Returns the next step that keeps the serving certificate trusted at all times: an authority is renewed after two thirds of its
 * lifetime, both authorities are trusted until the old one expires, and the new one signs after `settleMs`.
 */
export function nextCertificateStep(
  { authorities, serving }: Issued,
  hosts: readonly string[],
  lifetimes: Lifetimes,
  now: number,
): CertificateStep {
  const expired = authorities.findIndex((authority) => authority.notAfter <= now);
  if (expired !== -1) return { kind: 'DropAuthority', authority: expired };
  const newest = authorities.at(-1);
  if (newest === undefined || renewalOf(newest) <= now || !canSign(newest, lifetimes, now))
    return { kind: 'IssueAuthority' };
  const signer = signerOf(authorities, lifetimes, now);
  if (serving === undefined || renewalOf(serving) <= now) return { kind: 'IssueServing', authority: signer };
  const isOfSigner = serving.issuer === signer && hosts.every((host) => serving.hosts.includes(host));
  if (!isOfSigner) return { kind: 'IssueServing', authority: signer };
  return { kind: 'Wait', until: Math.min(...changesAfter(now, { authorities, serving }, lifetimes)) };
}

/** Returns the newest authority that has been trusted for `settleMs` and can sign, or the next one that can. The newest always can. */
function signerOf(authorities: readonly Validity[], lifetimes: Lifetimes, now: number): number {
  const settled = authorities.findLastIndex(({ notBefore }) => notBefore + lifetimes.settleMs <= now);
  return authorities.findIndex((authority, i) => i >= settled && canSign(authority, lifetimes, now));
}

/** Returns false for an authority so close to its expiry that a certificate signed by it would be due for renewal at once. */
function canSign(authority: Validity, lifetimes: Lifetimes, now: number): boolean {
  return renewalOf(servingValidity(authority, lifetimes, now)) > now;
}

/** Returns the time after two thirds of the lifetime: the last third is for retries. */
function renewalOf({ notBefore, notAfter }: Validity): number {
  return notBefore + ((notAfter - notBefore) * 2) / 3;
}

function changesAfter(now: number, { authorities, serving }: Issued, { settleMs }: Lifetimes): number[] {
  const times = authorities.flatMap((authority) => [
    authority.notBefore + settleMs,
    renewalOf(authority),
    authority.notAfter,
  ]);
  return [...times, ...(serving === undefined ? [] : [renewalOf(serving)])].filter((time) => time > now);
}

export function authorityValidity({ authorityMs, skewMs }: Lifetimes, now: number): Validity {
  return wholeSeconds({ notBefore: now - skewMs, notAfter: now + authorityMs });
}

/** Limits the validity to that of the authority. */
export function servingValidity(
  authority: Validity,
  { servingMs, skewMs }: Lifetimes,
  now: number,
): Validity {
  return wholeSeconds({ notBefore: now - skewMs, notAfter: Math.min(now + servingMs, authority.notAfter) });
}

/** Rounds to whole seconds, as certificates do: the decision matches the certificate that is issued from it. */
function wholeSeconds({ notBefore, notAfter }: Validity): Validity {
  const floor = (time: number) => Math.floor(time / second) * second;
  return { notBefore: floor(notBefore), notAfter: floor(notAfter) };
}
