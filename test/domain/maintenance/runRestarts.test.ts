import { expect, test } from '@jest/globals';
import {
  afterRestart,
  failsRepeatedly,
  restartDelayMs,
  type Restarts,
} from '../../../domain/maintenance/runRestarts.ts';

const failed = { hasFailed: true };
const terminated = { hasFailed: false };

test('runs that end at once are started again after longer and longer delays, up to a minute', () => {
  const delays: number[] = [];
  let restarts: Restarts | undefined;
  let nowMs = 0;
  for (let run = 1; run <= 8; run += 1) {
    const delayMs = restartDelayMs(restarts, nowMs);
    delays.push(delayMs);
    nowMs += delayMs;
    restarts = afterRestart(restarts, terminated, nowMs);
  }
  expect(delays).toEqual([0, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
});

test('the delay passes while nothing is started', () => {
  const restarts = { count: 2, failures: 0, latestMs: 1_000 };
  expect(restartDelayMs(restarts, 2_000)).toBe(3_000);
  expect(restartDelayMs(restarts, 60_000)).toBe(0);
});

test('a run that has lasted is followed at once, and the delays begin again', () => {
  const restarts = { count: 7, failures: 7, latestMs: 0 };
  expect(restartDelayMs(restarts, 600_000)).toBe(0);
  expect(afterRestart(restarts, terminated, 600_000)).toEqual({ count: 1, failures: 0, latestMs: 600_000 });
});

test.each([
  { when: 'three runs failed in a row', endings: [failed, failed, failed], want: true },
  { when: 'two runs failed', endings: [failed, failed], want: false },
  { when: 'a user terminated one of them', endings: [failed, failed, terminated, failed], want: false },
])('runs fail repeatedly: $want if $when', ({ endings, want }) => {
  let restarts: Restarts | undefined;
  for (const [index, ending] of endings.entries()) restarts = afterRestart(restarts, ending, index * 1_000);
  expect(restarts && failsRepeatedly(restarts)).toBe(want);
});
