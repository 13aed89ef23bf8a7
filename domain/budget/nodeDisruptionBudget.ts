import type { Node } from '../../api/core.ts';
import type {
  NodeDisruptionBudget,
  NodeDisruptionBudgetStatus,
  NodeReservation,
} from '../../api/nodeDisruptionBudget.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type ConditionFacts, withCondition } from '../common/conditions.ts';
import { isCordoned } from '../common/cordon.ts';
import { skippedNodes } from '../common/nodePermission.ts';
import { selectsNode } from '../common/nodeSelector.ts';
import { holdsNodes, stageOf } from '../common/stage.ts';
import { numbered } from '../common/text.ts';
import { unschedulableReason } from './nodeService.ts';

/** Returns a number, or a percentage of `total` that is rounded down to at least one, unless it is 0%. */
export function limitOf(maxUnavailable: number | string, total: number): number {
  if (typeof maxUnavailable === 'number') return maxUnavailable;
  const percent = Number(maxUnavailable.replace('%', ''));
  return percent === 0 ? 0 : Math.max(1, Math.floor((total * percent) / 100));
}

export interface NodeDisruptionBudgetInput {
  nodes: readonly Node[];
  maintenances: readonly Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>[];
  reservations: readonly Pick<NodeReservation, 'node' | 'window'>[];
}

/** Returns the nodes of the cluster that are out of service or about to be, each with the reason. */
export function outOfService({
  nodes,
  maintenances,
  reservations,
}: NodeDisruptionBudgetInput): Map<string, string> {
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

/** Computes the status of a budget, except its reservations. `now` is RFC 3339. */
export function budgetStatus(
  { metadata, spec, status }: NodeDisruptionBudget,
  input: NodeDisruptionBudgetInput,
  now: string,
): Omit<NodeDisruptionBudgetStatus, 'reservations'> {
  const nodes = input.nodes.length;
  const allowed = limitOf(spec.maxUnavailable, nodes);
  const out = outOfService(input).size;
  const exhausted = { type: 'Exhausted', ...exhaustedFacts(spec.maxUnavailable, allowed, out) };
  return {
    observedGeneration: metadata.generation ?? 0,
    nodes,
    allowed,
    outOfService: out,
    conditions: withCondition(status?.conditions ?? [], exhausted, now),
  };
}

/** The message changes only with the numbers of the status, so that it never causes a write of its own. */
function exhaustedFacts(
  maxUnavailable: number | string,
  allowed: number,
  out: number,
): Omit<ConditionFacts, 'type'> {
  if (allowed === 0)
    return {
      status: 'True',
      reason: 'NoneAllowed',
      message: `spec.maxUnavailable is ${maxUnavailable}: windows start no node until it is increased.`,
    };
  const count = `${numbered(out, 'node')} out of service, and ${allowed} allowed`;
  return out < allowed
    ? { status: 'False', reason: 'NodesAvailable', message: `${count}.` }
    : {
        status: 'True',
        reason: 'LimitReached',
        message: `${count}: windows start no node until a node is back in service or spec.maxUnavailable is increased.`,
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
