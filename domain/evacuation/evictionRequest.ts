import type { Condition, ObjectMeta, Pod } from '../../api/core.ts';
import type { EvictionRequest, LifecycleEviction, ResponderStatus } from '../../api/lifecycle.ts';
import { EvictionCondition, EvictionReason, MAINTENANCE_REQUESTER } from '../../api/names.ts';
import { isTrue } from '../common/conditions.ts';
import { compareNames } from '../common/names.ts';

/** The EvictionRequests of node maintenance, and what became of them (KEP-4563). A pod has one, whichever maintenances drain its node. */

/** Longest name of a Kubernetes object (DNS-1123 subdomain). */
const maxNameLength = 253;
/** Length of the part of a UID by which the name of a request differs if another object has its name. */
const suffixLength = 8;

/** Returns `nodemaintenance-<podUID>-<podName>`, cut to 253 characters. Another pod of the same name has another UID. */
export function evictionRequestName(
  { uid, name }: Pick<ObjectMeta, 'uid' | 'name'>,
  taken?: ObjectMeta,
): string {
  const suffix = taken === undefined ? '' : `-${(taken.uid ?? '').slice(0, suffixLength)}`;
  const kept = `nodemaintenance-${uid}-${name}`.slice(0, maxNameLength - suffix.length);
  return `${kept.replace(/[-.]+$/, '')}${suffix}`;
}

/** Returns the EvictionRequest of a pod, owned by a maintenance: it is deleted with the last of its owners, which withdraws it. */
export function evictionRequestOf(
  pod: Pod,
  name: string,
  owner: ObjectMeta & { kind: string; apiVersion: string },
): EvictionRequest {
  const { name: podName, namespace = '', uid = '' } = pod.metadata;
  const { apiVersion, kind } = owner;
  return {
    metadata: {
      name,
      namespace,
      labels: requestLabels,
      ownerReferences: [{ apiVersion, kind, name: owner.name, uid: owner.uid ?? '' }],
    },
    spec: {
      target: { pod: { name: podName, uid } },
      requester: MAINTENANCE_REQUESTER,
      intent: 'Eviction',
    },
  };
}

/** Labels by which people find the EvictionRequests of node maintenance. Nothing is decided from them. */
const requestLabels: Record<string, string> = { 'app.kubernetes.io/managed-by': 'node-maintenance' };

/** Reports whether node maintenance is the requester. */
export function isOurs({ spec }: Pick<EvictionRequest, 'spec'>): boolean {
  return spec.requester === MAINTENANCE_REQUESTER;
}

/** Reports whether the request still asks for the eviction. "Early delete counts as withdraw" (KEP-4563). */
export function isLive({ metadata, spec }: Pick<EvictionRequest, 'metadata' | 'spec'>): boolean {
  return spec.intent === 'Eviction' && metadata.deletionTimestamp === undefined;
}

/** Returns the request of node maintenance among those of a pod: a live one, otherwise the newest. */
function ownRequest<One extends EvictionRequest>(requests: readonly One[]): One | undefined {
  return requests
    .filter((one) => isOurs(one))
    .toSorted(
      (a, b) =>
        Number(isLive(b)) - Number(isLive(a)) ||
        compareNames(b.metadata.creationTimestamp ?? '', a.metadata.creationTimestamp ?? '') ||
        compareNames(a.metadata.name, b.metadata.name),
    )[0];
}

/** An EvictionRequest of node maintenance, and the Eviction that serves it. */
export interface RequestedEviction {
  readonly request?: EvictionRequest | undefined;
  readonly eviction?: LifecycleEviction | undefined;
}

/** Reports whether the Eviction, or that of the request, has ended: neither condition is reverted once it is True. */
export function isFinal({
  status,
}: Pick<LifecycleEviction, 'status'> | Pick<EvictionRequest, 'status'>): boolean {
  return (
    isTrue(status?.conditions, EvictionCondition.TargetEvicted) ||
    isTrue(status?.conditions, EvictionCondition.Failed)
  );
}

/** Returns the request of node maintenance for a pod, with the Eviction that serves it. An Eviction that had ended before is not the one. */
export function requestedEviction(
  requests: readonly EvictionRequest[],
  evictions: readonly LifecycleEviction[],
): RequestedEviction {
  const request = ownRequest(requests);
  if (request === undefined) return {};
  const { uid, creationTimestamp = '' } = request.metadata;
  const serves = (eviction: LifecycleEviction) =>
    !isFinal(eviction) ||
    eviction.metadata.ownerReferences?.some((owner) => owner.uid === uid) === true ||
    endedAt(eviction) > Date.parse(creationTimestamp);
  const serving = evictions
    .filter(serves)
    .toSorted(
      (a, b) =>
        Number(isFinal(a)) - Number(isFinal(b)) ||
        compareNames(b.metadata.creationTimestamp ?? '', a.metadata.creationTimestamp ?? '') ||
        compareNames(a.metadata.name, b.metadata.name),
    );
  return { request, eviction: serving[0] };
}

