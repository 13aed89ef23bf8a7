import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  log,
  patched,
  proxyActivities,
  setCurrentDetails,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type {
  DrainStep,
  EscalationStep,
  NodeMaintenanceActivities,
  Pace,
  StageRequest,
  Waiting,
} from '../../activities/contract.ts';
import type { MaintenanceInput } from '../../api/maintenanceInput.ts';
import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { hasReached } from '../../domain/common/stage.ts';
import { renderCurrentDetails } from '../../domain/maintenance/currentDetails.ts';
import { longRunningActivity, shortActivity } from '../shared/activityOptions.ts';
import { carriedState } from '../shared/carried.ts';
import { clusterUidIn } from '../shared/cluster.ts';
import { unwrapActivityFailure } from '../shared/failures.ts';
import { onCancellation, runLongRunning } from '../shared/longRunning.ts';
import { proxyWithSummaries } from '../shared/proxyWithSummaries.ts';
import { changedSearchAttributes } from '../shared/searchAttributes.ts';
import { handleMessages, type Work } from './handlers.ts';
import {
  applyAdmitted,
  applyDetails,
  applyDrainResult,
  applyEscalation,
  applyObservation,
  isOver,
  newRun,
  type Run,
  refTo,
} from './run.ts';

export interface Outcome {
  name: string;
  drained: boolean;
  nodes: string[];
}

const { admit, requestStage, recordPause, escalate, removeEvacuations, finish } = proxyWithSummaries<
  NodeMaintenanceActivities,
  'admit' | 'requestStage' | 'recordPause' | 'escalate' | 'removeEvacuations' | 'finish'
>(shortActivity, {
  admit: 'Validate the input, create or find the NodeMaintenance',
  requestStage: 'Write or confirm .spec.stage of the NodeMaintenance',
  recordPause: 'Record on the NodeMaintenance whether it is paused',
  escalate: 'Do what is due before, or at, the drain deadline',
  removeEvacuations: 'Remove the Evacuations that no other maintenance needs',
  finish: 'Remove the finalizer of the NodeMaintenance',
});

function startStage(run: Run, stage: NodeMaintenanceStage) {
  const activities = proxyWithSummaries<NodeMaintenanceActivities, 'startStage'>(shortActivity, {
    startStage: `Start stage ${stage}`,
  });
  return activities.startStage(refTo(run), stage);
}

/** Returns the long-running activities of a stage. With pace Waiting they have a longer heartbeat timeout, because Temporal bills heartbeats. */
function longRunning(run: Run, summary: string, pace: Pace = 'Waiting') {
  const options = longRunningActivity(pace === 'Waiting' ? run.heartbeatTimeoutSeconds : undefined);
  // An object that the apiserver finds invalid stays invalid.
  const retry = { ...options.retry, nonRetryableErrorTypes: ['Invalid'] };
  return proxyActivities<NodeMaintenanceActivities>({ ...options, retry, summary });
}

/**
 * Runs one NodeMaintenance from its admission until its nodes are uncordoned (KEP-4212). The object is the source of truth: every
 * request, by kubectl or by a message, is read from `.spec.stage`.
 */
export async function nodeMaintenance(input: MaintenanceInput, previousRun?: Run): Promise<Outcome> {
  const carried = carriedState(workflowInfo(), previousRun);
  const run: Run = { ...newRun(), ...carried, hints: 0 };
  const work: Work = { evacuating: false };
  const renderDetails = () => publishDetails(run);
  handleMessages(run, work, { requestStage, recordPause, renderDetails });
  // A cancellation does not stop the activity, which may create the object all the same: it counts before the first stage starts.
  if (carried === undefined) await CancellationScope.nonCancellable(() => start(run, input));
  const handleCancellation = () => completeIfAuthorized(run);
  if (isCancelled()) await CancellationScope.nonCancellable(handleCancellation);
  else onCancellation(handleCancellation);
  return CancellationScope.nonCancellable(async () => {
    runEscalationTimers(run);
    while (!(await isConfirmedOver(run))) {
      publishState(run);
      await stages[run.stage](run, work);
      if (workflowInfo().continueAsNewSuggested) await continueWith(input, run);
    }
    return complete(run);
  });
}

function isCancelled(): boolean {
  return CancellationScope.current().consideredCancelled && patched('complete-before-first-stage');
}

/** Cancelled in Temporal: completes the maintenance, if Temporal users may do that. */
async function completeIfAuthorized(run: Run): Promise<void> {
  try {
    await requestComplete(run, 'Message');
  } catch (error) {
    log.warn('Cancellation ignored', { reason: String(error) });
  }
}

/** Delay before an escalation is tried again after all retries of its activity failed. */
const failedEscalationMs = 600_000;

/**
 * Waits for the steps before and at the drain deadline, beside the drain. The timers are durable; the activity reads from the object which step is
 * due. It ends with the run, and the next run continues from `run.escalatesAtMs`, which stays until the activity has returned.
 */
function runEscalationTimers(run: Run): void {
  const escalateAgain = async (): Promise<never> => {
    for (;;) {
      await condition(() => run.escalatesAtMs !== undefined && !isOver(run));
      const atMs = run.escalatesAtMs ?? 0;
      const isChanged = () => isOver(run) || run.escalatesAtMs !== atMs;
      // oxlint-disable-next-line pure/no-clock -- in a workflow it is the time of the history, which replays
      const inMs = atMs - Date.now();
      if (inMs > 0 && (await condition(isChanged, inMs))) continue;
      applyEscalation(run, await escalationStep(run), atMs);
    }
  };
  escalateAgain().catch((error: unknown) => log.warn('Escalation ended', { reason: String(error) }));
}

