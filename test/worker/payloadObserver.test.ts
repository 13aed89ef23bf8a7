import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { DecryptionError } from '../../temporal-config/encryptionCodec.ts';
import { payloadObserver } from '../../worker/payloadObserver.ts';
import { recordedLog } from '../kube/fixtures.ts';

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

function observed() {
  const log = recordedLog();
  const onDecryptionFailure = jest.fn();
  const observer = payloadObserver(log, { onDecryptionFailure });
  return {
    fail: (...reasons: string[]) => {
      for (const reason of reasons) observer.onDecryptionFailure?.(new DecryptionError(reason));
    },
    count: () => onDecryptionFailure.mock.calls.length,
    /** Returns what was logged since the last call. */
    logged: () => log.lines.splice(0).map(({ fields }) => fields?.['reason']),
  };
}

const reasons = Array.from({ length: 50 }, (_, index) => `key ${index}`);

test('a failure that repeats is logged once a minute and counted each time, also if several alternate', () => {
  const { fail, count, logged } = observed();
  fail('a', 'b', 'a', 'b', 'a');
  expect(logged()).toEqual(['a', 'b']);
  jest.advanceTimersByTime(59_999);
  fail('b', 'a');
  expect(logged()).toEqual([]);
  jest.advanceTimersByTime(1);
  fail('b', 'a', 'b');
  expect(logged()).toEqual(['b', 'a']);
  expect(count()).toBe(10);
});

test('clients that name many keys do not fill the log', () => {
  const { fail, count, logged } = observed();
  fail(...reasons, ...reasons);
  expect(logged()).toEqual(reasons.slice(0, 10));
  jest.advanceTimersByTime(60_000);
  fail(...reasons.toReversed());
  expect(logged()).toEqual(reasons.slice(-10).toReversed());
  expect(count()).toBe(150);
});
