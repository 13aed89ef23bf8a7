import type { Node } from '../api/core.ts';
import type {
  DrainPlanEntry,
  NodeMaintenance,
  NodeMaintenanceNodeStatus,
  NodeMaintenanceStage,
} from '../api/nodeMaintenance.ts';
import { selectsNode } from '../domain/common/nodeSelector.ts';
import { isCompleted, stageOf } from '../domain/common/stage.ts';
import { planOf } from '../domain/drain/plan.ts';
import type { WaitingNode } from '../domain/leases/nodeLease.ts';
import type { Cluster } from '../kube/cluster.ts';
import { resources } from '../kube/resources.ts';
import type { ObservedStage, MaintenanceRef } from './contract.ts';
import { invalidInput } from './failures.ts';

/** A maintenance and its nodes in the informers. */
export interface View {
  maintenance: NodeMaintenance;
  plan: readonly DrainPlanEntry[];
  /** Existing nodes that the maintenance selects. */
  nodes: readonly Node[];
  existing: readonly Node[];
}

/** A view, divided by whether the nodes may be changed. */
export interface HeldView extends View {
  /** Nodes that the requester may maintain and whose Leases this installation holds: only these may be changed. */
  held: readonly Node[];
  waiting: readonly WaitingNode[];
}

/**
 * Reads the maintenance while it is in `stage`. Returns undefined while the informer has not caught up with the generation that the
 * workflow knows. Asks the apiserver only if the informer does not have the object, or not that generation.
 */
export async function readView(
  { kube, maintenances, nodes }: Cluster,
  ref: MaintenanceRef,
  stage: NodeMaintenanceStage,
): Promise<View | ObservedStage | undefined> {
  const cached = maintenances.get(ref.name);
  // The informer may still show a predecessor of the same name.
  const isShown = cached?.metadata.uid === ref.uid;
  const maintenance = isShown ? cached : await kube.get(resources.nodeMaintenances, { name: ref.name });
  if (maintenance === undefined || maintenance.metadata.uid !== ref.uid) return { kind: 'Gone' };
  if (cached !== undefined && !isShown) return undefined;
  const { generation = 0 } = maintenance.metadata;
  if (generation < ref.generation && (await isBehind({ kube }, maintenance))) return undefined;
  const current = stageOf(maintenance);
  // The apiserver confirmed an older generation: its etcd was restored. To the workflow, it is the newest.
  if (current !== stage)
    return { kind: 'StageChanged', stage: current, generation: Math.max(generation, ref.generation) };
  const existing = nodes.list();
  return { maintenance, plan: planOf(maintenance), nodes: selectedNodes(maintenance, existing), existing };
}

/** Returns true if the apiserver has a newer copy. Otherwise the workflow received a generation that does not exist. */
async function isBehind({ kube }: Pick<Cluster, 'kube'>, { metadata }: NodeMaintenance): Promise<boolean> {
  const { uid, name, generation = 0 } = metadata;
  const newest = await kube.get(resources.nodeMaintenances, { name });
  return newest?.metadata.uid !== uid || (newest?.metadata.generation ?? 0) > generation;
}

export function isView(result: View | ObservedStage | undefined): result is View {
  return result !== undefined && 'maintenance' in result;
}

/**
 * Returns whether a maintenance is being completed; false if it has been completed before. Fails in every other stage: no request that
 * arrives through Temporal ends a maintenance.
 */
export function isCompleting(maintenance: NodeMaintenance): boolean {
  const stage = stageOf(maintenance);
  if (stage === 'Complete') return !isCompleted(maintenance);
  const { name } = maintenance.metadata;
  throw invalidInput(
    `NodeMaintenance "${name}" is in stage ${stage}: set .spec.stage to Complete to complete it`,
  );
}

export function selectedNodes(maintenance: NodeMaintenance, nodes: readonly Node[]): Node[] {
  return nodes.filter((node) => selectsNode(maintenance.spec.nodeSelector, node));
}

export function namesOf(nodes: readonly Node[], except: ReadonlySet<string> = new Set()): Set<string> {
  return new Set(nodes.map((node) => node.metadata.name).filter((name) => !except.has(name)));
}

export function isDraining(maintenance: NodeMaintenance): boolean {
  return stageOf(maintenance) === 'Drain';
}

/** Returns the nodes that the maintenance selects now, and those that it has held before. */
export function nodesOf(maintenance: NodeMaintenance, nodes: readonly Node[]): Node[] {
  const recorded = new Set(maintenance.status?.nodeStatuses.map((status) => status.nodeRef.name));
  const selected = namesOf(selectedNodes(maintenance, nodes));
  return nodes.filter(({ metadata: { name } }) => recorded.has(name) || selected.has(name));
}

/** Returns the status of the node in the maintenance. */
export function nodeStatusOf(
  maintenance: NodeMaintenance,
  node: Node,
): NodeMaintenanceNodeStatus | undefined {
  return maintenance.status?.nodeStatuses.find((status) => status.nodeRef.name === node.metadata.name);
}
