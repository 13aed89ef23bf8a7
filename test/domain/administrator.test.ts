import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Lease } from '../../api/core.ts';
import {
  administratorHoldOf,
  claimByAdministrator,
  holderOf,
  reasonProblem,
  releaseByAdministrator,
} from '../../domain/administrator.ts';
import { claim } from '../../domain/lease.ts';
import { summaryOf } from '../../domain/leaseSummary.ts';

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

describe('an administrator who wants a node', () => {
  const taken = (leaseTransitions: number, from?: object, acquiredAt = now) => ({
    kind: 'Take',
    from,
    term: {
      holderIdentity: 'kubeadm:jane@laptop: bad disk',
      leaseDurationSeconds: 3_600,
      acquireTime: new Date(acquiredAt),
      renewTime: new Date(now),
      leaseTransitions,
    },
  });
  const ousted = (holder: string) => ({ holder, isOusted: true });
  const ended = (holder: string) => ({ holder, isOusted: false });
  const refused = (holder: string, until?: number) => ({ kind: 'HeldByAnother', holder, until });

  test.each([
    { when: 'it has no Lease', of: undefined, then: taken(0), byForce: taken(0) },
    { when: 'nobody has it', of: lease({}), then: taken(0), byForce: taken(0) },
    {
      when: 'somebody has released it',
      of: lease({ holderIdentity: '', leaseTransitions: 4 }),
      then: taken(5),
      byForce: taken(5),
    },
    {
      when: 'somebody has it',
      of: held('other'),
      then: refused('other', now + 843_000),
      byForce: taken(5, ousted('other')),
    },
    {
      when: 'somebody had it, and it has expired',
      of: held('other', 1_000),
      then: taken(5, ended('other')),
      byForce: taken(5, ended('other')),
    },
    {
      when: 'another administrator has it',
      of: held('kubeadm:bob@desk: mine', 90_000),
      then: refused('kubeadm:bob@desk: mine'),
      byForce: taken(5, ousted('kubeadm:bob@desk: mine')),
    },
    {
      when: 'an administrator who gave no name has it',
      of: lease({ holderIdentity: 'kubeadm' }),
      then: refused('kubeadm'),
      byForce: taken(1, ousted('kubeadm')),
    },
    {
      when: 'somebody else of their name has it, on another host',
      of: held('kubeadm:jane@desk: slow disk', 90_000),
      then: refused('kubeadm:jane@desk: slow disk'),
      byForce: taken(5, ousted('kubeadm:jane@desk: slow disk')),
    },
    {
      when: 'they have it already, for another reason',
      of: held('kubeadm:jane@laptop: slow disk', 90_000),
      then: taken(4, ended('kubeadm:jane@laptop: slow disk'), now - 3_000_000),
      byForce: taken(4, ended('kubeadm:jane@laptop: slow disk'), now - 3_000_000),
    },
    {
      when: 'they have it already, for this reason',
      of: held('kubeadm:jane@laptop: bad disk', 90_000),
      then: taken(4, undefined, now - 3_000_000),
      byForce: taken(4, undefined, now - 3_000_000),
    },
  ])('when $when', ({ of, then, byForce }) => {
    expect(claimByAdministrator(of, jane, { force: false, now })).toEqual(then);
    expect(claimByAdministrator(of, jane, { force: true, now })).toEqual(byForce);
  });

  test('keeps every client away for as long as they like', () => {
    const taking = claimByAdministrator(undefined, jane, { force: false, now });
    const holderIdentity = taking.kind === 'Take' ? taking.term.holderIdentity : '';
    const client = { holder: 'other', leaseDurationSeconds: 900 };
    expect(claim(lease({ holderIdentity }), client, now + 1e12)).toMatchObject({ kind: 'HeldByAnother' });
  });
});

describe('an administrator who releases a node', () => {
  const released = (holder: string) => ({ kind: 'Release', holder });
  const refused = (holder: string, until?: number) => ({ kind: 'HeldByAnother', holder, until });

  test.each([
    { when: 'nobody has it', of: lease({}), then: { kind: 'NotHeld' }, byForce: { kind: 'NotHeld' } },
    {
      when: 'they have it',
      of: janes(),
      then: released('kubeadm:jane@laptop: bad disk'),
      byForce: released('kubeadm:jane@laptop: bad disk'),
    },
    {
      when: 'an administrator who gave no name has it',
      of: lease({ holderIdentity: 'kubeadm' }),
      then: released('kubeadm'),
      byForce: released('kubeadm'),
    },
    {
      when: 'somebody has it by a holder written by hand',
      of: lease({ holderIdentity: 'kubeadm: jane replaces a disk' }),
      then: refused('kubeadm: jane replaces a disk'),
      byForce: released('kubeadm: jane replaces a disk'),
    },
    {
      when: 'somebody else of their name has it, on another host',
      of: lease({ holderIdentity: 'kubeadm:jane@desk: mine' }),
      then: refused('kubeadm:jane@desk: mine'),
      byForce: released('kubeadm:jane@desk: mine'),
    },
    {
      when: 'another administrator has it',
      of: lease({ holderIdentity: 'kubeadm:bob@desk: mine' }),
      then: refused('kubeadm:bob@desk: mine'),
      byForce: released('kubeadm:bob@desk: mine'),
    },
    {
      when: 'a client has it',
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
    expect(releaseByAdministrator(of, jane, { force: false, now })).toEqual(then);
    expect(releaseByAdministrator(of, jane, { force: true, now })).toEqual(byForce);
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
])('$holder tells who holds the node, and why', ({ holder, want }) => {
  expect(administratorHoldOf(holder)).toEqual(want);
  if (want !== undefined) expect(holderOf(want)).toBe(holder);
});

test.each([
  { reason: 'bad disk', want: undefined },
  { reason: ' ', want: 'say why you hold the node (got none)' },
  { reason: 'a\nb', want: 'expected one line of text' },
  { reason: 'x'.repeat(201), want: 'expected at most 200 characters (got 201)' },
])('as a reason "$reason" is answered by: $want', ({ reason, want }) => {
  expect(reasonProblem(reason)).toBe(want);
});

describe('in a list, the Lease of a node', () => {
  test.each([
    { when: 'is missing', of: undefined, want: { state: 'None' } },
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
      want: { state: 'Administrator', holder: 'kubeadm:jane@laptop: bad disk', reason: 'bad disk' },
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
        concern: { reason: 'StoppedRenewing', message: expect.stringContaining('"other" stopped renewing') },
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
        concern: { reason: 'RenewedInTheFuture', message: expect.any(String) },
      },
    },
  ])('$when', ({ of, want }) => {
    expect(summaryOf('node-1', of, now)).toEqual({ node: 'node-1', ...want });
  });

  test('is shown whatever nonsense it holds', () => {
    const text = fc.option(fc.string({ unit: 'binary' }), { nil: undefined });
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
    const shown = fc.property(spec, (any) => {
      const summary = summaryOf('node-1', lease(any as Lease['spec']), now);
      expect(JSON.parse(JSON.stringify(summary))).toEqual(summary);
    });
    fc.assert(shown);
  });
});
