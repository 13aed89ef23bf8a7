import type { Lease } from '../../api/core.ts';
import {
  type LeaseSpec,
  nextLeaseAction,
  type Observation,
  observe,
  releasedSpec,
} from '../../kube/leaseRecord.ts';

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

describe('a candidate that reads', () => {
  const taken = { holderIdentity: 'me', leaseDurationSeconds: 10, acquireTime: time, renewTime: time };
  test.each([
    {
      lease: 'no Lease',
      nowMs: 0,
      does: 'creates it',
      current: undefined,
      action: { kind: 'Write', spec: { ...taken, leaseTransitions: 0 } },
    },
    {
      lease: 'its own Lease',
      nowMs: 5_000,
      does: 'renews it',
      current: held('me'),
      action: { kind: 'Write', spec: { ...taken, acquireTime: before, leaseTransitions: 4 } },
    },
    {
      lease: 'its own Lease, long expired',
      nowMs: 99_000,
      does: 'renews it',
      current: held('me'),
      action: { kind: 'Write', spec: { ...taken, acquireTime: before, leaseTransitions: 4 } },
    },
    {
      lease: 'a Lease that changed 4 s ago',
      nowMs: 5_000,
      does: 'waits for the remainder of its 10 s',
      current: held('other'),
      action: { kind: 'Wait', holder: 'other', silentForMs: 4_000, forMs: 6_000 },
    },
    {
      lease: 'a Lease that did not change for 10 s',
      nowMs: 11_000,
      does: 'acquires it',
      current: held('other'),
      action: { kind: 'Write', spec: { ...taken, leaseTransitions: 5 } },
    },
    {
      lease: 'a Lease of a holder with a longer duration',
      nowMs: 11_000,
      does: 'waits for the lease duration of the holder',
      current: held('other', { leaseDurationSeconds: 30 }),
      action: { kind: 'Wait', holder: 'other', silentForMs: 10_000, forMs: 20_000 },
    },
    {
      lease: 'a released Lease',
      nowMs: 1_000,
      does: 'acquires it immediately',
      current: held('', { leaseDurationSeconds: 1 }),
      action: { kind: 'Write', spec: { ...taken, leaseTransitions: 5 } },
    },
  ])('$lease $does', ({ current, nowMs, action }) => {
    expect(nextLeaseAction(current, me, { now, nowMs })).toEqual(action);
  });
});

describe('an observed Lease', () => {
  const lease = (resourceVersion: string): Lease => ({
    metadata: { name: 'l', resourceVersion },
    spec: { renewTime: '2099-01-01T00:00:00.000000Z' },
  });

  test('ages from the time of its last observed change, independent of its timestamps', () => {
    const first = observe(undefined, lease('1'), 100);
    expect(observe(first, lease('1'), 900).changedAtMs).toBe(100);
    expect(observe(first, lease('2'), 900).changedAtMs).toBe(900);
  });
});

test('a released Lease has no holder and keeps its leaseTransitions', () => {
  expect(releasedSpec(held('me').spec, now)).toEqual({
    holderIdentity: '',
    leaseDurationSeconds: 1,
    acquireTime: time,
    renewTime: time,
    leaseTransitions: 4,
  });
});
