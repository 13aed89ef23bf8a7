import type { DrainPlanEntry } from '../../../api/nodeMaintenance.ts';
import type { AuditLog, Write } from './audit.ts';
import {
  type ClusterState,
  isByDeadline,
  type MaintenanceState,
  mayBeRemoved,
  type PodState,
  podsIn,
  removedPodOf,
  replay,
  requestedPodOf,
  requestedPodsIn,
} from './cluster.ts';
import type { Violation } from './invariants.ts';

/**
 * Tiers leave a node in order: a pod is asked to leave, or removed without being asked, only when the pods of all earlier tiers of each maintenance that
 * drains its node were gone from all nodes of that maintenance, at one moment at least, since it began to drain.
 */
export function tiersOutOfOrder(log: AuditLog): Violation[] {
  const check = new TierCheck(log);
  const requested = requestedPodsIn(log);
  const violations: Violation[] = [];
  replay(log, (write, state) => {
    check.observe(state, write.answeredMs);
    const asked = requestedPodOf(write)?.uid;
    if (asked !== undefined) violations.push(...check.check(write, asked, { state, what: 'asked to leave' }));
    const removed = isByDeadline(write) ? undefined : removedPodOf(write);
    if (removed !== undefined && !requested.has(removed))
      violations.push(...check.check(write, removed, { state, what: 'removed without being asked' }));
  });
  return violations;
}

/** The positions in their plans that the maintenances of a node had at one moment, by UID. */
type Positions = ReadonlyMap<string, number>;

interface Reached {
  plans: ReadonlyMap<string, readonly DrainPlanEntry[]>;
  positions: Positions;
}

class TierCheck {
  /** UID of a maintenance -> the highest position that it may have reached. */
  readonly #passed = new Map<string, number>();
  /** Node -> what its drain targets may have been. They do not backtrack while a maintenance of the node is unfinished. */
  readonly #reached = new Map<string, Map<string, Reached>>();
  readonly #pods: ReadonlyMap<string, PodState>;
  readonly #unknown: AuditLog['unknown'];

  constructor(log: AuditLog) {
    this.#pods = podsIn(log);
    this.#unknown = log.unknown;
  }

  observe(state: ClusterState, nowMs: number): void {
    const draining = state.draining();
    for (const maintenance of draining) this.#advance(maintenance, state, nowMs);
    const held = [...state.maintenances.values()].filter(({ isFinished }) => !isFinished);
    for (const node of this.#reached.keys())
      if (!held.some(({ nodes }) => nodes.has(node))) this.#reached.delete(node);
    for (const node of new Set(draining.flatMap(({ nodes }) => [...nodes]))) this.#note(node, state);
  }

  check(write: Write, podUid: string, { state, what }: { state: ClusterState; what: string }): Violation[] {
    const pod = state.pods.get(podUid) ?? this.#pods.get(podUid);
    const node = pod?.node ?? this.#pods.get(podUid)?.node;
    if (pod === undefined || node === undefined) return [];
    const draining = state.drainingOn(node);
    // Another invariant.
    if (draining.length === 0 || this.#isAllowed(pod, node, { state, nowMs: write.answeredMs })) return [];
    const early = draining.filter((one) => tierOf(one.plan, pod) > (this.#passed.get(one.uid) ?? 0));
    const [first = draining[0]] = early;
    const blocking = first === undefined ? [] : this.#living(first, state, write.answeredMs);
    const earlier = blocking.filter(
      (other) => tierOf(first?.plan ?? [], other) < tierOf(first?.plan ?? [], pod),
    );
    const names = earlier.map(({ key, node: on }) => `${key} (on ${on})`).toSorted();
    return [
      {
        invariant: 'tiers',
        message: `Pod ${pod.key} on ${node} was ${what} in tier ${tierOf(first?.plan ?? [], pod)} of ${first?.name}, while pods of earlier tiers had not left: ${names.join(', ')}`,
        events: [
          ...(first === undefined ? [] : [first.last]),
          ...earlier.map(({ last }) => last),
          write.event,
        ],
      },
    ];
  }

  #isAllowed(pod: PodState, node: string, { state, nowMs }: { state: ClusterState; nowMs: number }): boolean {
    const draining = state.drainingOn(node);
    // What a deadline deletes leaves in the order of its times.
    if (draining.some(({ deletesFromMs }) => deletesFromMs <= nowMs)) return true;
    const hasReached = (one: MaintenanceState) => tierOf(one.plan, pod) <= (this.#passed.get(one.uid) ?? 0);
    // Selectors can order the same pods differently: then the oldest maintenance proceeds alone (ADR 8).
    if (connectedTo(draining, state.draining()).some(hasSelector) && draining.some(hasReached)) return true;
    return [...(this.#reached.get(node)?.values() ?? [])].some(({ plans, positions }) =>
      [...plans].every(([uid, plan]) => tierOf(plan, pod) <= (positions.get(uid) ?? 0)),
    );
  }

  #advance(maintenance: MaintenanceState, state: ClusterState, nowMs: number): void {
    const { uid, plan } = maintenance;
    const before = this.#passed.get(uid) ?? 0;
    const tiers = this.#living(maintenance, state, nowMs).map((pod) => Math.max(before, tierOf(plan, pod)));
    this.#passed.set(uid, Math.max(before, Math.min(plan.length - 1, ...tiers)));
  }

  #note(node: string, state: ClusterState): void {
    const draining = state.drainingOn(node);
    const plans = new Map(draining.map(({ uid, plan }) => [uid, plan] as const));
    const positions = new Map(draining.map(({ uid }) => [uid, this.#passed.get(uid) ?? 0] as const));
    const key = [...positions]
      .map(([uid, position]) => `${uid}=${position}`)
      .toSorted()
      .join();
    const known = this.#reached.get(node) ?? new Map<string, Reached>();
    known.set(key, { plans, positions });
    this.#reached.set(node, known);
  }

  /** Returns the pods that certainly live on the nodes of a maintenance, but for nodes that someone else has locked: it does not wait for these. */
  #living({ nodes }: MaintenanceState, state: ClusterState, nowMs: number): PodState[] {
    return [...state.pods.values()].filter(
      (pod) =>
        pod.node !== undefined &&
        nodes.has(pod.node) &&
        !state.isForeign(pod.node) &&
        pod.type !== 'Static' &&
        !pod.isGone &&
        !pod.isFinished &&
        !mayBeRemoved(pod, this.#unknown, nowMs),
    );
  }
}

/** Returns these maintenances and those that share a node with one of them, directly or through others. */
function connectedTo(
  some: readonly MaintenanceState[],
  all: readonly MaintenanceState[],
): MaintenanceState[] {
  const found = new Set(some);
  for (const { nodes } of found)
    for (const other of all) if ([...other.nodes].some((node) => nodes.has(node))) found.add(other);
  return [...found];
}

function hasSelector({ plan }: MaintenanceState): boolean {
  return plan.some(({ podSelector }) => podSelector !== undefined);
}

/** Returns the index of the first entry of a plan that selects the pod: "Pods with a priority less or equal to this value are selected". */
export function tierOf(
  plan: readonly DrainPlanEntry[],
  pod: Pick<PodState, 'type' | 'priority' | 'labels'>,
): number {
  const index = plan.findIndex(
    ({ podType, podPriority, podSelector }) =>
      podType === pod.type &&
      pod.priority <= podPriority &&
      Object.entries(podSelector?.matchLabels ?? {}).every(([name, value]) => pod.labels[name] === value),
  );
  return index === -1 ? plan.length : index;
}
