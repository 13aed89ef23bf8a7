import { isDeepStrictEqual } from 'node:util';
import type { Node } from '../api/core.ts';
import type { MaintenanceWindow, WindowProgress } from '../api/maintenanceWindow.ts';
import { workflowIdOf } from '../api/names.ts';
import type { NodeBudget } from '../api/nodeBudget.ts';
import { isTrue } from '../domain/conditions.ts';
import { selectsNode } from '../domain/nodeSelector.ts';
import { revisionOf, turnName } from '../domain/revision.ts';
import { decideRollout, type RolloutDecision, type RolloutSight, type Turn } from '../domain/rollout.ts';
import type { TurnPolicy } from '../domain/turn.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { resources } from '../kube/resources.ts';
import type { WindowOrders, WindowRef, WindowState, WindowStep } from './contract.ts';
import type { Deps } from './deps.ts';
import { type BudgetView, claimNodes, readBudget, viewOf } from './nodeClaims.ts';
import { reconcile } from './reconcile.ts';
import { act, beginTurn, type SeenTurn, turnsOf } from './turns.ts';
import { readWindow, updateWindowStatus } from './windowStatus.ts';

const turnsAtOnce = 8;
/** Names and failures in the status, so that it stays small. */
const nodesShown = 100;
const failuresShown = 20;
const longestMessage = 1_000;

/** One look at a window and its turns. */
interface Sight {
  window: MaintenanceWindow;
  revision: string;
  policy: TurnPolicy;
  /** No further turn begins. */
  isEnding: boolean;
  nodes: readonly Node[];
  turns: readonly SeenTurn[];
}

/**
 * Sees the turns of an open window through and begins new ones, as domain/turn.ts and domain/rollout.ts decide, until its state
 * differs from `seen`, or nothing is left to do. What a turn has come to is on its NodeMaintenance, not here.
 */
export async function rollOut(
  deps: Deps,
  ref: WindowRef,
  orders: WindowOrders,
  seen: WindowState | undefined,
): Promise<WindowStep> {
  const { cluster } = deps;
  let budget = await readBudget(deps);
  const turn = async (): Promise<WindowStep | undefined> => {
    // The informer may not have it yet.
    const window = cluster.windows.get(ref.name) ?? (await readWindow(deps, ref));
    if (window?.metadata.uid !== ref.uid) return { kind: 'Gone' };
    const sight = lookAt(deps, window, orders);
    budget = await released(deps, sight, budget);
    await forEachBounded(turnsAtOnce, sight.turns, (one) => act(deps, window, one));
    if (!sight.isEnding) await completeClaims(deps, sight, budget);
    const first = decide(deps, sight, orders, viewOf(deps, budget));
    const begun = first.kind === 'Start' ? await begin(deps, sight, orders) : undefined;
    budget = begun?.budget ?? budget;
    const decision = begun?.decision ?? first;
    const state = stateOf(sight, decision, viewOf(deps, budget));
    await publish(deps, ref, sight, state);
    if (unseenNodes(sight, budget).length === 0 && isOver(state, sight, decision))
      return { kind: 'Over', state, rest: restless(sight) };
    return isDeepStrictEqual(state, seen) ? undefined : { kind: 'Progressed', state };
  };
  return reconcile<WindowStep>(cluster, () => false, turn, [cluster.windows, cluster.jobs]);
}

function lookAt(deps: Deps, window: MaintenanceWindow, orders: WindowOrders): Sight {
  const { cancelled } = orders;
  const ended = orders.ended || deps.cluster.kube.now().getTime() >= Date.parse(orders.end);
  const isDeleted = window.metadata.deletionTimestamp !== undefined;
  const revision = revisionOf(window.spec);
  const policy = cancelled ? 'Cancel' : ended || isDeleted ? policyAtEnd(window) : 'Finish';
  const selector = window.spec.nodeSelector;
  return {
    window,
    revision,
    policy,
    isEnding: ended || cancelled || isDeleted,
    nodes: deps.cluster.nodes.list().filter((node) => selectsNode(selector, node)),
    turns: turnsOf(deps, window, policy).map((turn) => unlessOutdated(turn, revision)),
  };
}

/** A window that is being deleted has no next one that could go on. */
function policyAtEnd({ metadata, spec }: MaintenanceWindow): TurnPolicy {
  const policy = ({ FinishCurrent: 'Finish', HoldCurrent: 'Hold', CancelCurrent: 'Cancel' } as const)[
    spec.onWindowEnd
  ];
  return policy === 'Hold' && metadata.deletionTimestamp !== undefined ? 'Finish' : policy;
}

