import type { Pod } from '../../api/core.ts';
import { assertNever } from '../common/assertNever.ts';
import type { EvictionApi } from '../common/evictionApi.ts';
import { isFinished, podTypeOf } from '../common/pod.ts';
import { keptByOthersAfterMs } from './evacuation.ts';
import { registeredEvacuators } from './evacuatorSelection.ts';
import type { RequestState } from './evictionRequest.ts';
import type { ServingState } from './serving.ts';

/** Decides by which API a pod leaves (ADR 71). A pod never has an Evacuation and a live EvictionRequest of node maintenance for longer than it takes to see both. */

export interface RouteFacts {
  pod: Pod;
  /** The pod has an Evacuation that node maintenance requests. */
  hasEvacuation: boolean;
  request: RequestState;
  api: EvictionApi;
  serving: ServingState;
  /** Time after which an EvictionRequest without an answer counts as not served. */
  responseMs: number;
  nowMs: number;
}

export type Route =
  /** The pod has an Evacuation, or gets one. */
  | 'Evacuation'
  /** Its EvictionRequest stays. */
  | 'Requested'
  /** It gets an EvictionRequest. */
  | 'Request'
  /** It gets an EvictionRequest unless another pod waits for the first answer of a controller. */
  | 'Probe'
  /** Its EvictionRequest is withdrawn. */
  | 'Withdraw'
  /** Its EvictionRequest has ended, and is deleted to make room for another one. */
  | 'Renew'
  /** A request that has ended must be gone first, or is too young to be replaced; or the apiserver does not serve requests. */
  | 'Wait';

/** Delay before the eviction of a pod is requested again after it has failed. */
const retryFailedAfterMs = 30_000;

/** Returns why a pod leaves by an Evacuation, whichever API is chosen; undefined if an EvictionRequest can evict it. */
export function evacuationOnlyReason(pod: Pod): string | undefined {
  const podType = podTypeOf(pod);
  if (podType !== 'Default') return `no responder evicts pods of type ${podType}`;
  // The Eviction of a pod that has terminated ends, and the pod remains.
  if (isFinished(pod)) return 'it has terminated';
  if (pod.spec.hasSchedulingGroup === true) return 'it is part of a group, which Evictions do not support';
  // An Eviction would pass over its evacuators.
  const isRegistered = registeredEvacuators(pod).evacuators.length > 0;
  if (isRegistered && pod.spec.evictionResponders === undefined)
    return 'it has evacuators, and no responders (.spec.evictionResponders)';
  return undefined;
}

export function routeOf(facts: RouteFacts): Route {
  // Whatever is in progress continues.
  if (facts.hasEvacuation) return 'Evacuation';
  const { request } = facts;
  switch (request.kind) {
    case 'None':
      return wantedApi(facts);
    case 'Withdrawn':
      return withdrawnRoute(facts, request);
    case 'Refused':
      return 'Evacuation';
    case 'Evicted':
      return isFinished(facts.pod) ? 'Evacuation' : 'Requested';
    case 'InProgress':
      return isUnwanted(facts) ? 'Withdraw' : 'Requested';
    case 'Unanswered':
      return unansweredRoute(facts, request);
    case 'Failed':
      return wantedApi(facts) === 'Evacuation' ? 'Withdraw' : retryRoute(facts, request);
    default:
      return assertNever(request);
  }
}

/** Returns the route of a pod whose eviction has failed. */
function retryRoute({ nowMs }: RouteFacts, { atMs }: { atMs: number }): Route {
  return nowMs - atMs >= retryFailedAfterMs ? 'Renew' : 'Wait';
}

/** A controller that has answered a request also ends it: only another choice, or another pod than it was, does so before. */
function isUnwanted({ pod, api }: RouteFacts): boolean {
  return api === 'evacuation' || evacuationOnlyReason(pod) !== undefined;
}

/** Returns the route of a pod without any request. */
function wantedApi({ pod, api, serving }: RouteFacts): 'Evacuation' | 'Request' | 'Probe' | 'Wait' {
  if (api === 'evacuation' || evacuationOnlyReason(pod) !== undefined) return 'Evacuation';
  if (api === 'lifecycle') return serving === 'NotServed' ? 'Wait' : 'Request';
  if (serving === 'Served') return 'Request';
  return serving === 'Unknown' ? 'Probe' : 'Evacuation';
}

/** Returns the route of a pod whose request was withdrawn in favour of an Evacuation, because no controller has answered it, or for a drain that ended. */
function withdrawnRoute(
  facts: RouteFacts,
  { isSettled, wasAnswered, deleted }: RequestState & { kind: 'Withdrawn' },
): Route {
  const isGivenUp = wantedApi(facts) === 'Evacuation' || (facts.api === 'auto' && !wasAnswered);
  if (isSettled && isGivenUp) return 'Evacuation';
  // Finalizers of others stay, but must not keep the pod on its node.
  const isKeptByOthers = deleted !== undefined && facts.nowMs - deleted.atMs > keptByOthersAfterMs;
  return isSettled && isKeptByOthers ? wantedApi(facts) : 'Wait';
}

/** With `lifecycle`, pods wait for a controller however long it takes. */
function unansweredRoute(facts: RouteFacts, { sinceMs }: { sinceMs: number }): Route {
  const isOverdue = facts.api === 'auto' && facts.nowMs - sinceMs >= facts.responseMs;
  return isOverdue || wantedApi(facts) === 'Evacuation' ? 'Withdraw' : 'Requested';
}