function endedAt({ status }: LifecycleEviction): number {
  const ended = (status?.conditions ?? []).filter(
    ({ type, status: value }) =>
      value === 'True' && (type === EvictionCondition.TargetEvicted || type === EvictionCondition.Failed),
  );
  return ended.reduce((latest, one) => Math.max(latest, Date.parse(one.lastTransitionTime)), 0);
}

export type RequestState =
  | { kind: 'None' }
  /**
   * `wasAnswered`: a controller has observed it. `isSettled`: no Eviction is in progress that still counts it. `deleted`: when it was deleted, in
   * milliseconds since the epoch, and the finalizers that keep it.
   */
  | {
      kind: 'Withdrawn';
      wasAnswered: boolean;
      isSettled: boolean;
      deleted?: { atMs: number; finalizers: readonly string[] };
    }
  /** No controller has observed it since then, in milliseconds since the epoch. */
  | { kind: 'Unanswered'; sinceMs: number }
  | { kind: 'InProgress'; responder: ResponderStatus | undefined }
  /** The pod was deleted, or has terminated. */
  | { kind: 'Evicted' }
  /** The controller does not evict such a pod. */
  | { kind: 'Refused'; message: string }
  /** The eviction has ended without success. */
  | { kind: 'Failed'; atMs: number; message: string };

/** Returns what became of the request. */
export function requestStateOf({ request, eviction }: RequestedEviction): RequestState {
  if (request === undefined) return { kind: 'None' };
  const wasAnswered = eviction !== undefined || isObserved(request);
  if (!isLive(request))
    return { kind: 'Withdrawn', wasAnswered, isSettled: isSettled(eviction), ...deletionOf(request) };
  const ended = endOf(eviction?.status?.conditions) ?? endOf(observedConditions(request));
  if (ended !== undefined) return ended;
  if (!wasAnswered)
    return { kind: 'Unanswered', sinceMs: Date.parse(request.metadata.creationTimestamp ?? '') };
  return { kind: 'InProgress', responder: activeResponderOf(eviction) };
}

function deletionOf({ metadata }: EvictionRequest): Pick<RequestState & { kind: 'Withdrawn' }, 'deleted'> {
  const { deletionTimestamp, finalizers = [] } = metadata;
  if (deletionTimestamp === undefined) return {};
  return { deleted: { atMs: Date.parse(deletionTimestamp), finalizers } };
}

/** Reports whether a controller has observed the request. */
export function isObserved({ status }: EvictionRequest): boolean {
  return status?.observedGeneration !== undefined;
}

/** Returns the conditions, if they are about the current spec. */
function observedConditions({ metadata, status }: EvictionRequest): readonly Condition[] {
  const isCurrent = (status?.observedGeneration ?? 0) >= (metadata.generation ?? 1);
  return isCurrent ? (status?.conditions ?? []) : [];
}

function endOf(conditions: readonly Condition[] = []): RequestState | undefined {
  if (isTrue(conditions, EvictionCondition.TargetEvicted)) return { kind: 'Evicted' };
  const failed = conditions.find(
    ({ type, status }) => type === EvictionCondition.Failed && status === 'True',
  );
  if (failed === undefined) return undefined;
  const { reason, message, lastTransitionTime } = failed;
  if (reason === EvictionReason.EvictionInvalid) return { kind: 'Refused', message };
  return { kind: 'Failed', atMs: Date.parse(lastTransitionTime), message: message || reason };
}

/** Reports whether a withdrawn request has no effect any more. Others may request the same Eviction. */
function isSettled(eviction: LifecycleEviction | undefined): boolean {
  if (eviction === undefined || isFinal(eviction)) return true;
  const own = eviction.status?.requesters?.find(({ name }) => name === MAINTENANCE_REQUESTER);
  return own === undefined ? eviction.status?.requesters !== undefined : own.intent === 'Withdrawn';
}

/** Returns what the active responder has reported. */
export function activeResponderOf(eviction: LifecycleEviction | undefined): ResponderStatus | undefined {
  const { targetResponders = [], responders = [] } = eviction?.status ?? {};
  const active = targetResponders.find(({ state }) => state === 'Active');
  if (active === undefined) return undefined;
  return responders.find(({ name }) => name === active.name) ?? { name: active.name };
}
