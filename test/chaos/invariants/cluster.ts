import type { KubeObject, Lease, NodeSelector, OwnerReference } from '../../../api/core.ts';
import type { Evacuation } from '../../../api/evacuation.ts';
import type { EvictionRequest } from '../../../api/lifecycle.ts';
import { leaseHolderOf, NODE_LEASE_NAMESPACE, SYSTEM_NAMESPACE, workerUser } from '../../../api/names.ts';
import type { DrainPlanEntry, NodeMaintenance, PodType } from '../../../api/nodeMaintenance.ts';
import { durationMs } from '../../../domain/drain/escalation.ts';
import { type AuditEvent, type AuditLog, mayBeStored, type Write } from './audit.ts';

/**
 * The objects of the cluster, as the answers of the apiserver to all clients show them one after the other. Nothing in it is what the
 * worker says about itself: no status of a NodeMaintenance, no log, no metric.
 */

/** The user of the requests that are checked. */
export const workerAccount = workerUser(SYSTEM_NAMESPACE);
const holder = leaseHolderOf(SYSTEM_NAMESPACE);

/** The conditions of nodes that say what a maintenance does there. */
export const maintenanceConditions: readonly string[] = [
  'MaintenanceInProgress',
  'DrainInProgress',
  'Drained',
];

export interface PodState {
  uid: string;
  key: string;
  node: string | undefined;
  /** When it was first seen on its node, or later; undefined without a node. */
  onNodeSinceMs: number | undefined;
  priority: number;
  labels: Readonly<Record<string, string>>;
  annotations: Readonly<Record<string, string>>;
  type: PodType;
  isFinished: boolean;
  isGone: boolean;
  last: AuditEvent;
}

export interface MaintenanceState {
  uid: string;
  name: string;
  nodes: ReadonlySet<string>;
  plan: readonly DrainPlanEntry[];
  /** The maintenance is in stage Drain, and not deleted. */
  isDraining: boolean;
  /** It has nothing to do on its nodes any more. */
  isFinished: boolean;
  /** When it began to drain; undefined before. */
  drainingSinceMs: number | undefined;
  /** From when on it may delete pods by its deadline; Infinity if it never does. */
  deletesFromMs: number;
  last: AuditEvent;
}

export interface LeaseState {
  holder: string;
  untilMs: number;
  /** Time until which it was ours for the last time; -Infinity if it never was. */
  heldUntilMs: number;
  last: AuditEvent;
}

/** An Evacuation, or an EvictionRequest. */
export interface RequestState {
  api: RequestApi;
  podUid: string;
  isWithdrawn: boolean;
  isGone: boolean;
  /** Its evacuator does not let it be cancelled. */
  isForbidden: boolean;
  /** When it stopped asking the pod to leave; Infinity while it asks. */
  endedMs: number;
  last: AuditEvent;
}

export class ClusterState {
  readonly pods = new Map<string, PodState>();
  readonly maintenances = new Map<string, MaintenanceState>();
  /** Leases by the name of the node. */
  readonly leases = new Map<string, LeaseState>();
  /** Requests by API, namespace and name. */
  readonly requests = new Map<string, RequestState>();

  apply(write: Write): void {
    const { resource, namespace } = write;
    if (resource === 'pods' || resource === 'pods/status') this.#applyPod(write);
    if (resource === 'nodemaintenances') this.#applyMaintenance(write);
    const [api] = resource.split('/');
    if (isRequestApi(api)) this.#applyRequest(api, write);
    if (resource === 'leases' && namespace === NODE_LEASE_NAMESPACE) this.#applyLease(write);
  }

  draining(): MaintenanceState[] {
    return [...this.maintenances.values()].filter(({ isDraining }) => isDraining);
  }

  drainingOn(node: string): MaintenanceState[] {
    return this.draining().filter(({ nodes }) => nodes.has(node));
  }

