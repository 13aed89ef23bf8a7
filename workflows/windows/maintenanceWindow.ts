import { defineSearchAttributeKey } from '@temporalio/common';
import {
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  condition,
  continueAsNew,
  getExternalWorkflowHandle,
  isCancellation,
  log,
  setCurrentDetails,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { MaintenanceWindowActivities } from '../../activities/contract.ts';
import { clusterInWorkflowId, temporalNames } from '../../api/names.ts';
import type { WindowInput } from '../../api/windowInput.ts';
import { renderWindowDetails } from '../../domain/windows/currentDetails.ts';
import { isWindowStep, type SentSignal, type WindowState } from '../../domain/windows/windowState.ts';
import { changedSearchAttributes } from '../shared/searchAttributes.ts';
import { carriedState } from '../shared/carried.ts';
import { clusterUidIn } from '../shared/cluster.ts';
import { longRunningActivity, shortActivity } from '../shared/activityOptions.ts';
import { unwrapActivityFailure } from '../shared/failures.ts';
import { onCancellation, runLongRunning } from '../shared/longRunning.ts';
import { proxyWithSummaries } from '../shared/proxyWithSummaries.ts';
import { handleWindowMessages } from './handlers.ts';
import { applyOpened, applyState, newWindowRun, requestsOf, type WindowRun, windowRefTo } from './run.ts';

export interface WindowOutcome {
  name: string;
  done: number;
  nodes: number;
  failed: string[];
  remaining: number;
}

const { authorizeRequest, advanceNode, closeWindow } = proxyWithSummaries<
  MaintenanceWindowActivities,
  'authorizeRequest' | 'advanceNode' | 'closeWindow'
>(shortActivity, {
  authorizeRequest: 'Authorize and record the request',
  advanceNode: 'Mark the work on the node as done',
  closeWindow: 'Mark the window as closed',
});
/** A cancellation waits for its end: a window that was opened must be closed. */
const { openWindow } = proxyWithSummaries<MaintenanceWindowActivities, 'openWindow'>(
  { ...shortActivity, cancellationType: 'WAIT_CANCELLATION_COMPLETED' },
  { openWindow: 'Validate the input, mark the window as open' },
);

const scheduledStart = defineSearchAttributeKey('TemporalScheduledStartTime', 'DATETIME');

/**
 * Runs one opening of a MaintenanceWindow until all nodes are done or the window ends. The NodeMaintenances record the result of each
 * node, so the next opening continues where this one stops.
 */
export async function maintenanceWindow(input: WindowInput, previousRun?: WindowRun): Promise<WindowOutcome> {
  const carried = carriedState(workflowInfo(), previousRun);
  const run = carried ?? newWindowRun(workflowInfo().runId);
  handleWindowMessages(run, { authorizeRequest, advanceNode });
  if (carried === undefined) await open(run, input);
  onCancellation(() => cancelIfAuthorized(run));
  return CancellationScope.nonCancellable(async () => {
    const endTimer = startEndTimer(run);
    await rollOutUntilOver(input, run);
    endTimer.stop();
    return close(run);
  });
}

/** Cancelled in Temporal: handled like the message `cancel`, if Temporal users may send it. Nodes whose work is not done are uncordoned. */
async function cancelIfAuthorized(run: WindowRun): Promise<void> {
  try {
    await authorizeRequest(windowRefTo(run), { cancelled: true });
    run.cancelled = true;
  } catch (error) {
    log.warn('Cancellation ignored', { window: run.name, reason: String(error) });
  }
}

async function open(run: WindowRun, input: WindowInput): Promise<void> {
  const { workflowId, runId, startTime, typedSearchAttributes, memo } = workflowInfo();
  const clusterUid = clusterUidIn(memo);
  const scheduledAt = typedSearchAttributes.get(scheduledStart)?.toISOString();
  const start = { input, workflowId, runId, startedAt: startTime.toISOString(), clusterUid };
  const opened = await unwrapActivityFailure(openWindow({ ...start, ...(scheduledAt && { scheduledAt }) }));
  applyOpened(run, opened);
  // A window that is cancelled at this moment is open, and has to be closed.
  run.sentSignals = await CancellationScope.nonCancellable(() =>
    sendSignals(opened.pausedByWindow, 'resume'),
  );
}

async function rollOutUntilOver(input: WindowInput, run: WindowRun): Promise<void> {
  const { rollOut } = proxyWithSummaries<MaintenanceWindowActivities, 'rollOut'>(
    longRunningActivity(run.heartbeatTimeoutSeconds),
    { rollOut: 'Maintain the nodes of the window' },
  );
  for (;;) {
    publishState(run);
    const step = await runLongRunning(() => rollOut(windowRefTo(run), requestsOf(run), run.state));
    // Any client of the namespace may complete an activity. A failed run is started again, a blocked one is not.
    if (step !== undefined && !isWindowStep(step))
      throw ApplicationFailure.nonRetryable(
        'an activity was completed with an unknown result',
        'InvalidInput',
      );
    if (step !== undefined && step.kind !== 'Gone') applyState(run, step.state);
    if (step?.kind === 'Gone' || step?.kind === 'Over') return;
    if (step?.kind === 'Signal') {
      const paused = await sendSignals(step.pause, 'pause');
      run.sentSignals = [...paused, ...(await sendSignals(step.resume, 'resume'))];
    }
    if (workflowInfo().continueAsNewSuggested) {
      await condition(allHandlersFinished);
      await continueAsNew<typeof maintenanceWindow>(input, run);
    }
  }
}

/** Shows the end of the window. The activity observes it by itself, by the clock of the apiserver. */
function startEndTimer(run: WindowRun): { stop(): void } {
  const scope = new CancellationScope();
  const wait = async () => {
    // Not the start time of the run: opening may have taken long.
    // oxlint-disable-next-line pure/no-clock -- in a workflow it is the time of the history, which replays
    const remainingMs = Math.max(1, (Date.parse(run.end) || 0) - Date.now());
    await condition(() => run.ended, remainingMs, { summary: 'End of the window' });
    run.ended = true;
    publishState(run);
  };
  scope.run(wait).catch((error: unknown) => {
    if (!isCancellation(error)) throw error;
  });
  return { stop: () => scope.cancel() };
}

/** Pauses or resumes the workflows of NodeMaintenances. A workflow that has ended needs no signal. */
async function sendSignals(
  workflowIds: readonly string[],
  signal: SentSignal['signal'],
): Promise<SentSignal[]> {
  for (const workflowId of workflowIds) {
    try {
      await getExternalWorkflowHandle(workflowId).signal(signal);
    } catch (error) {
      if (isCancellation(error)) throw error;
      log.warn('Signal was not sent', { workflowId, signal, error: String(error) });
    }
  }
  return workflowIds.map((workflowId) => ({ workflowId, signal }));
}

async function close(run: WindowRun): Promise<WindowOutcome> {
  publishState(run);
  await closeWindow(windowRefTo(run), run.runId);
  await condition(allHandlersFinished);
  const { done = 0, nodes = 0, failed = [], remaining = 0 }: Partial<WindowState> = run.state ?? {};
  return { name: run.name, done, nodes, failed: failed.map(({ node }) => node), remaining };
}

function publishState(run: WindowRun): void {
  const { workflowId, typedSearchAttributes } = workflowInfo();
  setCurrentDetails(renderWindowDetails(run, temporalNames(clusterInWorkflowId(workflowId))));
  const nodes = (run.state?.inProgress ?? []).map(({ node }) => node);
  const changed = changedSearchAttributes({ ...run, nodes }, typedSearchAttributes);
  if (changed.length > 0) upsertSearchAttributes(changed);
}
