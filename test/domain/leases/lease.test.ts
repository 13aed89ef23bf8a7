import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Lease } from '../../../api/core.ts';
import {
  decideAcquisition,
  isHeldBy,
  isReleasable,
  isRenewalDue,
  leaseClientProblem,
  leaseStateOf,
} from '../../../domain/leases/lease.ts';

const now = Date.parse('2026-01-01T12:00:00Z');
const at = (seconds: number) => new Date(now + seconds * 1_000).toISOString().replace('Z', '000Z');
const ms = (seconds: number) => now + seconds * 1_000;
const lease = (spec: Lease['spec']): Lease => ({ metadata: { name: 'node-1' }, spec });
const us = { holder: 'us', leaseDurationSeconds: 900 };

const held = (holderIdentity: string, renewedSecondsAgo: number, leaseDurationSeconds = 900) =>
  lease({
    holderIdentity,
    leaseDurationSeconds,
    acquireTime: at(-renewedSecondsAgo - 60),
    renewTime: at(-renewedSecondsAgo),
    leaseTransitions: 4,
  });

describe('"A client must check for current lease expiry" (KEP-1411 > Acquisition)', () => {
  const another = (until: number | undefined, holder = 'other') => ({
    kind: 'HeldByAnother',
    holder,
    until,
  });
  const acquired = (leaseTransitions: number) => ({
    kind: 'Acquire',
    term: {
      holderIdentity: 'us',
      leaseDurationSeconds: 900,
      acquireTime: new Date(now),
      renewTime: new Date(now),
      leaseTransitions,
    },
  });
  const renewed = (acquireTime: number) => ({
    kind: 'Renew',
    term: { ...acquired(4).term, acquireTime: new Date(acquireTime) },
  });

  test.each([
    { when: 'missing', of: undefined, state: { kind: 'Missing' }, ours: false, then: acquired(0) },
    { when: 'empty', of: lease({}), state: { kind: 'Free' }, ours: false, then: acquired(0) },
    {
      when: 'ours',
      of: held('us', 300),
      state: { kind: 'Held', holder: 'us', until: ms(603) },
      ours: true,
      then: renewed(ms(-360)),
    },
    {
      when: 'ours, expired within the clock drift',
      of: held('us', 901),
      state: { kind: 'Held', holder: 'us', until: ms(2) },
      ours: false,
      then: acquired(4),
    },
    {
      when: 'ours, expired',
      of: held('us', 1_000),
      state: { kind: 'Expired', holder: 'us', at: ms(-97) },
      ours: false,
      then: acquired(4),
    },
    {
      when: 'foreign',
      of: held('other', 300),
      state: { kind: 'Held', holder: 'other', until: ms(603) },
      ours: false,
      then: another(ms(603)),
    },
    {
      when: 'foreign, at the end of the clock drift',
      of: held('other', 903),
      state: { kind: 'Held', holder: 'other', until: now },
      ours: false,
      then: another(now),
    },
    {
      when: 'foreign, expired',
      of: held('other', 904),
      state: { kind: 'Expired', holder: 'other', at: ms(-1) },
      ours: false,
      then: acquired(5),
    },
    {
      when: 'of an administrator, with nothing but a holder',
      of: lease({ holderIdentity: 'kubeadm: disk fails, ask jane' }),
      state: { kind: 'HeldByAdministrator', holder: 'kubeadm: disk fails, ask jane' },
      ours: false,
      then: another(undefined, 'kubeadm: disk fails, ask jane'),
    },
    {
      when: 'of an administrator, not renewed for a long time',
      of: held('kubeadm-jane', 1_000_000),
      state: { kind: 'HeldByAdministrator', holder: 'kubeadm-jane' },
      ours: false,
      then: another(undefined, 'kubeadm-jane'),
    },
    {
      when: 'released by a duration of zero',
      of: held('other', 4, 0),
      state: { kind: 'Free' },
      ours: false,
      then: acquired(5),
    },
    {
      when: 'released by a duration of zero, within the clock drift',
      of: held('other', 2, 0),
      state: { kind: 'Held', holder: 'other', until: ms(1) },
      ours: false,
      then: another(ms(1)),
    },
    {
      when: 'released by removing the duration',
      of: lease({ holderIdentity: 'other', renewTime: at(-10), leaseTransitions: 4 }),
      state: { kind: 'Free' },
      ours: false,
      then: acquired(5),
    },
    {
      when: 'released by removing the holder',
      of: lease({ holderIdentity: '', renewTime: at(-1), leaseTransitions: 4 }),
      state: { kind: 'Free' },
      ours: false,
      then: acquired(5),
    },
    {
      when: 'foreign, without renewTime',
      of: lease({ holderIdentity: 'other', leaseDurationSeconds: 900 }),
      state: { kind: 'Expired', holder: 'other', at: undefined },
      ours: false,
      then: acquired(1),
    },
    {
      when: 'foreign, with an invalid renewTime',
      of: lease({ holderIdentity: 'other', leaseDurationSeconds: 900, renewTime: 'yesterday' }),
      state: { kind: 'Expired', holder: 'other', at: undefined },
      ours: false,
      then: acquired(1),
    },
    {
      when: 'foreign, renewed by a clock that is ahead',
      of: held('other', -60),
      state: { kind: 'Held', holder: 'other', until: ms(963) },
      ours: false,
      then: another(ms(963)),
    },
    {
      when: 'ours, renewed by a clock that is ahead',
      of: held('us', -60),
      state: { kind: 'Held', holder: 'us', until: ms(963) },
      ours: true,
      then: renewed(now),
    },
    {
      when: 'ours, without acquireTime',
      of: lease({ holderIdentity: 'us', leaseDurationSeconds: 900, renewTime: at(-1) }),
      state: { kind: 'Held', holder: 'us', until: ms(902) },
      ours: true,
      then: acquired(0),
    },
  ])('$when', ({ of, state, ours, then }) => {
    expect(leaseStateOf(of, now)).toEqual(state);
    expect(isHeldBy(of, 'us', now)).toBe(ours);
    expect(decideAcquisition(of, us, now)).toEqual(then);
  });

  test.each([
    { of: held('us', 449), due: false },
    { of: held('us', 450), due: true },
    { of: held('us', 899), due: true },
    { of: held('us', 900), due: false },
    { of: held('other', 500), due: false },
    { of: undefined, due: false },
  ])('its holder renews it in the second half of its duration: $due', ({ of, due }) => {
    expect(isRenewalDue(of, 'us', now)).toBe(due);
  });

  test('a Lease can be released if and only if it still has our holder', () => {
    expect(isReleasable(held('us', 300), 'us')).toBe(true);
    expect(isReleasable(held('us', 5_000), 'us')).toBe(true);
    expect(isReleasable(held('other', 5_000), 'us')).toBe(false);
    expect(isReleasable(undefined, 'us')).toBe(false);
    expect(isReleasable(lease({}), '')).toBe(false);
  });

  test.each([
    { of: us, problem: undefined },
    { of: { ...us, holder: ' ' }, problem: 'holder: required' },
    { of: { ...us, holder: 'x'.repeat(254) }, problem: 'holder: expected at most 253 characters (got 254)' },
    { of: { ...us, holder: 'kubeadm-jane' }, problem: 'reserves for administrators' },
    { of: { ...us, leaseDurationSeconds: 0 }, problem: 'from 1 to 3600 (got 0)' },
    { of: { ...us, leaseDurationSeconds: 3_601 }, problem: 'from 1 to 3600 (got 3601)' },
    { of: { ...us, leaseDurationSeconds: 1.5 }, problem: 'from 1 to 3600 (got 1.5)' },
    { of: { ...us, leaseDurationSeconds: Number.NaN }, problem: 'from 1 to 3600 (got NaN)' },
  ])('a client: $problem', ({ of, problem }) => {
    if (problem === undefined) expect(leaseClientProblem(of)).toBeUndefined();
    else expect(leaseClientProblem(of)).toContain(problem);
  });
});