  /** Reports whether another client is the holder of the Lease, even if it has expired. */
  isForeign(node: string): boolean {
    const { holder: name = '' } = this.leases.get(node) ?? {};
    return name !== '' && name !== holder;
  }

  isHeld(node: string, atMs: number): boolean {
    const lease = this.leases.get(node);
    return lease !== undefined && lease.holder === holder && atMs <= lease.untilMs;
  }

  /** Returns until when the Lease of the node was ours; -Infinity if it never was. */
  heldUntilMs(node: string): number {
    return this.leases.get(node)?.heldUntilMs ?? -Infinity;
  }

  /** Returns until when the pod was asked to leave; Infinity while it is, -Infinity if it never was. */
  askedUntilMs(podUid: string): number {
    const requests = [...this.requests.values()].filter((one) => one.podUid === podUid);
    return Math.max(-Infinity, ...requests.map(({ endedMs }) => endedMs));
  }

  #applyPod({ object, name, namespace, verb, answeredMs, event }: Write): void {
    const key = `${namespace}/${name}`;
    const previous = [...this.pods.values()].findLast((pod) => pod.key === key);
    if (object === undefined) {
      if (verb === 'delete' && previous !== undefined) previous.isGone = true;
      return;
    }
    const uid = object.metadata.uid ?? '';
    const before = this.pods.get(uid);
    const { spec = {}, status = {} } = object as RawPod;
    this.pods.set(uid, {
      uid,
      key,
      ...placeOf(spec, before, answeredMs),
      priority: spec.priority ?? 0,
      labels: object.metadata.labels ?? {},
      annotations: object.metadata.annotations ?? {},
      type: typeOf(object),
      isFinished: status.phase === 'Succeeded' || status.phase === 'Failed',
      isGone: before?.isGone === true || isRemoved(object, verb),
      last: event,
    });
  }

  #applyMaintenance({ object, name, verb, answeredMs, event }: Write): void {
    if (object === undefined) {
      const gone = [...this.maintenances.values()].findLast((one) => one.name === name);
      if (verb === 'delete' && gone !== undefined)
        Object.assign(gone, { isDraining: false, isFinished: true });
      return;
    }
    const { metadata, spec } = object as NodeMaintenance;
    const isDeleted = metadata.deletionTimestamp !== undefined || verb === 'delete';
    const isReleased = (metadata.finalizers ?? []).length === 0;
    const isDraining = spec.stage === 'Drain' && !isDeleted;
    const before = this.maintenances.get(metadata.uid ?? '');
    this.maintenances.set(metadata.uid ?? '', {
      uid: metadata.uid ?? '',
      name: metadata.name,
      nodes: nodesOf(spec.nodeSelector),
      plan: spec.drainPlan ?? [],
      isDraining,
      isFinished: isReleased && (isDeleted || spec.stage === 'Complete'),
      ...timesOf(spec, before, isDraining ? answeredMs : undefined),
      last: event,
    });
  }

  #applyRequest(api: RequestApi, write: Write): void {
    const { object, namespace, name, verb, answeredMs, event } = write;
    if (object === undefined) {
      const gone = this.requests.get(`${api}/${namespace}/${name}`);
      if (verb === 'delete' && gone !== undefined)
        Object.assign(gone, { isGone: true, endedMs: Math.min(gone.endedMs, answeredMs) });
      return;
    }
    const { metadata } = object;
    const isDeleted = metadata.deletionTimestamp !== undefined || verb === 'delete';
    const hasFinalizers = (metadata.finalizers ?? []).length > 0;
    const { intent } = (object as EvictionRequest).spec;
    const key = `${api}/${namespace}/${metadata.name}`;
    const podUid = targetOf(object).uid;
    const isWithdrawn = isDeleted || (api === 'evictionrequests' && intent !== 'Eviction');
    const isGone = isDeleted && !hasFinalizers;
    const isForbidden = (object as Evacuation).status?.evacuationCancellationPolicy === 'Forbid';
    const asks = !isGone && (!isWithdrawn || isForbidden);
    const before = this.requests.get(key)?.endedMs ?? Infinity;
    const endedMs = asks ? Infinity : Math.min(before, answeredMs);
    this.requests.set(key, { api, podUid, isWithdrawn, isGone, isForbidden, endedMs, last: event });
  }

  #applyLease({ object, name, answeredMs, event }: Write): void {
    const spec: Partial<Lease['spec']> = (object as Lease | undefined)?.spec ?? {};
    const renewedMs = Date.parse(spec.renewTime ?? '');
    const untilMs = Number.isNaN(renewedMs) ? 0 : renewedMs + (spec.leaseDurationSeconds ?? 0) * 1_000;
    const { holderIdentity = '' } = spec;
    const heldUntilMs = holderIdentity === holder ? untilMs : Math.min(this.heldUntilMs(name), answeredMs);
    this.leases.set(name, { holder: holderIdentity, untilMs, heldUntilMs, last: event });
  }
}