/** The record of a turn of an earlier revision, or of a machine that is no more, is of no use when the turn is over. */
function unlessOutdated(turn: SeenTurn, revision: string): SeenTurn {
  const isOutdated = turn.revision !== revision || !turn.isOfNode;
  return turn.step.kind === 'Over' && isOutdated ? { ...turn, step: { kind: 'Forget' } } : turn;
}

function isUnderWay({ step }: SeenTurn): boolean {
  return step.kind !== 'Over' && step.kind !== 'Forget' && step.kind !== 'Failed';
}

/** Whether the node is out of service for the turn, or was when it failed. */
function holdsNode(turn: SeenTurn): boolean {
  return isUnderWay(turn) || (turn.step.kind === 'Failed' && !turn.step.isOver);
}

/** Gives up the claims of nodes whose turn is over, and once no turn begins any more those of turns that never did. */
async function released(deps: Deps, sight: Sight, budget: NodeBudget): Promise<NodeBudget> {
  const { turns } = sight;
  const holding = new Set(turns.filter(holdsNode).map(({ node }) => node));
  const { name } = sight.window.metadata;
  const over = turns.map(({ node }) => node).filter((node) => !holding.has(node));
  const neverBegun = await withoutTurn(deps, sight, budget);
  const release = claimedNodes(sight, budget).filter(
    (node) => over.includes(node) || neverBegun.includes(node),
  );
  if (release.length === 0) return budget;
  return claimNodes(deps, name, () => ({ claim: [], release }));
}

function claimedNodes({ window }: Sight, { status }: NodeBudget): string[] {
  const own = (status?.claims ?? []).filter((claim) => claim.window === window.metadata.name);
  return own.map(({ node }) => node);
}

/** Claimed nodes whose turn the informer does not have. */
function unseenNodes(sight: Sight, budget: NodeBudget): string[] {
  const seen = new Set(sight.turns.map(({ node }) => node));
  return claimedNodes(sight, budget).filter((node) => !seen.has(node));
}

/** Those of them whose turn the apiserver does not have either, and that are to have none any more. */
async function withoutTurn({ cluster }: Deps, sight: Sight, budget: NodeBudget): Promise<string[]> {
  const selected = new Set(sight.nodes.map(({ metadata }) => metadata.name));
  const unwanted = unseenNodes(sight, budget).filter((node) => sight.isEnding || !selected.has(node));
  const missing: string[] = [];
  await forEachBounded(turnsAtOnce, unwanted, async (node) => {
    const name = turnName(sight.window.metadata.name, sight.revision, node);
    if ((await cluster.kube.get(resources.nodeMaintenances, { name })) === undefined) missing.push(node);
  });
  return missing;
}

/** A worker may have died between the claim of a node and its turn. */
async function completeClaims(deps: Deps, sight: Sight, budget: NodeBudget): Promise<void> {
  const unseen = unseenNodes(sight, budget);
  const missing = sight.nodes.filter(({ metadata }) => unseen.includes(metadata.name));
  await forEachBounded(turnsAtOnce, missing, (node) => beginTurn(deps, sight.window, sight.revision, node));
}

/** Decides again on the newest budget, claims the nodes, and begins their turns. */
async function begin(
  deps: Deps,
  sight: Sight,
  orders: WindowOrders,
): Promise<{ budget: NodeBudget; decision: RolloutDecision }> {
  const { window, revision, nodes } = sight;
  const decisions: RolloutDecision[] = [];
  const budget = await claimNodes(deps, window.metadata.name, (view) => {
    const decided = decide(deps, sight, orders, view);
    decisions.push(decided);
    return { claim: startedBy(decided), release: [] };
  });
  const decision = decisions.at(-1) ?? { kind: 'Done' };
  const started = new Set(startedBy(decision));
  const begun = nodes.filter(({ metadata }) => started.has(metadata.name));
  await forEachBounded(turnsAtOnce, begun, (node) => beginTurn(deps, window, revision, node));
  return { budget, decision };
}

function startedBy(decision: RolloutDecision): string[] {
  return decision.kind === 'Start' ? decision.nodes : [];
}

