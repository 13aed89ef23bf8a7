import type { OwnerReference, Pod } from '../../api/core.ts';
import type {
  EvictionRequest,
  EvictionRequestStatus,
  EvictionStatus,
  EvictionTarget,
  LifecycleEviction,
} from '../../api/lifecycle.ts';
import { LIFECYCLE_EVICTION } from '../../api/names.ts';
import { canonicalJson } from '../common/canonicalJson.ts';
import { compareNames } from '../common/names.ts';
import { isFinished } from '../common/pod.ts';
import { isFinal, isLive } from '../evacuation/evictionRequest.ts';
import {
  copiedConditions,
  type EvictionOutcome,
  evictionConditions,
  hasFailed,
  isEvicted,
} from './conditions.ts';
import { isOwnedBy, isRequested, ownersOf, requestersOf, roleLabels } from './participants.ts';
import {
  activeResponder,
  advanceResponders,
  endResponders,
  heartbeatDeadline,
  isExhausted,
  type Responders,
  respondersOf,
  respondersOfPod,
  startResponders,
  withResponders,
} from './responders.ts';

/** All that concerns the eviction of one pod. */
export interface EvictionSnapshot {
  readonly namespace: string;
  readonly target: EvictionTarget['pod'];
  /** The EvictionRequests for the pod. */
  readonly requests: readonly EvictionRequest[];
  /** The Evictions of the pod. */
  readonly evictions: readonly LifecycleEviction[];
  /** Undefined if the pod does not exist: another pod of the same name is not the target. */
  readonly pod: Pod | undefined;
  /** When it was first observed that the pod does not exist, or has terminated; undefined while it runs. */
  readonly leftAt: Date | undefined;
  /** When this controller started. */
  readonly startedAt: Date;
  /** A name that no Eviction of the namespace has. */
  readonly freeName: string;
  /** The clock of the apiserver. */
  readonly now: Date;
}

/** One write, after which the next step is decided again. */
export type Step =
  /** Nothing to write. Decide again at this time, in milliseconds since the epoch, even if nothing changes. */
  | { readonly kind: 'Wait'; readonly untilMs?: number }
  | { readonly kind: 'CreateEviction'; readonly eviction: LifecycleEviction }
  | {
      readonly kind: 'UpdateMetadata';
      readonly eviction: LifecycleEviction;
      readonly labels: Readonly<Record<string, string>>;
      readonly ownerReferences: readonly OwnerReference[];
    }
  | {
      readonly kind: 'UpdateEviction';
      readonly eviction: LifecycleEviction;
      readonly status: EvictionStatus;
    }
  | {
      readonly kind: 'UpdateRequest';
      readonly request: EvictionRequest;
      readonly status: EvictionRequestStatus;
    };

/** A responder has this long to report its completion after the pod is gone. */
export const completionGraceMs = 5_000;

interface Facts extends EvictionSnapshot {
  /** The Eviction that counts. */
  readonly current: LifecycleEviction | undefined;
}

/** Rules in their order. The first one that has something to write decides. */
const rules: readonly ((facts: Facts) => Step | undefined)[] = [
  ignoreUnrequested, // An Eviction that a user has created by hand is nobody's.
  failDuplicates, // "Eviction" is many-to-one: one is in progress for a pod.
  rejectGroups, // "Pods that are part of a PodGroup are not supported."
  createEviction, // A new intent after a failure is another Eviction, because conditions do not revert.
  describeParticipants, // Requesters and responders find their Evictions by label.
  observeRequests, // Before the Eviction can become final, so that a later intent is known to be new.
  progress, // Responders become active one after the other.
  reportOutcome, // The requests say what the Eviction says.
];

/** Returns what to write next for the eviction of a pod. */
export function nextStep(snapshot: EvictionSnapshot): Step {
  const facts = { ...snapshot, current: currentEviction(snapshot.evictions) };
  for (const rule of rules) {
    const step = rule(facts);
    if (step !== undefined) return step;
  }
  return { kind: 'Wait' };
}

/** Returns the Eviction that counts: one that has succeeded, the oldest one in progress, or the latest one that has failed. */
export function currentEviction(evictions: readonly LifecycleEviction[]): LifecycleEviction | undefined {
  const sorted = evictions.toSorted(byAge);
  return sorted.find(isEvicted) ?? sorted.find((one) => !isFinal(one)) ?? sorted.at(-1);
}

function byAge({ metadata: a }: LifecycleEviction, { metadata: b }: LifecycleEviction): number {
  const byCreation = compareNames(a.creationTimestamp ?? '', b.creationTimestamp ?? '');
  return byCreation || compareNames(a.name, b.name);
}

