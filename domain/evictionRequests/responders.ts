import type { Pod } from '../../api/core.ts';
import type {
  EvictionStatus,
  LifecycleEviction,
  ResponderState,
  ResponderStatus,
  TargetResponder,
} from '../../api/lifecycle.ts';
import {
  IMPERATIVE_RESPONDER,
  IMPERATIVE_RESPONDER_PRIORITY,
  RESPONDER_HEARTBEAT_DEADLINE_SECONDS,
} from '../../api/names.ts';
import { compareNames } from '../common/names.ts';
import { isEvicted } from './conditions.ts';
import { timeText } from './times.ts';

/** The responders of an Eviction and what they have reported. Both lists have the same names. */
export interface Responders {
  readonly targetResponders: readonly TargetResponder[];
  readonly responders: readonly ResponderStatus[];
}

/**
 * Compares by priority, the highest first, then by domain: "the top domain labels are compared alphabetically first, followed by the lower domain
 * labels. The key is compared last." (lifecycle/v1alpha1 > TargetResponder)
 */
export function compareResponders(
  a: Pick<TargetResponder, 'name' | 'priority'>,
  b: Pick<TargetResponder, 'name' | 'priority'>,
): number {
  if (a.priority !== b.priority) return b.priority - a.priority;
  const [first, second] = [partsOf(a.name), partsOf(b.name)];
  const differing = first.labels.findIndex((label, i) => label !== second.labels[i]);
  if (differing >= 0 && differing < second.labels.length)
    return compareNames(first.labels[differing] ?? '', second.labels[differing] ?? '');
  return first.labels.length - second.labels.length || compareNames(first.key, second.key);
}

function partsOf(name: string): { labels: string[]; key: string } {
  const [domain = '', ...key] = name.split('/');
  return { labels: domain.split('.').toReversed(), key: key.join('/') };
}

export function respondersOf({ status }: Pick<LifecycleEviction, 'status'>): Responders {
  return { targetResponders: status?.targetResponders ?? [], responders: status?.responders ?? [] };
}

/** Returns the responder that is Active, and what it has reported. */
export function activeResponder({
  targetResponders,
  responders,
}: Responders): { target: TargetResponder; status: ResponderStatus } | undefined {
  const target = targetResponders.find(({ state }) => state === 'Active');
  if (target === undefined) return undefined;
  return { target, status: responders.find(({ name }) => name === target.name) ?? { name: target.name } };
}

/** Returns the responders of a pod, in the order in which they become active: those of its spec, and the one that evicts it. */
export function respondersOfPod(pod: Pick<Pod, 'spec'>): Pick<TargetResponder, 'name' | 'priority'>[] {
  const imperative = { name: IMPERATIVE_RESPONDER, priority: IMPERATIVE_RESPONDER_PRIORITY };
  const others = (pod.spec.evictionResponders ?? []).filter(({ name }) => name !== IMPERATIVE_RESPONDER);
  return [...others, imperative].toSorted(compareResponders);
}

/** Returns the first responders of an Eviction, of which the first one is Active. The names never change afterwards. */
export function startResponders(pod: Pick<Pod, 'spec'>, now: Date): Responders {
  const sorted = respondersOfPod(pod);
  const startTime = timeText(now);
  return {
    targetResponders: sorted.map(({ name, priority }, i) => ({
      name,
      priority,
      state: i === 0 ? 'Active' : 'Inactive',
    })),
    responders: sorted.map(({ name }, i) => (i === 0 ? { name, startTime } : { name })),
  };
}

/** Times by the clock of the apiserver. */
interface Clock {
  readonly now: Date;
  /** When the controller started. */
  readonly startedAt: Date;
}

/** After an outage the responders report late, those of the same process only once it leads again: nobody is interrupted before. */
const startGraceMs = 60_000;

/** Returns when the responder is interrupted unless it reports again. */
export function heartbeatDeadline(
  { startTime = '', heartbeatTime = startTime }: ResponderStatus,
  startedAt: Date,
): number {
  const deadlineMs = Date.parse(heartbeatTime) + RESPONDER_HEARTBEAT_DEADLINE_SECONDS * 1_000;
  return Math.max(deadlineMs, startedAt.getTime() + startGraceMs);
}

/** Returns the state that the active responder has earned. It stays Active until it has completed or exceeded its deadline. */
function earnedState(status: ResponderStatus, { now, startedAt }: Clock): ResponderState {
  if (status.completionTime !== undefined) return 'Completed';
  return now.getTime() >= heartbeatDeadline(status, startedAt) ? 'Interrupted' : 'Active';
}

/** Hands over to the next responder if the active one has completed, or has not reported before its deadline. */
export function advanceResponders(before: Responders, clock: Clock): Responders {
  const active = activeResponder(before);
  if (active === undefined) return before;
  const state = earnedState(active.status, clock);
  if (state === 'Active') return before;
  const ended = withState(before, active.target.name, state);
  const next = ended.targetResponders
    .filter((one) => one.state === 'Inactive')
    .toSorted(compareResponders)[0];
  return next === undefined ? ended : started(withState(ended, next.name, 'Active'), next.name, clock.now);
}

/** Returns the name of the responder that has been interrupted because it did not report. A pod that has left interrupts its responder, too. */
export function overdueResponder(before: LifecycleEviction, after: LifecycleEviction): string | undefined {
  if (isEvicted(after)) return undefined;
  const active = activeResponder(respondersOf(before));
  const ended = respondersOf(after).targetResponders.find(({ name }) => name === active?.target.name);
  return ended?.state === 'Interrupted' ? ended.name : undefined;
}

/** Ends the active responder: it is Completed if it has said so. No other one becomes active. */
export function endResponders(before: Responders, otherwise: 'Interrupted' | 'Canceled'): Responders {
  const active = activeResponder(before);
  if (active === undefined) return before;
  const hasCompleted = active.status.completionTime !== undefined;
  return withState(before, active.target.name, hasCompleted ? 'Completed' : otherwise);
}

/** Reports whether every responder has ended. */
export function isExhausted({ targetResponders }: Responders): boolean {
  return (
    targetResponders.length > 0 &&
    targetResponders.every(({ state }) => state !== 'Active' && state !== 'Inactive')
  );
}

function withState(
  { targetResponders, responders }: Responders,
  name: string,
  state: ResponderState,
): Responders {
  const changed = targetResponders.map((one) => (one.name === name ? { ...one, state } : one));
  return { targetResponders: changed, responders };
}

function started({ targetResponders, responders }: Responders, name: string, now: Date): Responders {
  const startTime = timeText(now);
  const changed = responders.map((one) => (one.name === name ? { startTime, ...one } : one));
  return { targetResponders, responders: changed };
}

/** Returns the status with these responders. Lists that are empty are absent, as the apiserver stores them. */
export function withResponders(
  status: EvictionStatus,
  { targetResponders, responders }: Responders,
): EvictionStatus {
  if (targetResponders.length === 0) return status;
  return { ...status, targetResponders: [...targetResponders], responders: [...responders] };
}
