import type { Client } from '@temporalio/client';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { optionalTsToDate, requiredTsToDate } from '@temporalio/common/lib/time.js';
import { Code, grpcStatusOf } from './connectionErrors.ts';

/**
 * The namespace may be shared, and everyone who may start a workflow there chooses its memo. The SDK decodes the whole memo of each run, so that
 * one entry that it cannot decode hides all runs of a list. These functions read the entries that this project writes, which are not encrypted.
 */

type RawDescription = Awaited<ReturnType<Client['workflowService']['describeWorkflowExecution']>>;
type RawRun = NonNullable<RawDescription['workflowExecutionInfo']>;

export interface Run {
  workflowId: string;
  runId: string;
  /** Name of its status in Temporal's SDK, such as `TERMINATED`. */
  status: string;
  startTime: Date;
  /** Undefined for an open run. */
  closeTime: Date | undefined;
  /** Its entries that are text; the other ones are empty. */
  memo: Readonly<Record<string, string>>;
}

/** Yields the runs that match the query, a List Filter of Temporal. */
export async function* listRuns(client: Client, query: string, pageSize = 1_000): AsyncGenerator<Run> {
  const { namespace } = client.options;
  let nextPageToken: Uint8Array = new Uint8Array();
  do {
    const request = { namespace, query, pageSize, nextPageToken };
    const page = await client.workflowService.listWorkflowExecutions(request);
    for (const run of page.executions) yield runOf(run);
    ({ nextPageToken } = page);
  } while (nextPageToken.length > 0);
}

/** Returns the run, or the newest one of the workflow; undefined if there is none. */
export async function describeRun(
  client: Client,
  execution: { workflowId: string; runId?: string },
): Promise<(Run & { raw: RawDescription }) | undefined> {
  const { namespace } = client.options;
  try {
    const raw = await client.workflowService.describeWorkflowExecution({ namespace, execution });
    return raw.workflowExecutionInfo ? { ...runOf(raw.workflowExecutionInfo), raw } : undefined;
  } catch (error) {
    if (grpcStatusOf(error)?.code === Code.NotFound) return undefined;
    throw error;
  }
}

/** Reports whether the run is open: one that a person has paused in Temporal receives signals, and continues when it is unpaused. */
export function isOpen({ status }: Pick<Run, 'status'>): boolean {
  return status === 'RUNNING' || status === 'PAUSED';
}

/** Statuses by number of temporal.api.enums.v1.WorkflowExecutionStatus. */
const statuses = [
  'UNSPECIFIED',
  'RUNNING',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
  'TERMINATED',
  'CONTINUED_AS_NEW',
  'TIMED_OUT',
  'PAUSED',
];

function runOf({ execution, status, startTime, closeTime, memo }: RawRun): Run {
  return {
    workflowId: execution?.workflowId ?? '',
    runId: execution?.runId ?? '',
    status: statuses[Number(status)] ?? 'UNKNOWN',
    startTime: requiredTsToDate(startTime, 'startTime'),
    closeTime: optionalTsToDate(closeTime),
    memo: memoTexts(memo),
  };
}

/** Returns the entries of a memo that are text; the other ones are empty. */
export function memoTexts(memo: { fields?: Record<string, unknown> | null } | null | undefined) {
  const entries = Object.entries(memo?.fields ?? {});
  return Object.fromEntries(entries.map(([name, payload]) => [name, textOf(payload as Payload)]));
}

function textOf(payload: Payload): string {
  try {
    const value: unknown = defaultPayloadConverter.fromPayload(payload);
    return typeof value === 'string' ? value : '';
  } catch {
    return '';
  }
}
