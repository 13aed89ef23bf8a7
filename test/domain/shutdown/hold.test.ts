import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  decideShutdown,
  shutdownLimits,
  type ShutdownDecision,
  type ShutdownProgress,
} from '../../../domain/shutdown/hold.ts';

const progress: ShutdownProgress = {
  elapsedSeconds: 5,
  limitSeconds: 600,
  kubeletSeconds: 30,
  silentSeconds: 1,
  apiserverTimeoutSeconds: 10,
  maintenance: 'Draining',
  kubeletDelays: true,
};

describe('a shutdown', () => {
  test.each<{ when: string; is: Partial<ShutdownProgress>; want: ShutdownDecision }>([
    { when: 'waits while the node is drained', is: {}, want: { kind: 'Hold' } },
    {
      when: 'continues when the node is drained',
      is: { maintenance: 'Drained' },
      want: { kind: 'Release', cause: 'Drained' },
    },
    {
      when: 'continues when a user completes the maintenance',
      is: { maintenance: 'EndedByUser' },
      want: { kind: 'Release', cause: 'Ended' },
    },
    {
      when: 'waits for logind when the node is drained, because the kubelet cannot be notified',
      is: { maintenance: 'Drained', kubeletDelays: undefined },
      want: { kind: 'Hold' },
    },
    {
      when: 'waits for logind no longer than the limit',
      is: { maintenance: 'Drained', kubeletDelays: undefined, elapsedSeconds: 600 },
      want: { kind: 'Release', cause: 'Limit' },
    },
    {
      when: 'leaves the kubelet its time',
      is: { elapsedSeconds: 570 },
      want: { kind: 'NotifyKubelet', cause: 'Limit' },
    },
    {
      when: 'waits longer if the kubelet needs no time',
      is: { elapsedSeconds: 570, kubeletDelays: false },
      want: { kind: 'Hold' },
    },
    {
      when: 'leaves the kubelet its time if logind does not answer',
      is: { elapsedSeconds: 570, kubeletDelays: undefined },
      want: { kind: 'NotifyKubelet', cause: 'Limit' },
    },
    {
      when: 'continues at the limit',
      is: { elapsedSeconds: 600 },
      want: { kind: 'Release', cause: 'Limit' },
    },
    {
      when: 'is that of the kubelet without an apiserver',
      is: { silentSeconds: 10, maintenance: undefined },
      want: { kind: 'NotifyKubelet', cause: 'NoApiserver' },
    },
    {
      when: 'continues without an apiserver and a kubelet that delays it',
      is: { silentSeconds: 10, kubeletDelays: false },
      want: { kind: 'Release', cause: 'NoApiserver' },
    },
    {
      when: 'is that of the maintenance again when the apiserver is back',
      is: { elapsedSeconds: 20, silentSeconds: 0 },
      want: { kind: 'Hold' },
    },
  ])('$when', ({ is, want }) => {
    expect(decideShutdown({ ...progress, ...is })).toEqual(want);
  });

  const any = fc.record({
    elapsedSeconds: fc.nat(2_000),
    limitSeconds: fc.nat(1_000),
    kubeletSeconds: fc.nat(100),
    silentSeconds: fc.nat(2_000),
    apiserverTimeoutSeconds: fc.nat(100),
    maintenance: fc.constantFrom(
      'Draining',
      'Drained',
      'EndedByUser',
      'Create',
      'Delete',
      'Foreign',
      undefined,
    ),
    kubeletDelays: fc.constantFrom(true, false, undefined),
  }) as fc.Arbitrary<ShutdownProgress>;
  const rank = { Hold: 0, NotifyKubelet: 1, Release: 2 };

  test('never goes back because time passes', () => {
    fc.assert(
      fc.property(any, fc.nat(1_000), (is, seconds) => {
        const later = {
          ...is,
          elapsedSeconds: is.elapsedSeconds + seconds,
          silentSeconds: is.silentSeconds + seconds,
        };
        expect(rank[decideShutdown(later).kind]).toBeGreaterThanOrEqual(rank[decideShutdown(is).kind]);
      }),
    );
  });

  test('ends at the limit, and not before while an apiserver drains the node', () => {
    fc.assert(
      fc.property(any, (is) => {
        const { kind } = decideShutdown(is);
        if (is.elapsedSeconds >= is.limitSeconds) expect(kind).toBe('Release');
        const drains = is.maintenance === 'Draining' && is.silentSeconds < is.apiserverTimeoutSeconds;
        if (drains && is.elapsedSeconds < is.limitSeconds) expect(kind).not.toBe('Release');
      }),
    );
  });
});

describe('the limit of a shutdown', () => {
  test.each([
    { wantedSeconds: undefined, max: 600, want: { limitSeconds: 600 } },
    { wantedSeconds: 300, max: 600, want: { limitSeconds: 300 } },
    {
      wantedSeconds: 900,
      max: 600,
      want: { limitSeconds: 600, problem: expect.stringContaining('set InhibitDelayMaxSec=900 ') },
    },
    {
      wantedSeconds: undefined,
      max: 5,
      want: { limitSeconds: 5, problem: expect.stringContaining('set InhibitDelayMaxSec=31 ') },
    },
    {
      wantedSeconds: 25,
      max: 600,
      want: {
        limitSeconds: 25,
        problem: expect.stringContaining('nothing would be drained: set SHUTDOWN_LIMIT'),
      },
    },
  ])('$wantedSeconds of $max s', ({ wantedSeconds, max, want }) => {
    expect(shutdownLimits({ wantedSeconds, kubeletSeconds: 30 }, max)).toEqual(want);
  });
});
