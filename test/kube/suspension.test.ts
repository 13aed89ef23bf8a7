import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { Suspension } from '../../kube/suspension.ts';

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

test('a process was suspended a moment ago from the end of its suspension until what has arrived is read', () => {
  let suspendedMs = 0;
  const suspension = new Suspension(() => performance.now() + suspendedMs);
  const stop = new AbortController();
  suspension.start(stop.signal);
  jest.advanceTimersByTime(10_000);
  expect(suspension.isRecent).toBe(false);
  // Timers do not run in this time.
  suspendedMs = 4_000;
  expect(suspension.isRecent).toBe(true);
  jest.advanceTimersByTime(200);
  expect(suspension.isRecent).toBe(true);
  jest.advanceTimersByTime(400);
  expect(suspension.isRecent).toBe(false);
  stop.abort();
  expect(jest.getTimerCount()).toBe(0);
});
