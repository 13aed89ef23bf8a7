import type { Condition } from '../../api/core.ts';
import { oneLine } from './text.ts';

export type ConditionFacts = Pick<Condition, 'type' | 'status' | 'reason' | 'message'> & {
  observedGeneration?: number;
};

/** A quarter of the limit of the schema, so that all conditions together are a small part of an object. */
const maxMessageLength = 8_192;

/** Returns the conditions with one of them set. `lastTransitionTime` changes only if the status does (API conventions). */
export function withCondition(
  conditions: readonly Condition[],
  facts: ConditionFacts,
  now: string,
): Condition[] {
  const previous = conditions.find((condition) => condition.type === facts.type);
  const lastTransitionTime = previous?.status === facts.status ? previous.lastTransitionTime : now;
  const next: Condition = {
    ...facts,
    message: oneLine(facts.message, maxMessageLength),
    lastTransitionTime,
  };
  if (previous === undefined) return [...conditions, next];
  return conditions.map((condition) => (condition.type === facts.type ? next : condition));
}

export function isTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return conditions?.some((condition) => condition.type === type && condition.status === 'True') ?? false;
}

export function isFalse(conditions: readonly Condition[] | undefined, type: string): boolean {
  return conditions?.some((condition) => condition.type === type && condition.status === 'False') ?? false;
}

/** Condition of a NodeMaintenance whose nodes were not drained at the deadline. */
export const DRAIN_DEADLINE_EXCEEDED = 'DrainDeadlineExceeded';
