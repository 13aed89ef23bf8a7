import type { Lease } from '../../api/core.ts';
import { type Managed, storedAt } from '../common/managedFields.ts';

/** The last renewal of a Lease, in milliseconds since the epoch. */
export interface Renewal {
  /** The time of the client's clock: `spec.renewTime`. */
  clientMs: number;
  /** When the apiserver stored it, whole seconds; undefined if the Lease does not say so. */
  storedMs: number | undefined;
}

/** Returns the last renewal of a Lease; undefined if it was never renewed or its time is unreadable. */
export function lastRenewal(lease: Lease & Managed): Renewal | undefined {
  const clientMs = Date.parse(lease.spec.renewTime ?? '');
  return Number.isNaN(clientMs)
    ? undefined
    : { clientMs, storedMs: storedAt(lease, ['f:spec', 'f:renewTime']) };
}

/**
 * Returns when the apiserver stored the last heartbeat of a kubelet, in milliseconds since the epoch; undefined if there is none. The Lease itself has
 * the time of the node, whose clock may differ.
 */
export function heartbeatMs(kubeletLease: (Lease & Managed) | undefined): number | undefined {
  const renewal = kubeletLease && lastRenewal(kubeletLease);
  return renewal?.storedMs ?? renewal?.clientMs;
}
