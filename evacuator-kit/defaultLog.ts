import type { Log } from '../kube/log.ts';

/** Creates the default logger: JSON lines on standard output. */
export function defaultLog(): Log {
  const write = (level: keyof Log) => (message: string, fields?: Record<string, unknown>) => {
    const line = { level, time: new Date().toISOString(), ...fields, message };
    process.stdout.write(`${JSON.stringify(line)}\n`);
  };
  return { debug: () => undefined, info: write('info'), warn: write('warn'), error: write('error') };
}
