import { DefaultLogger, Runtime, Worker, type WorkflowBundle } from '@temporalio/worker';
import { oneLine } from '../../domain/common/text.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { RecordedRun } from './histories.ts';

/** What a replay has shown of one run. */
export interface Replayed {
  readonly workflowId: string;
  readonly runId: string;
  readonly events: number;
  /** One line; undefined if the workflows of the bundle continue the run. */
  readonly problem: string | undefined;
}

const maxLineLength = 1_000;

/** Replays each history with the workflows of the bundle, and yields what it has shown. Nothing is written to Temporal. */
export async function* replay(
  workflowBundle: WorkflowBundle,
  runs: AsyncIterable<RecordedRun>,
): AsyncGenerator<Replayed> {
  // The SDK reports what each result contains, too.
  const logger = new DefaultLogger('ERROR', () => undefined);
  Runtime.install({ logger, telemetryOptions: { logging: { filter: 'ERROR' } } });
  for await (const { workflowId, runId, history } of runs) {
    const { length: events } = (history as { events: unknown[] }).events;
    yield { workflowId, runId, events, problem: await problemOf(workflowBundle, history, workflowId) };
  }
}

async function problemOf(
  workflowBundle: WorkflowBundle,
  history: object,
  workflowId: string,
): Promise<string | undefined> {
  try {
    await Worker.runReplayHistory({ workflowBundle }, history, workflowId);
    return undefined;
  } catch (error) {
    // Everything before and after the words of the violation is the same for each.
    const message = errorMessage(error);
    const violation = /message: "(\[TMPRL\d+\] .*?)", source: /.exec(message)?.[1];
    return oneLine(violation ?? message, maxLineLength);
  }
}
