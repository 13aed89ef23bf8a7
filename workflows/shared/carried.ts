import { ApplicationFailure, type WorkflowInfo } from '@temporalio/workflow';

type Start = Pick<WorkflowInfo, 'continuedFromExecutionRunId' | 'cronSchedule' | 'attempt'>;

/**
 * Returns the state that the previous run carried over by continue-as-new; undefined for a start. Fails for a start with a second input: only
 * a workflow itself carries state over, and its starter could claim anything. Runs that Temporal repeats, by a cron schedule or a
 * retry policy, also name a previous run, but their input is the starter's.
 *
 * A client that runs workers of its own can still forge a continuation. That gains nothing, because the activities decide by the object
 * (ADR 29).
 */
export function carriedState<State extends object>(
  { continuedFromExecutionRunId, cronSchedule, attempt }: Start,
  carried: State | undefined,
): State | undefined {
  if (carried === undefined || carried === null) return undefined;
  if (continuedFromExecutionRunId !== undefined && cronSchedule === undefined && attempt === 1)
    return carried;
  throw ApplicationFailure.nonRetryable(
    'expected one JSON object as input (got a second one): remove it; the state of a run cannot be set from outside',
    'InvalidInput',
  );
}
