import type { Lease } from '../api/core.ts';

export type Acquisition =
  /** We hold the Lease until `until`, by the clock of the apiserver, unless we renew it. */
  | { readonly kind: 'Held'; readonly until: Date; readonly lease: Lease }
  /** `until` is undefined for an administrator, whose Lease does not expire. */
  | { readonly kind: 'HeldByAnother'; readonly holder: string; readonly until: Date | undefined };

/** The Lease was no longer ours when we renewed it, and nobody else holds it. Nothing was changed. */
export interface Lost {
  readonly kind: 'Lost';
  /** The Lease as it was read; undefined if it is missing. */
  readonly lease: Lease | undefined;
}

/** `NotOurs`: another client held the Lease, or nobody. Nothing was changed. */
export type Release = 'Released' | 'NotOurs';

/** The current holder of a node that a call waits for. */
export interface Waiting {
  readonly node: string;
  readonly holder: string;
  /** Time at which the Lease expires unless it is renewed; undefined for an administrator, whose Lease does not expire. */
  readonly until: Date | undefined;
}

export interface HoldOptions {
  /** Cancels the wait, and aborts the signal of the function. */
  readonly signal?: AbortSignal | undefined;
  /** Called when another client holds the node, and again when the holder changes. */
  readonly onWaiting?: ((waiting: Waiting) => void) | undefined;
  /** False: rejects at once with a NodeHeldError if another client holds the node, or with the error of the apiserver. Default: true. */
  readonly wait?: boolean | undefined;
}

/** The function that runs while the Lease is held; it must stop when the signal aborts. */
export type WhileHeld<T> = (signal: AbortSignal) => Promise<T> | T;

/** The state of the maintenance Lease of a node for all clients but its holder (KEP-1411 > Acquisition). `lease` is as it was read. */
export type NodeLeaseState = {
  readonly node: string;
} /** The node has no Lease, or there is no such node. */ & (
  | { readonly kind: 'Missing' }
  | { readonly kind: 'Free'; readonly lease: Lease }
  /** The holder did not release it. `at` is undefined if it was never renewed. */
  | {
      readonly kind: 'Expired';
      readonly holder: string;
      readonly at: Date | undefined;
      readonly lease: Lease;
    }
  /** `until` includes the 3 s of clock drift. */
  | { readonly kind: 'Held'; readonly holder: string; readonly until: Date; readonly lease: Lease }
  /** "Always considered held". */
  | { readonly kind: 'HeldByAdministrator'; readonly holder: string; readonly lease: Lease }
);

/** Reports whether a client may not touch the node: another one holds its Lease. */
export function isHeld(state: NodeLeaseState): boolean {
  return state.kind === 'Held' || state.kind === 'HeldByAdministrator';
}
