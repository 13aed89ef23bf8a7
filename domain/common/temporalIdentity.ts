import { cut } from './text.ts';

const maxLength = 200;

/**
 * Returns how a Temporal client is recorded. A client declares its identity itself, so it is marked as unverified and never takes the form of a
 * Kubernetes user. Control characters, which could change what a terminal shows, are replaced.
 */
export function unverifiedIdentity(identity: string): string {
  const printable = identity.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
  return `unverified Temporal identity: ${cut(printable, maxLength)}`;
}
