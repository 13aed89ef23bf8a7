import { ApplicationFailure, log } from '@temporalio/workflow';
import { oneLine } from '../../domain/common/text.ts';
import { isRecord, shown } from '../../domain/common/untrusted.ts';

// Handlers receive whatever a user typed into the dialog of the Temporal UI, so they check the shape of each argument.

/**
 * Returns why an optional argument is not an object with these fields only; undefined if it is, or is missing. `example` shows a
 * valid argument.
 */
export function objectProblem(
  argument: unknown,
  { fields, example }: { fields: readonly string[]; example: string },
): string | undefined {
  if (argument === undefined) return undefined;
  if (!isRecord(argument))
    return `expected one JSON object, such as ${example}, or none (got ${shown(argument)})`;
  const unknownField = Object.keys(argument).find((field) => !fields.includes(field));
  if (unknownField === undefined) return undefined;
  const known = fields.map((field) => `"${field}"`).join(' and ');
  return `${oneLine(unknownField, maxFieldLength)}: unknown field; expected ${known}`;
}

/** Returns why an argument is not missing or empty, for messages without input. */
export function inputProblem(argument: unknown): string | undefined {
  if (argument === undefined) return undefined;
  return isRecord(argument) && Object.keys(argument).length === 0
    ? undefined
    : `expected no input (got ${shown(argument)})`;
}

const maxFieldLength = 80;

/** Throws a failure of type InvalidInput if there is a problem. */
export function rejectIf(problem: string | undefined): void {
  if (problem !== undefined) throw ApplicationFailure.nonRetryable(problem, 'InvalidInput');
}

/** Handles a signal unless there is a problem with its argument. */
export function checkedSignal(
  signal: string,
  problem: string | undefined,
  handle: () => Promise<unknown>,
): Promise<void> {
  return logAndIgnore(signal, async () => {
    rejectIf(problem);
    await handle();
  });
}

/** Handles a signal. Its sender receives no response, so an invalid signal is logged; it must not fail the workflow. */
export async function logAndIgnore(signal: string, handle: () => Promise<unknown>): Promise<void> {
  try {
    await handle();
  } catch (error) {
    log.warn('Signal ignored', { signal, reason: error instanceof Error ? error.message : String(error) });
  }
}
