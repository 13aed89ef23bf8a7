import { DefaultLogger, type ReplayWorkerOptions, Runtime, Worker } from '@temporalio/worker';
import { oneLine } from '../../domain/common/text.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { RecordedRun } from './histories.ts';

/** Result of the replay of one run. */
export interface Replayed {
  readonly workflowId: string;
  readonly runId: string;
  readonly events: number;
  /** One line; undefined if the workflows of the bundle continue the run. */
  readonly problem: string | undefined;
}

const maxLineLength = 1_000;

/** Replays each history with the workflows of a bundle, and yields what it has shown. Nothing is written to Temporal. */
export async function* replay(
  options: ReplayWorkerOptions,
  runs: AsyncIterable<RecordedRun>,
): AsyncGenerator<Replayed> {
  // The SDK reports what each result contains, too.
  const logger = new DefaultLogger('ERROR', () => undefined);
  Runtime.install({ logger, telemetryOptions: { logging: { filter: 'ERROR' } } });
  for await (const { workflowId, runId, history } of runs) {
    const { length: events } = (history as { events: unknown[] }).events;
    yield { workflowId, runId, events, problem: await problemOf(options, history, workflowId) };
  }
}

async function problemOf(
  options: ReplayWorkerOptions,
  history: object,
  workflowId: string,
): Promise<string | undefined> {
  try {
    await Worker.runReplayHistory(options, history, workflowId);
    return undefined;
  } catch (error) {
    // The SDK prints the failure with all its fields; its message comes first.
    const message = errorMessage(error);
    const cause = /message: "(.*?)", source: "/s.exec(message)?.[1]?.replaceAll('\\"', '"');
    return oneLine(cause ?? message, maxLineLength);
  }
}
