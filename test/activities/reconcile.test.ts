import { getEventListeners } from 'node:events';
import { jest } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { reconcileOn } from '../../activities/reconcile.ts';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

/** Counts the passes of an activity that lasts until `end`, and whose source reports a change every 10 ms. */
function activity(minIdleMs: number | undefined, withinMs?: number) {
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
  const timing = {
    ...(minIdleMs !== undefined && { minIdleMs: () => minIdleMs }),
    ...(withinMs !== undefined && { withinMs: () => withinMs }),
  };
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
    { minIdleMs: undefined, inASecond: 26 },
    { minIdleMs: 200, inASecond: 6 },
    { minIdleMs: 5_000, inASecond: 1 },
  ])('that idle for $minIdleMs ms are $inASecond in a second', async ({ minIdleMs, inASecond }) => {
    const { passes, end } = activity(minIdleMs);
    await jest.advanceTimersByTimeAsync(1_000);
    expect(passes()).toBe(inASecond);
    expect(await end()).toBe('done');
  });
});

test('an activity that always has something to do is not busy with it all the time', async () => {
  const { passes, end } = activity(undefined, 0);
  await jest.advanceTimersByTimeAsync(1_000);
  expect(passes()).toBe(26);
  expect(await end()).toBe('done');
});

test('an activity that has ended leaves nothing on the signal of its cancellation, which its connections keep', async () => {
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR') });
  const { cancellationSignal } = environment.context;
  expect(await environment.run(() => reconcileOn([], async () => 'done' as const))).toBe('done');
  expect(getEventListeners(cancellationSignal, 'abort')).toEqual([]);
});
