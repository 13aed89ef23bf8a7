import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { runCommand } from '../../../agent/reboot/command.ts';
import { eventually } from '../../kit/eventually.ts';

// The reboot command of the node agent, without a cluster.

let dir: string;
let pidFile: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-command-'));
  pidFile = join(dir, 'pid');
});

afterEach(() => rm(dir, { recursive: true, force: true }));

/** Starts a process that would reboot the host much later, and writes its ID. */
const later = (redirected = '') => `sh -c 'echo $$ > ${pidFile}; exec sleep 600' ${redirected} &`;
const detached = '> /dev/null 2>&1 < /dev/null';
const untilStarted = () => `until test -s ${pidFile}; do sleep 0.05; done`;

const pid = async () => Number(await readFile(pidFile, 'utf8'));

/** Reports whether the process runs: one that was killed may wait for its parent, as a zombie. */
async function isRunning(): Promise<boolean> {
  const stat = await readFile(`/proc/${await pid()}/stat`, 'utf8').catch(() => '');
  return stat !== '' && !/\) [ZX] /.test(stat);
}

const eventuallyEnded = () =>
  eventually('the process to be gone', async () => expect(await isRunning()).toBe(false));

test.each([
  { command: 'exit 0', want: undefined },
  { command: 'echo why >&2; exit 3', want: 'exit code 3: why' },
  { command: 'exit 3', want: 'exit code 3' },
  { command: 'kill -TERM $$', want: 'signal SIGTERM' },
  { command: 'head -c 5000000 /dev/zero | tr "\\0" x >&2; exit 1', want: `exit code 1: ${'x'.repeat(255)}…` },
])('$command', async ({ command, want }) => {
  expect(await runCommand(command)).toBe(want);
});

describe('what a command has started', () => {
  test.each([
    { which: 'that it waits for', rest: 'wait', output: '' },
    { which: 'that it does not wait for, and that holds its output', rest: 'exit 0', output: '' },
    { which: 'beside it', rest: 'sleep 600', output: detached },
  ])('ends with the time of the command: a process $which', async ({ rest, output }) => {
    const command = `${later(output)} ${untilStarted()}; ${rest}`;
    expect(await runCommand(command, { timeoutMs: 2_000 })).toBe('it did not end within 2 s');
    await eventuallyEnded();
  });

  test('ends if the command fails: the node may be uncordoned', async () => {
    expect(await runCommand(`${later(detached)} ${untilStarted()}; exit 1`)).toBe('exit code 1');
    await eventuallyEnded();
  });

  test('continues if the command succeeds: it may be the reboot', async () => {
    expect(await runCommand(`${later(detached)} ${untilStarted()}; exit 0`)).toBeUndefined();
    expect(await isRunning()).toBe(true);
    process.kill(await pid(), 'SIGKILL');
    await eventuallyEnded();
  });
});
