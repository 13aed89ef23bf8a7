import type { MaintenanceWindowSpec, Rollout } from '../api/maintenanceWindow.ts';
import { compareNames, listed } from './names.ts';
import { limitOf } from './nodeBudget.ts';

/** One node that a window selects. */
export interface RolloutNode {
  name: string;
  labels: Readonly<Record<string, string>>;
}

/** The turn of a node in the window's revision. Times in milliseconds. */
export type Turn = { kind: 'UnderWay' } | { kind: 'Failed' } | { kind: 'Succeeded'; at: number };

export interface RolloutSight {
  rollout: Rollout;
  approval: MaintenanceWindowSpec['approval'];
  /** Those that are selected. */
  nodes: readonly RolloutNode[];
  turns: ReadonlyMap<string, Turn>;
  /** Nodes of the whole cluster that are out of service, and why, in words that follow "because". */
  outOfService: ReadonlyMap<string, string>;
  /** How many of the cluster may be. */
  budget: number;
  /** Whether somebody has approved the window as a whole, and which nodes. */
  approved: boolean;
  approvedNodes: readonly string[];
  paused: boolean;
  /** Nodes whose turn cannot begin or go on now, because the apiserver refuses what it needs, in its words. */
  refused: ReadonlyMap<string, string>;
  /** The window has ended, or was cancelled. */
  isOver: boolean;
  /** It is being deleted, too: no next one will open. */
  isLast?: boolean;
  /** Milliseconds. */
  now: number;
}

export type RolloutDecision =
  | { kind: 'Start'; nodes: string[] }
  /** No turn begins now; `until` (milliseconds) when only time is missing. */
  | { kind: 'Wait'; reason: string; message: string; until?: number }
  /** Every selected node has had its turn. */
  | { kind: 'Done' };

/** What the rules judge: the sight, and what follows from it. */
interface Seen extends RolloutSight {
  remaining: readonly RolloutNode[];
  underWay: readonly string[];
  failed: readonly string[];
}

type Rule = (seen: Seen) => Extract<RolloutDecision, { kind: 'Wait' }> | undefined;

/** Whatever node it is, none begins while one of these says so. */
const rules: readonly Rule[] = [
  windowIsOver,
  isPaused,
  tooManyFailures, // "stop after N failures": what broke one node may break the next
  refusesAll, // what is refused to a few is refused to the rest
  lacksApproval,
  soaks, // trouble with a node that came back shows after a while
];

/** Which nodes begin their turn now, or why none does. The same sight gives the same decision. */
export function decideRollout(sight: RolloutSight): RolloutDecision {
  const seen = seenOf(sight);
  if (seen.remaining.length === 0) return isRefused(seen) ?? hasLastTurns(seen) ?? { kind: 'Done' };
  for (const rule of rules) {
    const wait = rule(seen);
    if (wait !== undefined) return wait;
  }
  const decision = choose(seen);
  return decision.kind === 'Wait' ? (isRefused(seen) ?? decision) : decision;
}

function seenOf(sight: RolloutSight): Seen {
  const of = (kind: Turn['kind']) =>
    sight.nodes.map(({ name }) => name).filter((name) => sight.turns.get(name)?.kind === kind);
  return {
    ...sight,
    remaining: inOrder(
      sight.nodes.filter(({ name }) => !sight.turns.has(name)),
      sight.rollout,
    ),
    underWay: of('UnderWay').toSorted(compareNames),
    failed: of('Failed').toSorted(compareNames),
  };
}

function waits(reason: string, message: string): Extract<RolloutDecision, { kind: 'Wait' }> {
  return { kind: 'Wait', reason, message };
}

/** No node is left that has not begun. */
function hasLastTurns({ underWay, failed }: Seen) {
  if (failed.length === 0)
    return underWay.length === 0
      ? undefined
      : waits('LastTurns', `The last turns are under way: ${listed(underWay)}.`);
  const remedy = `${failed.length === 1 ? 'The turn of' : 'The turns of'} ${listed(failed)} failed: ${dealWithThem}.`;
  return underWay.length === 0
    ? waits('FailedTurns', remedy)
    : waits('LastTurns', `The last turns are under way: ${listed(underWay)}. ${remedy}`);
}

const dealWithThem = 'see to these nodes, then advance their turns or delete their NodeMaintenances';

function windowIsOver({ isOver, isLast = false, remaining }: Seen) {
  if (!isOver) return undefined;
  return waits(
    'WindowOver',
    `The window is over; ${nodesLeft(remaining)}${isLast ? '' : ' for the next one'}.`,
  );
}

function isPaused({ paused }: Seen) {
  return paused ? waits('Paused', 'Paused: resume lets further nodes begin.') : undefined;
}

function tooManyFailures({ failed, rollout }: Seen) {
  if (failed.length < rollout.maxFailures) return undefined;
  return waits(
    'TooManyFailures',
    `Stopped after ${failed.length} ${failed.length === 1 ? 'failure' : 'failures'} (${listed(failed)}): ${dealWithThem}.`,
  );
}

function lacksApproval({ approval, approved, approvedNodes, remaining }: Seen) {
  if (approval === 'PerWindow' && !approved)
    return waits('ApprovalNeeded', `Waiting for somebody to approve the window; ${nodesLeft(remaining)}.`);
  if (approval !== 'PerNode' || approved || remaining.some(({ name }) => approvedNodes.includes(name)))
    return undefined;
  const names = remaining.map(({ name }) => name);
  return waits('ApprovalNeeded', `Waiting for somebody to approve one of the nodes ${listed(names)}.`);
}

