import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { CLUSTER_UID_MEMO } from '../api/names.ts';
import {
  decideStalled,
  type ObservedRun,
  type RunProblem,
  type StalledDecision,
  type StalledInput,
} from '../domain/common/stalledRun.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import type { Log } from '../kube/log.ts';

/** Returns true for a run that failed or timed out by itself. `status`: name of its status in Temporal's SDK, such as `TIMED_OUT`. */
export function hasFailed(status: string): boolean {
  return status === 'FAILED' || status === 'TIMED_OUT';
}

/** Returns false for a run of another cluster. A run that a user has started has no memo. */
export function isOfCluster(
  clusterUid: string,
  memo: Readonly<Record<string, unknown>> | undefined,
): boolean {
  return (memo?.[CLUSTER_UID_MEMO] ?? clusterUid) === clusterUid;
}

export interface DescribedRun extends ObservedRun {
  /** Name of its status in Temporal's SDK, such as `TERMINATED`. */
  status: string;
}

/** Returns the newest run of the workflow; undefined if there is none, or if it is one of another cluster. */
export async function findRun(
  temporal: Client,
  workflowId: string,
  clusterUid: string,
): Promise<DescribedRun | undefined> {
  try {
    const { status, runId, startTime, memo, raw } = await temporal.workflow.getHandle(workflowId).describe();
    if (!isOfCluster(clusterUid, memo)) return undefined;
    return {
      workflowId,
      runId,
      status: status.name,
      isOpen: status.name === 'RUNNING',
      hasFailed: hasFailed(status.name),
      startedMs: startTime.getTime(),
      taskAttempts: raw.pendingWorkflowTask?.attempt ?? 0,
    };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
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
    if (failed != null) {
      const lacksSearchAttributes = Number(failed.cause) === badSearchAttributes;
      return { message: failed.failure?.message || 'no message', lacksSearchAttributes };
    }
    const ended = event.workflowExecutionFailedEventAttributes;
    if (ended != null)
      return { message: ended.failure?.message || 'no message', lacksSearchAttributes: false };
    if (event.workflowTaskTimedOutEventAttributes != null)
      return {
        message: 'no worker finishes it in time: see the logs and the memory of the workers',
        lacksSearchAttributes: false,
      };
  }
  return { message: 'see its history', lacksSearchAttributes: false };
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
