import {
  DefaultLogger,
  type LogLevel,
  makeTelemetryFilterString,
  type RuntimeOptions,
} from '@temporalio/worker';
import { type Logger, pino } from 'pino';
import type { Log } from '../kube/log.ts';

export function createLogger(level: string): Logger {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime });
}

/** pino takes the fields first; the rest of the project says the sentence first. */
export function toLog(logger: Logger): Log {
  return {
    debug: (message, fields) => logger.debug(fields ?? {}, message),
    info: (message, fields) => logger.info(fields ?? {}, message),
    warn: (message, fields) => logger.warn(fields ?? {}, message),
    error: (message, fields) => logger.error(fields ?? {}, message),
  };
}

/** Temporal's own log lines, those of workflows and activities included, in the same stream. */
export function runtimeLogging(logger: Logger): Pick<RuntimeOptions, 'logger'> & { logging: object } {
  const write: Record<LogLevel, 'trace' | 'debug' | 'info' | 'warn' | 'error'> = {
    TRACE: 'trace',
    DEBUG: 'debug',
    INFO: 'info',
    WARN: 'warn',
    ERROR: 'error',
  };
  return {
    logger: new DefaultLogger('INFO', ({ level, message, meta }) =>
      logger[write[level]](meta ?? {}, message),
    ),
    logging: { forward: {}, filter: makeTelemetryFilterString({ core: 'WARN', other: 'WARN' }) },
  };
}
