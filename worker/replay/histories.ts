import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Client } from '@temporalio/client';
import type { History } from '@temporalio/common/lib/proto-utils.js';
import { temporalNames } from '../../api/names.ts';
import { errorMessage } from '../../kube/errors.ts';
import { listRuns } from '../../temporal-config/runs.ts';

/** A history to replay. `history` has the JSON form of `temporal workflow show --output json` if it was read from a file. */
export interface RecordedRun {
  readonly workflowId: string;
  readonly runId: string;
  readonly history: History | object;
}

/** Returns the query for the open runs of a cluster: closed ones are never replayed again. */
export function openRunsOf(cluster: string | undefined): string {
  return `TaskQueue = "${temporalNames(cluster).taskQueue}" AND ExecutionStatus = "Running"`;
}

/** Yields the histories of the runs that match the query, one at a time: all of them together may not fit into memory. */
export async function* historiesOf(client: Client, query: string): AsyncGenerator<RecordedRun> {
  for await (const { workflowId, runId } of listRuns(client, query))
    yield { workflowId, runId, history: await client.workflow.getHandle(workflowId, runId).fetchHistory() };
}

/** Yields the histories in files. Throws an Error of one line for a file that contains none. */
export async function* historiesIn(files: readonly string[]): AsyncGenerator<RecordedRun> {
  for (const file of files) {
    try {
      const history = JSON.parse(await readFile(file, 'utf8')) as { events?: unknown };
      if (!Array.isArray(history.events)) throw new Error('it has no field "events"');
      yield { workflowId: basename(file, '.json'), runId: '', history };
    } catch (error) {
      const remedy = 'write it with temporal workflow show --workflow-id ID --output json';
      throw new Error(`${file}: not a history: ${errorMessage(error)}; ${remedy}`, { cause: error });
    }
  }
}
