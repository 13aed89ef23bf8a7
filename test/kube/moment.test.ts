import { elapsedMs, moment } from '../../kube/moment.ts';

const minute = 60_000;
const { monotonicMs, wallMs } = moment();

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
