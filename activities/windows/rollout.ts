import { isDeepStrictEqual } from 'node:util';
import { Context } from '@temporalio/activity';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { isRecord } from '../../domain/common/untrusted.ts';
import {
  type BudgetView,
  decideWindow,
  isResumed,
  nextWindowStep,
  type WindowDecision,
  waitingSinceOf,
} from '../../domain/windows/decideWindow.ts';
import { type ActiveWindow, effectiveRequests, openedBy } from '../../domain/windows/openWindow.ts';
import { type KnownRequests, requestsUnknownTo } from '../../domain/windows/requests.ts';
import {
  plausibleSignals,
  plausibleWaitingSince,
  type SentSignal,
  type WaitingSince,
  type WindowState,
  type WindowStep,
} from '../../domain/windows/windowState.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { isKubeError } from '../../kube/errors.ts';
import type { WindowRef, WindowRequests } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { currentExecution } from '../execution.ts';
import { notOpen } from '../failures.ts';
import { reconcileOn, within, withinNewHolder } from '../reconcile.ts';
import { applyNodeStep, markPausedByWindow } from './nodes.ts';
import { observeWindow, type WindowObservation } from './observe.ts';
import { publishWindow } from './publish.ts';
import { rejectionMessage, RejectedNodes } from './rejectedNodes.ts';
import { Reservations } from './reservations.ts';
import { RunningAgents } from './runningAgents.ts';
import { startNodes } from './startNodes.ts';
import { readWindow } from './status.ts';

const maxConcurrentNodes = 8;
/** A signal is sent again if the NodeMaintenance does not show its effect within this time. */
const retrySignalsAfterMs = 60_000;
/** Delay of the next pass after nodes were reserved too late, or the window has changed: the apiserver is slow, or the informer lags. */
const retryStartMs = 1_000;
/** Interval of passes while the window waits for nodes: the Leases of kubelets are not watched. */
const heartbeatIntervalMs = 2_000;

/**
 * Maintains the nodes of an open window until its state differs from `previous` or the window can close. The results of nodes are stored on
 * their NodeMaintenances, not here. End, approvals and other requests are those that the object records: the workflow repeats them only to
 * start the activity again.
 */
export function rollOut(
  deps: Deps,
  ref: WindowRef,
  requests: WindowRequests,
  previous: WindowState | undefined,
): Promise<WindowStep> {
  const { nodes, maintenances, windows, jobs, nodeDisruptionBudgets } = deps.cluster;
  const rollout = new RolloutPass(deps, requests, previous);
  const pass = async () => {
    const step = await rollout.reconcile(ref);
    const isUnchanged =
      step.kind === 'Progressed' &&
      isDeepStrictEqual(withoutWaitingSince(step.state), withoutWaitingSince(previous));
    return isUnchanged ? undefined : step;
  };
  const withinMs = () =>
    Math.min(
      rollout.awaitsNodes() ? heartbeatIntervalMs : deps.resyncMs,
      rollout.untilEndMs(),
      rollout.untilNextNodeMs(),
    );
  const watched = [
    within(nodes),
    within(maintenances),
    within(windows),
    within(jobs),
    within(nodeDisruptionBudgets),
    withinNewHolder(deps.cluster.leases),
  ];
  return reconcileOn<WindowStep>(watched, pass, { withinMs });
}

/** Nodes that were not started because they were reserved too late, or the window has changed, are left to the next pass. */
function nextNodeMsOf(rollout: WindowDecision['rollout'], nowMs: number): number {
  if (rollout.kind === 'Start') return nowMs + retryStartMs;
  return (rollout.kind === 'Wait' ? rollout.untilMs : undefined) ?? Infinity;
}

function withoutWaitingSince(state: WindowState | undefined): Omit<WindowState, 'waitingSince'> | undefined {
  if (!isRecord(state)) return undefined;
  const { waitingSince: _waitingSince, ...fields } = state;
  return fields;
}

/** Holds what one activity remembers between its passes. Losing it costs one more request or Event. */
class RolloutPass {
  readonly #deps: Deps;
  readonly #sentSignals: SentSignal[];
  /** Requests that the workflow shows. They do not decide. */
  readonly #knownRequests: unknown;
  readonly #previous: unknown;
  readonly #startedAt: number;
  readonly #reservations: Reservations;
  readonly #rejections: RejectedNodes;
  readonly #runningAgents: RunningAgents;
  #waitingSince: WaitingSince | undefined;
  #endMs = Number.NaN;
  #nextNodeMs = Infinity;

  constructor(deps: Deps, requests: WindowRequests | undefined, previous: unknown) {
    this.#deps = deps;
    this.#sentSignals = plausibleSignals(requests?.sentSignals);
    this.#knownRequests = requests;
    this.#previous = previous;
    this.#startedAt = deps.cluster.kube.now().getTime();
    this.#reservations = new Reservations(deps);
    this.#rejections = new RejectedNodes(deps);
    this.#runningAgents = new RunningAgents(deps);
  }

  /** Returns the time until the window ends; Infinity afterwards. */
  untilEndMs(): number {
    const remainingMs = this.#endMs - this.#deps.cluster.kube.now().getTime();
    return remainingMs > 0 ? remainingMs : Infinity;
  }

