import {
  DefaultLogger,
  type LogLevel,
  makeTelemetryFilterString,
  type RuntimeOptions,
} from '@temporalio/worker';
import type { Logger } from 'pino';
import { subjectOf, type TemporalNames } from '../api/names.ts';

/**
 * Returns the options that write Temporal's logs, also those of workflows and activities, to the same stream. A line about a run names the
 * maintenance or window as the lines of control loops do, beside the ids of its workflow and run. The SDK writes its lines 100 ms late, to sort
 * them: `logger` must not add a time.
 */
export function runtimeLogging(
  logger: Logger,
  names: TemporalNames,
): Pick<RuntimeOptions, 'logger'> & { logging: object } {
  const write: Record<LogLevel, 'trace' | 'debug' | 'info' | 'warn' | 'error'> = {
    TRACE: 'trace',
    DEBUG: 'debug',
    INFO: 'info',
    WARN: 'warn',
    ERROR: 'error',
  };
  return {
    // pino drops what is below the level.
    logger: new DefaultLogger('TRACE', ({ level, message, meta, timestampNanos }) => {
      const time = new Date(Number(timestampNanos / 1_000_000n)).toISOString();
      logger[write[level]]({ time, ...fieldsOf(meta, names) }, message);
    }),
    logging: { forward: {}, filter: makeTelemetryFilterString({ core: 'WARN', other: 'WARN' }) },
  };
}

/** Activities name the run in another way than workflows. Everyone who has the token of an activity can complete it. */
function fieldsOf(
  { taskToken: _, workflowRunId, ...meta }: Record<string, unknown> = {},
  names: TemporalNames,
): Record<string, unknown> {
  const { workflowId } = meta;
  return {
    ...(typeof workflowId === 'string' && subjectOf(names, workflowId)),
    ...(workflowRunId !== undefined && { runId: workflowRunId }),
    ...meta,
  };
}
