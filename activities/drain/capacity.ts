import type { Node, Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { allocation, type DrainAllocation, type PlacedDrain } from '../../domain/capacity/allocation.ts';
import { withCordoned } from '../../domain/capacity/clusterState.ts';
import { type CapacityFacts, holdsPodsBack } from '../../domain/capacity/condition.ts';
import {
  type CapacityDeadlock,
  capacityDeadlocks,
  type StrandedPod,
  strandedPods,
} from '../../domain/capacity/deadlock.ts';
import {
  deletedAt,
  isAboutToBeScheduled,
  needsPlace,
  withoutReplacement,
} from '../../domain/capacity/replacement.ts';
import { compareNames } from '../../domain/common/names.ts';
import { isLeftRunning, podName } from '../../domain/common/pod.ts';
import type { Steps } from '../../domain/common/steps.ts';
import { holdsNodes, stageOf } from '../../domain/common/stage.ts';
import { isPastDeadline } from '../../domain/drain/escalation.ts';
import { planOf } from '../../domain/drain/plan.ts';
import { tierPositionOf } from '../../domain/drain/tiers.ts';
import { BlockerReason, reportedBlocker } from '../../domain/evacuation/blocker.ts';
import { budgetBlockers } from '../../domain/evacuation/budgets.ts';
import { isInstigated } from '../../domain/evacuation/evacuation.ts';
import { isLive, isOurs } from '../../domain/evacuation/evictionRequest.ts';
import { stoppedReasonOf, endsByItself } from '../../domain/windows/stoppedReason.ts';
import { byNamespace, byNode } from '../../kube/cluster.ts';
import { inSlices } from '../../kube/slices.ts';
import type { InjectedDeps } from '../injectedDeps.ts';
import { isDraining, namesOf, nodeStatusOf, nodesOf, selectedNodes } from '../view.ts';
import { BoundVolumes } from './boundVolumes.ts';
import { cachedPod } from './latestPod.ts';

/** A result is used for this long, and for this many times as long as it took. */
const minAgeMs = 1_000;
const ageForReportMs = 5_000;
const agePerComputation = 20;
/** A computation that no drain waits for is given up after this time, and reports nothing. */
const maxComputationMs = 5_000;
/** Maximum number of pods in a cluster in which places are found for all drains: in a larger one, only for drains that wait for them. */
const maxReportedPods = 50_000;
/** A replacement that does not exist so long after its pod has gone is not coming. */
const replacementMs = 30_000;

/** The places for the pods of one drain. */
export interface DrainCapacity {
  readonly facts: CapacityFacts;
  /** The time after which pods that may not leave are compared with the nodes again. */
  readonly dueInMs: number;
  /** Reports whether the pod may be evacuated. A pod that appeared since waits for the next result. */
  readonly mayLeave: (pod: Pod) => boolean;
}

interface Computed {
  readonly atMs: number;
  readonly tookMs: number;
  readonly allocations: ReadonlyMap<string, DrainAllocation>;
  /** Maintenance -> UIDs of the pods that the result is about. */
  readonly considered: ReadonlyMap<string, ReadonlySet<string | undefined>>;
  /** Maintenance -> pods with claims whose volumes have not been read yet. The result is not about them. */
  readonly unread: ReadonlyMap<string, readonly Pod[]>;
  /** UIDs of the pods that are asked to leave, for which places are reserved. Their requests may have to be made again. */
  readonly evacuating: ReadonlySet<string | undefined>;
  readonly stranded: readonly StrandedPod[];
  readonly deadlocks: readonly CapacityDeadlock[];
}

/**
 * Finds places for the pods of all drains together, from the informers, so that no two pods count on the same one. The drains of this process share
 * a result for a second at least. Another process comes to the same result.
 */
export class Capacity {
  readonly #deps: Pick<InjectedDeps, 'cluster' | 'namespace'>;
  readonly #volumes: BoundVolumes;
  /** UID of a pod that was being evacuated -> when it was seen last; its replacement may not exist yet. */
  readonly #leaving = new Map<string, { pod: Pod; seenMs: number }>();
  /** Maintenance -> UIDs of pods whose evacuation has started, and whose places are not reported yet. */
  readonly #unreported = new Map<string, ReadonlySet<string | undefined>>();
  #computed: Computed | undefined;
  #computing: Promise<Computed> | undefined;

  constructor(deps: Pick<InjectedDeps, 'cluster' | 'namespace'>) {
    this.#deps = deps;
    this.#volumes = new BoundVolumes(deps.cluster.kube);
  }

  /**
   * Returns undefined for a drain that does not wait for capacity in a cluster that is too large to report it. `unreported`: pods whose evacuation has
   * started since they were decided on; the facts are about them, too, until the next call. Call `forget` when the drain ends.
   */
  async of(
    maintenance: NodeMaintenance,
    evacuate: readonly Pod[],
    unreported: readonly Pod[],
  ): Promise<DrainCapacity | undefined> {
    const { name } = maintenance.metadata;
    const waits = this.#holdsPodsBack(maintenance);
    const { pods, nodes } = this.#deps.cluster;
    if (!waits && pods.size > maxReportedPods) return undefined;
    const left = unreported.filter((pod) => this.#isStaying(pod));
    if (left.length === 0) this.forget(name);
    else this.#unreported.set(name, uidsOf(left));
    const asked = [...evacuate, ...left];
    const isUnknown = (pod: Pod) =>
      needsPlace(pod) &&
      pod.metadata.deletionTimestamp === undefined &&
      this.#computed?.evacuating.has(pod.metadata.uid) !== true &&
      this.#computed?.considered.get(name)?.has(pod.metadata.uid) !== true;
    const computed = await this.#newerThan(asked.some(isUnknown) ? minAgeMs : ageForReportMs);
    const { unplaced = [], servedFirst = [], stopped = [] } = computed.allocations.get(name) ?? {};
    const held = namesOf(nodesOf(maintenance, nodes.list()));
    const isOnHeldNode = ({ spec }: Pod) => held.has(spec.nodeName ?? '');
    const waiting = new Set(unplaced.map(({ pod }) => pod.metadata.uid));
    const considered = computed.considered.get(name);
    const isComplete = !asked.some(isUnknown);
    return {
      dueInMs: isComplete ? ageForReportMs : minAgeMs,
      facts: {
        waits,
        isComplete,
        unplaced,
        servedFirst,
        stopped,
        unread: waits ? (computed.unread.get(name) ?? []) : [],
        stranded: computed.stranded.filter((one) => one.nodes.some((node) => held.has(node))),
        deadlocks: computed.deadlocks.filter(
          ({ blocked, node }) => held.has(node) || blocked.some(isOnHeldNode),
        ),
      },
      mayLeave: (pod) =>
        !waits ||
        !needsPlace(pod) ||
        pod.metadata.deletionTimestamp !== undefined ||
        computed.evacuating.has(pod.metadata.uid) ||
        (considered?.has(pod.metadata.uid) === true && !waiting.has(pod.metadata.uid)),
    };
  }

  forget(name: string): void {
    this.#unreported.delete(name);
  }

  /** Reports whether the pod exists, and is not terminating. */
  #isStaying({ metadata }: Pod): boolean {
    const pod = cachedPod(this.#deps.cluster, metadata);
    return pod !== undefined && pod.metadata.deletionTimestamp === undefined;
  }

  #holdsPodsBack(maintenance: NodeMaintenance): boolean {
    return holdsPodsBack(maintenance, isPastDeadline(maintenance, this.#deps.cluster.kube.now()));
  }

  async #newerThan(ageMs: number): Promise<Computed> {
    const known = this.#computed;
    const maxAgeMs = known === undefined ? 0 : Math.max(ageMs, agePerComputation * known.tookMs);
    if (known !== undefined && performance.now() - known.atMs < maxAgeMs) return known;
    this.#computing ??= this.#compute().finally(() => {
      this.#computing = undefined;
    });
    return this.#computing;
  }

  async #compute(): Promise<Computed> {
    const { cluster, namespace } = this.#deps;
    const readingAt = performance.now();
    const maintenances = cluster.maintenances.list().filter((one) => holdsNodes(stageOf(one)));
    const draining = maintenances.filter(isDraining);
    const unreported = new Set([...this.#unreported.values()].flatMap((uids) => [...uids]));
    const evacuating = this.#evacuatingPods().filter(({ metadata }) => !unreported.has(metadata.uid));
    const isEvacuating = new Set(evacuating.map(({ metadata }) => metadata.uid));
    const leavingOf = (maintenance: NodeMaintenance) =>
      leavingPods(maintenance, maintainedNodes(maintenance, cluster.nodes.list()), (node) =>
        cluster.pods.byIndex(byNode, node).filter((pod) => !isLeftRunning(pod, namespace)),
      ).filter(({ metadata }) => !isEvacuating.has(metadata.uid));
    const withClaims = [...evacuating, ...draining.flatMap(leavingOf)].filter(({ spec }) => spec.claims);
    const spentMs = performance.now() - readingAt;
    await this.#volumes.read(withClaims);
    // Nothing below waits before all facts are read, so that they are from one moment.
    const startedAt = performance.now() - spentMs;
    const existing = cluster.nodes.list();
    const pods = cluster.pods.list();
    const drains = cluster.maintenances
      .list()
      .filter(isDraining)
      .map((one) => this.#placed(one, leavingOf(one)));
    const cordoned = maintenances.flatMap((one) => [...namesOf(maintainedNodes(one, existing))]);
    const facts = {
      nodes: withCordoned(existing, new Set(cordoned)),
      pods,
      volumes: this.#volumes.byClaim(),
    };
    const nowMs = cluster.kube.now().getTime();
    const reserved = [
      ...pods.filter((pod) => isAboutToBeScheduled(pod, nowMs)),
      ...withoutReplacement(this.#stillLeaving(evacuating), pods),
    ];
    const holders = holdersOf(maintenances, existing);
    const blocked = this.#podsBlockedByBudgets();
    const deadlockFacts = { budgets: cluster.budgets.list(), blocked, holders };
    const unread = new Map(
      drains.map(({ name, pods: own }) => [name, own.filter((pod) => !this.#volumes.hasRead(pod))] as const),
    );
    const preparedMs = performance.now() - startedAt;
    const maxMs = drains.some(({ waits }) => waits) ? Infinity : maxComputationMs;
    const placing = placed({ ...facts, ...deadlockFacts }, reserved, drains);
    const { result, tookMs } = (await inSlices(placing, maxMs)) ?? { result: notPlaced, tookMs: maxMs };
    const { allocations, stranded, compared } = result;
    const continuedAt = performance.now();
    const deadlocks = capacityDeadlocks(stranded, deadlockFacts);
    const atMs = performance.now();
    this.#computed = {
      atMs,
      tookMs: preparedMs + tookMs + atMs - continuedAt,
      allocations: new Map(allocations.map((one) => [one.name, one] as const)),
      considered: new Map(compared.map((one) => [one.name, uidsOf(one.pods, unread.get(one.name))] as const)),
      unread,
      evacuating: isEvacuating,
      stranded,
      deadlocks,
    };
    return this.#computed;
  }

  #placed(maintenance: NodeMaintenance, pods: readonly Pod[]): PlacedDrain {
    const now = this.#deps.cluster.kube.now();
    return {
      name: maintenance.metadata.name,
      createdAt: maintenance.metadata.creationTimestamp ?? '',
      waits: this.#holdsPodsBack(maintenance),
      stoppedReason: stoppedReasonOf(maintenance, now),
      endsByItself: endsByItself(maintenance, now),
      pods,
    };
  }

  /** Returns the pods that are asked to leave, and whose replacements need places. */
  #evacuatingPods(): Pod[] {
    const { cluster } = this.#deps;
    const byEvacuation = cluster.evacuations.list().flatMap((evacuation) => {
      const { podRef } = evacuation.spec;
      const pod = cachedPod(cluster, { ...podRef, namespace: evacuation.metadata.namespace });
      return pod !== undefined && isInstigated(evacuation) && needsPlace(pod) ? [pod] : [];
    });
    const byRequest = this.#requestedPods().filter((pod) => needsPlace(pod));
    return byRequest.length === 0 ? byEvacuation : [...new Set([...byEvacuation, ...byRequest])];
  }

  /** Returns the pods with an EvictionRequest of ours. */
  #requestedPods(): Pod[] {
    const { cluster } = this.#deps;
    return cluster.lifecycle.requests.list().flatMap((request) => {
      const pod = cachedPod(cluster, { ...request.spec.target.pod, namespace: request.metadata.namespace });
      return pod !== undefined && isOurs(request) && isLive(request) ? [pod] : [];
    });
  }

  /** Remembers pods that are gone until their replacements exist. */
  #stillLeaving(evacuating: readonly Pod[]): { pod: Pod; since: number | undefined }[] {
    const seenMs = performance.now();
    for (const pod of evacuating) this.#leaving.set(pod.metadata.uid ?? '', { pod, seenMs });
    const { cluster } = this.#deps;
    const lagMs = cluster.kube.now().getTime();
    for (const [uid, { pod, seenMs: lastMs }] of this.#leaving) {
      const existing = cluster.pods.get(podName(pod));
      const isWithdrawn = existing?.metadata.uid === uid && lastMs !== seenMs;
      if (isWithdrawn || seenMs - lastMs > replacementMs) this.#leaving.delete(uid);
    }
    return [...this.#leaving.values()].map(({ pod, seenMs: lastMs }) => ({
      pod,
      // Pods are created in whole seconds.
      since:
        deletedAt(pod) ??
        (lastMs === seenMs ? undefined : Math.floor((lagMs - (seenMs - lastMs)) / 1_000) * 1_000),
    }));
  }

  #podsBlockedByBudgets(): Pod[] {
    const { evacuations, budgets, pods } = this.#deps.cluster;
    const reasons: readonly string[] = [
      BlockerReason.DisruptionBudget,
      BlockerReason.DisruptionBudgetNeverAllows,
    ];
    const blocked = evacuations
      .list()
      .filter(({ status }) => reasons.includes(reportedBlocker(status)?.reason ?? ''))
      .flatMap(({ metadata, spec }) => pods.get(`${metadata.namespace}/${spec.podRef.name}`) ?? []);
    const requested = this.#requestedPods().filter(
      (pod) => budgetBlockers(pod, budgets.byIndex(byNamespace, pod.metadata.namespace ?? '')).length > 0,
    );
    return [...blocked, ...requested].toSorted((a, b) => compareNames(podName(a), podName(b)));
  }
}

