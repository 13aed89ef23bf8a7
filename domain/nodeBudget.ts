import type { Node } from '../api/core.ts';
import type { NodeBudget, NodeBudgetStatus, NodeClaim } from '../api/nodeBudget.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { type ConditionFacts, withCondition } from './conditions.ts';
import { isCordoned } from './cordon.ts';
import { selectsNode } from './nodeSelector.ts';
import { holdsNodes, isGivenBack, stageOf } from './stage.ts';

/** A number, or a percentage of `total`: rounded down, but at least one unless it is 0%. */
export function limitOf(maxUnavailable: number | string, total: number): number {
  if (typeof maxUnavailable === 'number') return maxUnavailable;
  const percent = Number(maxUnavailable.replace('%', ''));
  return percent === 0 ? 0 : Math.max(1, Math.floor((total * percent) / 100));
}

/** Set by the node lifecycle controller of Kubernetes. */
const taintsOfUnreadyNodes = new Map([
  ['node.kubernetes.io/not-ready', 'it is not ready'],
  ['node.kubernetes.io/unreachable', 'it is unreachable'],
]);
/** Set by readiness gates. */
const taintOfGatedNodes = 'readiness.k8s.io/gates';
/** The same, with the gates and pods that are the cause. */
const conditionOfGatedNodes = 'readiness.k8s.io/GatesReady';

export const gatesClosed = 'its readiness gates are not open';

/** Why a node's kubelet is not ready, in words that follow "because"; undefined when it is. */
export function unreadiness({ spec }: Pick<Node, 'spec'>): string | undefined {
  for (const { key } of spec.taints ?? []) {
    const because = taintsOfUnreadyNodes.get(key);
    if (because !== undefined) return because;
  }
  return undefined;
}

/** Why a node takes no new pods, although nobody cordoned it; undefined when it does. */
function closure(node: Pick<Node, 'spec'>): string | undefined {
  const isGated = node.spec.taints?.some(({ key }) => key === taintOfGatedNodes) ?? false;
  return unreadiness(node) ?? (isGated ? gatesClosed : undefined);
}

/** Why a node that was given back is not back, with the gates and pods that are the cause; undefined when it is. */
export function obstacle(node: Pick<Node, 'spec' | 'status'>): string | undefined {
  const told = node.status?.conditions?.find(({ type }) => type === conditionOfGatedNodes);
  if (told?.status !== 'False') return closure(node);
  return unreadiness(node) ?? `${gatesClosed} (${told.message})`;
}

export interface BudgetSight {
  nodes: readonly Node[];
  maintenances: readonly Pick<NodeMaintenance, 'metadata' | 'spec'>[];
  claims: readonly Pick<NodeClaim, 'node' | 'window'>[];
}

/** Nodes of the cluster that are out of service, or will be at once, and why: in words that follow "because". */
export function outOfService({ nodes, maintenances, claims }: BudgetSight): Map<string, string> {
  const claimed = new Map(claims.map(({ node, window }) => [node, window]));
  const holding = maintenances.filter((maintenance) => holdsNodes(stageOf(maintenance)));
  const out = new Map<string, string>();
  for (const node of nodes) {
    const because =
      claimedBy(claimed.get(node.metadata.name)) ??
      heldBy(holding, node) ??
      (isCordoned(node) ? 'somebody cordoned it' : closure(node));
    if (because !== undefined) out.set(node.metadata.name, because);
  }
  return out;
}

/** What a budget says of the cluster that was seen: all of its status but the claims. `now` is RFC 3339. */
export function measured(
  { metadata, spec, status }: NodeBudget,
  sight: BudgetSight,
  now: string,
): Omit<NodeBudgetStatus, 'claims'> {
  const nodes = sight.nodes.length;
  const allowed = limitOf(spec.maxUnavailable, nodes);
  const out = outOfService(sight).size;
  const exhausted = { type: 'Exhausted', ...exhaustion(spec.maxUnavailable, allowed, out) };
  return {
    observedGeneration: metadata.generation ?? 0,
    nodes,
    allowed,
    outOfService: out,
    conditions: withCondition(status?.conditions ?? [], exhausted, now),
  };
}

/** Says nothing that the status does not say in numbers: a message that changed by itself would be a write more. */
function exhaustion(
  maxUnavailable: number | string,
  allowed: number,
  out: number,
): Omit<ConditionFacts, 'type'> {
  if (allowed === 0)
    return {
      status: 'True',
      reason: 'NoneAllowed',
      message: `spec.maxUnavailable is ${maxUnavailable}: no window begins a turn until it is more.`,
    };
  const count = `${out} of ${allowed} nodes that may be out of service are`;
  return out < allowed
    ? { status: 'False', reason: 'NodesToSpare', message: `${count}.` }
    : {
        status: 'True',
        reason: 'NoNodeToSpare',
        message: `${count}: no window begins a turn until one is back, or spec.maxUnavailable is more.`,
      };
}

/** What claims are judged by. */
export interface ClaimSight {
  /** The turns that there are. */
  turns: readonly ClaimedTurn[];
  /** The window that asks, if one does: only it begins its turns, and knows that it is not just now doing so. */
  asking?: string;
  /** Milliseconds. */
  now: number;
}

/** The NodeMaintenance of a node in a window. */
export interface ClaimedTurn {
  window: string;
  node: string;
  maintenance: Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>;
}

/** A claim without a turn stands for so long, if another window made it: it may be about to begin the turn. Milliseconds. */
const beginsWithin = 120_000;

/** Whether a node is still taken for its turn in a window: until it is given back, or its turn is gone. */
export function stands({ node, window, since }: NodeClaim, { turns, asking, now }: ClaimSight): boolean {
  const own = turns.filter((turn) => turn.node === node && turn.window === window);
  if (own.length === 0) return window !== asking && now - Date.parse(since) < beginsWithin;
  return own.some(({ maintenance }) => !isGivenBack(maintenance));
}

/** The budget without the claims that do not stand any more: nobody may have taken them back yet. */
export function asItStands(budget: NodeBudget, sight: ClaimSight): NodeBudget {
  if (budget.status === undefined) return budget;
  const claims = budget.status.claims.filter((claim) => stands(claim, sight));
  return { ...budget, status: { ...budget.status, claims } };
}

function claimedBy(window: string | undefined): string | undefined {
  return window === undefined ? undefined : inItsTurn(window);
}

/** Why a node is out of service that has its turn: in words that follow "because". */
export function inItsTurn(window: string): string {
  return `it has its turn in window ${window}`;
}

function heldBy(
  holding: readonly Pick<NodeMaintenance, 'metadata' | 'spec'>[],
  node: Node,
): string | undefined {
  const holder = holding.find(({ spec }) => selectsNode(spec.nodeSelector, node));
  return holder === undefined ? undefined : `maintenance ${holder.metadata.name} holds it`;
}