/** The longest grace period of a pod of a chaos run, and the time for which the clock of a worker may differ. */
const longestGraceMs = 5_000;

/** Returns when a maintenance began to drain, and when its deadline begins to delete. "A later, looser deadline does not relax an earlier one". */
function timesOf(
  { drainDeadline }: NodeMaintenance['spec'],
  before: MaintenanceState | undefined,
  drainingMs: number | undefined,
): Pick<MaintenanceState, 'drainingSinceMs' | 'deletesFromMs'> {
  const drainingSinceMs = before?.drainingSinceMs ?? drainingMs;
  const deletesFromMs = deletionStartMs(drainDeadline, drainingSinceMs);
  return { drainingSinceMs, deletesFromMs: Math.min(before?.deletesFromMs ?? Infinity, deletesFromMs) };
}

/** Returns when the first pod is deleted so that it is gone at the deadline. */
function deletionStartMs(
  deadline: NodeMaintenance['spec']['drainDeadline'],
  drainingSinceMs: number | undefined,
): number {
  if (deadline?.onDeadline !== 'Delete' || drainingSinceMs === undefined) return Infinity;
  const timeMs =
    deadline.at === undefined ? drainingSinceMs + durationMs(deadline.after ?? '') : Date.parse(deadline.at);
  return timeMs - longestGraceMs;
}

/** Returns the node of a pod, and since when it has it. */
function placeOf(
  { nodeName }: NonNullable<RawPod['spec']>,
  before: PodState | undefined,
  nowMs: number,
): Pick<PodState, 'node' | 'onNodeSinceMs'> {
  if (before?.node !== undefined) return { node: before.node, onNodeSinceMs: before.onNodeSinceMs };
  return { node: nodeName, onNodeSinceMs: nodeName === undefined ? undefined : nowMs };
}

interface RawPod extends KubeObject {
  spec?: { nodeName?: string; priority?: number };
  status?: { phase?: string };
}

/** Returns whether this write was the last one of a pod: it deleted it at once, or what had kept it is gone. */
function isRemoved({ metadata }: KubeObject, verb: string): boolean {
  const { finalizers = [], deletionTimestamp, deletionGracePeriodSeconds } = metadata;
  const isDue = deletionTimestamp === undefined ? verb === 'delete' : deletionGracePeriodSeconds === 0;
  return isDue && finalizers.length === 0;
}

/** Calls back for every write, with the state of the cluster after it. */
export function replay({ writes }: AuditLog, visit: (write: Write, state: ClusterState) => void): void {
  const state = new ClusterState();
  for (const write of writes) {
    state.apply(write);
    visit(write, state);
  }
}

/** Returns the pods as they were last seen, by UID: node, priority and type of a pod do not change. */
export function podsIn(log: AuditLog): ReadonlyMap<string, PodState> {
  const state = new ClusterState();
  for (const write of log.writes) state.apply(write);
  return state.pods;
}

