import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  log,
  proxyActivities,
  setCurrentDetails,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { DrainStep, NodeMaintenanceActivities, StageRequest } from '../../activities/contract.ts';
import type { MaintenanceInput } from '../../api/maintenanceInput.ts';
import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { hasReached } from '../../domain/common/stage.ts';
import { renderCurrentDetails } from '../../domain/maintenance/currentDetails.ts';
import { longActivity, shortActivity } from '../shared/activityOptions.ts';
import { isEndOfCancelled, unwrapActivityFailure } from '../shared/failures.ts';
import { createInterruptible, type Interruptible } from '../shared/interruptible.ts';
import { proxyWithSummaries } from '../shared/proxyWithSummaries.ts';
import { handleMessages } from './handlers.ts';
import { createRenewal, type Renewal } from './renewal.ts';
import { carriedState } from '../shared/carried.ts';
import { clusterUidIn } from '../shared/cluster.ts';
import {
  applyAdmitted,
  applyDetails,
  applyDrainResult,
  applyObservation,
  isOver,
  newRun,
  type Run,
  refTo,
} from './run.ts';
import { changedSearchAttributes } from '../shared/searchAttributes.ts';

export interface Outcome {
  name: string;
  drained: boolean;
  nodes: string[];
}

/** An object that the apiserver finds invalid stays invalid. */
const stageActivity = {
  ...longActivity,
  retry: { ...longActivity.retry, nonRetryableErrorTypes: ['Invalid'] },
};

const { admit, requestStage, recordPause, removeEvacuations, finish } = proxyWithSummaries<
  NodeMaintenanceActivities,
  'admit' | 'requestStage' | 'recordPause' | 'removeEvacuations' | 'finish'
>(shortActivity, {
  admit: 'Validate the input, create or find the NodeMaintenance',
  requestStage: 'Write or confirm .spec.stage of the NodeMaintenance',
  recordPause: 'Record on the NodeMaintenance whether it is paused',
  removeEvacuations: 'Remove the Evacuations that no other maintenance needs',
  finish: 'Remove the finalizer of the NodeMaintenance',
});

function startStage(run: Run, stage: NodeMaintenanceStage) {
  const activities = proxyWithSummaries<NodeMaintenanceActivities, 'startStage'>(shortActivity, {
    startStage: `Start stage ${stage}`,
  });
  return activities.startStage(refTo(run), stage);
}

function longActivities(summary: string) {
  return proxyActivities<NodeMaintenanceActivities>({ ...stageActivity, summary });
}

/**
 * Runs one NodeMaintenance from its admission until its nodes are uncordoned (KEP-4212). The object is the source of truth: every
 * request, by kubectl or by a message, is read from `.spec.stage`.
 */
export async function nodeMaintenance(input: MaintenanceInput, previousRun?: Run): Promise<Outcome> {
  const carried = carriedState(workflowInfo(), previousRun);
  const run: Run = { ...newRun(), ...carried, hints: 0 };
  const interruptible = createInterruptible();
  const renderDetails = () => publishDetails(run);
  const renewal = createRenewal(run, { interrupt: () => interruptible.interrupt(), renderDetails });
  handleMessages(run, interruptible, { requestStage, recordPause, renderDetails });
  try {
    if (carried === undefined) await start(run, input);
    while (!(await isConfirmedOver(run))) {
      publishState(run);
      await stages[run.stage](run, interruptible, renewal);
      if (workflowInfo().continueAsNewSuggested) await continueWith(input, run, renewal);
    }
  } catch (error) {
    // Cancelled in Temporal: complete the maintenance, if Temporal users may do that.
    if (!isEndOfCancelled(error, CancellationScope.current()) || run.uid === '') throw error;
    return CancellationScope.nonCancellable(async () => {
      await requestComplete(run, 'Message');
      return complete(run, renewal);
    });
  }
  return CancellationScope.nonCancellable(() => complete(run, renewal));
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
  await CancellationScope.nonCancellable(() => requestComplete(run, 'Observation'));
  return isOver(run);
}

async function requestComplete(run: Run, requestedBy: StageRequest): Promise<void> {
  // A signal may have claimed it: the activity looks for the object.
  run.gone = false;
  applyObservation(run, await unwrapActivityFailure(requestStage(refTo(run), 'Complete', requestedBy)));
}

type StageWork = (run: Run, interruptible: Interruptible, renewal: Renewal) => Promise<void>;

const stages: Record<NodeMaintenanceStage, StageWork> = {
  async Idle(run) {
    // "The controller should not touch the pods or nodes ... in any way in the Idle stage" (KEP-4212 > Idle).
    const { hints, paused } = run;
    applyDetails(run, await startStage(run, 'Idle'));
    publishState(run);
    await condition(() => run.hints !== hints || run.stage !== 'Idle' || run.paused !== paused || run.gone);
  },

  async Cordon(run, interruptible, renewal) {
    if (!(await enterStage(run, 'Cordon'))) return;
    await renewal.start();
    const { keepCordoned } = longActivities('Keep the nodes cordoned');
    applyStep(run, await interruptible.run(() => keepCordoned(refTo(run), 'Cordon')));
  },

  async Drain(run, interruptible, renewal) {
    // "Cordon and Complete stages will always be run, even without specifying them" (KEP-4212 > Supported Stage Transitions).
    if (!(await enterStage(run, 'Cordon')) || !(await enterStage(run, 'Drain'))) return;
    await renewal.start();
    applyStep(run, await interruptible.run(() => drainStep(run)));
  },

  async Complete() {},
};

async function drainStep(run: Run): Promise<DrainStep> {
  if (run.paused) return longActivities('Paused: keep the nodes cordoned').keepCordoned(refTo(run), 'Drain');
  if (run.drained) return longActivities('Drained: evacuate new pods').keepDrained(refTo(run));
  return longActivities('Evacuate a tier of the drain plan').drain(refTo(run), run.position);
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

async function complete(run: Run, renewal: Renewal): Promise<Outcome> {
  if (!run.gone) {
    run.stage = 'Complete';
    await enterStage(run, 'Complete');
    await removeEvacuations(refTo(run));
    // A renewal in progress must not acquire a released Lease again.
    await renewal.stop();
    await longActivities('Uncordon the nodes').uncordonNodes(refTo(run));
    await finish(refTo(run));
  }
  await condition(allHandlersFinished);
  return { name: run.name, drained: run.drained, nodes: run.nodes };
}

async function continueWith(input: MaintenanceInput, run: Run, renewal: Renewal): Promise<void> {
  await renewal.stop();
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
