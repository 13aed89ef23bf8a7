import type { MaintenanceWindowSpec, Rollout } from '../../api/maintenanceWindow.ts';
import { type BudgetLimit, countOutOfService, limitOf } from '../budget/nodeDisruptionBudget.ts';
import { labelOf } from '../common/labelSelector.ts';
import { compareNames } from '../common/names.ts';
import type { NodeOutcome } from './nodeOutcome.ts';
import type { NotRebootableReason } from './rebootNeeds.ts';

/** A node that a window selects. */
export interface RolloutNode {
  name: string;
  labels: Readonly<Record<string, string>>;
}

export interface RolloutInput {
  rollout: Rollout;
  approval: MaintenanceWindowSpec['approval'];
  /** The nodes that the window selects. */
  nodes: readonly RolloutNode[];
  /** The outcomes of nodes in the window's revision. A node without an outcome is Remaining. */
  outcomes: ReadonlyMap<string, NodeOutcome>;
  /** Reports whether a node without an outcome needs no maintenance. */
  isUnnecessary: (node: string) => boolean;
  /** Nodes that the window would reboot, and that have no agent which does so. */
  notRebootable: ReadonlyMap<string, NotRebootableReason>;
  /** The nodes of the whole cluster that are out of service, each with the reason. */
  outOfService: ReadonlyMap<string, string>;
  /** The NodeDisruptionBudgets of the cluster. A node starts only when every budget that selects it allows it. */
  budgets: readonly BudgetLimit[];
  /** The whole window is approved. */
  approved: boolean;
  approvedNodes: readonly string[];
  paused: boolean;
  /** The window runs a Job, and the worker may not create Jobs. */
  areJobsMissing: boolean;
  /** Nodes whose maintenance the apiserver rejects now, each with its message. */
  rejected: ReadonlyMap<string, string>;
  /** Nodes whose maintenance the apiserver rejected before: they start after the others. */
  rejectedBefore: ReadonlySet<string>;
  /** The window has ended, or was cancelled or deleted. */
  hasEnded: boolean;
  /** The window is being deleted: it does not open again. */
  isDeleted: boolean;
  nowMs: number;
}

/** The input, and the facts that several rules need. All lists are sorted. */
export interface RolloutFacts extends RolloutInput {
  /** The remaining nodes, in the order in which they start. */
  remaining: readonly RolloutNode[];
  inProgress: readonly string[];
  failed: readonly string[];
  /** Remaining nodes that are in service and approved. */
  approvedInService: readonly RolloutNode[];
  /** Approved nodes in service that have an agent if they need one, and are not rejected. */
  accepted: readonly RolloutNode[];
  /** Accepted nodes in the topology domain that is in progress. */
  inDomain: readonly RolloutNode[];
  /** Nodes that could start: those that the budgets allow. */
  candidates: readonly RolloutNode[];
  /** How many more nodes of each budget may be out of service. */
  room: ReadonlyMap<BudgetLimit, number>;
}

