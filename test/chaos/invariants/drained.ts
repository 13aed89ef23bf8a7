import type { Condition } from '../../../api/core.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { type AuditEvent, type AuditLog, mayBeStored, type Write } from './audit.ts';
import { type ClusterState, isOfWorker, mayBeRemoved, nodesOf, type PodState, replay } from './cluster.ts';
import { type Ignorance, isInFlight } from './drains.ts';
import type { Violation } from './invariants.ts';
import { tierOf } from './tiers.ts';

/**
 * A maintenance becomes Drained only when the pods that its plan selects have left its nodes. Those that appeared at the same time do not count, nor do
 * those that appear later: it is not Drained any more until they have left, too.
 */
export function drainedTooEarly(log: AuditLog, ignorance: readonly Ignorance[]): Violation[] {
  const check = new DrainedClaims(log, ignorance);
  const violations: Violation[] = [];
  replay(log, (write, state) => violations.push(...check.check(write, state)));
  return violations;
}

/** A status claims that the maintenance is Drained since then, with the spec of this generation. */
interface Claim {
  lastTransitionTime: string;
  generation: number | undefined;
}

class DrainedClaims {
  readonly #unknown: AuditLog['unknown'];
  readonly #ignorance: readonly Ignorance[];
  /** UID of a maintenance -> node that it selects -> since when. */
  readonly #selected = new Map<string, ReadonlyMap<string, number>>();
  /** UID of a maintenance -> its latest claim. */
  readonly #claims = new Map<string, Claim>();
  /** UID of a maintenance -> the latest write of it that was answered. */
  readonly #last = new Map<string, AuditEvent>();

  constructor({ unknown }: AuditLog, ignorance: readonly Ignorance[]) {
    this.#unknown = unknown;
    this.#ignorance = ignorance;
  }

  check(write: Write, state: ClusterState): Violation[] {
    const { resource, object } = write;
    if (!/^nodemaintenances(\/status)?$/.test(resource) || object === undefined) return [];
    const maintenance = object as NodeMaintenance;
    const { uid = '', name } = maintenance.metadata;
    const selected = this.#select(maintenance, write.answeredMs);
    const claim = claimOf(maintenance);
    const before = { claim: this.#claims.get(uid), last: this.#last.get(uid) };
    this.#last.set(uid, write.event);
    if (claim === undefined) return [];
    this.#claims.set(uid, claim);
    const isKnown =
      claim.lastTransitionTime === before.claim?.lastTransitionTime &&
      claim.generation === before.claim.generation;
    // What the writes of others show was written by the worker, and not answered.
    if (isKnown || !isOfWorker(write)) return [];
    const sinceMs = this.#claimedMs(claim, before, write);
    if (sinceMs === undefined) return [];
    const isLeft = (pod: PodState) =>
      tierOf(maintenance.spec.drainPlan ?? [], pod) < (maintenance.spec.drainPlan ?? []).length &&
      this.#isCertainlyOn(pod, selected, { sinceMs, nowMs: write.answeredMs });
    const left = [...state.pods.values()].filter(isLeft);
    if (left.length === 0) return [];
    const names = left.map(({ key, node }) => `${key} (on ${node})`).toSorted();
    return [
      {
        invariant: 'drained',
        message: `${name} became Drained while pods that it drains were on its nodes: ${names.join(', ')}`,
        events: [...left.map(({ last }) => last), write.event],
      },
    ];
  }

  /** Returns the nodes that the maintenance selects, with the time since when it does. */
  #select({ metadata: { uid = '' }, spec }: NodeMaintenance, nowMs: number): ReadonlyMap<string, number> {
    const before = this.#selected.get(uid);
    const nodes = [...nodesOf(spec.nodeSelector)];
    const selected = new Map(nodes.map((node) => [node, before?.get(node) ?? nowMs] as const));
    this.#selected.set(uid, selected);
    return selected;
  }

  /**
   * Returns when the nodes were verified, or somewhat earlier: the worker notes the time before it asks the apiserver. Without a transition it is that of
   * the write, unless an earlier one may have said the same.
   */
  #claimedMs(
    claim: Claim,
    { claim: before, last }: { claim: Claim | undefined; last: AuditEvent | undefined },
    { name, receivedMs }: Write,
  ): number | undefined {
    if (claim.lastTransitionTime !== before?.lastTransitionTime) {
      // The clock of the worker may have jumped.
      return Math.min(Date.parse(claim.lastTransitionTime), receivedMs);
    }
    const isLost = this.#unknown.some(
      (one) =>
        one.resource === 'nodemaintenances/status' &&
        one.name === name &&
        one.receivedMs <= receivedMs &&
        mayBeStored(one, last),
    );
    return isLost ? undefined : receivedMs;
  }

  /** Reports whether the pod was on a selected node some time before the claim, and still is. Static pods stay. */
  #isCertainlyOn(
    pod: PodState,
    selected: ReadonlyMap<string, number>,
    { sinceMs, nowMs }: { sinceMs: number; nowMs: number },
  ): boolean {
    const selectedMs = selected.get(pod.node ?? '');
    if (selectedMs === undefined || pod.type === 'Static' || pod.isGone || pod.isFinished) return false;
    const thereMs = Math.max(selectedMs, pod.onNodeSinceMs ?? Infinity);
    return !mayBeRemoved(pod, this.#unknown, nowMs) && !isInFlight(thereMs, sinceMs, this.#ignorance);
  }
}

/** Returns the claim of a status about the current spec; undefined if it does not say that the maintenance is Drained. */
function claimOf({ metadata: { generation }, status }: NodeMaintenance): Claim | undefined {
  const drained: Condition | undefined = status?.conditions.find(({ type }) => type === 'Drained');
  if (drained?.status !== 'True' || drained.observedGeneration !== generation) return undefined;
  return { lastTransitionTime: drained.lastTransitionTime, generation };
}
