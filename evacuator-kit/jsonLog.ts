import type { Log } from '../kube/log.ts';

/** One line of JSON for each message, on standard output. */
export function jsonLog(): Log {
  const write = (level: string) => (message: string, fields?: Record<string, unknown>) => {
    const line = { level, time: new Date().toISOString(), ...fields, message };
    process.stdout.write(`${JSON.stringify(line)}\n`);
  };
  return {
    debug: () => undefined,
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
  };
}
