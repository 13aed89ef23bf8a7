import type { Node, Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import { NodeDecision } from '../../domain/common/requester.ts';
import { isLeftRunning, podTypeOf } from '../../domain/common/pod.ts';
import type { PodSnapshot } from '../../domain/drain/podSnapshot.ts';
import type { DrainingMaintenance } from '../../domain/drain/contention.ts';
import type { DrainSnapshot } from '../../domain/drain/decide.ts';
import { planOf, positionOf } from '../../domain/drain/plan.ts';
import type { NodeAgent } from '../../domain/leases/nodeAgent.ts';
import { type DrainTargets, join } from '../../domain/drain/targets.ts';
import { hasCordonRecord } from '../../domain/maintenance/status.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { byNode } from '../../kube/cluster.ts';
import { resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import type { Deps } from '../deps.ts';
import type { AgentNode } from '../leases/nodeAgents.ts';
import { type HeldView, isDraining, selectedNodes } from '../view.ts';

/** The maintenances and pods that a snapshot is taken of. */
export interface ClusterState {
  maintenances: readonly NodeMaintenance[];
  podsOn(node: string): readonly Pod[];
}

/** The state, and which nodes may be changed. */
export interface HeldClusterState extends ClusterState {
  isHeld(node: string): boolean;
  /** The other draining maintenances that select nodes of the maintenance, directly or through others. */
  others: readonly NodeMaintenance[];
  /** The requester of another maintenance may maintain the node. A maintenance that begins nothing more there holds no other back. */
  mayMaintain(other: NodeMaintenance, node: string): boolean;
}

/** Returns the state with the nodes whose Leases are held, and with the permissions of the requesters of the other maintenances. */
export async function withPermissions(
  { authority, nodeLeases }: Pick<Deps, 'authority' | 'nodeLeases'>,
  view: HeldView,
  state: ClusterState,
): Promise<HeldClusterState> {
  const isHeld = (node: string) => nodeLeases.isHeld(node);
  const others = connectedDrains(view, state, isHeld);
  const held = others.length === 0 ? [] : view.existing.filter((node) => isHeld(node.metadata.name));
  const decisionOf = await authority.decideAll(others, held);
  const mayMaintain = (other: NodeMaintenance, node: string) =>
    decisionOf(other, node) === NodeDecision.Proceed;
  return { ...state, isHeld, others, mayMaintain };
}

/**
 * Returns the other draining maintenances that select nodes of this one, directly or through others. Few do: what is expensive, such as permissions, is
 * asked for these alone.
 */
function connectedDrains(
  { maintenance, existing, held }: HeldView,
  { maintenances }: ClusterState,
  isHeld: (node: string) => boolean,
): NodeMaintenance[] {
  const { uid } = maintenance.metadata;
  const others = maintenances.filter((one) => one.metadata.uid !== uid && isDraining(one));
  const connected = new Set<NodeMaintenance>();
  let nodes: readonly Node[] = held;
  for (;;) {
    const joining = others.filter((one) => !connected.has(one) && selectsAny(one, nodes));
    if (joining.length === 0) return others.filter((one) => connected.has(one));
    for (const one of joining) connected.add(one);
    nodes = existing.filter(
      (node) => isHeld(node.metadata.name) && joining.some((one) => selectsAny(one, [node])),
    );
  }
}

function selectsAny({ spec }: NodeMaintenance, nodes: readonly Node[]): boolean {
  return nodes.some((node) => selectsNode(spec.nodeSelector, node));
}

/** Returns the state in the informers, without the pods that are left running. */
export function informerState({ cluster, namespace }: Pick<Deps, 'cluster' | 'namespace'>): ClusterState {
  const { maintenances, pods } = cluster;
  return {
    maintenances: maintenances.list(),
    podsOn: (node) => pods.byIndex(byNode, node).filter((pod) => !isLeftRunning(pod, namespace)),
  };
}

const concurrentLists = 8;

/** Reads the same state of these nodes from the apiserver, because one informer may lag behind another. */
export async function apiserverState(
  { cluster: { kube }, namespace }: Pick<Deps, 'cluster' | 'namespace'>,
  names: readonly string[],
): Promise<ClusterState> {
  const { items: maintenances } = await kube.list(resources.nodeMaintenances);
  const pods = new Map<string, Pod[]>();
  await forEachBounded(concurrentLists, names, async (name) => {
    const { items } = await kube.list(resources.pods, { fieldSelector: `spec.nodeName=${name}` });
    pods.set(
      name,
      items.map(trimPod).filter((pod) => !isLeftRunning(pod, namespace)),
    );
  });
  return { maintenances, podsOn: (node) => pods.get(node) ?? [] };
}

/** Returns the nodes of a snapshot whose agents the decision needs, or the status shows. */
export function agentNodesOf({ nodes, waiting }: DrainSnapshot): AgentNode[] {
  return [...nodes, ...waiting].map(({ name, pods }) => ({
    name,
    hasStaticPods: pods.some(({ pod }) => podTypeOf(pod) === 'Static'),
  }));
}

export function withAgents(snapshot: DrainSnapshot, agentOf: (node: string) => NodeAgent): DrainSnapshot {
  return {
    ...snapshot,
    nodes: snapshot.nodes.map((node) => ({ ...node, agent: agentOf(node.name) })),
    waiting: snapshot.waiting.map((node) => ({ ...node, agent: agentOf(node.name) })),
  };
}

/**
 * Takes a snapshot of a maintenance at a position, and of all draining maintenances that share nodes with it, directly or through others. The
 * agents of the nodes are added later (`withAgents`).
 */
export function takeSnapshot(
  { maintenance, existing, held, waiting }: HeldView,
  position: number,
  state: HeldClusterState,
  podSnapshot: (pod: Pod) => PodSnapshot,
): DrainSnapshot {
  const { others } = state;
  const own = { ...draining(maintenance, held), position };
  const heldNodes = others.length === 0 ? [] : existing.filter((node) => state.isHeld(node.metadata.name));
  const connected = connectedTo(
    own,
    others.map((one) =>
      draining(
        one,
        heldNodes.filter((node) => state.mayMaintain(one, node.metadata.name)),
      ),
    ),
  );
  const cordoned = new Set(
    maintenance.status?.nodeStatuses.filter(hasCordonRecord).map((one) => one.nodeRef.name),
  );
  const reached = reachedTargets(connected, [maintenance, ...others]);
  return {
    maintenance: own.name,
    maintenances: connected,
    nodes: [...new Set(connected.flatMap((one) => one.nodes))].map((name) => ({
      name,
      pods: state.podsOn(name).map(podSnapshot),
      reached: join(reached.get(name) ?? []),
    })),
    waiting: waiting.map((node) => ({
      ...node,
      pods: state.podsOn(node.name).map(podSnapshot),
      hasCordonRecord: cordoned.has(node.name),
    })),
    published: new Map(
      (maintenance.status?.nodeStatuses ?? []).map(
        ({ nodeRef, drainTargets }) => [nodeRef.name, drainTargets] as const,
      ),
    ),
  };
}

/** Returns, by node, the drain targets that each maintenance that selects the node has published for it. */
function reachedTargets(
  connected: readonly DrainingMaintenance[],
  maintenances: readonly NodeMaintenance[],
): Map<string, DrainTargets[]> {
  const selected = new Map(connected.map((one) => [one.name, new Set(one.nodes)] as const));
  const reached = new Map<string, DrainTargets[]>();
  for (const { metadata, status } of maintenances) {
    for (const { nodeRef, drainTargets } of status?.nodeStatuses ?? []) {
      if (selected.get(metadata.name)?.has(nodeRef.name) !== true) continue;
      reached.set(nodeRef.name, [...(reached.get(nodeRef.name) ?? []), drainTargets]);
    }
  }
  return reached;
}

function draining(maintenance: NodeMaintenance, nodes: readonly Node[]): DrainingMaintenance {
  const { name, creationTimestamp = '' } = maintenance.metadata;
  return {
    name,
    createdAt: creationTimestamp,
    plan: planOf(maintenance),
    position: positionOf(maintenance),
    nodes: selectedNodes(maintenance, nodes).map((node) => node.metadata.name),
  };
}

function connectedTo(
  own: DrainingMaintenance,
  others: readonly DrainingMaintenance[],
): DrainingMaintenance[] {
  const connected = [own];
  const nodes = new Set(own.nodes);
  let unconnected = others;
  for (;;) {
    const joining = unconnected.filter((one) => one.nodes.some((node) => nodes.has(node)));
    if (joining.length === 0) return connected;
    connected.push(...joining);
    for (const node of joining.flatMap((one) => one.nodes)) nodes.add(node);
    unconnected = unconnected.filter((one) => !joining.includes(one));
  }
}