function decide(deps: Deps, sight: Sight, orders: WindowOrders, view: BudgetView): RolloutDecision {
  const { window, nodes } = sight;
  const seen: RolloutSight = {
    rollout: window.spec.rollout,
    approval: window.spec.approval,
    nodes: nodes.map(({ metadata }) => ({ name: metadata.name, labels: metadata.labels ?? {} })),
    turns: turnKinds(sight, view),
    outOfService: view.out,
    budget: view.allowed,
    approved: orders.approved,
    approvedNodes: orders.approvedNodes,
    paused: orders.paused,
    isOver: sight.isEnding,
    now: deps.cluster.kube.now().getTime(),
  };
  return decideRollout(seen);
}

/** What was claimed for this window is under way, whether or not the informers have its turn. */
function turnKinds({ window, revision, turns }: Sight, { claims }: BudgetView): Map<string, Turn> {
  const kinds = new Map<string, Turn>();
  for (const claim of claims)
    if (claim.window === window.metadata.name) kinds.set(claim.node, { kind: 'UnderWay' });
  for (const turn of turns) {
    if (turn.step.kind === 'Failed') kinds.set(turn.node, { kind: 'Failed' });
    else if (isUnderWay(turn)) kinds.set(turn.node, { kind: 'UnderWay' });
    else if (turn.step.kind === 'Over' && turn.revision === revision && turn.isOfNode)
      kinds.set(turn.node, { kind: 'Succeeded', at: turn.step.at });
  }
  return kinds;
}

function stateOf(sight: Sight, decision: RolloutDecision, view: BudgetView): WindowState {
  const kinds = turnKinds(sight, view);
  const selected = sight.nodes.map(({ metadata }) => metadata.name);
  const count = (kind: Turn['kind']) => selected.filter((name) => kinds.get(name)?.kind === kind).length;
  const named = new Map(sight.turns.map(({ node, maintenance }) => [node, maintenance.metadata.name]));
  const underWay = [...kinds].filter(([, { kind }]) => kind === 'UnderWay').map(([node]) => node);
  const failed = [...kinds].filter(([, { kind }]) => kind === 'Failed').map(([node]) => node);
  return {
    revision: sight.revision,
    nodes: selected.length,
    done: count('Succeeded'),
    underWay: underWay.toSorted().map((node) => ({
      node,
      maintenance: named.get(node) ?? turnName(sight.window.metadata.name, sight.revision, node),
    })),
    failed: failed.toSorted(),
    remaining: selected.filter((name) => !kinds.has(name)).length,
    ...(decision.kind === 'Wait' && {
      waiting: { reason: decision.reason, message: decision.message.slice(0, longestMessage) },
    }),
  };
}

function isOver({ underWay }: WindowState, { policy, isEnding }: Sight, decision: RolloutDecision): boolean {
  if (policy === 'Hold') return true;
  return underWay.length === 0 && (isEnding || decision.kind === 'Done');
}

/** The runs of maintenances that go on draining unless they are told to rest, by workflow id. */
function restless({ policy, turns }: Sight): string[] {
  if (policy !== 'Hold') return [];
  return turns
    .filter((turn) => isUnderWay(turn) && !isTrue(turn.maintenance.status?.conditions, 'Paused'))
    .map(({ maintenance }) => workflowIdOf(maintenance.metadata.name));
}

async function publish(deps: Deps, ref: WindowRef, sight: Sight, state: WindowState): Promise<void> {
  const { active, progress: before } = sight.window.status ?? {};
  const progress = progressOf(sight, state);
  const nodes = [...state.underWay.map(({ node }) => node), ...state.failed].slice(0, nodesShown);
  const isShown = isDeepStrictEqual([active?.nodes, active?.waiting], [nodes, state.waiting]);
  if (isDeepStrictEqual(progress, before) && (active === undefined || isShown)) return;
  await updateWindowStatus(deps, ref, ({ active: newest, ...status }) => {
    if (newest === undefined) return { ...status, progress };
    const { waiting: _before, ...open } = newest;
    return {
      ...status,
      progress,
      active: { ...open, nodes, ...(state.waiting && { waiting: state.waiting }) },
    };
  });
}

function progressOf(sight: Sight, state: WindowState): WindowProgress {
  const failures = sight.turns.flatMap(({ node, step }) =>
    step.kind === 'Failed'
      ? [{ node, reason: step.reason, message: step.message.slice(0, longestMessage) }]
      : [],
  );
  const { revision, nodes, done, underWay, failed, remaining } = state;
  return {
    revision,
    summary: `${done}/${nodes}`,
    nodes,
    done,
    inProgress: underWay.length,
    failed: failed.length,
    remaining,
    failures: failures.slice(0, failuresShown),
  };
}
