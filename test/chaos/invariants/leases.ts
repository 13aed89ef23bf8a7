import { AUTOSCALER_ANNOTATIONS, NODE_LEASE_NAMESPACE } from '../../../api/names.ts';
import { type AuditLog, mayBeStored, type Write } from './audit.ts';
import {
  type ClusterState,
  isByDeadline,
  isOfWorker,
  isRequestApi,
  type LeaseState,
  maintenanceConditions,
  type PodState,
  podsIn,
  removedPodOf,
  replay,
  requestedPodOf,
  requestedPodsIn,
} from './cluster.ts';
import { type Ignorance, isInFlight } from './drains.ts';
import type { Violation } from './invariants.ts';

/** An act of the worker on a node. */
interface Action {
  what: string;
  node: string;
  allows: Allowance;
}

/** Whether the act may follow the loss of the Lease. */
type Allowance =
  /** It may not: the worker checks the Lease before each such request. */
  | { kind: 'Nothing' }
  /** The worker checks the Lease before several such requests, or by an informer: they may be in flight when the Lease is lost. */
  | { kind: 'InFlight' }
  /** "Running Evacuations continue" (docs/concepts/node-leases.md): a pod that was asked to leave before is removed. */
  | { kind: 'Asked'; podUid: string };

/**
 * While the maintenance Lease of a node is not ours, it is neither cordoned nor uncordoned, kept from autoscalers or given conditions, and no pod on it is
 * asked to leave. A pod is evicted or deleted then only if it was asked before, and never by a deadline.
 */
export function withoutLease(log: AuditLog, ignorance: readonly Ignorance[]): Violation[] {
  const pods = podsIn(log);
  const requested = requestedPodsIn(log);
  const violations: Violation[] = [];
  replay(log, (write, state) => {
    const action = actionOf(write, pods);
    if (action === undefined || state.isHeld(action.node, write.receivedMs)) return;
    if (isInFlight(allowedUntilMs(action, state), write.receivedMs, ignorance)) return;
    const lease = state.leases.get(action.node);
    if (mayBeHeld(action.node, { write, lease }, log) || mayBeAsked(action, write, { log, requested }))
      return;
    const holder = lease === undefined || lease.holder === '' ? 'nobody' : `"${lease.holder}"`;
    const until =
      lease === undefined || lease.untilMs === 0 ? '' : ` until ${new Date(lease.untilMs).toISOString()}`;
    violations.push({
      invariant: 'lease',
      message: `${action.what} while the maintenance Lease of ${action.node} was held by ${holder}${until}`,
      events: [...(lease === undefined ? [] : [lease.last]), write.event],
    });
  });
  return violations;
}

function actionOf(write: Write, pods: ReadonlyMap<string, PodState>): Action | undefined {
  const asked = requestedPodOf(write);
  if (asked !== undefined) {
    const node = pods.get(asked.uid)?.node;
    const what = `Pod ${asked.name} was asked to leave`;
    return node === undefined ? undefined : { what, node, allows: { kind: 'Nothing' } };
  }
  const removed = removedPodOf(write);
  if (removed !== undefined) return removalOf(write, removed, pods.get(removed));
  return isOfWorker(write) ? nodeChangeOf(write) : undefined;
}

function removalOf(write: Write, podUid: string, pod: PodState | undefined): Action | undefined {
  if (pod?.node === undefined) return undefined;
  const what = `Pod ${pod.key} was ${write.resource === 'pods/eviction' ? 'evicted' : 'deleted'}`;
  const allows: Allowance = isByDeadline(write) ? { kind: 'InFlight' } : { kind: 'Asked', podUid };
  return { what, node: pod.node, allows };
}

function nodeChangeOf({ resource, verb, name: node, request }: Write): Action | undefined {
  if (resource === 'nodes/status') {
    const { status } = (request ?? {}) as { status?: { conditions?: { type: string }[] } };
    // Conditions are removed from any node, by an empty list.
    const isSet = status?.conditions?.some(({ type }) => maintenanceConditions.includes(type)) === true;
    const what = `Conditions of node ${node} were set`;
    return isSet ? { what, node, allows: { kind: 'InFlight' } } : undefined;
  }
  if (resource !== 'nodes' || verb === 'delete') return undefined;
  const text = JSON.stringify(request ?? {});
  // As a merge patch and as a JSON patch.
  if (/"unschedulable"|"\/spec\/unschedulable"/.test(text))
    return { what: `Node ${node} was cordoned or uncordoned`, node, allows: { kind: 'Nothing' } };
  if (AUTOSCALER_ANNOTATIONS.some((key) => text.includes(`"${key}"`)))
    return {
      what: `Node ${node} was kept from autoscalers or returned to them`,
      node,
      allows: { kind: 'Nothing' },
    };
  return undefined;
}

/** Returns until when the action may have been decided. */
function allowedUntilMs({ node, allows }: Action, state: ClusterState): number {
  switch (allows.kind) {
    case 'Nothing':
      return -Infinity;
    case 'InFlight':
      return state.heldUntilMs(node);
    case 'Asked':
      return Math.max(state.heldUntilMs(node), state.askedUntilMs(allows.podUid));
  }
}

/** Reports whether a killed apiserver may have stored, without an answer, a Lease that nobody has written since. */
function mayBeHeld(
  node: string,
  { write, lease }: { write: Write; lease: LeaseState | undefined },
  { unknown }: AuditLog,
): boolean {
  return unknown.some(
    (one) =>
      isOfWorker(one) &&
      one.resource === 'leases' &&
      one.namespace === NODE_LEASE_NAMESPACE &&
      one.name === node &&
      one.receivedMs <= write.answeredMs &&
      mayBeStored(one, lease?.last),
  );
}

/** Reports whether a killed apiserver may have stored, without an answer, the request that allows the action. Every request is written again, at its end. */
function mayBeAsked(
  { allows }: Action,
  write: Write,
  { log, requested }: { log: AuditLog; requested: ReadonlySet<string> },
): boolean {
  return (
    allows.kind === 'Asked' &&
    requested.has(allows.podUid) &&
    log.unknown.some(
      (one) =>
        isOfWorker(one) &&
        isRequestApi(one.resource) &&
        one.verb === 'create' &&
        one.namespace === write.namespace &&
        one.receivedMs <= write.answeredMs,
    )
  );
}
