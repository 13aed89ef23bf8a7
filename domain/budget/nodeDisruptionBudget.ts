import type { Node } from '../../api/core.ts';
import type {
  NodeDisruptionBudget,
  NodeDisruptionBudgetSpec,
  NodeDisruptionBudgetStatus,
  NodeReservation,
} from '../../api/nodeDisruptionBudget.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type ConditionFacts, withCondition } from '../common/conditions.ts';
import { isCordoned } from '../common/cordon.ts';
import { compareNames } from '../common/names.ts';
import { skippedNodes } from '../common/nodePermission.ts';
import { type SelectableNode, selectsNode } from '../common/nodeSelector.ts';
import { holdsNodes, stageOf } from '../common/stage.ts';
import { numbered } from '../common/text.ts';
import { unschedulableReason } from './nodeService.ts';

/** Returns a number, or a percentage of `total` that is rounded down to at least one, unless it is 0%. */
export function limitOf(maxUnavailable: number | string, total: number): number {
  if (typeof maxUnavailable === 'number') return maxUnavailable;
  const percent = Number(maxUnavailable.replace('%', ''));
  return percent === 0 ? 0 : Math.max(1, Math.floor((total * percent) / 100));
}

/** A budget as it limits the nodes of one moment. */
export interface BudgetLimit {
  /** Name of the NodeDisruptionBudget. */
  name: string;
  /** The number of its nodes that may be out of service. */
  allowed: number;
  /** The names of the nodes that it selects. */
  nodes: ReadonlySet<string>;
}

/** Returns the limits of all budgets, in the order of their names. */
export function limitsOf(
  budgets: readonly Pick<NodeDisruptionBudget, 'metadata' | 'spec'>[],
  nodes: readonly SelectableNode[],
): BudgetLimit[] {
  return budgets.map((budget) => budgetLimit(budget, nodes)).toSorted((a, b) => compareNames(a.name, b.name));
}

/** A budget without a selector selects all nodes. */
function budgetLimit(
  { metadata, spec: { maxUnavailable, nodeSelector } }: Pick<NodeDisruptionBudget, 'metadata' | 'spec'>,
  nodes: readonly SelectableNode[],
): BudgetLimit {
  const selected = nodes
    .filter((node) => nodeSelector === undefined || selectsNode(nodeSelector, node))
    .map((node) => node.metadata.name);
  return {
    name: metadata.name,
    allowed: limitOf(maxUnavailable, selected.length),
    nodes: new Set(selected),
  };
}

/** Returns how many of the nodes of a limit are out of service. */
export function countOutOfService({ nodes }: BudgetLimit, out: ReadonlyMap<string, unknown>): number {
  return [...out.keys()].filter((name) => nodes.has(name)).length;
}

export interface OutOfServiceInput {
  nodes: readonly Node[];
  maintenances: readonly Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>[];
  reservations: readonly Pick<NodeReservation, 'node' | 'window'>[];
}

/** Returns the nodes of the cluster that are out of service or about to be, each with the reason. */
export function outOfService({ nodes, maintenances, reservations }: OutOfServiceInput): Map<string, string> {
  const reserved = new Map(reservations.map(({ node, window }) => [node, window]));
  const holding = maintenances
    .filter((maintenance) => holdsNodes(stageOf(maintenance)))
    .map((maintenance) => ({ ...maintenance, skipped: skippedNodes(maintenance) }));
  const out = new Map<string, string>();
  for (const node of nodes) {
    const reason =
      reservedReason(reserved.get(node.metadata.name)) ??
      heldReason(holding, node) ??
      (isCordoned(node) ? 'cordoned' : unschedulableReason(node));
    if (reason !== undefined) out.set(node.metadata.name, reason);
  }
  return out;
}

/** Computes the status of a budget, except its reservations. `out` has all nodes that are out of service, and `now` is RFC 3339. */
export function budgetStatus(
  budget: NodeDisruptionBudget,
  { nodes, out }: { nodes: readonly SelectableNode[]; out: ReadonlyMap<string, unknown> },
  now: string,
): Omit<NodeDisruptionBudgetStatus, 'reservations'> {
  const { metadata, spec, status } = budget;
  const limit = budgetLimit(budget, nodes);
  const counts = {
    nodes: limit.nodes.size,
    allowed: limit.allowed,
    outOfService: countOutOfService(limit, out),
  };
  const exhausted = { type: 'Exhausted', ...exhaustedFacts(spec, counts) };
  return {
    observedGeneration: metadata.generation ?? 0,
    ...counts,
    conditions: withCondition(status?.conditions ?? [], exhausted, now),
  };
}

type Counts = Pick<NodeDisruptionBudgetStatus, 'nodes' | 'allowed' | 'outOfService'>;

/** The message changes only with the numbers of the status, so that it never causes a write of its own. */
function exhaustedFacts(
  { maxUnavailable, nodeSelector }: NodeDisruptionBudgetSpec,
  { nodes, allowed, outOfService: out }: Counts,
): Omit<ConditionFacts, 'type'> {
  const noun = nodeSelector === undefined ? 'node' : 'selected node';
  if (nodes === 0 && nodeSelector !== undefined)
    return {
      status: 'False',
      reason: 'NoNodeSelected',
      message: 'spec.nodeSelector selects no node: check the names and labels of the nodes.',
    };
  if (allowed === 0)
    return {
      status: 'True',
      reason: 'NoneAllowed',
      message: `spec.maxUnavailable is ${maxUnavailable}: windows start no ${noun} until it is increased.`,
    };
  const count = `${numbered(out, noun)} out of service, and ${allowed} allowed`;
  return out < allowed
    ? { status: 'False', reason: 'NodesAvailable', message: `${count}.` }
    : {
        status: 'True',
        reason: 'LimitReached',
        message: `${count}: windows start no ${noun} until a ${noun} is back in service or spec.maxUnavailable is increased.`,
      };
}

function reservedReason(window: string | undefined): string | undefined {
  return window === undefined ? undefined : inMaintenanceReason(window);
}

/** Returns why a node is out of service that a window maintains. */
export function inMaintenanceReason(window: string): string {
  return `in maintenance by window ${window}`;
}

function heldReason(
  holding: readonly (Pick<NodeMaintenance, 'metadata' | 'spec'> & { skipped: ReadonlySet<string> })[],
  node: Node,
): string | undefined {
  const holder = holding.find(
    ({ spec, skipped }) => selectsNode(spec.nodeSelector, node) && !skipped.has(node.metadata.name),
  );
  return holder === undefined ? undefined : `held by NodeMaintenance ${holder.metadata.name}`;
}
