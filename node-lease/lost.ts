import type { Lease } from '../api/core.ts';
import { NodeLeaseError } from './errors.ts';

/** Why a Lease was lost while it was in use. */
export type Loss =
  /** Another client or, if the name starts with `kubeadm`, an administrator holds it. */
  | { readonly kind: 'Taken'; readonly by: string }
  /** The holder was removed. */
  | { readonly kind: 'Released' }
  /** The Lease was deleted, by a user or with its node. */
  | { readonly kind: 'Deleted' }
  /** It could not be renewed in time; `lastError` is the error of the last attempt, if there was one. */
  | { readonly kind: 'Expired'; readonly lastError: string | undefined };

/** The node is no longer ours: another holder may be working on it. `loss` is the reason. */
export class NodeLeaseLostError extends NodeLeaseError {
  override readonly name = 'NodeLeaseLostError';
  readonly loss: Loss;

  constructor(node: string, loss: Loss) {
    super(`the maintenance Lease of node ${node} was lost: ${describeLoss(loss)}`, { kind: 'Lost', node });
    this.loss = loss;
  }
}

/** Returns why the holder lost the Lease, or undefined while it is held. */
export function lossOf(lease: Readonly<Lease> | undefined, holder: string): Loss | undefined {
  if (lease === undefined) return { kind: 'Deleted' };
  const { holderIdentity: by = '' } = lease.spec;
  if (by === holder) return undefined;
  return by === '' ? { kind: 'Released' } : { kind: 'Taken', by };
}

function describeLoss(loss: Loss): string {
  switch (loss.kind) {
    case 'Taken':
      return `it was taken by ${loss.by}`;
    case 'Released':
      return 'it was released by another user';
    case 'Deleted':
      return 'it was deleted';
    case 'Expired':
      return `it could not be renewed in time${loss.lastError === undefined ? '' : ` (${loss.lastError})`}`;
  }
}