  /** Returns the time until the next node may start; Infinity if that depends on a change. */
  untilNextNodeMs(): number {
    return Math.max(0, this.#nextNodeMs - this.#deps.cluster.kube.now().getTime());
  }

  awaitsNodes(): boolean {
    return Object.keys(this.#waitingSince ?? {}).length > 0;
  }

  /** Observes the window, decides, and applies the decisions. */
  async reconcile(ref: WindowRef): Promise<WindowStep> {
    const deps = this.#deps;
    const nowMs = () => deps.cluster.kube.now().getTime();
    const found = await this.#readOpen(ref);
    if (found === undefined) return { kind: 'Gone' };
    const { window, active } = found;
    const requests = { ...effectiveRequests(window, active), ended: false };
    this.#endMs = Date.parse(requests.end);
    this.#waitingSince ??= this.#previousWaitingSince(active, nowMs());
    const observation = await observeWindow(deps, window, requests, {
      waitingSince: this.#waitingSince,
      runningAgents: this.#runningAgents,
    });
    this.#waitingSince = waitingSinceOf(observation.steps, this.#waitingSince, nowMs());
    const rejected = await this.#applySteps(observation);
    const decide = (budget: BudgetView, startRejected: ReadonlyMap<string, string>): WindowDecision =>
      decideWindow({
        ...observation,
        requests,
        budget,
        rejected: new Map([...startRejected, ...rejected]),
        rejectedBefore: this.#rejections.known(),
        nowMs: nowMs(),
      });
    const decision = await startNodes(deps, observation, decide, {
      reservations: this.#reservations,
      rejections: this.#rejections,
      isCurrent: () => this.#isCurrent(ref, window, active),
    });
    const { rollout } = decision;
    this.#nextNodeMs = nextNodeMsOf(rollout, nowMs());
    await publishWindow(deps, ref, window, decision);
    return this.#nextStep(decision, window, active);
  }

  /** Reads the window and the record of its opening. Undefined if it is gone; fails if another workflow, or none, has it open. */
  async #readOpen(ref: WindowRef): Promise<{ window: MaintenanceWindow; active: ActiveWindow } | undefined> {
    const { workflowId, runId } = currentExecution();
    const cached = this.#deps.cluster.windows.get(ref.name);
    // The informer may not have the window yet, or show an earlier opening or earlier requests. A run that continued as new has another run
    // id than the opening.
    const known = cached?.metadata.uid === ref.uid ? openedBy(cached, workflowId) : undefined;
    const isCurrent =
      cached !== undefined && known?.runId === runId && this.#unknownRequests(cached, known) === undefined;
    const window = isCurrent ? cached : await readWindow(this.#deps, ref);
    if (window === undefined) return undefined;
    const active = openedBy(window, workflowId);
    if (active === undefined) throw notOpen(ref.name, workflowId);
    return { window, active };
  }

  /** Reports whether the window is open, and has the requests and the spec that were observed: a pass may last long, and informers may lag. */
  async #isCurrent(ref: WindowRef, window: MaintenanceWindow, active: ActiveWindow): Promise<boolean> {
    const newest = await readWindow(this.#deps, ref);
    const opening = newest && openedBy(newest, active.workflowId);
    if (newest === undefined || opening === undefined) return false;
    const { generation, deletionTimestamp } = newest.metadata;
    return (
      generation === window.metadata.generation &&
      deletionTimestamp === window.metadata.deletionTimestamp &&
      isDeepStrictEqual(effectiveRequests(newest, opening), effectiveRequests(window, active))
    );
  }

  #unknownRequests(window: MaintenanceWindow, active: ActiveWindow): KnownRequests | undefined {
    return requestsUnknownTo(this.#knownRequests, effectiveRequests(window, active));
  }

  /** Returns the waiting times that the previous activity observed. Empty after a retry: nobody has observed the nodes for a while. */
  #previousWaitingSince({ start }: ActiveWindow, nowMs: number): WaitingSince {
    if (Context.current().info.attempt !== 1) return {};
    return plausibleWaitingSince(this.#previous, { openedAtMs: Date.parse(start), nowMs });
  }

  /** Applies the steps of all nodes, and returns those that the apiserver rejects. */
  async #applySteps({ window, phase, steps }: WindowObservation): Promise<Map<string, string>> {
    const rejected = new Map<string, string>();
    await forEachBounded(maxConcurrentNodes, steps, async (observed) => {
      const { node, maintenance } = observed.windowMaintenance;
      try {
        if (observed.rejection !== undefined) rejected.set(node, observed.rejection);
        await applyNodeStep(this.#deps, window, observed);
        if (isResumed(phase, observed)) await markPausedByWindow(this.#deps, maintenance, false);
      } catch (error) {
        // The object was changed or deleted, which the informer shows to the next pass.
        if (isKubeError(error, 'Conflict', 'NotFound') && error.request.verb !== 'create') return;
        rejected.set(node, rejectionMessage(error));
      }
    });
    this.#rejections.recordEvents(window, rejected);
    return rejected;
  }

  async #nextStep(
    decision: WindowDecision,
    window: MaintenanceWindow,
    active: ActiveWindow,
  ): Promise<WindowStep> {
    const retrySignals = this.#deps.cluster.kube.now().getTime() - this.#startedAt > retrySignalsAfterMs;
    const step = nextWindowStep(decision, {
      sentSignals: this.#sentSignals,
      retrySignals,
      workflowIdOf: this.#deps.scope.names.maintenanceId,
    });
    if (step.kind === 'Signal')
      await forEachBounded(maxConcurrentNodes, decision.pause, ({ maintenance }) =>
        markPausedByWindow(this.#deps, maintenance, true),
      );
    const requests = this.#unknownRequests(window, active);
    const state = {
      ...step.state,
      ...(this.awaitsNodes() && { waitingSince: this.#waitingSince ?? {} }),
      ...(requests && { requests }),
    };
    return { ...step, state };
  }
}
