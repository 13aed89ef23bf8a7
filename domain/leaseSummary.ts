import type { Lease } from '../api/core.ts';
import { administratorHoldOf } from './administrator.ts';
import { leaseStateOf } from './lease.ts';
import { concernOf } from './leaseConcern.ts';

/** The maintenance Lease of one node, for people and scripts. Times are RFC 3339; what the Lease does not tell is left out. */
export interface LeaseSummary {
  readonly node: string;
  /** None: the node has no Lease. Abandoned: its holder stopped renewing, or never began. */
  readonly state: 'None' | 'Free' | 'Held' | 'Administrator' | 'Abandoned';
  readonly holder?: string;
  /** Why an administrator holds the node. */
  readonly reason?: string;
  readonly acquireTime?: string;
  readonly renewTime?: string;
  /** From then on another may take it. */
  readonly expireTime?: string;
  readonly leaseDurationSeconds?: number;
  readonly leaseTransitions?: number;
  /** What somebody should look after. */
  readonly concern?: { readonly reason: string; readonly message: string };
}

const lastDate = 8.64e15;

/** Total for every Lease that an apiserver stores. `now` is milliseconds since 1970. */
export function summaryOf(node: string, lease: Readonly<Lease> | undefined, now: number): LeaseSummary {
  if (lease === undefined) return { node, state: 'None' };
  const { holderIdentity = '', acquireTime, renewTime, leaseDurationSeconds, leaseTransitions } = lease.spec;
  const concern = concernOf(lease, now);
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
    ...(concern !== undefined && { concern: { reason: concern.reason, message: concern.message } }),
  };
}

function stateOf(lease: Readonly<Lease>, now: number): LeaseSummary['state'] {
  const state = leaseStateOf(lease, now);
  if (state.kind === 'HeldByAdministrator') return 'Administrator';
  const concern = concernOf(lease, now)?.reason;
  if (concern !== undefined && concern !== 'RenewedInTheFuture') return 'Abandoned';
  return state.kind === 'Held' ? 'Held' : 'Free';
}

function expiryOf(lease: Readonly<Lease>, now: number): string | undefined {
  const state = leaseStateOf(lease, now);
  const at = state.kind === 'Held' ? state.until : state.kind === 'Expired' ? state.at : undefined;
  return at === undefined || Math.abs(at) > lastDate ? undefined : new Date(at).toISOString();
}