function ignoreUnrequested({ requests, evictions }: Facts): Step | undefined {
  const isUnrequested = requests.length === 0 && !evictions.some(isRequested);
  return isUnrequested ? { kind: 'Wait' } : undefined;
}

function failDuplicates(facts: Facts): Step | undefined {
  const { evictions, current } = facts;
  const duplicate = evictions.find((one) => one !== current && !isFinal(one));
  if (duplicate === undefined || current === undefined) return undefined;
  const message = `Eviction ${current.metadata.name} of the same pod exists.`;
  return failed(duplicate, { kind: 'Invalid', message }, facts.now);
}

function rejectGroups(facts: Facts): Step | undefined {
  const { pod, current, requests, now } = facts;
  if (pod?.spec.hasSchedulingGroup !== true) return undefined;
  const message = 'The pod is part of a group (spec.schedulingGroup), which Evictions do not support.';
  const outcome = { kind: 'Invalid', message } as const;
  if (current !== undefined && !isFinal(current)) return failed(current, outcome, now);
  return requestsReport(requests, (request) => conditionsWith(request, outcome, now)) ?? { kind: 'Wait' };
}

function createEviction(facts: Facts): Step | undefined {
  const { current, evictions, requests, pod } = facts;
  if (current !== undefined && !hasFailed(current)) return undefined;
  const isNew = (request: EvictionRequest) => isLive(request) && !isSettled(request, current);
  if (!requests.some(isNew)) return undefined;
  // The pod has never been evicted through this API: it did not exist when the eviction was requested.
  if (pod === undefined && evictions.length === 0) return undefined;
  return { kind: 'CreateEviction', eviction: newEviction(facts) };
}

/** Reports whether a request was part of the Eviction, and has not changed since. */
function isSettled(request: EvictionRequest, eviction: LifecycleEviction | undefined): boolean {
  if (eviction === undefined || !isOwnedBy(eviction.metadata, request)) return false;
  return request.status?.observedGeneration === request.metadata.generation;
}

function newEviction({ namespace, freeName, target, requests, pod }: Facts): LifecycleEviction {
  const { apiVersion, kind } = LIFECYCLE_EVICTION;
  const participants = {
    requesters: requestersOf([], requests).map(({ name }) => name),
    responders: pod === undefined ? [] : respondersOfPod(pod).map(({ name }) => name),
  };
  return {
    apiVersion,
    kind,
    metadata: {
      name: freeName,
      namespace,
      labels: roleLabels({}, participants),
      ownerReferences: ownersOf([], requests),
    },
    spec: { target: { pod: { ...target } } },
  };
}

function describeParticipants({ current, requests, pod }: Facts): Step | undefined {
  if (current === undefined || hasFailed(current)) return undefined;
  const { labels, ownerReferences = [] } = current.metadata;
  const { targetResponders } = respondersOf(current);
  const known = targetResponders.length > 0 || pod === undefined ? targetResponders : respondersOfPod(pod);
  const requesters = requestersOf(current.status?.requesters ?? [], requests);
  const next = {
    labels: roleLabels(labels, {
      requesters: requesters.map(({ name }) => name),
      responders: known.map(({ name }) => name),
    }),
    ownerReferences: ownersOf(ownerReferences, requests),
  };
  if (same(next, { labels: labels ?? {}, ownerReferences })) return undefined;
  return { kind: 'UpdateMetadata', eviction: current, ...next };
}

function observeRequests({ current, requests, now }: Facts): Step | undefined {
  if (current === undefined || isFinal(current)) return undefined;
  return requestsReport(requests, ({ status }) =>
    copiedConditions(status?.conditions ?? [], current.status?.conditions, now),
  );
}

function progress(facts: Facts): Step | undefined {
  const { current } = facts;
  if (current === undefined || isFinal(current)) return undefined;
  const { responders, outcome, untilMs } = progressOf(facts, respondersOf(current));
  const before = current.status ?? {};
  const status = withResponders(
    {
      ...before,
      observedGeneration: Math.max(before.observedGeneration ?? 1, current.metadata.generation ?? 1),
      requesters: requestersOf(before.requesters ?? [], facts.requests),
      conditions: evictionConditions(before.conditions ?? [], outcome, facts.now),
    },
    responders,
  );
  if (!same(status, before)) return { kind: 'UpdateEviction', eviction: current, status };
  return { kind: 'Wait', ...(untilMs !== undefined && { untilMs }) };
}

interface Progress {
  readonly responders: Responders;
  readonly outcome: EvictionOutcome;
  readonly untilMs?: number;
}

