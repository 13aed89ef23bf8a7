import type { AuditEvent } from './audit.ts';

/** The promises that are checked, by the name that a violation has: from the audit log, and the last two from the final world. */
export const invariants = {
  tiers: 'the pods of a node leave tier by tier, for each maintenance that drains it',
  targets: 'no pod is asked to leave, evicted or deleted but on a node that a maintenance drains',
  lease:
    'no node is cordoned, uncordoned or given conditions, and no pod on it asked to leave or removed without being asked, unless its maintenance Lease is ours',
  drained: 'a maintenance becomes Drained only when the pods that its plan selects have left its nodes',
  once: 'no pod is evicted twice, or has two Evacuations, or two EvictionRequests, at a time',
  cancel: 'nothing is evicted after a cancel was answered, but for requests that were in flight',
  budgets: 'no pod is deleted around its PodDisruptionBudget, or without its grace period',
  end: 'every maintenance is drained and ends when the faults are over',
  rest: 'nothing stays cordoned, tainted, gated, locked or finalized, and no Evacuation, EvictionRequest, Eviction, reservation, Schedule or run is left',
} as const;
export type Invariant = keyof typeof invariants;

/** A promise that was broken, with the requests that show it. */
export interface Violation {
  invariant: Invariant;
  message: string;
  events: readonly AuditEvent[];
}
