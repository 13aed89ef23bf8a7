import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { FakeClock, missingForClocks } from './fakeClock.ts';

const run = promisify(execFile);

let dir: string;

beforeAll(async () => void (dir = await mkdtemp(join(tmpdir(), 'nm-clock-'))));
afterAll(() => rm(dir, { recursive: true, force: true }));

/** Returns by how much a process is ahead, in seconds that are a multiple of 20: it needs time to end. Otherwise why its clock cannot be so. */
async function aheadAfter(clock: FakeClock, seconds: number): Promise<number | string> {
  try {
    clock.set(seconds);
  } catch (error) {
    return String(error);
  }
  const { stdout } = await run(process.execPath, ['--print', 'Date.now()'], { env: clock.variables });
  return Math.round((Number(stdout) - Date.now()) / 20_000) * 20;
}

const refusal =
  'Error: The clock cannot jump, because libfaketime is not installed: run npm run debian-packages as root';

describe('the clock of a process', () => {
  test.each([600, -20])('jumps by %d s and back, if this machine has libfaketime', async (seconds) => {
    const clock = new FakeClock(join(dir, 'clock'));
    expect(await aheadAfter(clock, seconds)).toBe(missingForClocks === undefined ? seconds : refusal);
    expect(Math.abs(Number(await aheadAfter(clock, 0)))).toBe(0);
  });

  test('cannot jump without libfaketime, and says how to get it', async () => {
    const clock = new FakeClock(join(dir, 'none'), '/does/not/exist.so');
    expect(await aheadAfter(clock, 20)).toBe(refusal);
    expect(Math.abs(Number(await aheadAfter(clock, 0)))).toBe(0);
  });
});
