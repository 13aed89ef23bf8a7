import { type Client, type WorkflowExecutionDescription, WorkflowNotFoundError } from '@temporalio/client';
import type { ProtoFailure } from '@temporalio/common';
import { decodeOptionalFailureToOptionalError } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { optionalTsToMs } from '@temporalio/common/lib/time.js';
import { CLUSTER_UID_MEMO, DECRYPTION_ERROR } from '../api/names.ts';
import {
  decideStalled,
  type ObservedRun,
  type ProblemCause,
  type RunProblem,
  type StalledDecision,
  type StalledInput,
} from '../domain/common/stalledRun.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { describeRun, isOpen } from '../temporal-config/runs.ts';

/** Returns true for a run that failed or timed out by itself. `status`: name of its status in Temporal's SDK, such as `TIMED_OUT`. */
export function hasFailed(status: string): boolean {
  return status === 'FAILED' || status === 'TIMED_OUT';
}

/** Returns false for a run of another cluster. A run that a user has started has no memo. */
export function isOfCluster(clusterUid: string, memo: Readonly<Record<string, string>>): boolean {
  return (memo[CLUSTER_UID_MEMO] ?? clusterUid) === clusterUid;
}

export interface DescribedRun extends ObservedRun {
  /** Name of its status in Temporal's SDK, such as `TERMINATED`. */
  status: string;
  /** `<activity id>#<attempt>` of the activities in progress that have sent no heartbeat. */
  silentActivities: readonly string[];
}

/** Returns the newest run of the workflow; undefined if there is none, or if it is one of another cluster. */
export async function findRun(
  temporal: Client,
  workflowId: string,
  clusterUid: string,
): Promise<DescribedRun | undefined> {
  const run = await describeRun(temporal, { workflowId });
  if (run === undefined || !isOfCluster(clusterUid, run.memo)) return undefined;
  const { runId, status, startTime, raw } = run;
  return {
    workflowId,
    runId,
    status,
    isOpen: isOpen(run),
    hasFailed: hasFailed(status),
    startedMs: startTime.getTime(),
    taskAttempts: raw.pendingWorkflowTask?.attempt ?? 0,
    untakenSinceMs: untakenSince(run),
    failingActivity: await failingActivity(temporal, raw.pendingActivities ?? []),
    silentActivities: (raw.pendingActivities ?? []).filter(isSilent).map(attemptOf),
  };
}

/** Returns since when a workflow task waits for a worker. One that a person has paused in Temporal has no task to take. */
function untakenSince({
  status,
  raw,
}: NonNullable<Awaited<ReturnType<typeof describeRun>>>): number | undefined {
  const task = raw.pendingWorkflowTask;
  if (task == null || status === 'PAUSED' || optionalTsToMs(task.startedTime) !== undefined) return undefined;
  return optionalTsToMs(task.scheduledTime);
}

/** PENDING_ACTIVITY_STATE_PAUSED and later of temporal.api.enums.v1.PendingActivityState: a person has paused it. */
const pausedState = 4;

function isPaused({ state }: PendingActivity): boolean {
  return Number(state) >= pausedState;
}

/** An attempt that has lasted for so long does not fail as the earlier ones did: another activity may. */
const worksAgainAfterMs = 60_000;

function worksAgain(activity: PendingActivity): boolean {
  const startedMs = optionalTsToMs(activity.lastStartedTime) ?? 0;
  return isStarted(activity) && Date.now() - startedMs > worksAgainAfterMs;
}

/** A worker that has died is no failure of the activity. */
async function failingActivity(
  temporal: Client,
  activities: readonly PendingActivity[],
): Promise<ObservedRun['failingActivity']> {
  const failing = activities
    .filter(({ lastFailure }) => lastFailure?.applicationFailureInfo != null)
    .filter((one) => !isPaused(one) && !worksAgain(one))
    .toSorted((a, b) => (b.attempt ?? 0) - (a.attempt ?? 0))[0];
  if (failing === undefined) return undefined;
  const message = await failureMessage(temporal, failing.lastFailure);
  return {
    type: failing.activityType?.name ?? '',
    attempts: failing.attempt ?? 0,
    message,
    startedMs: isStarted(failing) ? optionalTsToMs(failing.lastStartedTime) : undefined,
  };
}

type PendingActivity = NonNullable<WorkflowExecutionDescription['raw']['pendingActivities']>[number];

/** PENDING_ACTIVITY_STATE_STARTED and _CANCEL_REQUESTED of temporal.api.enums.v1.PendingActivityState. */
const [startedState, cancelRequestedState] = [2, 3];

