import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { heartbeatTimeoutSeconds, renewalCheckMs, renewalThreshold } from '../../../domain/leases/renewal.ts';

const secondsOfDay = 86_400;

test('a Lease is renewed when a third of its duration has passed, and a twentieth of it later at most', () => {
  expect(renewalThreshold * 900).toBe(600);
  expect(renewalCheckMs(900)).toBe(45_000);
});

describe('heartbeats of an activity that only waits', () => {
  test.each([
    { durationSeconds: 3, timeout: 6 },
    { durationSeconds: 60, timeout: 36 },
    { durationSeconds: 900, timeout: 540 },
    { durationSeconds: 86_400, timeout: 900 },
  ])('time out after $timeout s with Leases of $durationSeconds s', ({ durationSeconds, timeout }) => {
    expect(heartbeatTimeoutSeconds(durationSeconds)).toBe(timeout);
  });

  test('reveal deaths within a minute if nothing else does', () => {
    expect(heartbeatTimeoutSeconds(900, { revealsDeaths: true })).toBe(60);
    expect(heartbeatTimeoutSeconds(30, { revealsDeaths: true })).toBe(18);
  });

  test('are at most 400 a day with the default duration of Leases', () => {
    expect((2 * secondsOfDay) / heartbeatTimeoutSeconds(900)).toBe(320);
  });

  test('show that a worker has died before its Leases expire, unless they last only seconds', () => {
    fc.assert(
      fc.property(fc.integer({ min: 12, max: 100_000 }), (durationSeconds) => {
        const remaining = renewalThreshold * durationSeconds - renewalCheckMs(durationSeconds) / 1_000;
        expect(heartbeatTimeoutSeconds(durationSeconds)).toBeLessThanOrEqual(remaining);
      }),
    );
  });
});
