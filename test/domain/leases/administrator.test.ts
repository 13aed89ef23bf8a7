import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Lease } from '../../../api/core.ts';
import {
  administratorHoldOf,
  decideAdministratorAcquisition,
  decideAdministratorRelease,
  holderIdentityOf,
  reasonProblem,
} from '../../../domain/leases/administrator.ts';
import { decideAcquisition } from '../../../domain/leases/lease.ts';
import { summaryOf } from '../../../domain/leases/summary.ts';
import { anyText } from '../../kit/anyText.ts';

const now = Date.parse('2026-01-01T12:00:00Z');
const at = (seconds: number) => new Date(now + seconds * 1_000).toISOString().replace('Z', '000Z');
const lease = (spec: Lease['spec']): Lease => ({ metadata: { name: 'node-1' }, spec });
const jane = { user: 'jane', host: 'laptop', reason: 'bad disk' };
const janes = (reason = 'bad disk') => lease({ holderIdentity: `kubeadm:jane@laptop: ${reason}` });
const held = (holderIdentity: string, renewedSecondsAgo = 60) =>
  lease({
    holderIdentity,
    leaseDurationSeconds: 900,
    acquireTime: at(-3_000),
    renewTime: at(-renewedSecondsAgo),
    leaseTransitions: 4,
  });

describe('an administrator who acquires a node', () => {
  const acquired = (leaseTransitions: number, previous?: object, acquiredAt = now) => ({
    kind: 'Acquire',
    previous,
    term: {
      holderIdentity: 'kubeadm:jane@laptop: bad disk',
      leaseDurationSeconds: 3_600,
      acquireTime: new Date(acquiredAt),
      renewTime: new Date(now),
      leaseTransitions,
    },
  });
  const forced = (holder: string) => ({ holder, isForced: true });
  const ended = (holder: string) => ({ holder, isForced: false });
  const refused = (holder: string, until?: number) => ({ kind: 'HeldByAnother', holder, until });

  test.each([
    { when: 'it has no Lease', of: undefined, then: acquired(0), byForce: acquired(0) },
    { when: 'it has no holder', of: lease({}), then: acquired(0), byForce: acquired(0) },
    {
      when: 'a client has released it',
      of: lease({ holderIdentity: '', leaseTransitions: 4 }),
      then: acquired(5),
      byForce: acquired(5),
    },
    {
      when: 'a client holds it',
      of: held('other'),
      then: refused('other', now + 843_000),
      byForce: acquired(5, forced('other')),
    },
    {
      when: 'a client held it, and it has expired',
      of: held('other', 1_000),
      then: acquired(5, ended('other')),
      byForce: acquired(5, ended('other')),
    },
    {
      when: 'another administrator holds it',
      of: held('kubeadm:bob@desk: mine', 90_000),
      then: refused('kubeadm:bob@desk: mine'),
      byForce: acquired(5, forced('kubeadm:bob@desk: mine')),
    },
    {
      when: 'an administrator without a user name holds it',
      of: lease({ holderIdentity: 'kubeadm' }),
      then: refused('kubeadm'),
      byForce: acquired(1, forced('kubeadm')),
    },
    {
      when: 'an administrator of the same name on another host holds it',
      of: held('kubeadm:jane@desk: slow disk', 90_000),
      then: refused('kubeadm:jane@desk: slow disk'),
      byForce: acquired(5, forced('kubeadm:jane@desk: slow disk')),
    },
    {
      when: 'they hold it already, for another reason',
      of: held('kubeadm:jane@laptop: slow disk', 90_000),
      then: acquired(4, ended('kubeadm:jane@laptop: slow disk'), now - 3_000_000),
      byForce: acquired(4, ended('kubeadm:jane@laptop: slow disk'), now - 3_000_000),
    },
    {
      when: 'they hold it already, for the same reason',
      of: held('kubeadm:jane@laptop: bad disk', 90_000),
      then: acquired(4, undefined, now - 3_000_000),
      byForce: acquired(4, undefined, now - 3_000_000),
    },
  ])('when $when', ({ of, then, byForce }) => {
    expect(decideAdministratorAcquisition(of, jane, { force: false, now })).toEqual(then);
    expect(decideAdministratorAcquisition(of, jane, { force: true, now })).toEqual(byForce);
  });

  test('blocks all clients without an expiry', () => {
    const acquisition = decideAdministratorAcquisition(undefined, jane, { force: false, now });
    const holderIdentity = acquisition.kind === 'Acquire' ? acquisition.term.holderIdentity : '';
    const client = { holder: 'other', leaseDurationSeconds: 900 };
    expect(decideAcquisition(lease({ holderIdentity }), client, now + 1e12)).toMatchObject({
      kind: 'HeldByAnother',
    });
  });
});

