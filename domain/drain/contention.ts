import type { Pod } from '../../api/core.ts';
import type { DrainPlanEntry } from '../../api/nodeMaintenance.ts';
import { compareNames } from '../common/names.ts';
import { podName } from '../common/pod.ts';
import { type NodeAgent, noAgent } from '../leases/nodeAgent.ts';
import type { PodSnapshot } from './podSnapshot.ts';
import { type RemainingPod, remainingCause } from './remaining.ts';
import { type DrainTargets, desiredTargetsAt, join, resolveDrainTargets, targetsPod } from './targets.ts';

/** The input about one maintenance in the Drain stage. */
export interface DrainingMaintenance {
  name: string;
  /** `.metadata.creationTimestamp`: if two maintenances block each other, the older one proceeds. */
  createdAt: string;
  /** The complete plan (see completeDrainPlan) and the position reached in it. */
  plan: readonly DrainPlanEntry[];
  position: number;
  /** Names of the nodes that it selects. */
  nodes: readonly string[];
}

export interface NodeSnapshot {
  name: string;
  pods: readonly PodSnapshot[];
  /** The drain targets that this node has reached since a maintenance started to drain it. */
  reached: DrainTargets;
  /** None unless given. */
  agent?: NodeAgent;
}

/** The part of one maintenance in the contention for one node. */
export interface NodeDemand {
  maintenance: DrainingMaintenance;
  /** The targets that the maintenance would have on its own. */
  desired: DrainTargets;
  /** Number of pods that must leave before the maintenance reaches its next position. */
  desiredPods: number;
  /** Names of the maintenances whose drain plans hold some of these pods back. */
  limitedBy: readonly string[];
}

/** A node, and the targets that result from the desired targets of all its maintenances. */
export interface ContestedNode {
  name: string;
  targets: DrainTargets;
  agent: NodeAgent;
  /** Sorted by name. Static pods that nothing may stop are among `remaining`. */
  evacuable: readonly PodSnapshot[];
  remaining: readonly (PodSnapshot & RemainingPod)[];
  /** Number of evacuable pods that the drain targets select. */
  targetedPods: number;
  /** Maintenance name -> its demand. */
  demands: ReadonlyMap<string, NodeDemand>;
}

/** Maintenances that share nodes, directly or through others, and these nodes. */
export interface Contention {
  maintenances: ReadonlyMap<string, DrainingMaintenance>;
  nodes: ReadonlyMap<string, ContestedNode>;
}

/** Resolves the drain targets of every node, and their effect on every maintenance (KEP-4212 > Pod Selection). */
export function resolveContention(
  maintenances: readonly DrainingMaintenance[],
  nodes: readonly NodeSnapshot[],
): Contention {
  const maintenancesWithTargets = maintenances.map((maintenance) => ({
    desiredTargets: { maintenance, desired: desiredTargetsAt(maintenance.plan, maintenance.position) },
    selected: new Set(maintenance.nodes),
  }));
  const resolved = nodes.map((node) => {
    const all = maintenancesWithTargets
      .filter(({ selected }) => selected.has(node.name))
      .map(({ desiredTargets }) => desiredTargets);
    const targets = resolveDrainTargets(
      node.reached,
      all.map(({ desired }) => desired),
    );
    return contestedNode(node, all, targets);
  });
  return {
    maintenances: new Map(maintenances.map((one) => [one.name, one] as const)),
    nodes: new Map(resolved.map((node) => [node.name, node] as const)),
  };
}

type DesiredTargets = Pick<NodeDemand, 'maintenance' | 'desired'>;

function contestedNode(
  node: NodeSnapshot,
  all: readonly DesiredTargets[],
  targets: DrainTargets,
): ContestedNode {
  const { evacuable, remaining } = divided(node);
  const heldBack = evacuable.filter(({ pod }) => !targetsPod(targets, pod));
  return {
    name: node.name,
    targets,
    agent: node.agent ?? noAgent,
    evacuable,
    remaining,
    targetedPods: evacuable.length - heldBack.length,
    demands: new Map(all.map((own) => [own.maintenance.name, demand(own, all, { evacuable, heldBack })])),
  };
}

