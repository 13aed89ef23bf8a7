import type { Lease } from '../../api/core.ts';
import { administratorHoldOf } from './administrator.ts';
import { leaseStateOf } from './lease.ts';
import { leaseProblemOf } from './abandoned.ts';

/** The maintenance Lease of one node, as the CLI shows it. Times are RFC 3339; fields that the Lease does not have are omitted. */
export interface LeaseSummary {
  readonly node: string;
  /** Missing: the node has no Lease. Abandoned: the holder stopped renewing, or never renewed. */
  readonly state: 'Missing' | 'Free' | 'Held' | 'HeldByAdministrator' | 'Abandoned';
  readonly holder?: string;
  /** The reason that an administrator gave. */
  readonly reason?: string;
  readonly acquireTime?: string;
  readonly renewTime?: string;
  /** Time from which other clients may acquire the Lease. */
  readonly expireTime?: string;
  readonly leaseDurationSeconds?: number;
  readonly leaseTransitions?: number;
  readonly problem?: { readonly reason: string; readonly message: string };
}

const maxDateMs = 8.64e15;

/** Summarizes any Lease that an apiserver stores. `now` is milliseconds since 1970. */
export function summaryOf(node: string, lease: Readonly<Lease> | undefined, now: number): LeaseSummary {
  if (lease === undefined) return { node, state: 'Missing' };
  const { holderIdentity = '', acquireTime, renewTime, leaseDurationSeconds, leaseTransitions } = lease.spec;
  const problem = leaseProblemOf(lease, now);
  const expireTime = expiryOf(lease, now);
  const reason = administratorHoldOf(holderIdentity)?.reason;
  return {
    node,
    state: stateOf(lease, now),
    ...(holderIdentity !== '' && { holder: holderIdentity }),
    ...(reason !== undefined && { reason }),
    ...(acquireTime !== undefined && { acquireTime }),
    ...(renewTime !== undefined && { renewTime }),
    ...(expireTime !== undefined && { expireTime }),
    ...(leaseDurationSeconds !== undefined && { leaseDurationSeconds }),
    ...(leaseTransitions !== undefined && { leaseTransitions }),
    ...(problem !== undefined && { problem: { reason: problem.reason, message: problem.message } }),
  };
}

function stateOf(lease: Readonly<Lease>, now: number): LeaseSummary['state'] {
  const state = leaseStateOf(lease, now);
  if (state.kind === 'HeldByAdministrator') return 'HeldByAdministrator';
  const problem = leaseProblemOf(lease, now)?.reason;
  if (problem !== undefined && problem !== 'RenewedInTheFuture') return 'Abandoned';
  return state.kind === 'Held' ? 'Held' : 'Free';
}

function expiryOf(lease: Readonly<Lease>, now: number): string | undefined {
  const state = leaseStateOf(lease, now);
  const at = state.kind === 'Held' ? state.until : state.kind === 'Expired' ? state.at : undefined;
  return at === undefined || Math.abs(at) > maxDateMs ? undefined : new Date(at).toISOString();
}
