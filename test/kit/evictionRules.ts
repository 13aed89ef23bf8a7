import type { EvictionStatus, LifecycleEviction, TargetResponder } from '../../api/lifecycle.ts';
import { compareResponders } from '../../domain/evictionRequests/responders.ts';

/**
 * The rules of the apiserver for a write of the status of an Eviction (k8s.io/kubernetes v1.37.1, pkg/apis/lifecycle/validation), as far as they
 * concern a controller. Independent of domain/evictionRequests but for the order of the responders, which has a test of its own.
 */

const skewMs = 30_000;
const deadlineMs = 20 * 60_000;
const finals = ['Interrupted', 'Canceled', 'Completed'];

const isTrue = ({ conditions = [] }: EvictionStatus, type: string) =>
  conditions.some((one) => one.type === type && one.status === 'True');

/** Returns what the apiserver would reject. */
export function violations(before: LifecycleEviction, next: EvictionStatus, now: Date): string[] {
  const old = before.status ?? {};
  return [
    ...conditionViolations(old, next),
    ...stateViolations(old, next, now),
    ...responderViolations(old, next, now),
  ];
}

function conditionViolations(old: EvictionStatus, next: EvictionStatus): string[] {
  return (old.conditions ?? [])
    .filter(({ status }) => status === 'True')
    .flatMap((condition) => {
      const now = next.conditions?.find(({ type }) => type === condition.type);
      const isKept = now?.status === 'True' && now.reason === condition.reason;
      return isKept ? [] : [`${condition.type} is reverted`];
    });
}

function stateViolations(old: EvictionStatus, next: EvictionStatus, now: Date): string[] {
  const before = (old.targetResponders ?? []).toSorted(compareResponders);
  const after = (next.targetResponders ?? []).toSorted(compareResponders);
  if (before.length > 0 && before.map(({ name }) => name).join() !== after.map(({ name }) => name).join())
    return ['the names of the responders have changed'];
  const isFinal = isTrue(next, 'TargetEvicted') || isTrue(next, 'Failed');
  const active = before.findIndex(({ state }) => state === 'Active');
  return after.flatMap((responder, i) => {
    const allowed = allowedStates({ before, after, i, active, isFinal });
    const found = allowed.includes(responder.state)
      ? []
      : [`${responder.name} may not be ${responder.state}`];
    return [...found, ...deadlineViolations(responder, next, { isFinal, now })];
  });
}

interface Place {
  before: readonly TargetResponder[];
  after: readonly TargetResponder[];
  i: number;
  active: number;
  isFinal: boolean;
}

function allowedStates(place: Place): string[] {
  const { before, i, active, isFinal } = place;
  if (before.length === 0) return [i === 0 && !isFinal ? 'Active' : 'Inactive'];
  if (active !== -1) return statesAround(place);
  const isProcessed = isFinal || finals.includes(before.at(-1)?.state ?? '');
  return [isProcessed ? (before[i]?.state ?? '') : 'Inactive'];
}

/** The states of the responders before and after the one that was Active. */
function statesAround({ before, after, i, active, isFinal }: Place): string[] {
  const hasEnded = after[active]?.state !== 'Active';
  if (i < active) return [before[i]?.state ?? ''];
  if (i === active) return hasEnded || isFinal ? finals : ['Active'];
  return [i === active + 1 && hasEnded && !isFinal ? 'Active' : 'Inactive'];
}

function deadlineViolations(
  { name, state }: TargetResponder,
  { responders = [] }: EvictionStatus,
  { isFinal, now }: { isFinal: boolean; now: Date },
): string[] {
  const status = responders.find((one) => one.name === name);
  if (status === undefined) return [`${name} is not tracked`];
  if (state === 'Completed' && status.completionTime === undefined) return [`${name} has not completed`];
  const since = status.heartbeatTime ?? status.startTime;
  if (state === 'Active' || since === undefined || status.completionTime !== undefined || isFinal) return [];
  const isEarly = now.getTime() < Date.parse(since) + deadlineMs - skewMs;
  return isEarly ? [`${name} must stay Active`] : [];
}

function responderViolations(old: EvictionStatus, next: EvictionStatus, now: Date): string[] {
  const { responders = [], targetResponders = [] } = next;
  if (responders.length !== targetResponders.length) return ['the lists of responders differ in length'];
  return responders.flatMap((status) => {
    const state = targetResponders.find(({ name }) => name === status.name)?.state;
    const previous = old.responders?.find(({ name }) => name === status.name);
    const isChanged = previous !== undefined && JSON.stringify(previous) !== JSON.stringify(status);
    if (isChanged && state !== 'Active') return [`${status.name} has changed and is not Active`];
    if (state === 'Active' && status.startTime === undefined) return [`${status.name} has no startTime`];
    const isSet = status.startTime !== undefined && previous?.startTime !== status.startTime;
    const isNear = Math.abs(Date.parse(status.startTime ?? '') - now.getTime()) < skewMs;
    return isSet && !isNear ? [`${status.name} has another startTime than now`] : [];
  });
}