async function escalationStep(run: Run): Promise<EscalationStep> {
  try {
    return await escalate(refTo(run), run.recordedSteps ?? []);
  } catch (error) {
    log.warn('Escalation failed', { reason: String(error) });
    return { done: [], nextInMs: failedEscalationMs };
  }
}

async function start(run: Run, input: MaintenanceInput): Promise<void> {
  const { workflowId, memo } = workflowInfo();
  const clusterUid = clusterUidIn(memo);
  applyAdmitted(run, await unwrapActivityFailure(admit({ input, workflowId, clusterUid })));
}

/**
 * Reports whether nothing is left to do before Complete. Signals alone do not end a maintenance: the object confirms it. It also sets
 * .spec.stage when the object is being deleted: "its .spec.stage is set to Complete" (KEP-4212 > Finalizers).
 */
async function isConfirmedOver(run: Run): Promise<boolean> {
  if (!isOver(run)) return false;
  await requestComplete(run, 'Observation');
  return isOver(run);
}

async function requestComplete(run: Run, requestedBy: StageRequest): Promise<void> {
  // A signal may have claimed it: the activity looks for the object.
  run.gone = false;
  applyObservation(run, await unwrapActivityFailure(requestStage(refTo(run), 'Complete', requestedBy)));
}

type StageWork = (run: Run, work: Work) => Promise<void>;

const stages: Record<NodeMaintenanceStage, StageWork> = {
  async Idle(run) {
    // "The controller should not touch the pods or nodes ... in any way in the Idle stage" (KEP-4212 > Idle).
    const { hints, paused } = run;
    const started = await startStage(run, 'Idle');
    // A hint that arrived in the meantime says that the object is newer than what was read.
    const isOutdated = run.hints !== hints;
    applyDetails(run, isOutdated ? { ...started, observed: undefined } : started);
    publishState(run);
    await condition(() => run.hints !== hints || run.stage !== 'Idle' || run.paused !== paused || run.gone);
  },

  async Cordon(run) {
    if (!(await enterStage(run, 'Cordon'))) return;
    const { keepCordoned } = longRunning(run, 'Keep the nodes cordoned');
    applyStep(run, await runLongRunning(() => keepCordoned(refTo(run), 'Cordon')));
  },

  async Drain(run, work) {
    // "Cordon and Complete stages will always be run, even without specifying them" (KEP-4212 > Supported Stage Transitions).
    if (!(await enterStage(run, 'Cordon')) || !(await enterStage(run, 'Drain'))) return;
    work.evacuating = !run.paused;
    try {
      applyStep(run, await runLongRunning(() => drainStep(run)));
    } finally {
      work.evacuating = false;
    }
  },

  async Complete() {},
};

async function drainStep(run: Run): Promise<DrainStep> {
  // In stage Drain it also keeps the status up to date.
  if (run.paused)
    return longRunning(run, 'Paused: keep the nodes cordoned').keepCordoned(refTo(run), 'Drain');
  if (run.drained) return longRunning(run, 'Drained: evacuate new pods').keepDrained(refTo(run));
  const { position, pace } = run;
  const summary = pace === 'Active' ? 'Evacuate a tier of the drain plan' : 'Wait for pods to leave';
  return longRunning(run, summary, pace).drain(refTo(run), position, pace);
}

/** Records the start of a stage, once per stage. Returns false if the object has not reached the stage, or is gone. */
async function enterStage(run: Run, stage: NodeMaintenanceStage): Promise<boolean> {
  if (run.startedStages.includes(stage)) return true;
  run.startedStages.push(stage);
  applyDetails(run, await startStage(run, stage));
  const isReached = !run.gone && hasReached(run.stage, stage);
  if (!isReached) run.startedStages = run.startedStages.filter((started) => started !== stage);
  publishState(run);
  return isReached;
}

function applyStep(run: Run, step: DrainStep | undefined): void {
  if (step !== undefined) applyDrainResult(run, step);
}

async function complete(run: Run): Promise<Outcome> {
  if (!run.gone) {
    run.stage = 'Complete';
    await enterStage(run, 'Complete');
    while ((await removeEvacuations(refTo(run)))?.kind === 'Unfinished');
    await uncordonAll(run);
    await finish(refTo(run));
  }
  await condition(allHandlersFinished);
  return { name: run.name, drained: run.drained, nodes: run.nodes };
}

async function uncordonAll(run: Run): Promise<void> {
  const uncordon = (summary: string, pace: Pace): Promise<Waiting | undefined> =>
    longRunning(run, summary, pace).uncordonNodes(refTo(run), pace);
  const waiting = await uncordon('Uncordon the nodes', 'Active');
  if (waiting?.kind === 'Waiting') await uncordon('Wait for the Leases of the nodes to uncordon', 'Waiting');
}

async function continueWith(input: MaintenanceInput, run: Run): Promise<void> {
  await condition(allHandlersFinished);
  if (isOver(run)) return;
  await continueAsNew<typeof nodeMaintenance>(input, run);
}

/** Renders the current details. They add no events to the history, so this can be called at any time. */
function publishDetails(run: Run): void {
  try {
    setCurrentDetails(renderCurrentDetails(run));
  } catch (error) {
    // Details that an activity or a signal returned must not stop the maintenance.
    log.warn('Details ignored: they cannot be rendered', { reason: String(error) });
    delete run.details;
    setCurrentDetails(renderCurrentDetails(run));
  }
}

function publishState(run: Run): void {
  publishDetails(run);
  const changed = changedSearchAttributes(run, workflowInfo().typedSearchAttributes);
  if (changed.length > 0) upsertSearchAttributes(changed);
}
