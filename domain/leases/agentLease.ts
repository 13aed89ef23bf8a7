import type { Lease } from '../../api/core.ts';
import { isExpired } from './identityLease.ts';

/** Reports whether the agent of a node runs: it renews its identity Lease, and has not released it. `now` is the apiserver's time. */
export function isAgentRunning(lease: Readonly<Lease> | undefined, now: Date): boolean {
  return lease !== undefined && (lease.spec.holderIdentity ?? '') !== '' && !isExpired(lease, now);
}