/** A client whose clock differs from the true time, and the Lease that it believes to hold. */
class SimulatedClient {
  readonly client: { holder: string; leaseDurationSeconds: number };
  readonly #skew: number;
  #read: { version: number; lease: Lease | undefined; at: number } | undefined;
  #believed: Lease | undefined;

  constructor(holder: string, leaseDurationSeconds: number, skew: number) {
    this.client = { holder, leaseDurationSeconds };
    this.#skew = skew;
  }

  believes(trueTime: number): boolean {
    return isHeldBy(this.#believed, this.client.holder, trueTime + this.#skew);
  }

  read(store: Store, trueTime: number): void {
    this.#read = { version: store.version, lease: store.lease, at: trueTime + this.#skew };
  }

  /** Decides with the time of its read, and writes at any later time. */
  write(store: Store): void {
    if (this.#read === undefined) return;
    const decision = decideAcquisition(this.#read.lease, this.client, this.#read.at);
    if (decision.kind === 'HeldByAnother') return;
    const { acquireTime, renewTime, ...term } = decision.term;
    const next = lease({
      ...term,
      acquireTime: acquireTime.toISOString(),
      renewTime: renewTime.toISOString(),
    });
    if (store.replace(this.#read.version, next)) this.#believed = next;
    this.#read = undefined;
  }

  /** Stops acting before the release. */
  release(store: Store): void {
    this.#believed = undefined;
    this.#read = undefined;
    if (isReleasable(store.lease, this.client.holder))
      store.replace(store.version, lease({ ...store.lease?.spec, holderIdentity: '' }));
  }
}

class Store {
  version = 0;
  lease: Lease | undefined;

  replace(version: number, next: Lease): boolean {
    if (version !== this.version) return false;
    this.version += 1;
    this.lease = next;
    return true;
  }
}

const step = fc.record({
  client: fc.nat(2),
  act: fc.constantFrom('read', 'write', 'release', 'readAndWrite' as const),
  afterMs: fc.oneof(fc.nat(50), fc.nat(20_000)),
});

test('two clients never both believe that they hold it, under any interleaving and any skew up to 3 s', () => {
  let believers = 0;
  fc.assert(
    fc.property(
      fc.tuple(fc.nat(3_000), fc.nat(3_000), fc.nat(3_000)),
      fc.array(fc.integer({ min: 1, max: 15 }), { minLength: 3, maxLength: 3 }),
      fc.array(step, { maxLength: 60 }),
      (skews, durations, steps) => {
        const store = new Store();
        const clients = skews.map(
          (skew, index) => new SimulatedClient(`c${index}`, durations[index] ?? 1, skew),
        );
        let time = now;
        for (const { client: index, act, afterMs } of steps) {
          time += afterMs;
          const client = clients[index] as SimulatedClient;
          if (act === 'read' || act === 'readAndWrite') client.read(store, time);
          if (act === 'write' || act === 'readAndWrite') client.write(store);
          if (act === 'release') client.release(store);
          const believing = clients.filter((one) => one.believes(time));
          believers += believing.length;
          expect(believing.length).toBeLessThanOrEqual(1);
        }
      },
    ),
    { numRuns: 2_000 },
  );
  // The property is not vacuous: the Lease was held in many runs.
  expect(believers).toBeGreaterThan(1_000);
});
