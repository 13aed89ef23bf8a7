import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Lease } from '../../api/core.ts';
import { leaseStateOf } from '../../domain/lease.ts';
import { concernChangesAt, concernOf } from '../../domain/leaseConcern.ts';

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
    { when: 'it is longer than an hour, and renewed within one', of: renewed(-59 * minute, 86_400) },
    { when: 'its time ran out within the clock drift', of: renewed(-62_000, 60) },
    { when: 'it was renewed by a clock that is ahead within the drift', of: renewed(3_000, 900) },
    { when: 'it was released by a duration of zero', of: renewed(-hour, 0) },
    { when: 'it was released by taking the holder away', of: renewed(-hour, 900, '') },
    { when: 'an administrator holds it without a time', of: lease({ holderIdentity: 'kubeadm: jane' }) },
    { when: 'an administrator holds it since long', of: renewed(-1_000 * hour, 1, 'kubeadm') },
  ])('no concern when $when', ({ of }) => {
    expect(concernOf(of, now)).toBeUndefined();
  });

  test.each([
    {
      when: 'its time ran out without a release',
      of: renewed(-20 * minute, 900),
      reason: 'StoppedRenewing',
      since: -5 * minute + 3_000,
      says: '"snapshots" stopped renewing the maintenance Lease and did not release it; it expired at 2026-01-01T11:55:03.000Z',
    },
    {
      when: 'it has time, and was not renewed for longer than an hour',
      of: renewed(-hour - 1, 86_400),
      reason: 'NotRenewedForAnHour',
      since: -1,
      says: 'renewed the maintenance Lease at 2026-01-01T10:59:59.999Z and not again within an hour. The node is blocked until 2026-01-02T11:00:02.999Z',
    },
    {
      when: 'a person named a holder, and nothing else',
      of: lease({ holderIdentity: 'jane' }),
      reason: 'NeverRenewed',
      since: undefined,
      says: 'it keeps nobody off the node. People begin the holder with "kubeadm"',
    },
    {
      when: 'the holder says how long, and not since when',
      of: lease({ holderIdentity: 'jane', leaseDurationSeconds: 900, acquireTime: at(-minute) }),
      reason: 'NeverRenewed',
      since: -minute,
      says: '"jane" is the holder',
    },
    {
      when: 'the holder renewed it at no time at all',
      of: lease({ holderIdentity: 'jane', leaseDurationSeconds: 900, renewTime: 'yesterday' }),
      reason: 'NeverRenewed',
      since: undefined,
      says: '"jane" is the holder',
    },
    {
      when: 'it was renewed by a clock that is ahead',
      of: renewed(3_001, 900),
      reason: 'RenewedInTheFuture',
      since: -2 * hour,
      says: 'set the clock of its host right. The node is blocked until 2026-01-01T12:15:06.001Z',
    },
    {
      when: 'it was released by a clock that is ahead, so that it blocks the node nevertheless',
      of: renewed(hour, 0),
      reason: 'RenewedInTheFuture',
      since: -2 * hour,
      says: 'The node is blocked until 2026-01-01T13:00:03.000Z',
    },
    {
      when: 'it was renewed in the last year that a Lease can have',
      of: lease({
        holderIdentity: '../..',
        leaseDurationSeconds: 2_147_483_647,
        renewTime: '9999-12-31T23:59:59.999999Z',
      }),
      reason: 'RenewedInTheFuture',
      since: undefined,
      says: '"../.." renewed the maintenance Lease at 9999-12-31T23:59:59.999Z',
    },
  ])('$reason when $when', ({ of, reason, since, says }) => {
    const concern = concernOf(of, now);
    expect(concern).toMatchObject({ reason, since: since === undefined ? undefined : now + since });
    expect(concern?.message).toContain(says);
  });

  test('the holder stays on one line, and is cut where it has no end', () => {
    const concern = concernOf(lease({ holderIdentity: `a\nb${'x'.repeat(1_000)}` }), now);
    expect(concern?.holder).toHaveLength(253);
    expect(concern?.message).toMatch(/^"a\\nbxxx/);
  });
});

const text = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('', 'jane', 'kubeadm', 'kubeadm-jane'));
const time = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
  fc.integer({ min: -2 * hour, max: 2 * hour }).map(at),
);
const number = fc.oneof(fc.double(), fc.integer(), fc.integer({ min: 0, max: 7_200 }));
const anySpec: fc.Arbitrary<Lease['spec']> = fc.record(
  {
    holderIdentity: text,
    leaseDurationSeconds: number,
    acquireTime: time,
    renewTime: time,
    leaseTransitions: number,
  },
  { requiredKeys: [] },
);

describe('whatever a Lease says', () => {
  test('it is judged, and an administrator or nobody is no concern', () => {
    fc.assert(
      fc.property(anySpec, (spec) => {
        const concern = concernOf(lease(spec), now);
        const { holderIdentity = '' } = spec;
        if (holderIdentity === '' || holderIdentity.startsWith('kubeadm')) expect(concern).toBeUndefined();
        if (leaseStateOf(lease(spec), now).kind === 'Expired' && holderIdentity !== '')
          expect(concern).toBeDefined();
        expect(concern?.message ?? '').not.toMatch(/[\n\r]/);
      }),
      { numRuns: 2_000 },
    );
  });

  test('the concern changes at no other time than the one that is told', () => {
    fc.assert(
      fc.property(anySpec, fc.integer({ min: 1, max: 3 * hour }), (spec, later) => {
        const due = concernChangesAt(lease(spec), now);
        if (due !== undefined) expect(due).toBeGreaterThan(now);
        if (due !== undefined && now + later >= due) return;
        expect(concernOf(lease(spec), now + later)?.reason).toBe(concernOf(lease(spec), now)?.reason);
      }),
      { numRuns: 2_000 },
    );
  });
});
