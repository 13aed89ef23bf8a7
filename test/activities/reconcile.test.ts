import { jest } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { reconcileOn } from '../../activities/reconcile.ts';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

/** Counts the passes of an activity that lasts until `end`, and whose source reports a change every 10 ms. */
function activity(restMs: number | undefined) {
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR') });
  let passes = 0;
  let isEnding = false;
  const pass = async () => {
    passes += 1;
    return isEnding ? ('done' as const) : undefined;
  };
  const changing = {
    subscribe: (handler: (withinMs: number) => void) => {
      const timer = setInterval(() => handler(0), 10);
      return () => clearInterval(timer);
    },
  };
  const timing = restMs === undefined ? {} : { restMs: () => restMs };
  const ended = environment.run(() => reconcileOn([changing], pass, timing));
  return {
    passes: () => passes,
    end: async () => {
      isEnding = true;
      await jest.advanceTimersByTimeAsync(60_000);
      return ended;
    },
  };
}

describe('passes of an activity whose objects change all the time', () => {
  test.each([
    { restMs: undefined, inASecond: 26 },
    { restMs: 200, inASecond: 6 },
    { restMs: 5_000, inASecond: 1 },
  ])('with a rest of $restMs ms are $inASecond in a second', async ({ restMs, inASecond }) => {
    const { passes, end } = activity(restMs);
    await jest.advanceTimersByTimeAsync(1_000);
    expect(passes()).toBe(inASecond);
    expect(await end()).toBe('done');
  });
});
