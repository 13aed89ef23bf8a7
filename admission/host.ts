import { isIPv6 } from 'node:net';

/** Normalizes a host: an IPv6 address has several spellings. */
export function canonicalHost(host: string): string {
  return isIPv6(host) ? new URL(`http://[${host}]`).hostname.slice(1, -1) : host.toLowerCase();
}
