import type { DrainPlanEntry } from '../api/nodeMaintenance.ts';
import { type DrainTargets, join, resolveDrainTargets, targetsPod, wishAt } from './drainTargets.ts';
import { compareNames } from './names.ts';
import { type PodSnapshot, podName, podTypeOf } from './pod.ts';

/** A maintenance in the Drain stage, as far as it concerns the drain of a node. */
export interface DrainingMaintenance {
  name: string;
  /** `.metadata.creationTimestamp`: the older one goes first where two cannot both. */
  createdAt: string;
  /** The complete plan (see completeDrainPlan) and where the maintenance stands in it. */
  plan: readonly DrainPlanEntry[];
  position: number;
  /** Names of the nodes that it selects. */
  nodes: readonly string[];
}

export interface NodeSnapshot {
  name: string;
  pods: readonly PodSnapshot[];
  /** What this node reached while any of its maintenances has been draining it. */
  reached: DrainTargets;
}

/** What one maintenance has to expect of one node. */
export interface Standing {
  maintenance: DrainingMaintenance;
  wish: DrainTargets;
  /** Living pods that the maintenance wants gone before it goes on. */
  wanted: number;
  /** Others whose drain plans hold some of these back, by name. */
  limitedBy: readonly string[];
}

/** A node between the wishes of its maintenances. */
export interface ContestedNode {
  name: string;
  targets: DrainTargets;
  /** In order of their names; static pods are among `remaining`: only the kubelet of their node can end them. */
  evacuable: readonly PodSnapshot[];
  remaining: readonly PodSnapshot[];
  /** Living pods that the drain targets select: they leave, or are about to. */
  leaving: number;
  /** By the name of the maintenance. */
  standings: ReadonlyMap<string, Standing>;
}

/** Maintenances that share nodes, directly or through third ones, and these nodes. */
export interface Contention {
  maintenances: ReadonlyMap<string, DrainingMaintenance>;
  nodes: ReadonlyMap<string, ContestedNode>;
}

/** The drain targets of every node, and what they mean for every maintenance (KEP-4212 > Pod Selection). */
export function resolveContention(
  maintenances: readonly DrainingMaintenance[],
  nodes: readonly NodeSnapshot[],
): Contention {
  const claimants = maintenances.map((maintenance) => ({
    claim: { maintenance, wish: wishAt(maintenance.plan, maintenance.position) },
    selected: new Set(maintenance.nodes),
  }));
  const resolved = nodes.map((node) => {
    const claims = claimants.filter(({ selected }) => selected.has(node.name)).map(({ claim }) => claim);
    const targets = resolveDrainTargets(
      node.reached,
      claims.map(({ wish }) => wish),
    );
    return contestedNode(node, claims, targets);
  });
  return {
    maintenances: new Map(maintenances.map((one) => [one.name, one] as const)),
    nodes: new Map(resolved.map((node) => [node.name, node] as const)),
  };
}

type Claim = Pick<Standing, 'maintenance' | 'wish'>;

function contestedNode(node: NodeSnapshot, claims: readonly Claim[], targets: DrainTargets): ContestedNode {
  const pods = node.pods.toSorted((a, b) => compareNames(podName(a.pod), podName(b.pod)));
  const evacuable = pods.filter(isEvacuable);
  const heldBack = evacuable.filter(({ pod }) => !targetsPod(targets, pod));
  return {
    name: node.name,
    targets,
    evacuable,
    remaining: pods.filter((pod) => !isEvacuable(pod)),
    leaving: evacuable.length - heldBack.length,
    standings: new Map(
      claims.map((claim) => [claim.maintenance.name, standing(claim, claims, { evacuable, heldBack })]),
    ),
  };
}

/** Nothing in this cluster evacuates static pods: their kubelet would have to. */
function isEvacuable({ pod }: PodSnapshot): boolean {
  return podTypeOf(pod) !== 'Static';
}

function standing(
  claim: Claim,
  claims: readonly Claim[],
  { evacuable, heldBack }: { evacuable: readonly PodSnapshot[]; heldBack: readonly PodSnapshot[] },
): Standing {
  const wantedBack = heldBack.filter(({ pod }) => targetsPod(claim.wish, pod));
  const limiters = claims.filter(({ wish }) => wantedBack.some(({ pod }) => !targetsPod(wish, pod)));
  return {
    ...claim,
    wanted: evacuable.filter(({ pod }) => targetsPod(claim.wish, pod)).length,
    limitedBy: limiters.map(({ maintenance }) => maintenance.name).toSorted(compareNames),
  };
}

export interface StandingOnNode extends Standing {
  node: ContestedNode;
}

/** How a maintenance stands on each of its nodes, in order of their names. */
export function standingsOf(contention: Contention, maintenance: string): StandingOnNode[] {
  return [...contention.nodes.values()]
    .flatMap((node) => {
      const own = node.standings.get(maintenance);
      return own === undefined ? [] : [{ ...own, node }];
    })
    .toSorted((a, b) => compareNames(a.node.name, b.node.name));
}

/** The maintenances that have to go on before `maintenance` can, by name. */
function waitsFor(contention: Contention, maintenance: string): string[] {
  return [...new Set(standingsOf(contention, maintenance).flatMap(({ limitedBy }) => limitedBy))];
}

/**
 * The maintenances that wait for each other in a cycle with `maintenance`, the oldest first; empty when there is no such
 * cycle. A maintenance goes on only when all that it wants is gone, so none of them ever would: their label selectors
 * demand opposite orders. Without a cycle whoever waits for nobody goes on, and so, one after the other, do all.
 */
export function deadlockOf(contention: Contention, maintenance: string): DrainingMaintenance[] {
  const awaited = reachable(contention, maintenance);
  const cycle = [...awaited].filter((other) => reachable(contention, other).has(maintenance));
  return cycle
    .flatMap((name) => contention.maintenances.get(name) ?? [])
    .toSorted((a, b) => compareNames(a.createdAt, b.createdAt) || compareNames(a.name, b.name));
}

/** Whoever a maintenance waits for, directly or through others; itself only when it does so in a cycle. */
function reachable(contention: Contention, from: string): Set<string> {
  const found = new Set<string>();
  const open = waitsFor(contention, from);
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (found.has(name)) continue;
    found.add(name);
    open.push(...waitsFor(contention, name));
  }
  return found;
}

/** The contention with a maintenance's wish granted on all of its nodes, whoever would hold them back. */
export function withWishGranted(contention: Contention, maintenance: string): Contention {
  const nodes = standingsOf(contention, maintenance).map(({ node, wish }) =>
    contestedNode(
      { name: node.name, pods: [...node.evacuable, ...node.remaining], reached: [] },
      [...node.standings.values()],
      join([node.targets, wish]),
    ),
  );
  return {
    ...contention,
    nodes: new Map([...contention.nodes, ...nodes.map((node) => [node.name, node] as const)]),
  };
}
