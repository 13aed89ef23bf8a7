import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  lostActivities,
  type SilentActivities,
  silentActivities,
} from '../../../domain/common/lostActivity.ts';

/** Returns the activities that are lost after checks at the times, each of which finds the attempts. */
function lostAfter(...checks: [nowMs: number, ...attempts: string[]][]): string[][] {
  let silent: SilentActivities | undefined;
  return checks.map(([nowMs, ...attempts]) => {
    silent = silentActivities(attempts, silent, nowMs);
    return lostActivities(silent, nowMs);
  });
}

test('an activity that has sent no heartbeat ten seconds after it was first seen is lost', () => {
  expect(lostAfter([500, '3#1'], [9_500, '3#1'], [10_500, '3#1', '4#1'])).toEqual([[], [], ['3']]);
});

test('each attempt has the whole time', () => {
  expect(lostAfter([0, '3#1'], [10_000, '3#2'], [19_999, '3#2'], [20_000, '3#2'])).toEqual([
    [],
    [],
    [],
    ['3'],
  ]);
});

test('an activity that has sent a heartbeat, or has ended, is not lost, and counts from the start when it is silent again', () => {
  expect(lostAfter([0, '3#1'], [60_000], [60_001, '3#1'])).toEqual([[], [], []]);
});

test('an activity is lost only if each check of ten seconds has found its attempt silent', () => {
  const attempt = fc.record({ id: fc.stringMatching(/^[a-z0-9#-]{1,8}$/u), number: fc.nat(3) });
  const check = fc.record({ afterMs: fc.nat(12_000), silent: fc.array(attempt, { maxLength: 4 }) });
  fc.assert(
    fc.property(fc.array(check, { maxLength: 12 }), (checks) => {
      let silent: SilentActivities | undefined;
      let nowMs = 0;
      const seen: { nowMs: number; attempts: string[] }[] = [];
      for (const { afterMs, silent: found } of checks) {
        nowMs += afterMs;
        const attempts = found.map(({ id, number }) => `${id}#${number}`);
        seen.push({ nowMs, attempts });
        silent = silentActivities(attempts, silent, nowMs);
        const isLost = (one: string) => {
          const spoke = seen.findLastIndex((earlier) => !earlier.attempts.includes(one));
          const since = seen[spoke + 1]?.nowMs ?? nowMs;
          return nowMs - since >= 10_000;
        };
        const expected = [...new Set(attempts)].filter(isLost).map((one) => one.replace(/#\d+$/u, ''));
        expect(lostActivities(silent, nowMs)).toEqual(expected);
      }
    }),
  );
});
