import type { WaitingReason } from '../../api/waitingReasons.ts';
import { compareNames, listed } from '../common/names.ts';
import { jobsNotEnabledMessage } from './conditions.ts';
import {
  blockingBudgets,
  factsOf,
  type RolloutFacts,
  type RolloutInput,
  type RolloutNode,
  selectedOutOfService,
  windowCapacity,
} from './rolloutFacts.ts';
import {
  agentsMessage,
  blockMessage,
  failedMessage,
  nodeCount,
  outOfServiceMessage,
  remainingCount,
} from './rolloutMessages.ts';

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
  return wait('ApprovalNeeded', 'All approved nodes are out of service already: approve another node.');
}

function everyNodeRejected(facts: RolloutFacts): Wait | undefined {
  return facts.approvedInService.every(({ name }) => facts.rejected.has(name)) ? rejection(facts) : undefined;
}

function agentsNotRunning({ approvedInService, accepted, notRebootable }: RolloutFacts): Wait | undefined {
  const waiting = approvedInService.map(({ name }) => name).filter((name) => notRebootable.has(name));
  if (accepted.length > 0 || waiting.length === 0) return undefined;
  return wait('AgentNotRunning', agentsMessage(waiting, notRebootable));
}

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