function soaks({ rollout, turns, now }: Seen): Extract<RolloutDecision, { kind: 'Wait' }> | undefined {
  const ends = [...turns.values()].flatMap((turn) => (turn.kind === 'Succeeded' ? turn.at : []));
  const until = Math.max(0, ...ends) + rollout.soakSeconds * 1_000;
  if (rollout.soakSeconds === 0 || now >= until) return undefined;
  const then = new Date(until).toISOString();
  return { ...waits('Soaking', `A node has only just come back: the next begins at ${then}.`), until };
}

/** Nodes that are tried, one after the other or at once, before the others are left alone. */
const mostRefused = 3;

function refusesAll(seen: Seen) {
  return seen.refused.size < mostRefused ? undefined : isRefused(seen);
}

function isRefused({ refused }: Seen) {
  const [first] = [...refused].toSorted(([a], [b]) => compareNames(a, b));
  if (first === undefined) return undefined;
  const others = refused.size === 1 ? '' : `, and ${refused.size - 1} more`;
  return waits('TurnRefused', `The apiserver refuses the turn of ${first[0]}${others}: ${first[1]}`);
}

function nodesLeft(remaining: readonly RolloutNode[]): string {
  return remaining.length === 1 ? '1 node is left' : `${remaining.length} nodes are left`;
}

function choose(seen: Seen): RolloutDecision {
  const { remaining, outOfService, approval, approved, approvedNodes, rollout, underWay, failed, budget } =
    seen;
  const inService = remaining.filter(({ name }) => !outOfService.has(name));
  if (inService.length === 0) return othersHaveThem(seen);
  const needsNames = approval === 'PerNode' && !approved;
  const allowed = inService.filter(({ name }) => !needsNames || approvedNodes.includes(name));
  if (allowed.length === 0)
    return waits('ApprovalNeeded', 'Waiting for somebody to approve a node that is in service.');
  const possible = allowed.filter(({ name }) => !seen.refused.has(name));
  const domain = inOneDomain(seen, possible);
  if (possible.length === 0) return othersHaveThem(seen);
  if (domain.length === 0)
    return waits(
      'TopologyDomain',
      `One ${rollout.topologyKey} at a time: ${listed([...underWay, ...failed])} must be back first.`,
    );
  if (budget === 0)
    return waits(
      'NodeBudget',
      'The NodeBudget of the cluster allows no node out of service: no window begins a turn until its spec.maxUnavailable is more than 0.',
    );
  const outOfSelected = seen.nodes.filter(({ name }) => outOfService.has(name)).length;
  const ownRoom = limitOf(rollout.maxUnavailable, seen.nodes.length) - outOfSelected;
  if (ownRoom <= 0)
    return waits(
      'MaxUnavailable',
      `rollout.maxUnavailable allows ${rollout.maxUnavailable} of the selected nodes out of service, and there are ${outOfSelected} of them${whyOut(seen, true)}.`,
    );
  const room = Math.min(ownRoom, budget - outOfService.size);
  if (room <= 0)
    return waits(
      'NodeBudget',
      `The NodeBudget of the cluster allows ${budget} nodes out of service, and there are ${outOfService.size} of them${whyOut(seen, false)}.`,
    );
  return { kind: 'Start', nodes: domain.slice(0, room).map(({ name }) => name) };
}

function othersHaveThem(seen: Seen): RolloutDecision {
  const { remaining, outOfService } = seen;
  const names = remaining.map(({ name }) => `${name} (${outOfService.get(name)})`);
  return waits('NodesOutOfService', `The nodes that are left are out of service already: ${listed(names)}.`);
}

/** A few of the nodes that use the budget up, with the reason of each. */
function whyOut({ outOfService, nodes }: Seen, selectedOnly: boolean): string {
  const selected = new Set(nodes.map(({ name }) => name));
  const out = [...outOfService].filter(([name]) => !selectedOnly || selected.has(name));
  const named = out.toSorted(([a], [b]) => compareNames(a, b));
  return named.length === 0 ? '' : `: ${listed(named.map(([name, because]) => `${name} (${because})`))}`;
}

/** Those of the candidates that share a topology domain with all whose turn is not over, or with the first of them. */
function inOneDomain({ rollout, nodes, turns }: Seen, candidates: readonly RolloutNode[]): RolloutNode[] {
  const { topologyKey } = rollout;
  if (topologyKey === undefined) return [...candidates];
  const domainOf = ({ labels }: RolloutNode) => labels[topologyKey] ?? '';
  const busy = nodes.filter(({ name }) => turns.has(name) && turns.get(name)?.kind !== 'Succeeded');
  const domains = new Set(busy.map(domainOf));
  if (domains.size > 1) return [];
  const [worked = candidates.map(domainOf).toSorted(compareNames)[0]] = domains;
  return candidates.filter((node) => domainOf(node) === worked);
}

function inOrder(nodes: readonly RolloutNode[], { order, topologyKey }: Rollout): RolloutNode[] {
  const keys = ({ name, labels }: RolloutNode) => [
    topologyKey === undefined ? '' : (labels[topologyKey] ?? ''),
    labelRank(order.by === 'Label' ? labels[order.labelKey ?? ''] : undefined),
    name,
  ];
  return nodes.toSorted((a, b) => {
    const [left, right] = [keys(a), keys(b)];
    const differing = left.findIndex((key, index) => key !== right[index]);
    return compareNames(left[differing] ?? '', right[differing] ?? '');
  });
}

/** Nodes without the label come last. */
function labelRank(value: string | undefined): string {
  return value === undefined ? '1' : `0${value}`;
}
