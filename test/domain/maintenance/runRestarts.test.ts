import { expect, test } from '@jest/globals';
import { afterRestart, restartDelayMs, type Restarts } from '../../../domain/maintenance/runRestarts.ts';

test('runs that end at once are started again after longer and longer delays, up to a minute', () => {
  const delays: number[] = [];
  let restarts: Restarts | undefined;
  let nowMs = 0;
  for (let run = 1; run <= 8; run += 1) {
    const delayMs = restartDelayMs(restarts, nowMs);
    delays.push(delayMs);
    nowMs += delayMs;
    restarts = afterRestart(restarts, nowMs);
  }
  expect(delays).toEqual([0, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
});

test('the delay passes while nothing is started', () => {
  const restarts = { count: 2, latestMs: 1_000 };
  expect(restartDelayMs(restarts, 2_000)).toBe(3_000);
  expect(restartDelayMs(restarts, 60_000)).toBe(0);
});

test('a run that has lasted is followed at once, and the delays begin again', () => {
  const restarts = { count: 7, latestMs: 0 };
  expect(restartDelayMs(restarts, 600_000)).toBe(0);
  expect(afterRestart(restarts, 600_000)).toEqual({ count: 1, latestMs: 600_000 });
});
