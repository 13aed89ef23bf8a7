import type { Node } from '../../api/core.ts';
import type { MaintenanceWindow, WindowProgress } from '../../api/maintenanceWindow.ts';
import type { NodeReservation } from '../../api/nodeDisruptionBudget.ts';
import { type BudgetLimit, inMaintenanceReason } from '../budget/nodeDisruptionBudget.ts';
import { isTrue } from '../common/conditions.ts';
import { compareNames } from '../common/names.ts';
import { revisionOf, windowMaintenanceName } from '../common/revision.ts';
import { stageOf } from '../common/stage.ts';
import { oneLine } from '../common/text.ts';
import { type NodeOutcome, outcomesByNode } from './nodeOutcome.ts';
import type { NodeStep } from './nodeFacts.ts';
import type { WindowPhase } from './openWindow.ts';
import { progressOf } from './progress.ts';
import {
  isRebootUnnecessary,
  rebootNeedsOf,
  type RebootNeeds,
  type NotRebootableReason,
} from './rebootNeeds.ts';
import { decideRollout, type RolloutDecision } from './rollout.ts';
import type { RolloutInput } from './rolloutFacts.ts';
import { isPausedByWindow, type WindowMaintenance } from './windowMaintenance.ts';
import type { SentSignal, WaitingSince, WindowNode, WindowState, WindowStep } from './windowState.ts';

/** The state of the NodeDisruptionBudgets that one decision is based on. */
export interface BudgetView {
  reservations: readonly NodeReservation[];
  limits: readonly BudgetLimit[];
  /** The nodes that are out of service, each with the reason. */
  outOfService: ReadonlyMap<string, string>;
}

/** The next step of a node of the window. */
export interface PlannedStep {
  windowMaintenance: WindowMaintenance;
  step: NodeStep;
}

export interface WindowDecisionInput {
  window: MaintenanceWindow;
  phase: WindowPhase;
  requests: { approved: boolean; approvedNodes: readonly string[]; paused: boolean };
  /** The nodes that the window selects. */
  nodes: readonly Node[];
  steps: readonly PlannedStep[];
  budget: BudgetView;
  /** The window runs a Job, and the worker may not create Jobs. */
  areJobsMissing: boolean;
  /** Nodes that the window would reboot, and that have no agent which does so. */
  notRebootable: ReadonlyMap<string, NotRebootableReason>;
  /** Nodes whose maintenance the apiserver rejects now, each with its message. */
  rejected: ReadonlyMap<string, string>;
  /** Nodes whose maintenance the apiserver rejected before: they start after the others. */
  rejectedBefore: ReadonlySet<string>;
  nowMs: number;
}

export interface WindowDecision {
  rollout: RolloutDecision;
  state: WindowState;
  progress: WindowProgress;
  /** The NodeMaintenances to pause, because the window has ended and holds them. */
  pause: readonly WindowMaintenance[];
  /** The NodeMaintenances to resume, because an earlier window has paused them. */
  resume: readonly WindowMaintenance[];
  /** True if nothing is left to do in the window: its workflow closes it. */
  canClose: boolean;
}

/** Decides which nodes a window starts, what it waits for, and whether it closes. */
export function decideWindow(input: WindowDecisionInput): WindowDecision {
  const { window, nodes, steps, phase } = input;
  const outcomes = nodeOutcomes(input);
  const reboots = rebootNeedsOf(window.spec.work, nodes);
  const rollout = decideRollout(rolloutInput(input, outcomes, reboots));
  const selected = nodes.map(({ metadata }) => metadata.name);
  const progress = progressOf(revisionOf(window.spec), selected, { outcomes, reboots });
  const state = stateOf(input, { rollout, progress, outcomes });
  const maintenances = (needs: (phase: WindowPhase, planned: PlannedStep) => boolean) =>
    steps.filter((planned) => needs(phase, planned)).map(({ windowMaintenance }) => windowMaintenance);
  const [pause, resume] = [maintenances(needsPause), maintenances(needsResume)];
  const isSettled = pause.length === 0 && resume.length === 0;
  return { rollout, state, progress, pause, resume, canClose: isSettled && canClose(input, state, rollout) };
}

