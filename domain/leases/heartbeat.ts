import type { Lease } from '../../api/core.ts';
import { type Managed, storedAt } from '../common/managedFields.ts';

/**
 * Returns when the apiserver stored the last heartbeat of a kubelet, in milliseconds since the epoch; undefined if there is none. The Lease itself has
 * the time of the node, whose clock may differ.
 */
export function heartbeatMs(kubeletLease: (Lease & Managed) | undefined): number | undefined {
  if (kubeletLease === undefined) return undefined;
  const renewed = Date.parse(kubeletLease.spec.renewTime ?? '');
  return Number.isNaN(renewed) ? undefined : (storedAt(kubeletLease, ['f:spec', 'f:renewTime']) ?? renewed);
}
