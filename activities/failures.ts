import { ApplicationFailure } from '@temporalio/common';
import { KubeError } from '../kube/errors.ts';
import { FailureType } from './contract.ts';

/** What the workflow, and a person in the UI, sees of an error: typed, with the apiserver's own words. */
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

/** What somebody else has now, and will give up. */
export function busy(problem: string): ApplicationFailure {
  return ApplicationFailure.create({ type: FailureType.Busy, message: problem });
}

export function invalidInput(problem: string): ApplicationFailure {
  const failure = ApplicationFailure.create({
    type: FailureType.InvalidInput,
    message: problem,
    nonRetryable: true,
  });
  // A mistake in the input is no fault of a line of code: whoever made it reads the sentence alone.
  failure.stack = `${failure.name}: ${problem}`;
  return failure;
}
