import type { Condition } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { ConditionFacts } from '../common/conditions.ts';
import { assertNever } from '../common/assertNever.ts';
import type { EvictionApiSettings } from '../common/evictionApi.ts';

/** Condition of a NodeMaintenance that has requested, or may request, evictions by EvictionRequests. It remains: requests may be left. */
export const EVICTION_REQUESTS_SERVED = 'EvictionRequestsServed';

export const ServingReason = {
  /** A controller has answered an EvictionRequest. */
  Served: 'ControllerResponds',
  /** It is not known yet whether a controller answers. */
  Unknown: 'AwaitingController',
  /** No controller has answered an EvictionRequest in time. */
  Unanswered: 'NoController',
  /** The apiserver does not serve lifecycle.k8s.io/v1alpha1. */
  NotServed: 'ApiNotServed',
} as const;

/** Whether a controller acts on the EvictionRequests of the cluster. */
export type ServingState = keyof typeof ServingReason;

export interface ServingFacts {
  /** Whether the apiserver serves the API. */
  isServed: boolean;
  /** Creation of the newest EvictionRequest that a controller has answered, in milliseconds since the epoch. */
  answeredMs: number | undefined;
  /** Creation of the newest one that none has answered in time. */
  unansweredMs: number | undefined;
  nowMs: number;
}

/** Time after which a controller that did not answer is asked again. */
export const askAgainAfterMs = 600_000;

/** Decides whether a controller serves EvictionRequests: a newer fact replaces an older one. */
export function servingOf({ isServed, answeredMs, unansweredMs, nowMs }: ServingFacts): ServingState {
  if (!isServed) return 'NotServed';
  const lastUnansweredMs = unansweredMs ?? -Infinity;
  if (lastUnansweredMs <= (answeredMs ?? -Infinity)) return answeredMs === undefined ? 'Unknown' : 'Served';
  return nowMs - lastUnansweredMs < askAgainAfterMs ? 'Unanswered' : 'Unknown';
}

/** Returns about when a request was created that none has answered, as the condition of a maintenance has it. Another process may have written it. */
export function unansweredIn(conditions: readonly Condition[] = [], responseMs: number): number | undefined {
  const condition = conditions.find(({ type }) => type === EVICTION_REQUESTS_SERVED);
  if (condition?.reason !== ServingReason.Unanswered) return undefined;
  return Date.parse(condition.lastTransitionTime) - responseMs;
}

/** Reports whether the maintenance may have EvictionRequests, whatever is chosen now. */
export function mayHaveRequests({ status }: Pick<NodeMaintenance, 'status'>): boolean {
  return status?.conditions.some(({ type }) => type === EVICTION_REQUESTS_SERVED) === true;
}

/** Returns the condition of a maintenance. */
export function servingCondition(
  serving: ServingState,
  { api, responseSeconds }: EvictionApiSettings,
): ConditionFacts {
  const others =
    api === 'lifecycle'
      ? 'pods wait for one, except those that EvictionRequests do not support'
      : 'pods leave by Evacuations';
  return {
    type: EVICTION_REQUESTS_SERVED,
    reason: ServingReason[serving],
    ...stateOf(serving, others, responseSeconds),
  };
}

function stateOf(
  serving: ServingState,
  others: string,
  responseSeconds: number,
): Pick<ConditionFacts, 'status' | 'message'> {
  switch (serving) {
    case 'Served':
      return { status: 'True', message: 'A controller serves EvictionRequests.' };
    case 'Unknown':
      return { status: 'Unknown', message: 'No controller has answered an EvictionRequest yet.' };
    case 'Unanswered':
      return {
        status: 'False',
        message: `No controller has answered an EvictionRequest within ${responseSeconds} s: ${others}.`,
      };
    case 'NotServed':
      return {
        status: 'False',
        message: `The apiserver does not serve lifecycle.k8s.io/v1alpha1, or the worker may not list it: ${others}.`,
      };
    default:
      return assertNever(serving);
  }
}