/** Returns the outcomes of all nodes. A reserved node is in progress, even if no informer has its NodeMaintenance yet. */
function nodeOutcomes({ window, steps, budget }: WindowDecisionInput): Map<string, NodeOutcome> {
  const outcomes = outcomesByNode(
    steps.map(({ windowMaintenance, step }) => [windowMaintenance.node, outcomeOf(step)] as const),
  );
  for (const reservation of budget.reservations)
    if (reservation.window === window.metadata.name && !outcomes.has(reservation.node))
      outcomes.set(reservation.node, { state: 'InProgress' });
  return outcomes;
}

function outcomeOf(step: NodeStep): NodeOutcome {
  switch (step.kind) {
    // A failure counts from the moment it is found: no other node starts in the pass that records it.
    case 'Fail':
    case 'Failed':
      return { state: 'Failed', reason: step.reason, message: step.message };
    case 'Succeeded':
      return { state: 'Succeeded', at: step.at };
    case 'DeleteMaintenance':
      return { state: 'Remaining' };
    default:
      return { state: 'InProgress' };
  }
}

function rolloutInput(
  {
    window,
    phase,
    requests,
    nodes,
    budget,
    areJobsMissing,
    notRebootable,
    rejected,
    rejectedBefore,
    nowMs,
  }: WindowDecisionInput,
  outcomes: ReadonlyMap<string, NodeOutcome>,
  reboots: RebootNeeds | undefined,
): RolloutInput {
  const { metadata, spec } = window;
  // A node may be back in service before it has succeeded. No other node takes its place until then.
  const inProgress = nodes
    .filter((node) => outcomes.get(node.metadata.name)?.state === 'InProgress')
    .map((node) => [node.metadata.name, inMaintenanceReason(metadata.name)] as const);
  return {
    rollout: spec.rollout,
    approval: spec.approval,
    nodes: nodes.map((node) => ({ name: node.metadata.name, labels: node.metadata.labels ?? {} })),
    outcomes,
    isUnnecessary: (node) => isRebootUnnecessary(reboots, node),
    notRebootable,
    outOfService: new Map([...inProgress, ...budget.outOfService]),
    budgets: budget.limits,
    approved: requests.approved,
    approvedNodes: requests.approvedNodes,
    paused: requests.paused,
    areJobsMissing,
    rejected,
    rejectedBefore,
    hasEnded: phase.isEnding,
    isDeleted: metadata.deletionTimestamp !== undefined,
    nowMs,
  };
}

/** Keeps the status small. */
const maxMessageLength = 1_000;

function stateOf(
  { window, steps }: WindowDecisionInput,
  {
    rollout,
    progress,
    outcomes,
  }: { rollout: RolloutDecision; progress: WindowProgress; outcomes: ReadonlyMap<string, NodeOutcome> },
): WindowState {
  const { revision, nodes, done, remaining } = progress;
  const names = new Map(
    steps
      .map(({ windowMaintenance: { node, maintenance } }) => [node, maintenance.metadata.name] as const)
      .toSorted(([, a], [, b]) => compareNames(a, b)),
  );
  const nodesIn = (state: NodeOutcome['state']): WindowNode[] =>
    [...outcomes.keys()]
      .filter((node) => outcomes.get(node)?.state === state)
      .toSorted(compareNames)
      .map((node) => ({
        node,
        maintenance: names.get(node) ?? windowMaintenanceName(window.metadata.name, revision, node),
      }));
  return {
    revision,
    nodes,
    done,
    inProgress: nodesIn('InProgress'),
    failed: nodesIn('Failed'),
    remaining,
    ...(rollout.kind === 'Wait' && {
      waiting: { reason: rollout.reason, message: oneLine(rollout.message, maxMessageLength) },
    }),
  };
}

