import type { Condition } from '../../api/core.ts';
import { EvictionCondition, EvictionReason } from '../../api/names.ts';
import { type ConditionFacts, isTrue, withCondition } from '../common/conditions.ts';
import { timeText } from './times.ts';

/** How an eviction stands, from which both conditions follow. Only Awaiting is not final. */
export type EvictionOutcome =
  | { readonly kind: 'Awaiting' }
  | { readonly kind: 'PodDeleted' }
  | { readonly kind: 'PodTerminal' }
  | { readonly kind: 'Canceled' }
  | { readonly kind: 'NoFurtherResponder' }
  | { readonly kind: 'Invalid'; readonly message: string };

const { Failed, TargetEvicted } = EvictionCondition;

/** Content of a condition about an outcome. */
type Facts = Omit<ConditionFacts, 'type'>;

const failed = (reason: EvictionReason, message: string): Facts => ({ status: 'True', reason, message });
const notFailed = (reason: EvictionReason, message: string): Facts => ({ status: 'False', reason, message });
const notEvicted: Facts = {
  status: 'False',
  reason: EvictionReason.EvictionFailed,
  message: 'The eviction has failed.',
};
const succeeded = notFailed(EvictionReason.Succeeded, 'The pod was evicted.');
const awaiting = notFailed(EvictionReason.AwaitingEviction, 'The eviction is in progress.');

function factsOf(outcome: EvictionOutcome): { failed: Facts; evicted: Facts } {
  switch (outcome.kind) {
    case 'Awaiting':
      return { failed: awaiting, evicted: awaiting };
    case 'PodDeleted':
      return {
        failed: succeeded,
        evicted: { status: 'True', reason: EvictionReason.PodDeleted, message: 'The pod was deleted.' },
      };
    case 'PodTerminal':
      return {
        failed: succeeded,
        evicted: { status: 'True', reason: EvictionReason.PodTerminal, message: 'The pod has terminated.' },
      };
    case 'Canceled':
      return {
        failed: failed(EvictionReason.CanceledDueToNoRequesters, 'No EvictionRequest requests the eviction.'),
        evicted: notEvicted,
      };
    case 'NoFurtherResponder':
      return {
        failed: failed(EvictionReason.NoFurtherResponder, 'No responder has evicted the pod.'),
        evicted: notEvicted,
      };
    case 'Invalid':
      return { failed: failed(EvictionReason.EvictionInvalid, outcome.message), evicted: notEvicted };
  }
}

/** Returns the conditions with both conditions of an eviction set. */
export function evictionConditions(
  conditions: readonly Condition[],
  outcome: EvictionOutcome,
  now: Date,
): Condition[] {
  const facts = factsOf(outcome);
  const time = timeText(now);
  const withFailed = withCondition(conditions, { type: Failed, ...facts.failed }, time);
  return withCondition(withFailed, { type: TargetEvicted, ...facts.evicted }, time);
}

/** Returns the conditions with those of an Eviction copied, or those of one that has just started if it has none. */
export function copiedConditions(
  conditions: readonly Condition[],
  ofEviction: readonly Condition[] | undefined,
  now: Date,
): Condition[] {
  const initial = evictionConditions([], { kind: 'Awaiting' }, now);
  return [Failed, TargetEvicted].reduce<readonly Condition[]>((before, type) => {
    const source = [...(ofEviction ?? []), ...initial].find((one) => one.type === type);
    if (source === undefined) return before;
    const { status, reason, message } = source;
    return withCondition(before, { type, status, reason, message }, timeText(now));
  }, conditions) as Condition[];
}

type WithConditions = { readonly status?: { readonly conditions?: readonly Condition[] | undefined } };

export function isEvicted({ status }: WithConditions): boolean {
  return isTrue(status?.conditions, TargetEvicted);
}

export function hasFailed({ status }: WithConditions): boolean {
  return isTrue(status?.conditions, Failed);
}

/** How an Eviction has ended. */
export const EvictionEnd = {
  /** The pod was deleted or has terminated. */
  Evicted: 'Evicted',
  /** Nobody requests the eviction any more. */
  Canceled: 'Canceled',
  /** No responder has evicted the pod. */
  NoFurtherResponder: 'NoFurtherResponder',
  /** The pod cannot be evicted in this way. */
  Invalid: 'Invalid',
} as const;
export type EvictionEnd = (typeof EvictionEnd)[keyof typeof EvictionEnd];

/** Returns how an Eviction has ended; undefined while it is in progress. */
export function evictionEnd(eviction: WithConditions): EvictionEnd | undefined {
  if (isEvicted(eviction)) return EvictionEnd.Evicted;
  if (!hasFailed(eviction)) return undefined;
  const reason = eviction.status?.conditions?.find(({ type }) => type === Failed)?.reason;
  if (reason === EvictionReason.CanceledDueToNoRequesters) return EvictionEnd.Canceled;
  return reason === EvictionReason.NoFurtherResponder ? EvictionEnd.NoFurtherResponder : EvictionEnd.Invalid;
}