interface Placed {
  readonly allocations: readonly DrainAllocation[];
  readonly stranded: readonly StrandedPod[];
  /** The drains whose pods were compared with the nodes: those of others are unknown. */
  readonly compared: readonly PlacedDrain[];
}

const notPlaced: Placed = { allocations: [], stranded: [], compared: [] };

/** Finds places for the pods of the drains, and the pods that wait for one. */
function* placed(
  facts: Parameters<typeof strandedPods>[0],
  reserved: readonly Pod[],
  drains: readonly PlacedDrain[],
): Steps<Placed> {
  const allocations = yield* allocation(facts, reserved, drains);
  return { allocations, stranded: yield* strandedPods(facts), compared: drains };
}

/** Returns the selected nodes that the requester may maintain: the others are neither cordoned nor drained. */
function maintainedNodes(maintenance: NodeMaintenance, nodes: readonly Node[]): Node[] {
  const skipped = new Set(
    maintenance.status?.nodeStatuses
      .filter(({ authorized }) => authorized === false)
      .map(({ nodeRef }) => nodeRef.name),
  );
  return selectedNodes(maintenance, nodes).filter(({ metadata }) => !skipped.has(metadata.name));
}

/** Returns the pods that leave the nodes of a maintenance and need other places, in the order in which they leave. */
function leavingPods(
  maintenance: NodeMaintenance,
  nodes: readonly Node[],
  podsOn: (node: string) => readonly Pod[],
): Pod[] {
  const plan = planOf(maintenance);
  return nodes
    .flatMap(({ metadata }) => podsOn(metadata.name))
    .filter((pod) => needsPlace(pod) && pod.metadata.deletionTimestamp === undefined)
    .map((pod) => ({ pod, position: tierPositionOf(plan, 0, pod), name: podName(pod) }))
    .toSorted((a, b) => a.position - b.position || compareNames(a.name, b.name))
    .map(({ pod }) => pod);
}

function uidsOf(pods: readonly Pod[], except: readonly Pod[] = []): Set<string | undefined> {
  const excepted = new Set(except);
  return new Set(pods.filter((pod) => !excepted.has(pod)).map(({ metadata }) => metadata.uid));
}

/** Returns, by node, the maintenances whose completion uncordons it. */
function holdersOf(maintenances: readonly NodeMaintenance[], nodes: readonly Node[]): Map<string, string[]> {
  const holders = new Map<string, string[]>();
  for (const maintenance of maintenances)
    for (const node of nodesOf(maintenance, nodes)) {
      // Complete does not uncordon a node that was cordoned before.
      if (nodeStatusOf(maintenance, node)?.unschedulableBefore !== false) continue;
      const names = holders.get(node.metadata.name) ?? [];
      holders.set(node.metadata.name, [...names, maintenance.metadata.name]);
    }
  return holders;
}
