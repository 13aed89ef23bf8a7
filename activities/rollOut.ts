import { isDeepStrictEqual } from 'node:util';
import { Context } from '@temporalio/activity';
import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import type { NodeBudget } from '../api/nodeBudget.ts';
import { workflowIdOf } from '../api/names.ts';
import { isTrue } from '../domain/conditions.ts';
import { inItsTurn } from '../domain/nodeBudget.ts';
import { stageOf } from '../domain/stage.ts';
import { selectsNode } from '../domain/nodeSelector.ts';
import { revisionOf } from '../domain/revision.ts';
import { decideRollout, type RolloutDecision, type Turn } from '../domain/rollout.ts';
import type { TurnPolicy } from '../domain/turn.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { isKubeError, isRefusal, wordsOf } from '../kube/errors.ts';
import type { Told, WindowOrders, WindowRef, WindowState, WindowStep } from './contract.ts';
import type { Deps } from './deps.ts';
import { type BudgetView, claimNodes, seenBudget, standingClaims, viewOf } from './nodeClaims.ts';
import { lookAgainAfter, resyncEvery } from './reconcile.ts';
import {
  act,
  type Awaited,
  awaitedIn,
  beginTurn,
  isResting,
  markResting,
  type SeenTurn,
  turnsOf,
} from './turns.ts';
import { publishWindow, type Sight, stateOf } from './windowState.ts';
import { readWindow } from './windowStatus.ts';

const turnsAtOnce = 8;
/**
 * A claim is acted on within this time: later another worker may have taken this one for dead, and have claimed other nodes for the
 * window in their place. Milliseconds.
 */
const claimLasts = 3_000;
/** A turn that was refused is tried again after this time. Milliseconds. */
const tryAgainAfter = 60_000;
/** So is a run that was told something, and does not show it. Milliseconds. */
const tellAgainAfter = 60_000;
/** Leases of kubelets, which are not watched, are looked at this often while they are waited for. Milliseconds. */
const kubeletsEvery = 2_000;

/**
 * Sees the turns of an open window through and begins new ones, as domain/turn.ts and domain/rollout.ts decide, until its state
 * differs from `seen`, or nothing is left to do. What a turn has come to is on its NodeMaintenance, not here.
 */
export function rollOut(
  deps: Deps,
  ref: WindowRef,
  orders: WindowOrders,
  seen: WindowState | undefined,
): Promise<WindowStep> {
  const { nodes, maintenances, windows, jobs, nodeBudgets } = deps.cluster;
  const rollout = new RollOut(deps, orders, seen);
  const look = async () => {
    const step = await rollout.look(ref);
    return step.kind === 'Progressed' && isDeepStrictEqual(shown(step.state), shown(seen)) ? undefined : step;
  };
  const within = () => (rollout.awaitsNodes() ? kubeletsEvery : resyncEvery);
  return lookAgainAfter<WindowStep>([nodes, maintenances, windows, jobs, nodeBudgets], look, within);
}

function shown(state: WindowState | undefined): Omit<WindowState, 'awaited'> | undefined {
  if (state === undefined) return undefined;
  const { awaited: _awaited, ...said } = state;
  return said;
}

/** What one activity remembers between its looks: losing it costs a request or an Event more. */
class RollOut {
  readonly #deps: Deps;
  readonly #orders: WindowOrders;
  readonly #begun: number;
  /** As it was last written here. */
  #budget: NodeBudget | undefined;
  /** Nodes whose turn could not begin: in the words of the apiserver, and when. */
  readonly #refused = new Map<string, { words: string; at: number }>();
  #awaited: Awaited;

  constructor(deps: Deps, orders: WindowOrders, seen: WindowState | undefined) {
    this.#deps = deps;
    this.#orders = orders;
    // After one that broke off nobody has looked for a while.
    this.#awaited = (Context.current().info.attempt === 1 && seen?.awaited) || {};
    this.#begun = deps.cluster.kube.now().getTime();
  }

