import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';

const { href } = new URL('../../evacuator-kit/defaultLog.ts', import.meta.url);

const program = `
  const { defaultLog } = await import('${href}');
  const log = defaultLog();
  log.debug('Connection was closed', { server: 'health' });
  log.info('Evacuator started');
  for (let index = 0; index < 5_000; index += 1) log.warn('Evacuation failed, trying again', { pod: 'a/b', index });
  log.error('Leader failed', { error: 'timeout', holder: undefined });
  process.exit(3);
`;

test('the default log of an evacuator is complete when the process exits: one JSON object per line, without level debug', async () => {
  const child = promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  const { code, stdout } = await child.then(
    (output) => ({ ...output, code: 0 }),
    (error: { code: number; stdout: string }) => error,
  );
  expect(code).toBe(3);
  const lines = stdout.trimEnd().split('\n');
  expect(lines[0]).toMatch(
    /^\{"level":"info","time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","message":"Evacuator started"\}$/,
  );
  const parsed = lines.map((line) => JSON.parse(line) as object);
  expect(parsed).toHaveLength(5_002);
  const time = expect.any(String);
  const failed = {
    level: 'warn',
    time,
    pod: 'a/b',
    index: 4_999,
    message: 'Evacuation failed, trying again',
  };
  expect(parsed.slice(-2)).toEqual([
    failed,
    { level: 'error', time, error: 'timeout', message: 'Leader failed' },
  ]);
});