describe('an administrator who releases a node', () => {
  const released = (holder: string) => ({ kind: 'Release', holder });
  const refused = (holder: string, until?: number) => ({ kind: 'HeldByAnother', holder, until });

  test.each([
    { when: 'it has no holder', of: lease({}), then: { kind: 'NotHeld' }, byForce: { kind: 'NotHeld' } },
    {
      when: 'they hold it',
      of: janes(),
      then: released('kubeadm:jane@laptop: bad disk'),
      byForce: released('kubeadm:jane@laptop: bad disk'),
    },
    {
      when: 'an administrator without a user name holds it',
      of: lease({ holderIdentity: 'kubeadm' }),
      then: released('kubeadm'),
      byForce: released('kubeadm'),
    },
    {
      when: 'a user set another kubeadm holder',
      of: lease({ holderIdentity: 'kubeadm: jane replaces a disk' }),
      then: refused('kubeadm: jane replaces a disk'),
      byForce: released('kubeadm: jane replaces a disk'),
    },
    {
      when: 'an administrator of the same name on another host holds it',
      of: lease({ holderIdentity: 'kubeadm:jane@desk: mine' }),
      then: refused('kubeadm:jane@desk: mine'),
      byForce: released('kubeadm:jane@desk: mine'),
    },
    {
      when: 'another administrator holds it',
      of: lease({ holderIdentity: 'kubeadm:bob@desk: mine' }),
      then: refused('kubeadm:bob@desk: mine'),
      byForce: released('kubeadm:bob@desk: mine'),
    },
    {
      when: 'a client holds it',
      of: held('other'),
      then: refused('other', now + 843_000),
      byForce: released('other'),
    },
    {
      when: 'a client has abandoned it',
      of: held('other', 1_000),
      then: released('other'),
      byForce: released('other'),
    },
  ])('when $when', ({ of, then, byForce }) => {
    expect(decideAdministratorRelease(of, jane, { force: false, now })).toEqual(then);
    expect(decideAdministratorRelease(of, jane, { force: true, now })).toEqual(byForce);
  });
});

test.each([
  { holder: 'kubeadm:jane@laptop: bad disk', want: jane },
  {
    holder: 'kubeadm:jane@example.com@laptop: see bob@desk: now',
    want: { user: 'jane@example.com', host: 'laptop', reason: 'see bob@desk: now' },
  },
  {
    holder: 'kubeadm:system:serviceaccount:a:b@pod-1: x',
    want: { user: 'system:serviceaccount:a:b', host: 'pod-1', reason: 'x' },
  },
  { holder: 'kubeadm', want: undefined },
  { holder: 'kubeadm: jane', want: undefined },
  { holder: 'jane@laptop: bad disk', want: undefined },
])('the holder identity $holder is parsed', ({ holder, want }) => {
  expect(administratorHoldOf(holder)).toEqual(want);
  if (want !== undefined) expect(holderIdentityOf(want)).toBe(holder);
});

test.each([
  { reason: 'bad disk', want: undefined },
  { reason: ' ', want: 'required; describe why you hold the node' },
  { reason: 'a\nb', want: 'expected one line of text' },
  { reason: 'x'.repeat(200), want: undefined },
  { reason: 'x'.repeat(201), want: 'expected at most 200 characters (got 201)' },
])('the problem of the reason "$reason" is: $want', ({ reason, want }) => {
  expect(reasonProblem(reason)).toBe(want);
});

describe('the summary of a Lease', () => {
  test.each([
    { when: 'is missing', of: undefined, want: { state: 'Missing' } },
    { when: 'is empty', of: lease({}), want: { state: 'Free' } },
    {
      when: 'is held',
      of: held('other'),
      want: {
        state: 'Held',
        holder: 'other',
        acquireTime: at(-3_000),
        renewTime: at(-60),
        expireTime: '2026-01-01T12:14:03.000Z',
        leaseDurationSeconds: 900,
        leaseTransitions: 4,
      },
    },
    {
      when: 'is held by an administrator',
      of: janes('bad disk'),
      want: { state: 'HeldByAdministrator', holder: 'kubeadm:jane@laptop: bad disk', reason: 'bad disk' },
    },
    {
      when: 'is abandoned',
      of: lease({ holderIdentity: 'other', leaseDurationSeconds: 60, renewTime: at(-600) }),
      want: {
        state: 'Abandoned',
        holder: 'other',
        renewTime: at(-600),
        expireTime: '2026-01-01T11:51:03.000Z',
        leaseDurationSeconds: 60,
        problem: { reason: 'StoppedRenewing', message: expect.stringContaining('"other" stopped renewing') },
      },
    },
    {
      when: 'was renewed by a clock that is ahead',
      of: lease({ holderIdentity: 'other', leaseDurationSeconds: 60, renewTime: at(600) }),
      want: {
        state: 'Held',
        holder: 'other',
        renewTime: at(600),
        expireTime: '2026-01-01T12:11:03.000Z',
        leaseDurationSeconds: 60,
        problem: { reason: 'RenewedInTheFuture', message: expect.any(String) },
      },
    },
  ])('that $when', ({ of, want }) => {
    expect(summaryOf('node-1', of, now)).toEqual({ node: 'node-1', ...want });
  });

  test('is valid JSON for any Lease', () => {
    const text = fc.option(anyText(), { nil: undefined });
    const spec = fc.record(
      {
        holderIdentity: text,
        acquireTime: text,
        renewTime: fc.oneof(text, fc.constant('9999-12-31T23:59:59.999999Z')),
        leaseDurationSeconds: fc.option(fc.integer(), { nil: undefined }),
        leaseTransitions: fc.option(fc.integer(), { nil: undefined }),
      },
      { requiredKeys: [] },
    );
    const isSerializable = fc.property(spec, (any) => {
      const summary = summaryOf('node-1', lease(any as Lease['spec']), now);
      expect(JSON.parse(JSON.stringify(summary))).toEqual(summary);
    });
    fc.assert(isSerializable);
  });
});
