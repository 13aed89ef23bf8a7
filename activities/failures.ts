import { ApplicationFailure } from '@temporalio/common';
import { oneLine } from '../domain/common/text.ts';
import { KubeError } from '../kube/errors.ts';
import { FailureType } from './contract.ts';

/** Converts an error to the failure that the workflow and the Temporal UI show: typed, with the message of the apiserver. */
export function toFailure(error: unknown): unknown {
  if (!(error instanceof KubeError)) return error;
  const { message } = error;
  switch (error.kind) {
    case 'Forbidden':
    case 'Unauthorized':
      return ApplicationFailure.create({ type: FailureType.Forbidden, message, cause: error });
    case 'Invalid':
      return ApplicationFailure.create({
        type: FailureType.Invalid,
        message,
        nonRetryable: true,
        cause: error,
      });
    default:
      return ApplicationFailure.create({ type: FailureType.Unavailable, message, cause: error });
  }
}

/** Creates a retryable failure: another run uses the window now. */
export function busy(problem: string): ApplicationFailure {
  return ApplicationFailure.create({ type: FailureType.Busy, message: problem });
}

/** Creates a retryable failure: the apiserver rejects that an evacuation is withdrawn. */
export function notWithdrawn(rejection: string): ApplicationFailure {
  return ApplicationFailure.create({
    type: FailureType.Unavailable,
    message: oneLine(`an evacuation could not be withdrawn: ${rejection}`, maxMessageLength),
  });
}

/** How long a worker leaves a run of another cluster alone. */
const foreignRunRetryMs = 30_000;

/** Creates a retryable failure: a worker of another cluster can continue the run. Nothing is touched in this cluster. */
export function foreignRun(taskQueue: string, clusterUid: unknown, own: string): ApplicationFailure {
  return ApplicationFailure.create({
    type: FailureType.ForeignCluster,
    message: `this run belongs to cluster ${oneLine(String(clusterUid), maxUidLength)}, and this worker to cluster ${own}: workers of both poll task queue ${taskQueue}; start the workers of one of them with another --cluster`,
    nextRetryDelay: foreignRunRetryMs,
  });
}

const maxUidLength = 80;

/** The history keeps the message, and the Temporal UI shows it. */
const maxMessageLength = 4_000;

/** Creates a final failure: the input cannot become a maintenance. */
export function invalidInput(cause: string): ApplicationFailure {
  const problem = oneLine(cause, maxMessageLength);
  const failure = ApplicationFailure.create({
    type: FailureType.InvalidInput,
    message: problem,
    nonRetryable: true,
  });
  // The stack of the worker does not help a user to correct the input: show only the message.
  failure.stack = `${failure.name}: ${problem}`;
  return failure;
}

/** Creates a final failure: another workflow, or none, has the window open. */
export function notOpen(window: string, workflowId: string): ApplicationFailure {
  return invalidInput(`MaintenanceWindow "${window}" is not open in workflow "${workflowId}"`);
}
