import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Lease } from '../../../api/core.ts';
import { leaseStateOf } from '../../../domain/leases/lease.ts';
import { leaseProblemChangesAt, leaseProblemOf } from '../../../domain/leases/abandoned.ts';
import { anyText } from '../../kit/anyText.ts';

const now = Date.parse('2026-01-01T12:00:00Z');
const minute = 60_000;
const hour = 60 * minute;
const at = (ms: number) => new Date(now + ms).toISOString().replace('Z', '000Z');
const lease = (spec: Lease['spec']): Lease => ({ metadata: { name: 'node-1' }, spec });

/** Acquired two hours ago. */
const renewed = (renewTime: number, leaseDurationSeconds: number, holderIdentity = 'snapshots') =>
  lease({
    holderIdentity,
    leaseDurationSeconds,
    acquireTime: at(-2 * hour),
    renewTime: at(renewTime),
    leaseTransitions: 1,
  });

describe('"Definitive monitoring and alerting boundaries of abandoned leases" (KEP-1411 > Risks and Mitigations)', () => {
  test.each([
    { when: 'it is missing', of: undefined },
    { when: 'it is empty', of: lease({}) },
    { when: 'it is held and renewed', of: renewed(-5 * minute, 900) },
    {
      when: 'its duration exceeds an hour, and it was renewed within one',
      of: renewed(-59 * minute, 86_400),
    },
    { when: 'it expired within the clock drift', of: renewed(-62_000, 60) },
    { when: 'it was renewed by a clock that is ahead within the drift', of: renewed(3_000, 900) },
    { when: 'it was released by a duration of zero', of: renewed(-hour, 0) },
    { when: 'it was released by removing the holder', of: renewed(-hour, 900, '') },
    { when: 'an administrator holds it without renewTime', of: lease({ holderIdentity: 'kubeadm: jane' }) },
    { when: 'an administrator has held it for a long time', of: renewed(-1_000 * hour, 1, 'kubeadm') },
  ])('no problem when $when', ({ of }) => {
    expect(leaseProblemOf(of, now)).toBeUndefined();
  });

  test.each([
    {
      when: 'it expired without a release',
      of: renewed(-20 * minute, 900),
      reason: 'StoppedRenewing',
      since: -5 * minute + 3_000,
      text: '"snapshots" stopped renewing the maintenance Lease and did not release it; it expired at 2026-01-01T11:55:03.000Z',
    },
    {
      when: 'it has not expired, and was not renewed for more than an hour',
      of: renewed(-hour - 1, 86_400),
      reason: 'NotRenewedForAnHour',
      since: -1,
      text: 'renewed the maintenance Lease at 2026-01-01T10:59:59.999Z and has not renewed it for more than an hour. The node is blocked until 2026-01-02T11:00:02.999Z',
    },
    {
      when: 'a user set only the holder',
      of: lease({ holderIdentity: 'jane' }),
      reason: 'NeverRenewed',
      since: undefined,
      text: 'the Lease does not block the node. Administrators must start the holder with "kubeadm"',
    },
    {
      when: 'the holder set a duration, but no renewTime',
      of: lease({ holderIdentity: 'jane', leaseDurationSeconds: 900, acquireTime: at(-minute) }),
      reason: 'NeverRenewed',
      since: -minute,
      text: '"jane" is the holder',
    },
    {
      when: 'renewTime is invalid',
      of: lease({ holderIdentity: 'jane', leaseDurationSeconds: 900, renewTime: 'yesterday' }),
      reason: 'NeverRenewed',
      since: undefined,
      text: '"jane" is the holder',
    },
    {
      when: 'it was renewed by a clock that is ahead',
      of: renewed(3_001, 900),
      reason: 'RenewedInTheFuture',
      since: -2 * hour,
      text: 'correct the clock of its host. The node is blocked until 2026-01-01T12:15:06.001Z',
    },
    {
      when: 'it was released by a clock that is ahead, and blocks the node',
      of: renewed(hour, 0),
      reason: 'RenewedInTheFuture',
      since: -2 * hour,
      text: 'The node is blocked until 2026-01-01T13:00:03.000Z',
    },
    {
      when: 'it was renewed in the year 9999',
      of: lease({
        holderIdentity: '../..',
        leaseDurationSeconds: 2_147_483_647,
        renewTime: '9999-12-31T23:59:59.999999Z',
      }),
      reason: 'RenewedInTheFuture',
      since: undefined,
      text: '"../.." renewed the maintenance Lease at 9999-12-31T23:59:59.999Z',
    },
  ])('$reason when $when', ({ of, reason, since, text }) => {
    const problem = leaseProblemOf(of, now);
    expect(problem).toMatchObject({ reason, since: since === undefined ? undefined : now + since });
    expect(problem?.message).toContain(text);
  });

  test('the holder stays on one line, and is truncated', () => {
    const problem = leaseProblemOf(lease({ holderIdentity: `a\nb${'x'.repeat(1_000)}` }), now);
    expect(problem?.holder).toHaveLength(253);
    expect(problem?.message).toMatch(/^"a bxxx/);
  });
});

const holder = fc.oneof(anyText(), fc.constantFrom('', 'jane', 'kubeadm', 'kubeadm-jane'));
const time = fc.oneof(
  anyText(),
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
  fc.integer({ min: -2 * hour, max: 2 * hour }).map(at),
);
const number = fc.oneof(fc.double(), fc.integer(), fc.integer({ min: 0, max: 7_200 }));
const anySpec: fc.Arbitrary<Lease['spec']> = fc.record(
  {
    holderIdentity: holder,
    leaseDurationSeconds: number,
    acquireTime: time,
    renewTime: time,
    leaseTransitions: number,
  },
  { requiredKeys: [] },
);

describe('for any Lease', () => {
  test('there is a result, and no problem for an administrator or without a holder', () => {
    fc.assert(
      fc.property(anySpec, (spec) => {
        const problem = leaseProblemOf(lease(spec), now);
        const { holderIdentity = '' } = spec;
        if (holderIdentity === '' || holderIdentity.startsWith('kubeadm')) expect(problem).toBeUndefined();
        if (leaseStateOf(lease(spec), now).kind === 'Expired' && holderIdentity !== '')
          expect(problem).toBeDefined();
        expect(problem?.message ?? '').not.toMatch(/[\n\r]/);
      }),
      { numRuns: 2_000 },
    );
  });

  test('the problem changes only at the returned time', () => {
    fc.assert(
      fc.property(anySpec, fc.integer({ min: 1, max: 3 * hour }), (spec, laterMs) => {
        const due = leaseProblemChangesAt(lease(spec), now);
        if (due !== undefined) expect(due).toBeGreaterThan(now);
        if (due !== undefined && now + laterMs >= due) return;
        expect(leaseProblemOf(lease(spec), now + laterMs)?.reason).toBe(
          leaseProblemOf(lease(spec), now)?.reason,
        );
      }),
      { numRuns: 2_000 },
    );
  });
});
