import type { Client } from '@temporalio/client';
import { Code, grpcStatusOf } from './connectionErrors.ts';
import { memoTexts } from './runs.ts';

/**
 * Functions that, like those of runs.ts, read what this project writes: anyone in the namespace may create a Schedule, and the list of the SDK ends
 * at the first memo that it cannot decode.
 */

export interface ListedSchedule {
  readonly scheduleId: string;
  /** Its entries that are text; the other ones are empty. */
  readonly memo: Readonly<Record<string, string>>;
}

/** Yields all Schedules of the namespace. */
export async function* listSchedules(client: Client): AsyncGenerator<ListedSchedule> {
  const { namespace } = client.options;
  let nextPageToken: Uint8Array = new Uint8Array();
  do {
    const page = await client.workflowService.listSchedules({ namespace, nextPageToken });
    for (const { scheduleId, memo } of page.schedules)
      yield { scheduleId: scheduleId ?? '', memo: memoTexts(memo) };
    ({ nextPageToken } = page);
  } while (nextPageToken.length > 0);
}

/** The workflow that the action of a Schedule starts. */
export interface ScheduledStart {
  readonly taskQueue: string;
  readonly memo: Readonly<Record<string, string>>;
}

/** Returns what a Schedule starts, without decrypting its input; undefined if the Schedule does not exist any more. */
export async function scheduledStart(
  client: Client,
  scheduleId: string,
): Promise<ScheduledStart | undefined> {
  const { namespace } = client.options;
  try {
    const { schedule } = await client.workflowService.describeSchedule({ namespace, scheduleId });
    const start = schedule?.action?.startWorkflow;
    return { taskQueue: start?.taskQueue?.name ?? '', memo: memoTexts(start?.memo) };
  } catch (error) {
    if (grpcStatusOf(error)?.code === Code.NotFound) return undefined;
    throw error;
  }
}
