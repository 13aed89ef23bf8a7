import type { Lease } from '../api/core.ts';

/** How a Lease was lost while something was done under it. */
export type Loss =
  /** By another client or, if the name begins with `kubeadm`, by an administrator. */
  | { readonly kind: 'Taken'; readonly by: string }
  /** Somebody removed the holder. */
  | { readonly kind: 'Released' }
  /** With its node, or by hand. */
  | { readonly kind: 'Deleted' }
  /** It could not be renewed in time; `because` is what the last attempt met with, if there was one. */
  | { readonly kind: 'RanOut'; readonly because: string | undefined };

/** The node is ours no more: whoever has it now may be at work. `loss` says how it came. */
export class NodeLeaseLostError extends Error {
  override readonly name = 'NodeLeaseLostError';
  readonly node: string;
  readonly loss: Loss;

  constructor(node: string, loss: Loss) {
    super(`the maintenance Lease of node ${node} was lost: ${wordsOfLoss(loss)}`);
    this.node = node;
    this.loss = loss;
  }
}

/** What becomes of a holder's Lease that is seen like this; undefined while it is the holder's. */
export function lossOf(lease: Readonly<Lease> | undefined, holder: string): Loss | undefined {
  if (lease === undefined) return { kind: 'Deleted' };
  const { holderIdentity: by = '' } = lease.spec;
  if (by === holder) return undefined;
  return by === '' ? { kind: 'Released' } : { kind: 'Taken', by };
}

function wordsOfLoss(loss: Loss): string {
  switch (loss.kind) {
    case 'Taken':
      return `${loss.by} has taken it`;
    case 'Released':
      return 'somebody has released it';
    case 'Deleted':
      return 'it was deleted';
    case 'RanOut':
      return `it could not be renewed in time${loss.because === undefined ? '' : ` (${loss.because})`}`;
  }
}
