import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/**
 * Loaded before the agent: kills the process at a change of a name in its folders, as a power loss would. `NM_KILL_AT` is `rename:before`,
 * `link:after` and so on; only files whose names end with `.yaml` count.
 */
const [operation = '', moment = ''] = (process.env['NM_KILL_AT'] ?? '').split(':');

const die = () => process.kill(process.pid, 'SIGKILL');
const table = promises as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
const original = table[operation];
if (original === undefined) throw new Error(`NM_KILL_AT: unknown operation ${operation}`);
table[operation] = async (...args) => {
  const isManifest = String(args[0]).endsWith('.yaml');
  if (isManifest && moment === 'before') die();
  const result = await original(...args);
  if (isManifest && moment === 'after') die();
  return result;
};
syncBuiltinESMExports();