  awaitsNodes(): boolean {
    return Object.keys(this.#awaited).length > 0;
  }

  async look(ref: WindowRef): Promise<WindowStep> {
    const deps = this.#deps;
    // The informer may not have it yet.
    const window = deps.cluster.windows.get(ref.name) ?? (await readWindow(deps, ref));
    if (window?.metadata.uid !== ref.uid) return { kind: 'Gone' };
    const sight = await lookAt(deps, window, this.#orders, this.#awaited);
    this.#awaited = awaitedIn(sight.turns, this.#awaited, deps.cluster.kube.now().getTime());
    const refused = await this.#tend(sight);
    const { decision, view } = await this.#goOn(sight, refused);
    const state = stateOf(sight, decision, turnKinds(sight, view));
    await publishWindow(deps, ref, sight, state);
    return this.#stepOf(sight, { ...state, ...(this.awaitsNodes() && { awaited: this.#awaited }) }, decision);
  }

  /** What the turns under way need; resolves with those that the apiserver refuses, and in which words. */
  async #tend({ window, turns, policy }: Sight): Promise<Map<string, string>> {
    const deps = this.#deps;
    const refused = new Map<string, string>();
    await forEachBounded(turnsAtOnce, turns, async (turn) => {
      try {
        const { maintenance, refused: words } = turn;
        if (words !== undefined) refused.set(turn.node, words);
        await act(deps, window, turn);
        const goesOn = policy === 'Finish' && !isPaused(turn);
        if (goesOn && isResting(maintenance)) await markResting(deps, maintenance, false);
      } catch (error) {
        // It has changed, or is gone: the informer will show it.
        if (isKubeError(error, 'Conflict', 'NotFound') && error.request.verb !== 'create') return;
        refused.set(turn.node, refusalIn(error));
      }
    });
    this.#tellRefused(window, refused);
    return refused;
  }

  /** Begins turns, if the rules let any; the decision is the one that stands after that. */
  async #goOn(
    sight: Sight,
    tended: ReadonlyMap<string, string>,
  ): Promise<{ decision: RolloutDecision; view: BudgetView }> {
    const { name } = sight.window.metadata;
    for (;;) {
      const refused = new Map([...this.#stillRefused(), ...tended]);
      const view = this.#viewOf(await this.#budgetNow(name));
      const first = this.#decide(sight, view, refused);
      if (first.kind !== 'Start') return { decision: first, view };
      let decision: RolloutDecision = first;
      const until = performance.now() + claimLasts;
      this.#budget = await claimNodes(this.#deps, name, (newest) => {
        decision = this.#decide(sight, newest, refused);
        return startedBy(decision);
      });
      const begun = await this.#begin(sight, startedBy(decision), until);
      if (begun === 'All') return { decision, view: this.#viewOf(this.#budget) };
      // What was claimed for them is free again, and others may have their turn.
      this.#budget = await claimNodes(this.#deps, name, () => []);
    }
  }

  #viewOf(budget: NodeBudget): BudgetView {
    return viewOf(this.#deps, budget, budget.status?.claims ?? []);
  }

  /** Without claims that do not stand any more: the nodes of others wait for them. */
  async #budgetNow(window: string): Promise<NodeBudget> {
    const budget = await seenBudget(this.#deps, this.#budget);
    const standing = await standingClaims(this.#deps, window, budget);
    if (standing.length === (budget.status?.claims ?? []).length) return budget;
    this.#budget = await claimNodes(this.#deps, window, () => []);
    return this.#budget;
  }

  /** Whether all turns have begun; of the others some were refused, or it was too late for them. */
  async #begin(
    { window, revision, nodes }: Sight,
    started: readonly string[],
    until: number,
  ): Promise<'All' | 'Some'> {
    const begun = nodes.filter(({ metadata }) => started.includes(metadata.name));
    const failed = new Map<string, string>();
    let isLate = false;
    await forEachBounded(turnsAtOnce, begun, async (node) => {
      isLate ||= performance.now() > until;
      if (isLate) return;
      try {
        await beginTurn(this.#deps, window, revision, node);
        this.#tellBegun(window, node.metadata.name);
      } catch (error) {
        failed.set(node.metadata.name, refusalIn(error));
      }
    });
    const at = this.#deps.cluster.kube.now().getTime();
    for (const [node, words] of failed) this.#refused.set(node, { words, at });
    this.#tellRefused(window, failed);
    return failed.size === 0 && !isLate ? 'All' : 'Some';
  }

  #tellBegun(window: MaintenanceWindow, node: string): void {
    const message = `The turn of node ${node} begins.`;
    this.#deps.events.record(window, { type: 'Normal', reason: 'TurnBegun', message });
  }

  #stillRefused(): Map<string, string> {
    const since = this.#deps.cluster.kube.now().getTime() - tryAgainAfter;
    for (const [node, { at }] of this.#refused) if (at < since) this.#refused.delete(node);
    return new Map([...this.#refused].map(([node, { words }]) => [node, words]));
  }

  #tellRefused(window: MaintenanceWindow, refused: ReadonlyMap<string, string>): void {
    for (const [node, words] of refused)
      this.#deps.events.record(window, {
        type: 'Warning',
        reason: 'TurnRefused',
        message: `The apiserver refuses the turn of node ${node}: ${words}`,
      });
  }