export function factsOf(input: RolloutInput): RolloutFacts {
  const { nodes, outcomes, rollout, approval, approved, approvedNodes, outOfService } = input;
  const { rejected, rejectedBefore, notRebootable, isUnnecessary } = input;
  const nodesIn = (state: NodeOutcome['state']) =>
    nodes.filter(({ name }) => stateOf(outcomes, name) === state);
  const namesIn = (state: NodeOutcome['state']) =>
    nodesIn(state)
      .map(({ name }) => name)
      .toSorted(compareNames);
  const remaining = sortNodes(
    nodesIn('Remaining').filter(({ name }) => !isUnnecessary(name)),
    rollout,
  );
  const needsNames = approval === 'PerNode' && !approved;
  const approvedInService = remaining.filter(
    ({ name }) => !outOfService.has(name) && (!needsNames || approvedNodes.includes(name)),
  );
  const accepted = approvedInService
    .filter(({ name }) => !rejected.has(name) && !notRebootable.has(name))
    .toSorted((a, b) => Number(rejectedBefore.has(a.name)) - Number(rejectedBefore.has(b.name)));
  const budgets = input.budgets.toSorted((a, b) => compareNames(a.name, b.name));
  const room = new Map(
    budgets.map((limit) => [limit, limit.allowed - countOutOfService(limit, outOfService)]),
  );
  const allowed = accepted.filter(({ name }) => blockingBudgets({ budgets, room }, name).length === 0);
  return {
    ...input,
    budgets,
    remaining,
    inProgress: namesIn('InProgress'),
    // Also of nodes that were deleted, or that the window selects no more: a failure counts until it is handled.
    failed: [...outcomes]
      .filter(([, { state }]) => state === 'Failed')
      .map(([name]) => name)
      .toSorted(compareNames),
    approvedInService,
    accepted,
    inDomain: inOneTopologyDomain(input, accepted),
    // Chosen after the budgets: a domain whose nodes no budget allows does not keep the others waiting.
    candidates: inOneTopologyDomain(input, allowed),
    room,
  };
}

function stateOf(outcomes: RolloutInput['outcomes'], node: string): NodeOutcome['state'] {
  return outcomes.get(node)?.state ?? 'Remaining';
}

/** Returns the budgets that select a node and allow no more of their nodes. Budgets of 0 are first: no node that returns to service helps. */
export function blockingBudgets(
  { budgets, room }: Pick<RolloutFacts, 'budgets' | 'room'>,
  node: string,
): BudgetLimit[] {
  const blocking = budgets.filter((limit) => limit.nodes.has(node) && (room.get(limit) ?? 0) <= 0);
  return blocking.toSorted((a, b) => Number(a.allowed > 0) - Number(b.allowed > 0));
}

/** Returns how many more nodes of the window may be out of service. */
export function windowCapacity(facts: RolloutFacts): number {
  const { rollout, nodes } = facts;
  return limitOf(rollout.maxUnavailable, nodes.length) - selectedOutOfService(facts).length;
}

export function selectedOutOfService({ nodes, outOfService }: RolloutFacts): [string, string][] {
  const selected = new Set(nodes.map(({ name }) => name));
  return [...outOfService].filter(([name]) => selected.has(name));
}

/** Returns the candidates in the topology domain of the nodes that are in progress or failed, or else in the domain of the first candidate. */
function inOneTopologyDomain(
  { rollout, nodes, outcomes }: RolloutInput,
  candidates: readonly RolloutNode[],
): readonly RolloutNode[] {
  const { topologyKey } = rollout;
  if (topologyKey === undefined) return candidates;
  const domainOf = ({ labels }: RolloutNode) => labelOf(labels, topologyKey) ?? '';
  const busyStates: readonly NodeOutcome['state'][] = ['InProgress', 'Failed'];
  const busy = nodes.filter(({ name }) => busyStates.includes(stateOf(outcomes, name)));
  const domains = new Set(busy.map(domainOf));
  if (domains.size > 1) return [];
  // They are sorted by domain, and those that were rejected before come last.
  const [domain = candidates.map(domainOf)[0]] = domains;
  return candidates.filter((node) => domainOf(node) === domain);
}

function sortNodes(nodes: readonly RolloutNode[], { order, topologyKey }: Rollout): RolloutNode[] {
  const keysOf = ({ name, labels }: RolloutNode) => [
    topologyKey === undefined ? '' : (labelOf(labels, topologyKey) ?? ''),
    labelRank(order.by === 'Label' ? labelOf(labels, order.labelKey ?? '') : undefined),
    name,
  ];
  return nodes.toSorted((a, b) => {
    const [left, right] = [keysOf(a), keysOf(b)];
    const differing = left.findIndex((key, index) => key !== right[index]);
    return compareNames(left[differing] ?? '', right[differing] ?? '');
  });
}

/** Sorts nodes without the label last. */
function labelRank(value: string | undefined): string {
  return value === undefined ? '1' : `0${value}`;
}
