import { pino } from 'pino';
import type { Log } from '../kube/log.ts';

/** Creates the default logger: JSON lines on standard output, without those of level debug. */
export function defaultLog(): Log {
  const logger = pino(
    {
      level: 'info',
      base: null,
      messageKey: 'message',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
    },
    // Synchronous: what was logged before process.exit() is written.
    pino.destination({ dest: 1, sync: true }),
  );
  return {
    debug: (message, fields) => logger.debug(fields ?? {}, message),
    info: (message, fields) => logger.info(fields ?? {}, message),
    warn: (message, fields) => logger.warn(fields ?? {}, message),
    error: (message, fields) => logger.error(fields ?? {}, message),
  };
}