function progressOf(facts: Facts, before: Responders): Progress {
  const { requests, pod, leftAt, startedAt, now } = facts;
  if (pod === undefined || isFinished(pod))
    return leaving(before, { outcome: pod === undefined ? 'PodDeleted' : 'PodTerminal', leftAt, now });
  if (!requests.some(isLive))
    return { responders: endResponders(before, 'Canceled'), outcome: { kind: 'Canceled' } };
  if (before.targetResponders.length === 0)
    return { responders: startResponders(pod, now), outcome: { kind: 'Awaiting' } };
  const responders = advanceResponders(before, facts);
  const isTerminating = pod.metadata.deletionTimestamp !== undefined;
  // A pod that terminates will be gone: its responders have done their work.
  if (isExhausted(responders) && !isTerminating)
    return { responders, outcome: { kind: 'NoFurtherResponder' } };
  const active = activeResponder(responders);
  const untilMs = active && heartbeatDeadline(active.status, startedAt);
  return { responders, outcome: { kind: 'Awaiting' }, ...(untilMs !== undefined && { untilMs }) };
}

/** Gives the active responder time to report its completion. */
function leaving(
  before: Responders,
  { outcome, leftAt, now }: { outcome: 'PodDeleted' | 'PodTerminal'; leftAt: Date | undefined; now: Date },
): Progress {
  const active = activeResponder(before);
  const untilMs = (leftAt ?? now).getTime() + completionGraceMs;
  const mayComplete = active !== undefined && active.status.completionTime === undefined;
  if (mayComplete && now.getTime() < untilMs)
    return { responders: before, outcome: { kind: 'Awaiting' }, untilMs };
  return { responders: endResponders(before, 'Interrupted'), outcome: { kind: outcome } };
}

function reportOutcome({ current, requests, pod, now }: Facts): Step | undefined {
  if (current !== undefined)
    return requestsReport(requests, ({ status }) =>
      copiedConditions(status?.conditions ?? [], current.status?.conditions, now),
    );
  const message = 'The pod does not exist: its name or UID is another one.';
  const outcome: EvictionOutcome = pod === undefined ? { kind: 'Invalid', message } : { kind: 'Canceled' };
  // An Eviction that is gone has said so before.
  return requestsReport(requests, (request) =>
    isEvicted(request) ? (request.status?.conditions ?? []) : conditionsWith(request, outcome, now),
  );
}

function conditionsWith({ status }: EvictionRequest, outcome: EvictionOutcome, now: Date) {
  return evictionConditions(status?.conditions ?? [], outcome, now);
}

/** Returns the first request whose status does not say this yet, by name. */
function requestsReport(
  requests: readonly EvictionRequest[],
  conditionsOf: (request: EvictionRequest) => NonNullable<EvictionRequestStatus['conditions']>,
): Step | undefined {
  for (const request of requests.toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name))) {
    const before = request.status ?? {};
    const observedGeneration = Math.max(before.observedGeneration ?? 1, request.metadata.generation ?? 1);
    const status = { ...before, observedGeneration, conditions: conditionsOf(request) };
    if (!same(status, before)) return { kind: 'UpdateRequest', request, status };
  }
  return undefined;
}

/** Ends an Eviction that cannot be carried out. */
function failed(eviction: LifecycleEviction, outcome: EvictionOutcome, now: Date): Step {
  const before = eviction.status ?? {};
  const conditions = evictionConditions(before.conditions ?? [], outcome, now);
  const observedGeneration = Math.max(before.observedGeneration ?? 1, eviction.metadata.generation ?? 1);
  const status = withResponders(
    { ...before, observedGeneration, conditions },
    endResponders(respondersOf(eviction), 'Canceled'),
  );
  return { kind: 'UpdateEviction', eviction, status };
}

/** Compares as the apiserver stores: an empty list is absent. */
function same(a: object, b: object): boolean {
  return canonicalJson(withoutEmptyLists(a)) === canonicalJson(withoutEmptyLists(b));
}

function withoutEmptyLists(fields: object): object {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => !(Array.isArray(value) && value.length === 0)),
  );
}

/** Longest name of a Kubernetes object (DNS-1123 subdomain). */
const maxNameLength = 253;

/** Returns the n-th name for the Eviction of a pod: `pod-<n>-<name>`, cut to 253 characters. Nobody depends on it. */
export function lifecycleEvictionName(n: number, pod: string): string {
  return `pod-${n}-${pod}`.slice(0, maxNameLength).replace(/[-.]+$/, '');
}