/** Reports whether a worker has got the activity. One that is to be cancelled may not have started. */
export function isStarted({ state, lastStartedTime }: PendingActivity): boolean {
  const isStopping = Number(state) === cancelRequestedState;
  return Number(state) === startedState || (isStopping && optionalTsToMs(lastStartedTime) !== undefined);
}

/** Reports whether the attempt has started and sent no heartbeat. An earlier one may have sent some. */
function isSilent(activity: PendingActivity): boolean {
  if (!isStarted(activity)) return false;
  const { lastHeartbeatTime, lastStartedTime } = activity;
  return (optionalTsToMs(lastHeartbeatTime) ?? 0) < (optionalTsToMs(lastStartedTime) ?? 0);
}

function attemptOf({ activityId, attempt }: PendingActivity): string {
  return `${activityId}#${attempt}`;
}

/** Terminates exactly this run. Resolves if it has ended already. */
async function terminateRun(
  temporal: Client,
  { workflowId, runId }: ObservedRun,
  reason: string,
): Promise<void> {
  try {
    await temporal.workflow.getHandle(workflowId, runId).terminate(reason);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

/** Signals that a run has received since its task failed follow the failure. */
const searchedEvents = 100;
/** temporal.api.enums.v1.WorkflowTaskFailedCause.BAD_SEARCH_ATTRIBUTES */
const badSearchAttributes = 23;

/** Returns the latest failure that the history of a run contains: of its workflow task, or of the run itself. */
export async function latestProblem(
  temporal: Client,
  { workflowId, runId }: Pick<ObservedRun, 'workflowId' | 'runId'>,
): Promise<RunProblem> {
  const { history } = await temporal.workflowService.getWorkflowExecutionHistoryReverse({
    namespace: temporal.options.namespace,
    execution: { workflowId, runId },
    maximumPageSize: searchedEvents,
  });
  for (const event of history?.events ?? []) {
    const failed = event.workflowTaskFailedEventAttributes;
    if (failed != null)
      return { message: await failureMessage(temporal, failed.failure), cause: causeOf(failed) };
    const ended = event.workflowExecutionFailedEventAttributes;
    if (ended != null) return { message: await failureMessage(temporal, ended.failure), cause: 'Other' };
    if (event.workflowTaskTimedOutEventAttributes != null)
      return {
        message: 'no worker finishes it in time: see the logs and the memory of the workers',
        cause: 'Other',
      };
  }
  return { message: 'see its history', cause: 'Other' };
}

interface FailedTask {
  cause?: unknown;
  failure?: ProtoFailure | null;
}

function causeOf({ cause, failure }: FailedTask): ProblemCause {
  if (Number(cause) === badSearchAttributes) return 'SearchAttribute';
  return failure?.applicationFailureInfo?.type === DECRYPTION_ERROR ? 'PayloadKey' : 'Other';
}

/** Decodes the message, which is a payload if the workers encrypt payloads. */
async function failureMessage(temporal: Client, failure: FailedTask['failure']): Promise<string> {
  try {
    const { loadedDataConverter } = temporal.options;
    const error = await decodeOptionalFailureToOptionalError(loadedDataConverter, failure);
    return error?.message || 'no message';
  } catch (error) {
    return errorMessage(error);
  }
}

interface FailingRunDeps {
  cluster: FencedCluster;
  temporal: Client;
  log: Log;
  stalledRunTimeoutSeconds: number;
}

interface FailingRun extends Pick<StalledInput, 'run' | 'conditions' | 'isReplaceable'> {
  /** Name the object in log lines. */
  fields: Record<string, string>;
}

/**
 * Decides about an open run whose workflow task fails again and again, and terminates it if a new one is to replace it. `publish` writes the
 * condition before that; its `now` is the time that the message counts from.
 */
export async function handleFailingRun(
  { cluster, temporal, log, stalledRunTimeoutSeconds: timeoutSeconds }: FailingRunDeps,
  { fields, run, ...input }: FailingRun,
  publish: (decision: StalledDecision, now: Date) => Promise<void>,
): Promise<void> {
  const problem = await latestProblem(temporal, run);
  const now = cluster.kube.now();
  const decision = decideStalled({ ...input, run, problem, timeoutSeconds, nowMs: now.getTime() });
  await publish(decision, now);
  if (decision.kind === 'Report') return;
  await terminateRun(temporal, run, decision.reason);
  const { runId } = run;
  log.warn('Run terminated because it cannot continue', { ...fields, runId, reason: problem.message });
}
