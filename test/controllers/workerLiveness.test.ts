import { describe, expect, test } from '@jest/globals';
import type { Lease } from '../../api/core.ts';
import { IdentityAnnotation } from '../../api/names.ts';
import { WorkerLiveness } from '../../controllers/workerLiveness.ts';
import type { Change } from '../../kube/informer.ts';

const [own, other, third] = ['aaaaaaaa', 'bbbbbbbb', 'cccccccc'];
const leaderLease = 'node-maintenance-controllers';

/** Returns the holder of the Leases of a process. */
const holderOf = (id: string) => `worker-0a1b_${id}-0000-4000-8000-000000000000`;

/** The Leases of an installation, as the informer of this process reports them. */
class Leases {
  readonly #leases = new Map<string, Lease>();
  #handler: (change: Change<Readonly<Lease>>) => void = () => undefined;
  readonly workers = new WorkerLiveness(
    {
      subscribe: (handler) => {
        this.#handler = handler;
        return () => undefined;
      },
    },
    { identity: holderOf(own), leaderLease },
  );

  /** Writes a Lease with this holder. */
  write(name: string, holderIdentity: string, metadata?: Partial<Lease['metadata']>): void {
    const previous = this.#leases.get(name);
    const object: Lease = { metadata: { name, ...metadata }, spec: { holderIdentity } };
    this.#leases.set(name, object);
    this.#handler(
      previous === undefined
        ? { type: 'Added', key: name, object }
        : { type: 'Updated', key: name, object, previous },
    );
  }

  /** A process renews its identity Lease; one per process unless named. */
  renews(id: string, name = `identity-of-${id}`, everySeconds = 10, taskQueue = 'node-maintenance'): void {
    this.write(name, holderOf(id), {
      labels: { 'k8s.io/component': 'node-maintenance-worker' },
      annotations: {
        'nodemaintenance.k8s.io/renew-interval-seconds': String(everySeconds),
        [IdentityAnnotation.TaskQueue]: taskQueue,
      },
    });
  }

  leads(holder: string): void {
    this.write(leaderLease, holder);
  }
}

test('a task queue is used until the last worker on it is presumed dead', () => {
  const leases = new Leases();
  leases.renews(other, undefined, undefined, 'node-maintenance.berlin');
  leases.renews(own);
  expect(leases.workers.isUsed('node-maintenance.berlin')).toBe(true);
  expect(leases.workers.isUsed('node-maintenance.hamburg')).toBe(false);
  for (let renewal = 0; renewal < 3; renewal++) leases.renews(own);
  expect(leases.workers.isUsed('node-maintenance.berlin')).toBe(false);
  expect(leases.workers.isUsed('node-maintenance')).toBe(true);
});

describe('a worker is presumed dead', () => {
  test('when this process has renewed its own Lease three times since it was seen to renew', () => {
    const leases = new Leases();
    leases.renews(other);
    for (const expected of [false, false, true]) {
      leases.renews(own);
      expect(leases.workers.isDead(other)).toBe(expected);
    }
    expect(leases.workers.dead()).toEqual([other]);
  });

  test('when it has no Lease: one that has never been seen counts from the start of this process', () => {
    const leases = new Leases();
    leases.renews(own);
    leases.renews(own);
    expect(leases.workers.isDead(third)).toBe(false);
    leases.renews(own);
    expect(leases.workers.isDead(third)).toBe(true);
    expect(leases.workers.dead()).toEqual([]);
  });

  test('when another process on its host has taken the name of its Lease, unless it renews one of another name', () => {
    const leases = new Leases();
    for (const id of [other, third]) leases.renews(id, `name-of-the-host-of-${id}`);
    for (const id of [other, third]) leases.renews('dddddddd', `name-of-the-host-of-${id}`);
    leases.renews(own);
    leases.renews(third, 'a-name-of-its-own');
    leases.renews(own);
    leases.renews(own);
    expect(leases.workers.isDead(other)).toBe(true);
    expect(leases.workers.isDead(third)).toBe(false);
  });

  test('at once when it has lost the leadership without having released it', () => {
    const leases = new Leases();
    leases.renews(other);
    leases.leads(holderOf(other));
    leases.leads(holderOf(own));
    expect(leases.workers.isDead(other)).toBe(true);
    expect(leases.workers.dead()).toEqual([other]);
  });
});

describe('a worker is not presumed dead', () => {
  test('while it renews', () => {
    const leases = new Leases();
    for (let renewals = 0; renewals < 9; renewals++) {
      leases.renews(own);
      leases.renews(other);
      expect(leases.workers.isDead(other)).toBe(false);
    }
  });

  test('before it has missed three renewals, if it renews less often than this process', () => {
    const leases = new Leases();
    leases.renews(other, 'identity', 25);
    for (let renewals = 1; renewals <= 8; renewals++) {
      leases.renews(own);
      expect(leases.workers.isDead(other)).toBe(renewals === 8);
    }
  });

  test('when it has released the leadership', () => {
    const leases = new Leases();
    for (const holder of [holderOf(other), '', holderOf(own)]) leases.leads(holder);
    expect(leases.workers.isDead(other)).toBe(false);
  });

  test('any more, when it is seen to renew after it lost the leadership', () => {
    const leases = new Leases();
    leases.leads(holderOf(other));
    leases.leads(holderOf(own));
    leases.renews(other);
    expect(leases.workers.isDead(other)).toBe(false);
  });

  test('while this process is not seen to renew, because it is suspended or cut off, or has no identity Lease', () => {
    const leases = new Leases();
    leases.renews(other);
    for (let renewals = 0; renewals < 9; renewals++) leases.renews(third);
    expect(leases.workers.isDead(other)).toBe(false);
  });

  test('if it is this process', () => {
    const leases = new Leases();
    leases.leads(holderOf(own));
    leases.leads(holderOf(other));
    expect(leases.workers.isDead(own)).toBe(false);
  });

  test('because of a Lease of something else', () => {
    const leases = new Leases();
    leases.write('some-lease', holderOf(other));
    expect(leases.workers.dead()).toEqual([]);
  });
});

test('a dead worker is forgotten when its activities were started again', () => {
  const leases = new Leases();
  leases.renews(other);
  for (let renewals = 0; renewals < 3; renewals++) leases.renews(own);
  leases.workers.forget(other);
  expect(leases.workers.dead()).toEqual([]);
  expect(leases.workers.isDead(other)).toBe(true);
});
