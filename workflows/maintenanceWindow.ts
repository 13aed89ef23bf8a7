import { defineSearchAttributeKey } from '@temporalio/common';
import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  getExternalWorkflowHandle,
  isCancellation,
  log,
  patched,
  setCurrentDetails,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { MaintenanceWindowActivities, Told, WindowState } from '../activities/contract.ts';
import type { WindowInput } from '../api/windowInput.ts';
import { windowPage } from '../domain/windowPage.ts';
import { lasting, quick } from './activityOptions.ts';
import { withItsOwnFailure } from './failures.ts';
import { searchAttributesOf } from './searchAttributes.ts';
import { summarized } from './summarized.ts';
import { createTurn, type Turn } from './turn.ts';
import { handleWindowMessages } from './windowHandlers.ts';
import {
  newWindowRun,
  ordersOf,
  takeInOpened,
  takeInState,
  type WindowRun,
  windowRefTo,
} from './windowRun.ts';

export interface WindowOutcome {
  name: string;
  done: number;
  nodes: number;
  failed: string[];
  remaining: number;
}

const { authorizeOrder, advanceTurn, closeWindow } = summarized<
  MaintenanceWindowActivities,
  'authorizeOrder' | 'advanceTurn' | 'closeWindow'
>(quick, {
  authorizeOrder: 'Check that whoever ordered may maintain the nodes, take the order down',
  advanceTurn: "End a node's turn",
  closeWindow: 'Mark the window as closed',
});
/** Its end is awaited when it is cancelled: what was opened is to be closed. */
const { openWindow } = summarized<MaintenanceWindowActivities, 'openWindow'>(
  { ...quick, cancellationType: 'WAIT_CANCELLATION_COMPLETED' },
  { openWindow: 'Check the input, mark the window as open' },
);
const { rollOut } = summarized<MaintenanceWindowActivities, 'rollOut'>(lasting, {
  rollOut: 'See turns through, begin new ones',
});

const scheduledStart = defineSearchAttributeKey('TemporalScheduledStartTime', 'DATETIME');

/**
 * One opening of a MaintenanceWindow: nodes have their turn until all had it or the time is over. What a node's turn has come to
 * is on its NodeMaintenance, so that the next opening goes on where this one stops.
 */
export async function maintenanceWindow(input: WindowInput, carried?: WindowRun): Promise<WindowOutcome> {
  const run = carried ?? newWindowRun(workflowInfo().runId);
  takeInState(run, run.state);
  const turn = createTurn();
  handleWindowMessages(run, turn, { authorizeOrder, advanceTurn });
  try {
    if (carried === undefined) await open(run, input);
    await rollOutUntilOver(input, run, turn);
  } catch (error) {
    // Cancelled from Temporal: turns are still brought to an end, as by message cancel, of whoever may send it.
    if (!isCancellation(error) || run.uid === '') throw error;
    await CancellationScope.nonCancellable(async () => {
      run.cancelled ||= !patched('cancel-is-authorized') || (await isAuthorized(run));
      await rollOutUntilOver(input, run, turn);
    });
  }
  return CancellationScope.nonCancellable(() => close(run));
}

async function isAuthorized(run: WindowRun): Promise<boolean> {
  try {
    await authorizeOrder(windowRefTo(run), { cancelled: true });
    return true;
  } catch (error) {
    log.warn('Cancellation ignored', { window: run.name, reason: String(error) });
    return false;
  }
}

async function open(run: WindowRun, input: WindowInput): Promise<void> {
  const { workflowId, runId, startTime, typedSearchAttributes } = workflowInfo();
  const scheduledAt = typedSearchAttributes.get(scheduledStart)?.toISOString();
  const start = { input, workflowId, runId, startedAt: startTime.toISOString() };
  const opened = await withItsOwnFailure(openWindow({ ...start, ...(scheduledAt && { scheduledAt }) }));
  takeInOpened(run, opened);
  run.told = await tell(opened.resting, 'resume');
}

async function rollOutUntilOver(input: WindowInput, run: WindowRun, turn: Turn): Promise<void> {
  const ending = watchTheClock(run, turn);
  for (;;) {
    show(run);
    const step = await turn.take(() => rollOut(windowRefTo(run), ordersOf(run), run.state));
    if (step !== undefined && step.kind !== 'Gone') takeInState(run, step.state);
    if (step?.kind === 'Gone') break;
    if (step?.kind === 'Over') {
      await tell(step.rest ?? [], 'pause');
      break;
    }
    if (step?.kind === 'Tell') {
      run.told = [...(await tell(step.pause, 'pause')), ...(await tell(step.resume, 'resume'))];
    }
    if (workflowInfo().continueAsNewSuggested) {
      await condition(allHandlersFinished);
      await continueAsNew<typeof maintenanceWindow>(input, run);
    }
  }
  ending.stop();
}

/** Wakes the window at its time; whether that has come is for the activity to say, by the clock of the apiserver. */
function watchTheClock(run: WindowRun, turn: Turn): { stop(): void } {
  const scope = new CancellationScope({ cancellable: true });
  const wait = async () => {
    // Opening it may have taken long, and what goes on after a cancellation begins anew.
    // oxlint-disable-next-line pure/no-clock -- in a workflow it is the time of the history, which replays
    const now = patched('ends-by-the-clock') ? Date.now() : workflowInfo().startTime.getTime();
    const left = Math.max(1, Date.parse(run.end) - now);
    await condition(() => run.ended, left, { summary: 'The window ends' });
    run.ended = true;
    turn.interrupt();
  };
  scope.run(wait).catch((error: unknown) => {
    if (!isCancellation(error)) throw error;
  });
  return { stop: () => scope.cancel() };
}

/** Lets the drains of turns rest, or go on; a run that has ended needs to be told nothing. */
async function tell(workflowIds: readonly string[], word: Told['word']): Promise<Told[]> {
  for (const workflowId of workflowIds) {
    try {
      await getExternalWorkflowHandle(workflowId).signal(word);
    } catch (error) {
      if (isCancellation(error)) throw error;
      log.warn('Maintenance was not told', { workflowId, word, error: String(error) });
    }
  }
  return workflowIds.map((run) => ({ run, word }));
}

async function close(run: WindowRun): Promise<WindowOutcome> {
  show(run);
  await closeWindow(windowRefTo(run), run.runId);
  await condition(allHandlersFinished);
  const { done = 0, nodes = 0, failed = [], remaining = 0 }: Partial<WindowState> = run.state ?? {};
  return { name: run.name, done, nodes, failed: failed.map(({ node }) => node), remaining };
}

function show(run: WindowRun): void {
  setCurrentDetails(windowPage(run));
  const nodes = (run.state?.underWay ?? []).map(({ node }) => node);
  const changed = searchAttributesOf({ name: run.name, nodes }, workflowInfo().typedSearchAttributes);
  if (changed.length > 0) upsertSearchAttributes(changed);
}