/** "Default selects all pods except DaemonSet and Static pods" (KEP-4212 > NodeMaintenance API). */
export function typeOf({ metadata: { annotations = {}, ownerReferences = [] } }: KubeObject): PodType {
  if (annotations['kubernetes.io/config.mirror'] !== undefined) return 'Static';
  const isDaemon = ({ controller, kind }: OwnerReference) => controller === true && kind === 'DaemonSet';
  return ownerReferences.some(isDaemon) ? 'DaemonSet' : 'Default';
}

/** Maintenances of a chaos run select their nodes by name. */
export function nodesOf({ nodeSelectorTerms }: NodeSelector): ReadonlySet<string> {
  const fields = nodeSelectorTerms.flatMap(({ matchFields = [] }) => matchFields);
  const named = fields.filter(({ key, operator }) => key === 'metadata.name' && operator === 'In');
  return new Set(named.flatMap(({ values = [] }) => values));
}

export const isOfWorker = ({ user }: { user: string }) => user === workerAccount;

/** API by which a pod is asked to leave. */
type RequestApi = 'evacuations' | 'evictionrequests';

export function isRequestApi(resource: string | undefined): resource is RequestApi {
  return resource === 'evacuations' || resource === 'evictionrequests';
}

function targetOf({ spec }: KubeObject & { spec?: unknown }): { name: string; uid: string } {
  const { podRef, target } = spec as Partial<Evacuation['spec'] & EvictionRequest['spec']>;
  return podRef ?? target?.pod ?? { name: '', uid: '' };
}

/** Returns the pod that the worker asked to leave by this write: it created an Evacuation or an EvictionRequest. Undefined for other writes. */
export function requestedPodOf({
  user,
  resource,
  verb,
  object,
}: Write): { name: string; uid: string } | undefined {
  const isCreated = isOfWorker({ user }) && isRequestApi(resource) && verb === 'create';
  return isCreated && object !== undefined ? targetOf(object) : undefined;
}

/** Returns the UID of the pod that an eviction, or a deletion, of the worker removed; undefined for other writes. */
export function removedPodOf(write: Write): string | undefined {
  if (!isOfWorker(write)) return undefined;
  const { resource, verb, request } = write;
  if (resource === 'pods/eviction') {
    const { deleteOptions } = request as { deleteOptions?: { preconditions?: { uid?: string } } };
    return deleteOptions?.preconditions?.uid ?? '';
  }
  if (resource !== 'pods' || verb !== 'delete') return undefined;
  const { preconditions } = (request ?? {}) as { preconditions?: { uid?: string } };
  return preconditions?.uid ?? write.object?.metadata.uid ?? '';
}

/** Only deadlines give a grace period of their own: evacuators leave the pod its own. */
export function isByDeadline({ resource, request }: Write): boolean {
  const { gracePeriodSeconds } = (request ?? {}) as { gracePeriodSeconds?: number };
  return resource === 'pods' && gracePeriodSeconds !== undefined;
}

/** Reports whether a killed apiserver may have removed the pod, without an answer, and nobody has written it since. */
export function mayBeRemoved(pod: PodState, unknown: AuditLog['unknown'], nowMs: number): boolean {
  return unknown.some(
    (one) =>
      one.resource === 'pods' &&
      one.verb === 'delete' &&
      `${one.namespace}/${one.name}` === pod.key &&
      one.receivedMs <= nowMs &&
      mayBeStored(one, pod.last),
  );
}

/** Returns the UIDs of the pods that a request of the log is about. */
export function requestedPodsIn({ writes }: AuditLog): ReadonlySet<string> {
  const objects = writes.flatMap(({ resource, object }) =>
    isRequestApi(resource.split('/')[0]) && object !== undefined ? [object] : [],
  );
  return new Set(objects.map((object) => targetOf(object).uid));
}