/** Divides the pods of a node, sorted by name, into those that a drain evacuates and those that it leaves running. */
export function divided({
  pods,
  agent = noAgent,
}: Pick<NodeSnapshot, 'pods' | 'agent'>): Pick<ContestedNode, 'evacuable' | 'remaining'> {
  const evacuable: PodSnapshot[] = [];
  const remaining: (PodSnapshot & RemainingPod)[] = [];
  for (const one of sortedByName(pods)) {
    const cause = remainingCause(one.pod, agent);
    if (cause === undefined) evacuable.push(one);
    else remaining.push({ ...one, cause });
  }
  return { evacuable, remaining };
}

/** Makes each name once, and not in each comparison. */
function sortedByName(pods: readonly PodSnapshot[]): PodSnapshot[] {
  return pods
    .map((one) => ({ one, name: podName(one.pod) }))
    .toSorted((a, b) => compareNames(a.name, b.name))
    .map(({ one }) => one);
}

function demand(
  own: DesiredTargets,
  all: readonly DesiredTargets[],
  { evacuable, heldBack }: { evacuable: readonly PodSnapshot[]; heldBack: readonly PodSnapshot[] },
): NodeDemand {
  const desiredAndHeldBack = heldBack.filter(({ pod }) => targetsPod(own.desired, pod));
  const limiting = new Set(desiredAndHeldBack.flatMap(({ pod }) => limitingOn(pod, own, all)));
  return {
    ...own,
    desiredPods: evacuable.filter(({ pod }) => targetsPod(own.desired, pod)).length,
    limitedBy: [...limiting].map(({ maintenance }) => maintenance.name).toSorted(compareNames),
  };
}

/**
 * Returns which maintenances hold back a pod that `own` desires: those that do not desire it; all others, if all desire it by different selectors,
 * whose minimum selects no pod.
 */
function limitingOn(
  pod: Pod,
  own: DesiredTargets,
  all: readonly DesiredTargets[],
): readonly DesiredTargets[] {
  const limiting = all.filter(({ desired }) => !targetsPod(desired, pod));
  return limiting.length > 0 ? limiting : all.filter((other) => other !== own);
}

/** The demand of one maintenance on one node, with the node. */
export interface NodeContention extends NodeDemand {
  node: ContestedNode;
}

/** Returns the contention for each node of a maintenance, sorted by node name. */
export function nodeContentionsOf(contention: Contention, maintenance: string): NodeContention[] {
  return [...contention.nodes.values()]
    .flatMap((node) => {
      const own = node.demands.get(maintenance);
      return own === undefined ? [] : [{ ...own, node }];
    })
    .toSorted((a, b) => compareNames(a.node.name, b.node.name));
}

/** Returns the names of the maintenances that must proceed before `maintenance` can. */
function waitsFor(contention: Contention, maintenance: string): string[] {
  return [...new Set(nodeContentionsOf(contention, maintenance).flatMap(({ limitedBy }) => limitedBy))];
}

/**
 * Returns the maintenances that wait for each other in a cycle with `maintenance`, the oldest first; empty without such a cycle. A
 * maintenance proceeds only when all pods that it targets are gone, so none of them ever would: their label selectors order the same pods
 * differently, or are different ones that select the same pods. Without a cycle, a maintenance that waits for no other proceeds, and then the others, one after the other.
 */
export function conflictCycleOf(contention: Contention, maintenance: string): DrainingMaintenance[] {
  const waitedFor = reachable(contention, maintenance);
  const cycle = [...waitedFor].filter((other) => reachable(contention, other).has(maintenance));
  return cycle
    .flatMap((name) => contention.maintenances.get(name) ?? [])
    .toSorted((a, b) => compareNames(a.createdAt, b.createdAt) || compareNames(a.name, b.name));
}

/** Returns the maintenances that `from` waits for, directly or through others. Contains `from` itself only in a cycle. */
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

/** Returns the contention with the desired targets of the maintenance on all of its nodes, regardless of the other maintenances. */
export function grantDesiredTargets(contention: Contention, maintenance: string): Contention {
  const nodes = nodeContentionsOf(contention, maintenance).map(({ node, desired }) =>
    contestedNode(
      { name: node.name, pods: [...node.evacuable, ...node.remaining], reached: [], agent: node.agent },
      [...node.demands.values()],
      join([node.targets, desired]),
    ),
  );
  return {
    ...contention,
    nodes: new Map([...contention.nodes, ...nodes.map((node) => [node.name, node] as const)]),
  };
}
