import { currentInstant, elapsedMs } from '../../kube/monotonicTime.ts';

const minute = 60_000;
const { monotonicMs, wallMs } = currentInstant();

test.each([
  { when: 'nothing happened', since: { monotonicMs, wallMs }, atLeast: 0 },
  {
    when: 'the process was stopped',
    since: { monotonicMs: monotonicMs - minute, wallMs: wallMs - minute },
    atLeast: minute,
  },
  { when: 'the machine was suspended', since: { monotonicMs, wallMs: wallMs - minute }, atLeast: minute },
  {
    when: 'the clock was set back',
    since: { monotonicMs: monotonicMs - minute, wallMs: wallMs + minute },
    atLeast: minute,
  },
])('the time that passed counts: $when', ({ since, atLeast }) => {
  expect(elapsedMs(since)).toBeGreaterThanOrEqual(atLeast);
  expect(elapsedMs(since)).toBeLessThan(atLeast + minute);
});
