import type { Testbed } from './testbed.ts';

export const targetNames = ['ours', 'kubectl', 'floor'] as const;
export type TargetName = (typeof targetNames)[number];

/** A program under test: it drains nodes. */
export interface Target {
  readonly name: TargetName;
  /** Starts everything that also runs in a user's cluster before a drain is requested. */
  prepare(testbed: Testbed, nodeNames: readonly string[]): Promise<Attempt>;
}

/** One drain, from before its request until nothing is left of it. */
export interface Attempt {
  /** The target's process once it runs; absent when the target is this process. */
  readonly pid?: number | undefined;
  /** Requests the drain before the first await; resolves when the target reports that it is done. */
  drain(signal: AbortSignal): Promise<void>;
  /** Resolves when the drain sends no more requests. */
  settle(signal: AbortSignal): Promise<void>;
  /** Ends the drain, finished or not, and everything that `prepare` started. Returns the target's own metrics. */
  end(): Promise<TargetMetrics>;
}

/** Metrics that a target reports itself; absent where they do not apply. */
export interface TargetMetrics {
  /** Requests counted by its own client, from `prepare` until it has settled. */
  ownRequests?: number;
  /** Peak resident memory of the process. */
  residentMb?: number;
  historyEvents?: number;
}
