import { type Logger, pino } from 'pino';
import { escapeUnprintable } from '../api/text.ts';
import type { Log } from '../kube/log.ts';

/** Returns a logger of JSON lines. `ownTime` is for lines that come with a field `time`, because they are written later. */
export function createLogger(level: string, { ownTime = false } = {}): Logger {
  return pino({
    level,
    base: null,
    timestamp: ownTime ? false : pino.stdTimeFunctions.isoTime,
    // Temporal's SDK logs errors under this name.
    serializers: {
      error: (error: unknown) => (error instanceof Error ? pino.stdSerializers.err(error) : error),
    },
    // JSON escapes only some of the characters that control a terminal.
    hooks: { streamWrite: (line) => `${escapeUnprintable(line.trimEnd())}\n` },
  });
}

/** Adapts pino, which takes the fields first, to `Log`, which takes the message first. */
export function toLog(logger: Logger): Log {
  return {
    debug: (message, fields) => logger.debug(fields ?? {}, message),
    info: (message, fields) => logger.info(fields ?? {}, message),
    warn: (message, fields) => logger.warn(fields ?? {}, message),
    error: (message, fields) => logger.error(fields ?? {}, message),
  };
}
