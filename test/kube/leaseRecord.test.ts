import type { Lease } from '../../api/core.ts';
import { type LeaseSpec, nextMove, type Observation, observe, released } from '../../kube/leaseRecord.ts';

const me = { identity: 'me', leaseDurationSeconds: 10 };
const now = new Date('2026-01-02T03:04:05.678Z');
const time = '2026-01-02T03:04:05.678000Z';
const before = '2026-01-01T00:00:00.000000Z';
const held = (holderIdentity: string, differs: Partial<LeaseSpec> = {}): Observation => ({
  spec: {
    holderIdentity,
    leaseDurationSeconds: 10,
    acquireTime: before,
    renewTime: before,
    leaseTransitions: 4,
    ...differs,
  },
  resourceVersion: '7',
  changedAtMs: 1_000,
});

describe('a candidate that sees', () => {
  const taken = { holderIdentity: 'me', leaseDurationSeconds: 10, acquireTime: time, renewTime: time };
  test.each([
    {
      lease: 'no Lease',
      nowMs: 0,
      does: 'creates it',
      seen: undefined,
      move: { kind: 'Write', spec: { ...taken, leaseTransitions: 0 } },
    },
    {
      lease: 'its own Lease',
      nowMs: 5_000,
      does: 'renews it',
      seen: held('me'),
      move: { kind: 'Write', spec: { ...taken, acquireTime: before, leaseTransitions: 4 } },
    },
    {
      lease: 'its own Lease, long expired',
      nowMs: 99_000,
      does: 'renews it',
      seen: held('me'),
      move: { kind: 'Write', spec: { ...taken, acquireTime: before, leaseTransitions: 4 } },
    },
    {
      lease: 'a Lease that changed 4 s ago',
      nowMs: 5_000,
      does: 'waits the rest of its 10 s',
      seen: held('other'),
      move: { kind: 'Wait', holder: 'other', silentForMs: 4_000, forMs: 6_000 },
    },
    {
      lease: 'a Lease that did not change for 10 s',
      nowMs: 11_000,
      does: 'takes it',
      seen: held('other'),
      move: { kind: 'Write', spec: { ...taken, leaseTransitions: 5 } },
    },
    {
      lease: 'a Lease of a holder with a longer duration',
      nowMs: 11_000,
      does: 'waits as long as the holder said',
      seen: held('other', { leaseDurationSeconds: 30 }),
      move: { kind: 'Wait', holder: 'other', silentForMs: 10_000, forMs: 20_000 },
    },
    {
      lease: 'a Lease that was given back',
      nowMs: 1_000,
      does: 'takes it at once',
      seen: held('', { leaseDurationSeconds: 1 }),
      move: { kind: 'Write', spec: { ...taken, leaseTransitions: 5 } },
    },
  ])('$lease $does', ({ seen, nowMs, move }) => {
    expect(nextMove(seen, me, { now, nowMs })).toEqual(move);
  });
});

describe('an observed Lease', () => {
  const lease = (resourceVersion: string): Lease => ({
    metadata: { name: 'l', resourceVersion },
    spec: { renewTime: '2099-01-01T00:00:00.000000Z' },
  });

  test('ages from the moment that we saw it change, whatever its holder wrote', () => {
    const first = observe(undefined, lease('1'), 100);
    expect(observe(first, lease('1'), 900).changedAtMs).toBe(100);
    expect(observe(first, lease('2'), 900).changedAtMs).toBe(900);
  });
});

test('a Lease that is given back has no holder and keeps its count of transitions', () => {
  expect(released(held('me').spec, now)).toEqual({
    holderIdentity: '',
    leaseDurationSeconds: 1,
    acquireTime: time,
    renewTime: time,
    leaseTransitions: 4,
  });
});
