import type { Condition, Node, Pod } from '../api/core.ts';
import type { NodeMaintenance, NodeMaintenanceNodeStatus } from '../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../api/nodeReadinessPolicy.ts';
import { isCordoned } from './cordon.ts';
import { listed } from './names.ts';
import { selectsNode } from './nodeSelector.ts';
import { gateFacts, gatesOf, isChecked } from './readiness.ts';
import { holdsNodes, stageOf } from './stage.ts';
import { isTouched } from './status.ts';

/** One node, as far as it matters whether it takes pods. */
export interface NodeSight {
  /** With all of its conditions. */
  node: Node;
  pods: readonly Pod[];
  readiness: NodeReadiness | undefined;
  /** Whether it has the taint of its readiness gates. */
  isTainted: boolean;
}

export interface GatesSummary {
  /** Of the gates that block. */
  readonly open: number;
  readonly all: number;
  /** Those that block and are not ready, with the pods that are the cause. */
  readonly closed: readonly { readonly gate: string; readonly message: string }[];
}

/** The readiness gates of a node, judged by its pods of this moment; undefined for a node without gates that block. */
export function gatesSummary(
  { node, pods, readiness }: NodeSight,
  policies: readonly NodeReadinessPolicy[],
): GatesSummary | undefined {
  const gates = gatesOf(node, readiness?.spec.readinessGates ?? [], policies);
  const blocking = gates.map((gate) => gateFacts(gate, pods)).filter(({ blocks }) => blocks);
  if (blocking.length === 0) return undefined;
  const closed = blocking.filter(({ ready }) => !ready);
  return {
    open: blocking.length - closed.length,
    all: blocking.length,
    closed: closed.map(({ name, message = '' }) => ({ gate: name, message })),
  };
}

/**
 * Whether a node that is about to take pods has a gate closed and no taint for it. What nobody has checked of a policy yet closes no
 * node.
 */
export function lacksTaint(seen: NodeSight, policies: readonly NodeReadinessPolicy[]): boolean {
  const closed = gatesSummary(seen, policies.filter(isChecked))?.closed ?? [];
  return !seen.isTainted && closed.length > 0;
}

/** Who else is concerned, and by which policies nodes have gates. */
export interface Surroundings {
  maintenances: readonly NodeMaintenance[];
  policies: readonly NodeReadinessPolicy[];
}

/**
 * What keeps a node of a completed maintenance from taking pods, each as a sentence for people; empty for one that is back:
 * given back, Ready, and with its readiness gates open. Nothing is to be expected of a node that it has never had.
 */
export function obstaclesToService(
  seen: NodeSight,
  maintenance: NodeMaintenance,
  surroundings: Surroundings,
): string[] {
  const { node } = seen;
  const left = leftAs(node, maintenance);
  if (left === 'NeverTouched') return [];
  return [
    ...(left === 'CordonedBefore' ? [] : cordonObstacle(node, maintenance, surroundings.maintenances)),
    ...unreadiness(seen, surroundings.policies),
  ];
}

/**
 * What Complete leaves as it was: a node that somebody else had cordoned before, for that is what giving it back means, and one
 * that was waited for and never had.
 */
export function leftAs(
  node: Node,
  maintenance: NodeMaintenance,
): 'CordonedBefore' | 'NeverTouched' | undefined {
  const record = recordOf(maintenance, node.metadata.name);
  if (record === undefined) return undefined;
  if (!isTouched(record)) return 'NeverTouched';
  return isCordoned(node) && record.unschedulableBefore === true ? 'CordonedBefore' : undefined;
}

/** Whoever has it. */
export function takesPods(seen: NodeSight, policies: readonly NodeReadinessPolicy[]): boolean {
  return !isCordoned(seen.node) && unreadiness(seen, policies).length === 0;
}

function unreadiness(seen: NodeSight, policies: readonly NodeReadinessPolicy[]): string[] {
  return [...readyObstacle(seen.node.status?.conditions ?? []), ...gateObstacles(seen, policies)];
}

function cordonObstacle(node: Node, maintenance: NodeMaintenance, all: readonly NodeMaintenance[]): string[] {
  if (!isCordoned(node)) return [];
  const others = all
    .filter(({ metadata }) => metadata.name !== maintenance.metadata.name)
    .filter((other) => holdsNodes(stageOf(other)) && selectsNode(other.spec.nodeSelector, node))
    .map(({ metadata }) => metadata.name);
  return [others.length === 0 ? 'cordoned' : `cordoned, also for ${listed(others.toSorted())}`];
}

function readyObstacle(conditions: readonly Condition[]): string[] {
  const ready = conditions.find(({ type }) => type === 'Ready');
  if (ready?.status === 'True') return [];
  return [ready === undefined ? 'not Ready' : `not Ready: ${ready.message || ready.reason}`];
}

function gateObstacles(seen: NodeSight, policies: readonly NodeReadinessPolicy[]): string[] {
  const closed = gatesSummary(seen, policies)?.closed ?? [];
  if (closed.length > 0) return closed.map(({ gate, message }) => `gate ${gate}: ${message}`);
  const ready = seen.readiness?.status?.conditions.find(({ type }) => type === 'Ready');
  if (seen.isTainted)
    return [ready?.reason === 'Flapping' ? ready.message : 'gates are open, and their taint is still there'];
  const isBehind = ready !== undefined && ready.status !== 'True' && seen.readiness?.status?.gates !== '0/0';
  return isBehind ? ['gates are open, and its NodeReadiness does not say so yet'] : [];
}

export function recordOf({ status }: NodeMaintenance, node: string): NodeMaintenanceNodeStatus | undefined {
  return status?.nodeStatuses.find(({ nodeRef }) => nodeRef.name === node);
}
