/** When certificates of the admission server are issued, used and dropped. Times are milliseconds since the epoch. */

export interface Validity {
  notBefore: number;
  notAfter: number;
}

/** What is in store: the authorities that are trusted, oldest first, and the certificate that is served. */
export interface Issued {
  authorities: readonly Validity[];
  serving: (Validity & { issuer: number | undefined; hosts: readonly string[] }) | undefined;
}

export interface Lifetimes {
  authorityMs: number;
  servingMs: number;
  /** How long a new authority is only trusted, before it signs: until then the apiserver may not know it. */
  settleMs: number;
  /** How much a clock elsewhere may be behind ours. */
  skewMs: number;
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

export const usualLifetimes: Lifetimes = {
  authorityMs: 90 * day,
  servingMs: 3 * day,
  settleMs: hour,
  skewMs: 5 * minute,
};

export type CertificateStep =
  | { kind: 'DropAuthority'; authority: number }
  | { kind: 'IssueAuthority' }
  | { kind: 'IssueServing'; authority: number }
  /** Nothing is to be done before. */
  | { kind: 'Rest'; until: number };

/**
 * The next step towards certificates that everybody trusts, all the time: an authority is renewed at two thirds of its
 * life, both are trusted while the old one lasts, and the new one signs once it has been trusted for a while.
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
  return { kind: 'Rest', until: Math.min(...turnsAfter(now, { authorities, serving }, lifetimes)) };
}

/** The newest authority that has been trusted for a while, or the first after it that can sign; the newest of all can. */
function signerOf(authorities: readonly Validity[], lifetimes: Lifetimes, now: number): number {
  const settled = authorities.findLastIndex(({ notBefore }) => notBefore + lifetimes.settleMs <= now);
  return authorities.findIndex((authority, i) => i >= settled && canSign(authority, lifetimes, now));
}

/** Not so near its end that whatever it signs is due for renewal at once. */
function canSign(authority: Validity, lifetimes: Lifetimes, now: number): boolean {
  return renewalOf(servingValidity(authority, lifetimes, now)) > now;
}

/** "Two thirds of its life": the rest is for whatever keeps us from renewing it. */
function renewalOf({ notBefore, notAfter }: Validity): number {
  return notBefore + ((notAfter - notBefore) * 2) / 3;
}

function turnsAfter(now: number, { authorities, serving }: Issued, { settleMs }: Lifetimes): number[] {
  const turns = authorities.flatMap((authority) => [
    authority.notBefore + settleMs,
    renewalOf(authority),
    authority.notAfter,
  ]);
  return [...turns, ...(serving === undefined ? [] : [renewalOf(serving)])].filter((turn) => turn > now);
}

export function authorityValidity({ authorityMs, skewMs }: Lifetimes, now: number): Validity {
  return wholeSeconds({ notBefore: now - skewMs, notAfter: now + authorityMs });
}

/** A certificate that outlives its authority would be of no use. */
export function servingValidity(
  authority: Validity,
  { servingMs, skewMs }: Lifetimes,
  now: number,
): Validity {
  return wholeSeconds({ notBefore: now - skewMs, notAfter: Math.min(now + servingMs, authority.notAfter) });
}

/** A certificate knows no others: what is decided here is what will be read from it. */
function wholeSeconds({ notBefore, notAfter }: Validity): Validity {
  const floor = (time: number) => Math.floor(time / second) * second;
  return { notBefore: floor(notBefore), notAfter: floor(notAfter) };
}
