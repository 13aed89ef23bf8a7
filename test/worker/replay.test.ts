import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { workflowBundle } from '../kit/workflows.ts';

const main = fileURLToPath(new URL('../../worker/replay/main.ts', import.meta.url));
const recorded = fileURLToPath(
  new URL('../replay/histories/idle-cordon-drain-complete.json', import.meta.url),
);
let folder: string;
let same: string;
let changed: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nm-replay-'));
  const { code } = await workflowBundle();
  [same, changed] = [join(folder, 'same.js'), join(folder, 'changed.js')];
  await writeFile(same, code);
  await writeFile(changed, code.replaceAll('startStage', 'beginStage'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function replay(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const env = { ...process.env, HOME: folder, TEMPORAL_ADDRESS: '127.0.0.1:1' };
  return promisify(execFile)(process.execPath, [main, ...args], { env }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({
      code,
      stdout,
      stderr,
    }),
  );
}

test('a history that the build continues', async () => {
  const { events } = JSON.parse(await readFile(recorded, 'utf8')) as { events: unknown[] };
  expect(await replay('--workflow-bundle', same, recorded)).toEqual({
    code: 0,
    stdout: `ok      idle-cordon-drain-complete  ${events.length} events\n1 run replayed with ${same}: all can go on.\n`,
    stderr: '',
  });
});

test('a history that the build cannot continue is named, with the reason in one line', async () => {
  const { code, stdout } = await replay('--workflow-bundle', changed, recorded, recorded);
  expect(code).toBe(1);
  expect(stdout.split('\n')).toEqual([
    expect.stringMatching(/^failed {2}idle-cordon-drain-complete {2}\d+ events: .*TMPRL1100/),
    expect.stringMatching(/^failed {2}idle-cordon-drain-complete {2}\d+ events: .*TMPRL1100/),
    `2 runs replayed with ${changed}: 2 cannot go on.`,
    '',
  ]);
});

test.each([
  [[], /^error: expected either --from-server or files with histories: see --help\n$/],
  [['--from-server', 'file'], /^error: expected either --from-server or files/],
  [
    ['--from-server', '--cluster', 'Berlin'],
    /^error: --cluster: expected lower case letters.*got "Berlin"\)\n$/,
  ],
  [['--from-server'], /^error: .*127\.0\.0\.1:1.*\n$/],
  [['--unknown'], /^error: unknown option '--unknown'\n$/],
])('arguments that are refused: %s', async (args, message) => {
  const { code, stdout, stderr } = await replay(...args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(message);
});

test('a file that is no history', async () => {
  const file = join(folder, 'other.json');
  await writeFile(file, '{}');
  expect(await replay('--workflow-bundle', same, file)).toEqual({
    code: 2,
    stdout: '',
    stderr: `error: ${file}: not a history: it has no field "events"; write it with temporal workflow show --workflow-id ID --output json\n`,
  });
});
