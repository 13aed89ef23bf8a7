import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { CLUSTER_UID_MEMO } from '../api/names.ts';
import type { ObservedRun, RunProblem } from '../domain/common/stalledRun.ts';

const failures = ['FAILED', 'TIMED_OUT'];

/** Returns the newest run of the workflow; undefined if there is none, or if it is one of another cluster. */
export async function findRun(
  temporal: Client,
  workflowId: string,
  clusterUid: string,
): Promise<ObservedRun | undefined> {
  try {
    const { status, runId, startTime, memo, raw } = await temporal.workflow.getHandle(workflowId).describe();
    if ((memo?.[CLUSTER_UID_MEMO] ?? clusterUid) !== clusterUid) return undefined;
    return {
      workflowId,
      runId,
      isOpen: status.name === 'RUNNING',
      hasFailed: failures.includes(status.name),
      startedMs: startTime.getTime(),
      taskAttempts: raw.pendingWorkflowTask?.attempt ?? 0,
    };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

/** Terminates exactly this run. Resolves if it has ended already. */
export async function terminateRun(
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
