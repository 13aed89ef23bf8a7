import { isIPv6 } from 'node:net';

/** One spelling for each host: an IPv6 address has many. */
export function canonicalHost(host: string): string {
  return isIPv6(host) ? new URL(`http://[${host}]`).hostname.slice(1, -1) : host.toLowerCase();
}
