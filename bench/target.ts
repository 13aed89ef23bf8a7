import type { TargetName } from './targetNames.ts';
import type { Testbed } from './testbed.ts';

/** The request of a benchmark to a target. */
export interface DrainRequest {
  /** All nodes that are drained. */
  nodes: readonly string[];
  /** The nodes of each maintenance; two maintenances may have nodes in common. */
  maintenances: readonly (readonly string[])[];
  /** Whether the target drains another node first, so that its code and its connections have been used. */
  isWarm: boolean;
}

/** A program under test: it drains nodes. */
export interface Target {
  readonly name: TargetName;
  /** Starts everything that also runs in a user's cluster before a drain is requested. */
  prepare(testbed: Testbed, request: DrainRequest): Promise<Attempt>;
}

/** One drain, from before its request until nothing is left of it. */
export interface Attempt {
  /** The target's process once it runs; absent when the target is this process, or several that end by themselves. */
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
  /** Peak resident memory; of several processes, the sum of their peaks. */
  residentMb?: number;
  /** Events and bytes of the histories of its workflows. */
  historyEvents?: number;
  historyBytes?: number;
  /** Seconds from the start of the process until it is ready. */
  startSeconds?: number;
  /** The longest time in seconds for which the status of a maintenance did not change while it was draining. */
  silentSeconds?: number;
}