function isInProgress({ step }: PlannedStep): boolean {
  return outcomeOf(step).state === 'InProgress';
}

function isPaused({ windowMaintenance: { maintenance } }: PlannedStep): boolean {
  return isTrue(maintenance.status?.conditions, 'Paused');
}

function needsPause({ policy }: WindowPhase, planned: PlannedStep): boolean {
  const { maintenance } = planned.windowMaintenance;
  return (
    policy === 'Hold' && isInProgress(planned) && stageOf(maintenance) !== 'Complete' && !isPaused(planned)
  );
}

/** A drain that a user paused is never resumed. */
function needsResume({ policy }: WindowPhase, planned: PlannedStep): boolean {
  const { maintenance } = planned.windowMaintenance;
  const isDraining = isInProgress(planned) && stageOf(maintenance) !== 'Complete';
  return policy === 'Finish' && isDraining && isPausedByWindow(maintenance) && isPaused(planned);
}

/** Reports whether a drain that the window paused has been resumed: a later pause is the one of a user. */
export function isResumed({ policy }: WindowPhase, planned: PlannedStep): boolean {
  return policy === 'Finish' && isPausedByWindow(planned.windowMaintenance.maintenance) && !isPaused(planned);
}

/** A window does not close while a node is in progress whose NodeMaintenance no informer has yet, or while a failure may not be recorded yet. */
function canClose(
  { phase, steps }: WindowDecisionInput,
  { inProgress }: WindowState,
  rollout: RolloutDecision,
): boolean {
  const observed = new Set(steps.map(({ windowMaintenance }) => windowMaintenance.node));
  if (inProgress.some(({ node }) => !observed.has(node))) return false;
  if (steps.some(({ step }) => step.kind === 'Fail')) return false;
  if (phase.policy === 'Hold') return true;
  return inProgress.length === 0 && (phase.isEnding || rollout.kind === 'Done');
}

/** Returns the time at which the window started to wait for each node. A node that the window no longer waits for is removed. */
export function waitingSinceOf(
  steps: readonly PlannedStep[],
  before: WaitingSince,
  nowMs: number,
): WaitingSince {
  const uids = steps
    .filter(({ step }) => step.kind === 'AwaitNode')
    .map(({ windowMaintenance }) => windowMaintenance.maintenance.metadata.uid ?? '');
  return Object.fromEntries(uids.map((uid) => [uid, before[uid] ?? nowMs]));
}

interface SignalState {
  sentSignals: readonly SentSignal[];
  retrySignals: boolean;
  /** Returns the workflow id of the NodeMaintenance. */
  workflowIdOf: (name: string) => string;
}

/**
 * Decides the next step of the window's workflow. Signals that were sent are not repeated, unless `retrySignals`: a signal may be
 * lost if its workflow ends.
 */
export function nextWindowStep(
  { state, pause, resume, canClose: isClosable }: WindowDecision,
  { sentSignals, retrySignals, workflowIdOf }: SignalState,
): Exclude<WindowStep, { kind: 'Gone' }> {
  const idsOf = (maintenances: readonly WindowMaintenance[]) =>
    maintenances.map(({ maintenance }) => workflowIdOf(maintenance.metadata.name));
  const [pauses, resumes] = [idsOf(pause), idsOf(resume)];
  const isDue = (signal: SentSignal['signal']) => (workflowId: string) =>
    retrySignals || !sentSignals.some((sent) => sent.signal === signal && sent.workflowId === workflowId);
  if (pauses.some(isDue('pause')) || resumes.some(isDue('resume')))
    return { kind: 'Signal', state, pause: pauses, resume: resumes };
  return { kind: isClosable ? 'Over' : 'Progressed', state };
}
