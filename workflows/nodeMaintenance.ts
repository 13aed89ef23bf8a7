import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  isCancellation,
  log,
  proxyActivities,
  setCurrentDetails,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { DrainStep, NodeMaintenanceActivities } from '../activities/contract.ts';
import type { MaintenanceInput } from '../api/maintenanceInput.ts';
import type { NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { maintenancePage } from '../domain/maintenancePage.ts';
import { lasting, quick } from './activityOptions.ts';
import { withItsOwnFailure } from './failures.ts';
import { handleMessages } from './handlers.ts';
import { createRenewal, type Renewal } from './renewal.ts';
import { isOver, newRun, type Run, refTo, takeIn, takeInSeen, takeInStep } from './run.ts';
import { searchAttributesOf } from './searchAttributes.ts';
import { summarized } from './summarized.ts';
import { createTurn } from './turn.ts';

export interface Outcome {
  name: string;
  drained: boolean;
  nodes: string[];
}

/** Of a stage: what the apiserver finds invalid is so for good. */
const ofStage = { ...lasting, retry: { ...lasting.retry, nonRetryableErrorTypes: ['Invalid'] } };

const { admit, requestStage, recordPause, removeEvacuations, finish } = summarized<
  NodeMaintenanceActivities,
  'admit' | 'requestStage' | 'recordPause' | 'removeEvacuations' | 'finish'
>(quick, {
  admit: 'Check the input, create the NodeMaintenance or find it',
  requestStage: 'Write .spec.stage of the NodeMaintenance',
  recordPause: 'Record on the NodeMaintenance whether it is paused',
  removeEvacuations: 'Withdraw the Evacuations that no other maintenance needs',
  finish: 'Let the NodeMaintenance go',
});

function beginStage(run: Run, stage: NodeMaintenanceStage) {
  const acts = summarized<NodeMaintenanceActivities, 'beginStage'>(quick, {
    beginStage: `Begin stage ${stage}`,
  });
  return acts.beginStage(refTo(run), stage);
}

/**
 * One NodeMaintenance, from its first sight to the nodes being given back (KEP-4212). The object stays the truth: every
 * order, from kubectl or from a signal, is read from `.spec.stage`.
 */
export async function nodeMaintenance(input: MaintenanceInput, carried?: Run): Promise<Outcome> {
  const run = carried ?? newRun();
  const turn = createTurn();
  const renewal = createRenewal(run, { interrupt: () => turn.interrupt(), show: () => showPage(run) });
  handleMessages(run, turn, { requestStage, recordPause, show: () => showPage(run) });
  try {
    if (carried === undefined) await begin(run, input);
    while (!isOver(run)) {
      show(run);
      await stages[run.stage](run, turn, renewal);
      if (workflowInfo().continueAsNewSuggested) await continueWith(input, run, renewal);
    }
  } catch (error) {
    // Cancelled from Temporal: the nodes are still given back, if whoever did it may order that.
    if (!isCancellation(error) || run.uid === '') throw error;
    return CancellationScope.nonCancellable(() => complete(run, renewal));
  }
  return CancellationScope.nonCancellable(() => complete(run, renewal));
}

async function begin(run: Run, input: MaintenanceInput): Promise<void> {
  const { workflowId } = workflowInfo();
  Object.assign(run, await withItsOwnFailure(admit({ input, workflowId })));
}

type StageWork = (run: Run, turn: ReturnType<typeof createTurn>, renewal: Renewal) => Promise<void>;

const stages: Record<NodeMaintenanceStage, StageWork> = {
  async Idle(run) {
    // "The controller should not touch the pods or nodes ... in any way in the Idle stage" (KEP-4212 > Idle).
    const { generation, paused } = run;
    takeInSeen(run, await beginStage(run, 'Idle'));
    show(run);
    await condition(() => run.generation !== generation || run.paused !== paused || run.gone);
  },

  async Cordon(run, turn, renewal) {
    await enter(run, 'Cordon');
    await renewal.begin();
    const { keepCordoned } = lastingActivities('Keep the nodes unschedulable');
    takeTurn(run, await turn.take(() => keepCordoned(refTo(run), 'Cordon')));
  },

  async Drain(run, turn, renewal) {
    // "Cordon and Complete stages will always be run, even without specifying them" (KEP-4212 > Supported Stage Transitions).
    await enter(run, 'Cordon');
    await enter(run, 'Drain');
    await renewal.begin();
    takeTurn(run, await turn.take(() => drainTurn(run)));
  },

  async Complete() {},
};

async function drainTurn(run: Run): Promise<DrainStep> {
  if (run.paused)
    return lastingActivities('Paused: keep the nodes unschedulable').keepCordoned(refTo(run), 'Drain');
  if (run.drained) return lastingActivities('Drained: evacuate what appears').keepDrained(refTo(run));
  const summary = `Evacuate entry ${run.position + 1} of ${run.planLength} of the drain plan`;
  return lastingActivities(summary).drain(refTo(run), run.position);
}

function lastingActivities(summary: string) {
  return proxyActivities<NodeMaintenanceActivities>({ ...ofStage, summary });
}

/** Marks the beginning of a stage, once per stage. */
async function enter(run: Run, stage: NodeMaintenanceStage): Promise<void> {
  if (run.begun.includes(stage)) return;
  run.begun.push(stage);
  takeInSeen(run, await beginStage(run, stage));
  show(run);
}

function takeTurn(run: Run, step: DrainStep | undefined): void {
  if (step !== undefined) takeInStep(run, step);
}

async function complete(run: Run, renewal: Renewal): Promise<Outcome> {
  // Written here too, for an object that is being deleted: "its .spec.stage is set to Complete" (KEP-4212 > Finalizers); as the order
  // of a message, so that whoever may not give it does not by a signal that pretends to have seen it on the object.
  if (!run.gone) takeIn(run, await withItsOwnFailure(requestStage(refTo(run), 'Complete', 'Message')));
  if (!run.gone) {
    run.stage = 'Complete';
    await enter(run, 'Complete');
    await removeEvacuations(refTo(run));
    // A Lease that is released must not be taken again by a renewal under way.
    await renewal.end();
    await lastingActivities('Give the nodes back').giveBackNodes(refTo(run));
    await finish(refTo(run));
  }
  await condition(allHandlersFinished);
  return { name: run.name, drained: run.drained, nodes: run.nodes };
}

async function continueWith(input: MaintenanceInput, run: Run, renewal: Renewal): Promise<void> {
  await renewal.end();
  await condition(allHandlersFinished);
  if (isOver(run)) return;
  await continueAsNew<typeof nodeMaintenance>(input, run);
}

/** The page alone makes no history: it may be shown at any time. */
function showPage(run: Run): void {
  try {
    setCurrentDetails(maintenancePage(run));
  } catch (error) {
    // Of a glance that somebody sent by hand. A page must never be what a maintenance stops at.
    log.warn('Glance ignored', { reason: String(error) });
    delete run.glance;
    setCurrentDetails(maintenancePage(run));
  }
}

function show(run: Run): void {
  showPage(run);
  const changed = searchAttributesOf(run, workflowInfo().typedSearchAttributes);
  if (changed.length > 0) upsertSearchAttributes(changed);
}