  #decide(sight: Sight, view: BudgetView, refused: ReadonlyMap<string, string>): RolloutDecision {
    const { window, nodes, isEnding } = sight;
    const { approved, approvedNodes, paused } = this.#orders;
    const turns = turnKinds(sight, view);
    return decideRollout({
      rollout: window.spec.rollout,
      approval: window.spec.approval,
      nodes: nodes.map(({ metadata }) => ({ name: metadata.name, labels: metadata.labels ?? {} })),
      turns,
      outOfService: new Map([...havingTurns(sight, turns), ...view.out]),
      budget: view.allowed,
      approved,
      approvedNodes,
      paused,
      refused,
      isOver: isEnding,
      isLast: window.metadata.deletionTimestamp !== undefined,
      now: this.#deps.cluster.kube.now().getTime(),
    });
  }

  async #stepOf(sight: Sight, state: WindowState, decision: RolloutDecision): Promise<WindowStep> {
    const resting = sight.turns.filter((turn) => isToRest(sight, turn));
    const going = sight.turns.filter((turn) => isToGoOn(sight, turn));
    const pause = resting.map(runOf);
    const resume = going.map(runOf);
    if (this.#mustTell(pause, 'pause') || this.#mustTell(resume, 'resume')) {
      await forEachBounded(turnsAtOnce, resting, ({ maintenance }) =>
        markResting(this.#deps, maintenance, true),
      );
      return { kind: 'Tell', state, pause, resume };
    }
    const isSettled = resting.length === 0 && going.length === 0;
    return isSettled && isOver(sight, state, decision)
      ? { kind: 'Over', state }
      : { kind: 'Progressed', state };
  }

  /** A run that was told shows it soon, unless what it was told was lost. */
  #mustTell(runs: readonly string[], word: Told['word']): boolean {
    const isLate = this.#deps.cluster.kube.now().getTime() - this.#begun > tellAgainAfter;
    const told = (this.#orders.told ?? []).filter((last) => last.word === word);
    return runs.some((run) => isLate || !told.some((last) => last.run === run));
  }
}

const finalKinds = ['Invalid', 'Forbidden', 'NotFound', 'AlreadyExists', 'NamespaceTerminating'] as const;

/** What the apiserver said; whatever else went wrong ends the look. */
function refusalIn(error: unknown): string {
  const isFinal = isKubeError(error, ...finalKinds) || isRefusal(error);
  if (!isFinal) throw error;
  return wordsOf(error);
}

async function lookAt(
  deps: Deps,
  window: MaintenanceWindow,
  orders: WindowOrders,
  awaited: Awaited,
): Promise<Sight> {
  const { cancelled } = orders;
  const ended = orders.ended || deps.cluster.kube.now().getTime() >= Date.parse(orders.end);
  const isDeleted = window.metadata.deletionTimestamp !== undefined;
  const revision = revisionOf(window.spec);
  const policy = cancelled ? 'Cancel' : ended || isDeleted ? policyAtEnd(window) : 'Finish';
  const selector = window.spec.nodeSelector;
  const turns = await turnsOf(deps, window, policy, awaited);
  return {
    window,
    revision,
    policy,
    isEnding: ended || cancelled || isDeleted,
    nodes: deps.cluster.nodes.list().filter((node) => selectsNode(selector, node)),
    turns: turns.map((turn) => unlessOutdated(turn, revision)),
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

function isPaused({ maintenance }: SeenTurn): boolean {
  return isTrue(maintenance.status?.conditions, 'Paused');
}

/** Whether a drain goes on that the window wants to rest. */
function isToRest({ policy }: Sight, turn: SeenTurn): boolean {
  return policy === 'Hold' && isUnderWay(turn) && stageOf(turn.maintenance) !== 'Complete' && !isPaused(turn);
}

/** Whether a drain rests that an earlier window let rest. */
function isToGoOn({ policy }: Sight, turn: SeenTurn): boolean {
  return policy === 'Finish' && isUnderWay(turn) && isResting(turn.maintenance) && isPaused(turn);
}

function runOf({ maintenance }: SeenTurn): string {
  return workflowIdOf(maintenance.metadata.name);
}

function startedBy(decision: RolloutDecision): string[] {
  return decision.kind === 'Start' ? decision.nodes : [];
}

/** A node may be back in service when its turn is not over yet: no other has its place before the turn is judged. */
function havingTurns({ window, nodes }: Sight, turns: ReadonlyMap<string, Turn>): [string, string][] {
  return nodes
    .filter(({ metadata }) => turns.get(metadata.name)?.kind === 'UnderWay')
    .map(({ metadata }) => [metadata.name, inItsTurn(window.metadata.name)]);
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

/** Not while there is a turn that the informer does not have yet. */
function isOver(
  { policy, isEnding, turns }: Sight,
  { underWay }: WindowState,
  decision: RolloutDecision,
): boolean {
  const seen = new Set(turns.map(({ node }) => node));
  if (underWay.some(({ node }) => !seen.has(node))) return false;
  if (policy === 'Hold') return true;
  return underWay.length === 0 && (isEnding || decision.kind === 'Done');
}
