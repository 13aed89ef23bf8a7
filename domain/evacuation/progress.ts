import type { Pod, PodDisruptionBudget } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { ResponderStatus } from '../../api/lifecycle.ts';
import {
  IMPERATIVE_RESPONDER,
  RESPONDER_CLOCK_SKEW_SECONDS,
  RESPONDER_HEARTBEAT_DEADLINE_SECONDS,
} from '../../api/names.ts';
import { oneLine } from '../common/text.ts';
import { type Blocker, BlockerReason, blockerOf, stuckTerminating } from './blocker.ts';
import { budgetBlockers } from './budgets.ts';
import { keptByOthersAfterMs } from './evacuation.ts';
import { type RequestedEviction, type RequestState, requestStateOf } from './evictionRequest.ts';
import { finalizerNames } from './termination.ts';

/** The progress of a pod that leaves its node, whichever API requests it. */
export interface EvictionProgress {
  /** Class of the active evacuator, or name of the active responder. */
  readonly evacuator?: string | undefined;
  /** Message that it reports. */
  readonly message?: string | undefined;
  readonly expectedFinishTime?: string | undefined;
  readonly blocker?: Blocker | undefined;
}

/** Returns the progress that an Evacuation reports. */
export function evacuationProgress(
  pod: Pod,
  evacuation: Evacuation | undefined,
  now: Date,
): EvictionProgress {
  const { activeEvacuatorClass, message, expectedEvacuationFinishTime } = evacuation?.status ?? {};
  return {
    evacuator: activeEvacuatorClass,
    message,
    expectedFinishTime: expectedEvacuationFinishTime,
    blocker: blockerOf(pod, evacuation, now),
  };
}

export interface EvictionView {
  now: Date;
  /** Time after which an EvictionRequest without an answer counts as not served. */
  responseMs: number;
  /** Whether the apiserver serves EvictionRequests; true unless given. */
  isServed?: boolean;
  /** The PodDisruptionBudgets of the namespace; unknown unless given. */
  budgets?: readonly PodDisruptionBudget[];
}

/** Returns the progress that an Eviction of lifecycle.k8s.io reports. */
export function evictionProgress(
  pod: Pod,
  requested: RequestedEviction,
  view: EvictionView,
): EvictionProgress {
  const state = requestStateOf(requested);
  const responder = state.kind === 'InProgress' ? state.responder : undefined;
  return {
    evacuator: responder?.name,
    message: responder?.message,
    expectedFinishTime: responder?.expectedCompletionTime,
    blocker: evictionBlocker(pod, requested, view),
  };
}

/** Returns why a pod whose eviction is requested does not leave. */
export function evictionBlocker(
  pod: Pod,
  requested: RequestedEviction,
  view: EvictionView,
): Blocker | undefined {
  if (pod.metadata.deletionTimestamp !== undefined) return stuckTerminating(pod, view.now);
  const state = requestStateOf(requested);
  if (state.kind === 'None' && view.isServed === false) return notServed;
  if (state.kind === 'Failed')
    return {
      reason: BlockerReason.EvictionFailed,
      message: `No responder evicted the pod: ${oneLine(state.message, maxMessageLength)}. Its eviction is requested again.`,
    };
  if (state.kind === 'Withdrawn') return requestDeleted(state);
  if (state.kind === 'Unanswered') return unanswered(state.sinceMs, view);
  if (state.kind !== 'InProgress' || state.responder === undefined) return undefined;
  const [budget] =
    state.responder.name === IMPERATIVE_RESPONDER ? budgetBlockers(pod, view.budgets ?? []) : [];
  return budget ?? silentResponder(state.responder, view.now);
}

/** Blocks a pod that may leave by an EvictionRequest alone. */
const notServed: Blocker = {
  reason: BlockerReason.EvictionRequestUnanswered,
  message:
    'The apiserver does not serve lifecycle.k8s.io/v1alpha1, or the worker may not list it: enable EvictionRequestAPI, or choose --eviction-api evacuation.',
};

const maxMessageLength = 512;
/** A responder counts as not responding when it has reported nothing this long after it became active. It reports every 20 s at most. */
const silentAfterMs = 60_000;

function unanswered(sinceMs: number, { now, responseMs }: EvictionView): Blocker | undefined {
  if (!(now.getTime() - sinceMs > responseMs)) return undefined;
  return {
    reason: BlockerReason.EvictionRequestUnanswered,
    message: `No controller has answered the EvictionRequest of the pod within ${responseMs / 1_000} s: check that one runs, or choose --eviction-api evacuation.`,
  };
}

function requestDeleted({ deleted }: RequestState & { kind: 'Withdrawn' }): Blocker | undefined {
  if (deleted === undefined || deleted.finalizers.length === 0) return undefined;
  const names = finalizerNames(deleted.finalizers);
  return {
    reason: BlockerReason.EvictionRequestDeleted,
    message: `The EvictionRequest of the pod was deleted but still has finalizers ${names}: unless the controllers that own them remove them within ${keptByOthersAfterMs / 1_000} s, the pod is requested to leave again as soon as its Eviction no longer counts the request.`,
  };
}

/** Returns why nothing is heard of the active responder; undefined if it reports in time. One that only says what it waits for sends no heartbeat. */
export function silentResponder(
  { name, startTime = '', heartbeatTime, message: report }: ResponderStatus,
  now: Date,
): Blocker | undefined {
  const reason = BlockerReason.EvacuatorNotResponding;
  if (heartbeatTime === undefined) {
    if (report !== undefined || !(now.getTime() - Date.parse(startTime) > silentAfterMs)) return undefined;
    const message = `Responder ${name} does not respond to the Eviction: check that a program serves it; the next one follows after ${RESPONDER_HEARTBEAT_DEADLINE_SECONDS} s.`;
    return { reason, message };
  }
  const lateAfterMs = (RESPONDER_HEARTBEAT_DEADLINE_SECONDS + RESPONDER_CLOCK_SKEW_SECONDS) * 1_000;
  if (!(now.getTime() - Date.parse(heartbeatTime) > lateAfterMs)) return undefined;
  const message = `Responder ${name} has not reported since ${heartbeatTime}, and no controller has interrupted it: check that a controller of EvictionRequests runs.`;
  return { reason, message };
}
