import type { MaintenanceWindowSpec, Rollout } from '../../api/maintenanceWindow.ts';
import { RebootAnnotation } from '../../api/names.ts';
import type { WaitingReason } from '../../api/waitingReasons.ts';
import { type BudgetLimit, countOutOfService, limitOf } from '../budget/nodeDisruptionBudget.ts';
import { labelOf } from '../common/labelSelector.ts';
import { compareNames, listed } from '../common/names.ts';
import { numbered } from '../common/text.ts';
import { jobsNotEnabledMessage } from './conditions.ts';
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
  /** The window has ended, or was cancelled or deleted. */
  hasEnded: boolean;
  /** The window is being deleted: it does not open again. */
  isDeleted: boolean;
  nowMs: number;
}

export type RolloutDecision =
  | { kind: 'Start'; nodes: string[] }
  /** No node is started now. */
  | Wait
  /** Every selected node has succeeded. */
  | { kind: 'Done' };

interface Wait {
  kind: 'Wait';
  reason: WaitingReason;
  message: string;
  /** When it ends, if it ends without any change. */
  untilMs?: number;
}

/** The input, and the facts that several rules need. All lists are sorted. */
interface RolloutFacts extends RolloutInput {
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

type Rule = (facts: RolloutFacts) => Wait | undefined;

/** The rules for a window without remaining nodes. */
const finalRules: readonly Rule[] = [jobsNotEnabled, rejection, lastNodesInProgress, failedNodesLeft];

/** The rules for a window with remaining nodes. No node starts while one of them applies; the first one that applies is reported. */
const rules: readonly Rule[] = [
  windowHasEnded,
  windowIsPaused,
  jobsNotEnabled, // a node would be drained for nothing
  tooManyFailures, // the cause of one failure may affect the next node
  tooManyRejections, // the apiserver rejects the other nodes for the same reason
  windowNeedsApproval,
  soaking, // problems of a node that has returned to service appear after a while
  // A rejection explains better why nothing starts, because a user can fix it.
  ...[
    noNodeInService,
    nodesNeedApproval,
    everyNodeRejected,
    agentsNotRunning,
    otherTopologyDomain,
    budgetAllowsNone,
    maxUnavailableReached,
    budgetReached,
  ].map(preferRejection),
];

/** Decides which nodes start now, or why none does. The result does not depend on the order of the input. */
export function decideRollout(input: RolloutInput): RolloutDecision {
  const facts = factsOf(input);
  const isLast = facts.remaining.length === 0;
  for (const rule of isLast ? finalRules : rules) {
    const decision = rule(facts);
    if (decision !== undefined) return decision;
  }
  if (isLast) return { kind: 'Done' };
  return { kind: 'Start', nodes: startedNodes(facts) };
}

/** Returns the candidates that fit together into the window's limit and into every budget, in order. */
function startedNodes(facts: RolloutFacts): string[] {
  const capacity = windowCapacity(facts);
  const room = new Map(facts.room);
  const started: string[] = [];
  for (const { name } of facts.candidates) {
    if (started.length === capacity) break;
    const limits = facts.budgets.filter(({ nodes }) => nodes.has(name));
    if (limits.some((limit) => (room.get(limit) ?? 0) <= 0)) continue;
    for (const limit of limits) room.set(limit, (room.get(limit) ?? 0) - 1);
    started.push(name);
  }
  return started;
}

function factsOf(input: RolloutInput): RolloutFacts {
  const { nodes, outcomes, rollout, approval, approved, approvedNodes, outOfService } = input;
  const { rejected, notRebootable, isUnnecessary } = input;
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
  const accepted = approvedInService.filter(({ name }) => !rejected.has(name) && !notRebootable.has(name));
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

function wait(reason: WaitingReason, message: string): Wait {
  return { kind: 'Wait', reason, message };
}

function preferRejection(rule: Rule): Rule {
  return (facts) => {
    const decision = rule(facts);
    return decision && (rejection(facts) ?? decision);
  };
}

function rejection({ rejected }: RolloutFacts): Wait | undefined {
  const [first] = [...rejected].toSorted(([a], [b]) => compareNames(a, b));
  if (first === undefined) return undefined;
  const [node, message] = first;
  const others = rejected.size === 1 ? '' : ` and of ${nodeCount(rejected.size - 1, 'more ')}`;
  return wait(
    'MaintenanceRejected',
    `The apiserver rejected the maintenance of node ${node}${others}: ${message}`,
  );
}

function lastNodesInProgress({ inProgress, failed }: RolloutFacts): Wait | undefined {
  if (inProgress.length === 0) return undefined;
  const failures = failed.length === 0 ? '' : ` ${failedMessage(failed)}`;
  return wait('LastNodesInProgress', `The last nodes are in progress: ${listed(inProgress)}.${failures}`);
}

function failedNodesLeft({ failed }: RolloutFacts): Wait | undefined {
  return failed.length === 0 ? undefined : wait('FailedNodes', failedMessage(failed));
}

const remedy =
  'check these nodes, then mark their work as done (kubectl maintenance window advance) or delete their NodeMaintenances';

function failedMessage(failed: readonly string[]): string {
  return `${nodeCount(failed.length)} failed (${listed(failed)}): ${remedy}.`;
}

function windowHasEnded({ hasEnded, isDeleted, remaining }: RolloutFacts): Wait | undefined {
  if (!hasEnded) return undefined;
  const next = isDeleted ? '' : ' for the next opening';
  return wait('WindowEnded', `The window has ended; ${remainingCount(remaining)}${next}.`);
}

function windowIsPaused({ paused }: RolloutFacts): Wait | undefined {
  return paused ? wait('Paused', 'The window is paused: resume it to start further nodes.') : undefined;
}

/** A window whose nodes have all succeeded or failed needs no further Job. */
function jobsNotEnabled({ areJobsMissing, remaining, inProgress }: RolloutFacts): Wait | undefined {
  if (!areJobsMissing || remaining.length + inProgress.length === 0) return undefined;
  return wait('JobsNotEnabled', jobsNotEnabledMessage);
}

function tooManyFailures({ failed, rollout }: RolloutFacts): Wait | undefined {
  if (failed.length < rollout.maxFailures) return undefined;
  return wait(
    'TooManyFailures',
    `rollout.maxFailures is ${rollout.maxFailures}, and ${failedMessage(failed)}`,
  );
}

/** The number of rejected nodes after which no other node is tried. */
const maxRejections = 3;

function tooManyRejections(facts: RolloutFacts): Wait | undefined {
  return facts.rejected.size < maxRejections ? undefined : rejection(facts);
}

function windowNeedsApproval({
  approval,
  approved,
  approvedNodes,
  remaining,
}: RolloutFacts): Wait | undefined {
  if (approval === 'PerWindow' && !approved)
    return wait('ApprovalNeeded', `Waiting for approval of the window; ${remainingCount(remaining)}.`);
  if (approval !== 'PerNode' || approved) return undefined;
  const names = remaining.map(({ name }) => name);
  if (names.some((name) => approvedNodes.includes(name))) return undefined;
  return wait(
    'ApprovalNeeded',
    names.length === 1
      ? `Waiting for approval of node ${listed(names)}.`
      : `Waiting for approval of one of the nodes ${listed(names)}.`,
  );
}

function soaking({ rollout, outcomes, nowMs }: RolloutFacts): Wait | undefined {
  const ends = [...outcomes.values()].flatMap((outcome) => (outcome.state === 'Succeeded' ? outcome.at : []));
  const until = Math.max(0, ...ends) + rollout.soakSeconds * 1_000;
  if (rollout.soakSeconds === 0 || nowMs >= until) return undefined;
  const time = new Date(until).toISOString();
  return {
    ...wait('Soaking', `Soaking after the last node; the next node starts at ${time}.`),
    untilMs: until,
  };
}

function noNodeInService({ remaining, outOfService }: RolloutFacts): Wait | undefined {
  if (remaining.some(({ name }) => !outOfService.has(name))) return undefined;
  const names = remaining.map(({ name }) => `${name} (${outOfService.get(name)})`);
  return wait('NodesOutOfService', `The remaining nodes are out of service already: ${listed(names)}.`);
}

function nodesNeedApproval({ approvedInService }: RolloutFacts): Wait | undefined {
  if (approvedInService.length > 0) return undefined;
  return wait('ApprovalNeeded', 'Waiting for approval of a node that is in service.');
}

function everyNodeRejected(facts: RolloutFacts): Wait | undefined {
  return facts.approvedInService.every(({ name }) => facts.rejected.has(name)) ? rejection(facts) : undefined;
}

function agentsNotRunning({ approvedInService, accepted, notRebootable }: RolloutFacts): Wait | undefined {
  const waiting = approvedInService.map(({ name }) => name).filter((name) => notRebootable.has(name));
  if (accepted.length > 0 || waiting.length === 0) return undefined;
  const causes = notRebootableCauses.flatMap(([reason, cause]) => {
    const nodes = waiting.filter((name) => notRebootable.get(name) === reason);
    return nodes.length === 0 ? [] : [cause(`${nodes.length === 1 ? 'node' : 'nodes'} ${listed(nodes)}`)];
  });
  return wait(
    'AgentNotRunning',
    `${causes.join('. ')}, or reboot ${waiting.length === 1 ? 'the node' : 'these nodes'} in another way and remove the annotation ${RebootAnnotation.Required}.`,
  );
}

const notRebootableCauses: readonly (readonly [NotRebootableReason, (nodes: string) => string])[] = [
  ['NotRunning', (nodes) => `No node agent runs on ${nodes}: start it`],
  [
    'NoRebootCommand',
    (nodes) => `The node agent of ${nodes} has no reboot command: set its --reboot-command (REBOOT_COMMAND)`,
  ],
  ['BootIdUnknown', (nodes) => `The kubelet of ${nodes} has not reported a boot ID: check it`],
];

function otherTopologyDomain({
  nodes: selected,
  inDomain,
  rollout,
  inProgress,
  failed,
}: RolloutFacts): Wait | undefined {
  if (inDomain.length > 0) return undefined;
  const names = new Set(selected.map(({ name }) => name));
  const nodes = listed([...inProgress, ...failed.filter((name) => names.has(name))]);
  return wait(
    'TopologyDomain',
    `Only nodes with the same ${rollout.topologyKey} are maintained at the same time: ${nodes} must return to service first.`,
  );
}

/** Each node is selected by a budget of 0, which is not the limit that a window waits for. */
function budgetAllowsNone(facts: RolloutFacts): Wait | undefined {
  const budgetOf0 = ({ name }: RolloutNode) =>
    blockingBudgets(facts, name).find(({ allowed }) => allowed === 0);
  if (facts.candidates.length > 0) return undefined;
  return facts.inDomain.every(budgetOf0) ? budgetsBlock(facts) : undefined;
}

function maxUnavailableReached(facts: RolloutFacts): Wait | undefined {
  if (windowCapacity(facts) > 0) return undefined;
  const out = selectedOutOfService(facts);
  return wait(
    'MaxUnavailable',
    `rollout.maxUnavailable is ${facts.rollout.maxUnavailable}, and ${outOfServiceMessage(out, 'selected ')}.`,
  );
}

function budgetReached(facts: RolloutFacts): Wait | undefined {
  return facts.candidates.length > 0 ? undefined : budgetsBlock(facts);
}

/** Explains the first budget that blocks the next node, and names the others. */
function budgetsBlock(facts: RolloutFacts): Wait | undefined {
  const [first, ...others] = new Set(facts.inDomain.flatMap(({ name }) => blockingBudgets(facts, name)));
  if (first === undefined) return undefined;
  const names = others.map(({ name }) => name);
  const more = names.length === 0 ? '' : ` Exhausted as well: ${listed(names)}.`;
  return wait('NodeDisruptionBudget', `${blockMessage(facts, first)}${more}`);
}

function blockMessage({ outOfService }: RolloutFacts, { name, allowed, nodes }: BudgetLimit): string {
  const budget = `NodeDisruptionBudget ${name} allows`;
  if (allowed === 0)
    return `${budget} no node to be out of service: increase its spec.maxUnavailable to start nodes.`;
  const out = [...outOfService].filter(([node]) => nodes.has(node));
  return `${budget} ${allowed} of ${nodeCount(nodes.size)} to be out of service, and ${outOfServiceMessage(out)}.`;
}

/** Returns the budgets that select a node and allow no more of their nodes. Budgets of 0 are first: no node that returns to service helps. */
function blockingBudgets(
  { budgets, room }: Pick<RolloutFacts, 'budgets' | 'room'>,
  node: string,
): BudgetLimit[] {
  const blocking = budgets.filter((limit) => limit.nodes.has(node) && (room.get(limit) ?? 0) <= 0);
  return blocking.toSorted((a, b) => Number(a.allowed > 0) - Number(b.allowed > 0));
}

function windowCapacity(facts: RolloutFacts): number {
  const { rollout, nodes } = facts;
  return limitOf(rollout.maxUnavailable, nodes.length) - selectedOutOfService(facts).length;
}

function selectedOutOfService({ nodes, outOfService }: RolloutFacts): [string, string][] {
  const selected = new Set(nodes.map(({ name }) => name));
  return [...outOfService].filter(([name]) => selected.has(name));
}

/** Names a few of the nodes that are out of service, each with the reason. */
function outOfServiceMessage(out: readonly [string, string][], kind = ''): string {
  const names = out.toSorted(([a], [b]) => compareNames(a, b)).map(([name, reason]) => `${name} (${reason})`);
  const verb = out.length === 1 ? 'is' : 'are';
  return `${nodeCount(out.length, kind)} ${verb} out of service: ${listed(names)}`;
}

function nodeCount(count: number, kind = ''): string {
  return numbered(count, `${kind}node`);
}

function remainingCount(remaining: readonly RolloutNode[]): string {
  return `${nodeCount(remaining.length)} ${remaining.length === 1 ? 'remains' : 'remain'}`;
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
  const [domain = candidates.map(domainOf).toSorted(compareNames)[0]] = domains;
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
