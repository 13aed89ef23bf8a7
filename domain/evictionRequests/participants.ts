import type { ObjectMeta, OwnerReference } from '../../api/core.ts';
import type { EvictionRequest, LifecycleEviction, Requester } from '../../api/lifecycle.ts';
import { EVICTION_REQUEST, EvictionRole, MAX_REQUESTERS } from '../../api/names.ts';
import { compareNames } from '../common/names.ts';
import { isLive } from '../evacuation/evictionRequest.ts';

/**
 * Returns the requesters of an Eviction: "Requesters are preserved in .status.requesters even after they have withdrawn their request." Beyond the
 * limit, those who have withdrawn are dropped first.
 */
export function requestersOf(
  before: readonly Requester[],
  requests: readonly EvictionRequest[],
): Requester[] {
  const wanting = new Set(requests.filter(isLive).map(({ spec }) => spec.requester));
  const names = new Set([...before.map(({ name }) => name), ...requests.map(({ spec }) => spec.requester)]);
  const withdrawn = [...names].filter((name) => !wanting.has(name));
  const kept = [...[...wanting].toSorted(compareNames), ...withdrawn.toSorted(compareNames)];
  return kept
    .slice(0, MAX_REQUESTERS)
    .toSorted(compareNames)
    .map((name) => ({ name, intent: wanting.has(name) ? 'Eviction' : 'Withdrawn' }));
}

/** Returns the names of those who still want an Eviction, as its controller has observed them. */
export function activeRequesters({ status }: Pick<LifecycleEviction, 'status'>): string[] {
  return (status?.requesters ?? []).filter(({ intent }) => intent === 'Eviction').map(({ name }) => name);
}

/** Returns the labels with the role of each participant, by its name. Other labels stay as they are. */
export function roleLabels(
  labels: Readonly<Record<string, string>> | undefined,
  { requesters, responders }: { requesters: Iterable<string>; responders: Iterable<string> },
): Record<string, string> {
  const requesting = new Set(requesters);
  const responding = new Set(responders);
  const roleOf = (name: string) => {
    if (!responding.has(name)) return EvictionRole.Requester;
    return requesting.has(name) ? EvictionRole.RequesterResponder : EvictionRole.Responder;
  };
  const names = [...new Set([...requesting, ...responding])].toSorted(compareNames);
  return { ...labels, ...Object.fromEntries(names.map((name) => [name, roleOf(name)])) };
}

/** Reports whether the owner is an EvictionRequest. Its apiVersion may be another version of the group. */
function isRequest({ apiVersion, kind }: OwnerReference): boolean {
  return kind === EVICTION_REQUEST.kind && apiVersion.startsWith(`${EVICTION_REQUEST.group}/`);
}

/** Reports whether an Eviction was made for EvictionRequests. Those that were deleted without what they own are no owners any more. */
export function isRequested({ metadata, status }: LifecycleEviction): boolean {
  const { ownerReferences = [] } = metadata;
  return ownerReferences.some(isRequest) || (status?.requesters ?? []).length > 0;
}

/** Reports whether an EvictionRequest is an owner of the object. */
export function isOwnedBy({ ownerReferences = [] }: ObjectMeta, { metadata }: EvictionRequest): boolean {
  return ownerReferences.some(({ uid }) => uid === metadata.uid);
}

/** Adds the requests to the owners. None is removed: that is the work of the garbage collector. */
export function ownersOf(
  before: readonly OwnerReference[],
  requests: readonly EvictionRequest[],
): OwnerReference[] {
  const { apiVersion, kind } = EVICTION_REQUEST;
  const present = new Set(before.map(({ uid }) => uid));
  const missing = requests
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .filter(({ metadata }) => !present.has(metadata.uid ?? ''))
    .map(({ metadata: { name, uid = '' } }) => ({ apiVersion, kind, name, uid }));
  return [...before, ...missing.toSorted((a, b) => compareNames(a.name, b.name))];
}
