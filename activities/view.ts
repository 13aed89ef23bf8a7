import type { Node } from '../api/core.ts';
import type {
  DrainPlanEntry,
  NodeMaintenance,
  NodeMaintenanceNodeStatus,
  NodeMaintenanceStage,
} from '../api/nodeMaintenance.ts';
import { completeDrainPlan } from '../domain/drainPlan.ts';
import { selectsNode } from '../domain/nodeSelector.ts';
import { holdsNodes, stageOf } from '../domain/stage.ts';
import type { Cluster } from '../kube/cluster.ts';
import { resources } from '../kube/resources.ts';
import type { Interrupted, MaintenanceRef } from './contract.ts';

/** One maintenance and its nodes, as the informers have them now. */
export interface View {
  maintenance: NodeMaintenance;
  plan: readonly DrainPlanEntry[];
  /** The nodes that it selects, of all that exist. */
  nodes: readonly Node[];
  existing: readonly Node[];
}

/**
 * The maintenance as long as it is in `stage`; undefined while the informer has not caught up with the generation that
 * the workflow knows. Asks the apiserver only when the informer does not have the object.
 */
export async function look(
  { kube, maintenances, nodes }: Cluster,
  ref: MaintenanceRef,
  stage: NodeMaintenanceStage,
): Promise<View | Interrupted | undefined> {
  const cached = maintenances.get(ref.name);
  const maintenance = cached ?? (await kube.get(resources.nodeMaintenances, { name: ref.name }));
  if (maintenance === undefined || maintenance.metadata.uid !== ref.uid) return { kind: 'Gone' };
  const generation = maintenance.metadata.generation ?? 0;
  if (generation < ref.generation) return undefined;
  const wanted = stageOf(maintenance);
  if (wanted !== stage) return { kind: 'StageChanged', stage: wanted, generation };
  const existing = nodes.list();
  return { maintenance, plan: planOf(maintenance), nodes: selectedNodes(maintenance, existing), existing };
}

export function isView(seen: View | Interrupted | undefined): seen is View {
  return seen !== undefined && 'maintenance' in seen;
}

export function planOf(maintenance: NodeMaintenance): DrainPlanEntry[] {
  return completeDrainPlan(maintenance.spec.drainPlan);
}

export function selectedNodes(maintenance: NodeMaintenance, nodes: readonly Node[]): Node[] {
  return nodes.filter((node) => selectsNode(maintenance.spec.nodeSelector, node));
}

export function namesOf(nodes: readonly Node[]): Set<string> {
  return new Set(nodes.map((node) => node.metadata.name));
}

/** Whether a maintenance keeps nodes cordoned; one that is being deleted is on its way to Complete. */
function isHolding(maintenance: NodeMaintenance): boolean {
  return holdsNodes(stageOf(maintenance));
}

export function isDraining(maintenance: NodeMaintenance): boolean {
  return stageOf(maintenance) === 'Drain';
}

/** The other maintenances that hold a node. */
export function otherHolders(all: readonly NodeMaintenance[], uid: string, node: Node): NodeMaintenance[] {
  return all.filter(
    (other) => other.metadata.uid !== uid && isHolding(other) && selectsNode(other.spec.nodeSelector, node),
  );
}

/** The nodes that a maintenance selects now, and those that it ever held. */
export function nodesOf(maintenance: NodeMaintenance, nodes: readonly Node[]): Node[] {
  const held = new Set(maintenance.status?.nodeStatuses.map((status) => status.nodeRef.name));
  const selected = new Set(selectedNodes(maintenance, nodes).map((node) => node.metadata.name));
  return nodes.filter(({ metadata: { name } }) => held.has(name) || selected.has(name));
}

/** What the maintenance has on record of the node. */
export function nodeStatusOf(
  maintenance: NodeMaintenance,
  node: Node,
): NodeMaintenanceNodeStatus | undefined {
  return maintenance.status?.nodeStatuses.find((status) => status.nodeRef.name === node.metadata.name);
}
