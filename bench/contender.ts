import type { Bed } from './bed.ts';

export const contenderNames = ['ours', 'kubectl', 'floor'] as const;
export type ContenderName = (typeof contenderNames)[number];

/** Somebody who drains nodes. */
export interface Contender {
  readonly name: ContenderName;
  /** Everything that is up before the order is given, in a user's cluster as well. */
  prepare(bed: Bed, targets: readonly string[]): Promise<Attempt>;
}

/** One drain, from before the order until nothing is left of it. */
export interface Attempt {
  /** The contender's process, once it runs; absent when it is ours. */
  readonly pid?: number | undefined;
  /** Gives the order, before the first await; resolves when the contender itself reports that it is done. */
  drain(signal: AbortSignal): Promise<void>;
  /** Resolves when no more requests come of this drain. */
  settle(signal: AbortSignal): Promise<void>;
  /** Ends the drain, whether it is done or not, and everything that was prepared. What only the end can tell. */
  end(): Promise<Account>;
}

/** What a contender says of itself; what does not apply is absent. */
export interface Account {
  /** As its own client counted them, since it was prepared and until it had settled. */
  ownRequests?: number;
  /** Peak of the process's resident memory. MB. */
  residentMb?: number;
  historyEvents?: number;
}
