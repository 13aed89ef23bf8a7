import { getEventListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { CLOCK_DRIFT_MS } from '../../domain/leases/lease.ts';
import { NodeLeaseLostError, type Waiting } from '../../node-lease/index.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { UnreliableNetwork } from '../kube/unreliableNetwork.ts';
import { keyOf, LeaseFixture } from './nodes.ts';
import { resources } from '../../kube/resources.ts';

let sandbox: Sandbox;
let fixture: LeaseFixture;

beforeAll(async () => {
  sandbox = await testSandbox();
  fixture = new LeaseFixture(sandbox, 'hold');
});

afterAll(async () => {
  await fixture?.close();
  await releaseSandbox(sandbox);
});

/** Leases of ten minutes are renewed every 200 s: the watch causes whatever happens earlier. */
const beforeRenewalMs = 150_000;
/** Time-out of the client's requests, for which an abort must not wait. */
const requestTimeoutMs = 30_000;

/** Resolves with the reason of the signal when it aborts. */
function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    const onAbort = () => resolve(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
  });
}

const free = { holderIdentity: '', acquireTime: expect.any(String), renewTime: expect.any(String) };

describe('while a node is held', () => {
  test('its Lease is renewed, the result is returned, and the Lease is released', async () => {
    const node = await fixture.node();
    const done = await fixture.client('us', { leaseDurationSeconds: 9 }).hold(node, async (signal) => {
      const before = await fixture.specOf(node);
      await eventually('two renewals', async () => {
        const spec = await fixture.specOf(node);
        const between = Date.parse(spec?.renewTime ?? '') - Date.parse(before?.renewTime ?? '');
        expect(between).toBeGreaterThanOrEqual(4_500);
        expect(spec).toEqual({ ...before, renewTime: spec?.renewTime });
      });
      return { aborted: signal.aborted };
    });
    expect(done).toEqual({ aborted: false });
    expect(await fixture.specOf(node)).toEqual({ ...free, leaseTransitions: 0 });
  });

  test('an error is thrown, and the Lease is released', async () => {
    const node = await fixture.node();
    const failure = new Error('the node does not answer');
    const { signal } = new AbortController();
    const act = () => {
      throw failure;
    };
    await expect(fixture.client('us').hold(node, act, { signal })).rejects.toBe(failure);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect(await fixture.specOf(node)).toEqual({ ...free, leaseTransitions: 0 });
  });

  test('the caller can abort it', async () => {
    const node = await fixture.node();
    const stop = new AbortController();
    const options = { signal: stop.signal };
    const ended = fixture.client('us').hold(
      node,
      async (signal) => {
        stop.abort('cancelled');
        return aborted(signal);
      },
      options,
    );
    expect(await ended).toBe('cancelled');
    expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: '' });
  });

  test('a second call of the same process for the same node waits for the first', async () => {
    const node = await fixture.node();
    const leases = fixture.client('us');
    const log: string[] = [];
    const act = (name: string) => async () => {
      log.push(`${name} starts`);
      await eventually('a renewal', async () => expect(await fixture.specOf(node)).toBeDefined());
      log.push(`${name} ends`);
    };
    await Promise.all([leases.hold(node, act('first')), leases.hold(node, act('second'))]);
    expect(log).toEqual(['first starts', 'first ends', 'second starts', 'second ends']);
  });

  test('frequent writes by other clients do not end it', async () => {
    const node = await fixture.node();
    const result = await fixture.client('us').hold(node, async (signal) => {
      const before = await fixture.specOf(node);
      const writer = async (name: string) => {
        for (let index = 0; index < 40; index++)
          await fixture.admin.mergePatch(resources.leases, keyOf(node), {
            metadata: { annotations: { [name]: `${index}` } },
          });
      };
      while (!signal.aborted && (await fixture.specOf(node))?.renewTime === before?.renewTime)
        await Promise.all(['a', 'b', 'c', 'd'].map(writer));
      return signal.aborted;
    });
    expect(result).toBe(false);
  });
});

describe('a lost Lease aborts the signal at once and rejects at the end', () => {
  test.each([
    {
      when: 'an administrator takes it',
      lose: (node: string) => fixture.edited(node, { holderIdentity: 'kubeadm' }),
      loss: { kind: 'Taken', by: 'kubeadm' },
      text: 'it was taken by kubeadm',
      remaining: { holderIdentity: 'kubeadm' },
    },
    {
      when: 'another client takes it by force',
      lose: (node: string) => fixture.edited(node, { ...fixture.heldBy('another', 0, 60) }),
      loss: { kind: 'Taken', by: 'another' },
      text: 'it was taken by another',
      remaining: { holderIdentity: 'another', leaseDurationSeconds: 60 },
    },
    {
      when: 'a user releases it',
      lose: (node: string) => fixture.edited(node, { holderIdentity: null }),
      loss: { kind: 'Released' },
      text: 'it was released by another user',
      remaining: {},
    },
    {
      when: 'a user deletes it',
      lose: (node: string) => fixture.leaseDeleted(node),
      loss: { kind: 'Deleted' },
      text: 'it was deleted',
      remaining: undefined,
    },
  ])('when $when', async ({ lose, loss, text, remaining }) => {
    const node = await fixture.node();
    let abortedAfterMs = Number.NaN;
    const lost = fixture.client('us', { leaseDurationSeconds: 600 }).hold(node, async (signal) => {
      await lose(node);
      const startedAt = performance.now();
      await aborted(signal);
      abortedAfterMs = performance.now() - startedAt;
      return 'done';
    });
    const error = await lost.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(NodeLeaseLostError);
    expect(error).toMatchObject({ node, loss });
    expect((error as Error).message).toBe(`the maintenance Lease of node ${node} was lost: ${text}`);
    expect(abortedAfterMs).toBeLessThan(beforeRenewalMs);
    const spec = await fixture.specOf(node);
    if (remaining === undefined) expect(spec).toBeUndefined();
    else expect(spec).toMatchObject(remaining);
  });

  test('unless the function throws another error', async () => {
    const node = await fixture.node();
    const lost = fixture.client('us').hold(node, async (signal) => {
      await fixture.edited(node, { holderIdentity: 'kubeadm' });
      await aborted(signal);
      throw new Error('half of the disk is written');
    });
    await expect(lost).rejects.toThrow('half of the disk is written');
  });

  test('also if a function of Node.js throws an AbortError', async () => {
    const node = await fixture.node();
    const cut = fixture.client('us').hold(node, async (signal) => {
      await fixture.leaseDeleted(node);
      await sleep(60_000, undefined, { signal });
    });
    await expect(cut).rejects.toBeInstanceOf(NodeLeaseLostError);
  });
});

// Each has a network, a node and a client of its own.
describe('while the apiserver cannot be reached', () => {
  test.concurrent('the Lease is held until it expires; only then another client acquires it', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const node = await fixture.node();
    const log: string[] = [];
    let renewedAt = Number.NaN;
    let second: Promise<unknown> | undefined;
    const leaseDurationSeconds = 3;
    const first = fixture.client('first', { kubeconfig, leaseDurationSeconds }).hold(node, async (signal) => {
      network.down();
      second = fixture.client('second').hold(node, () => log.push('second starts'));
      renewedAt = Date.parse((await fixture.specOf(node))?.renewTime ?? '');
      await aborted(signal);
      const expiresAt = renewedAt + leaseDurationSeconds * 1_000 + CLOCK_DRIFT_MS;
      expect(fixture.admin.now().getTime()).toBeLessThan(expiresAt);
      log.push('first ends');
    });
    await expect(first).rejects.toMatchObject({ loss: { kind: 'Expired', lastError: expect.any(String) } });
    await second;
    expect(log).toEqual(['first ends', 'second starts']);
    await close();
  });

  test.concurrent.each([
    { when: 'it is down', down: 'down' as const },
    { when: 'a renewal gets no response', down: 'freeze' as const },
  ])('a short outage is tolerated when $when', async ({ down }) => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const node = await fixture.node();
    // The first renewal is after a third of the duration; the rest allows for a busy machine.
    const leaseDurationSeconds = 30;
    const client = fixture.client('us', { kubeconfig, leaseDurationSeconds });
    const result = await client.hold(node, async (signal) => {
      const before = await fixture.specOf(node);
      network[down]();
      await sleep(11_000);
      network.up();
      await eventually('a renewal', async () => {
        expect((await fixture.specOf(node))?.renewTime).not.toBe(before?.renewTime);
      });
      return signal.aborted;
    });
    expect(result).toBe(false);
    await close();
  });

  test.concurrent('a loss is detected by a renewal if the watch is broken', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const node = await fixture.node();
    const lost = fixture.client('us', { kubeconfig, leaseDurationSeconds: 30 }).hold(node, async (signal) => {
      network.freeze();
      await fixture.edited(node, { holderIdentity: null });
      return aborted(signal);
    });
    await expect(lost).rejects.toMatchObject({ node, loss: { kind: 'Released' } });
    await close();
  });

  test.concurrent('the function is not called if the Lease expired before the response arrived', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const node = await fixture.node({});
    const leaseDurationSeconds = 1;
    network.late(800);
    const startedAt = fixture
      .client('us', { kubeconfig, leaseDurationSeconds })
      .hold(node, async () => fixture.admin.now().getTime());
    const first = await eventually('the first acquisition, whose response is late', async () => {
      const spec = await fixture.specOf(node);
      expect(spec).toMatchObject({ holderIdentity: 'us' });
      return spec;
    });
    await eventually('another acquisition', async () =>
      expect((await fixture.specOf(node))?.renewTime).not.toBe(first?.renewTime),
    );
    network.late(0);
    expect(await startedAt).toBeGreaterThan(
      Date.parse(first?.renewTime ?? '') + leaseDurationSeconds * 1_000,
    );
    await close();
  });
});

describe('a node that another client holds is waited for', () => {
  test('until it is released, reporting the holder', async () => {
    const node = await fixture.node();
    const reported: Waiting[] = [];
    const release = Promise.withResolvers<void>();
    let releasedAt = Number.NaN;
    const first = fixture.client('first', { leaseDurationSeconds: 600 }).hold(node, async () => {
      await release.promise;
      releasedAt = performance.now();
    });
    await eventually('the first to hold it', async () =>
      expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: 'first' }),
    );
    const second = fixture.client('second').hold(node, () => performance.now(), {
      onWaiting: (waiting) => {
        reported.push(waiting);
        release.resolve();
      },
    });
    await first;
    expect((await second) - releasedAt).toBeLessThan(beforeRenewalMs);
    expect(reported).toEqual([{ node, holder: 'first', until: expect.any(Date) }]);
  });

  test('until it has expired, its administrator has released it, or it is deleted', async () => {
    // It expires in ten seconds, so that also a slow machine waits for it.
    const dead = await fixture.node(fixture.heldBy('dead', 53, 60));
    const investigated = await fixture.node({ holderIdentity: 'kubeadm:jane' });
    const stale = await fixture.node(fixture.heldBy('stale', 0, 600));
    const leases = fixture.client('us');
    const holders: string[] = [];
    const change = async ({ node }: Waiting) => {
      if (node === investigated) await fixture.edited(node, { holderIdentity: 'released' });
      if (node === stale) await fixture.leaseDeleted(node);
    };
    const onWaiting = (waiting: Waiting) => {
      holders.push(waiting.holder);
      void change(waiting);
    };
    const held = [dead, investigated, stale].map((node) => leases.hold(node, () => node, { onWaiting }));
    expect(await Promise.all(held)).toEqual([dead, investigated, stale]);
    expect(holders.toSorted()).toEqual(['dead', 'kubeadm:jane', 'stale']);
  });

  test('until the caller aborts, also if the apiserver does not respond', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    network.swallow();
    const stop = new AbortController();
    const node = await fixture.node();
    const leases = fixture.client('us', { kubeconfig });
    const waiting = leases.hold(node, () => 'held', { signal: stop.signal });
    await eventually('a connection', () => expect(network.mostConnections).toBeGreaterThan(0));
    const startedAt = performance.now();
    stop.abort(new Error('cancelled'));
    await expect(waiting).rejects.toThrow('cancelled');
    expect(performance.now() - startedAt).toBeLessThan(requestTimeoutMs);
    await leases.close();
    await close();
  });

  test('until the caller aborts, without a change of the Lease', async () => {
    const node = await fixture.node(fixture.heldBy('another', 0, 600));
    const before = await fixture.lease(node);
    const stop = new AbortController();
    const onWaiting = () => stop.abort(new Error('cancelled'));
    const waiting = fixture.client('us').hold(node, () => 'held', { signal: stop.signal, onWaiting });
    await expect(waiting).rejects.toThrow('cancelled');
    expect(await fixture.lease(node)).toEqual(before);
  });

  test('until the client is closed, which also aborts running calls and releases their Leases', async () => {
    const [mine, others] = [await fixture.node(), await fixture.node(fixture.heldBy('another', 0, 600))];
    const leases = fixture.client('us');
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    const running = leases.hold(mine, (signal) => {
      start();
      return aborted(signal);
    });
    const waiting = leases.hold(others, () => 'held');
    const ended = Promise.allSettled([running, waiting]);
    await started;
    await leases.close();
    const closed = new Error('the client of node Leases was closed');
    expect(await ended).toEqual([
      { status: 'fulfilled', value: closed },
      { status: 'rejected', reason: closed },
    ]);
    expect(await fixture.specOf(mine)).toMatchObject({ holderIdentity: '' });
  });

  test('by several clients, of which one at a time acquires it', async () => {
    const node = await fixture.node();
    let [running, maxRunning, calls] = [0, 0, 0];
    const act = async () => {
      maxRunning = Math.max(maxRunning, ++running);
      await sleep(20);
      calls++;
      running--;
    };
    // None expires on a slow machine.
    const overrides = { leaseDurationSeconds: 600 };
    const clients = Array.from({ length: 6 }, (_, index) => fixture.client(`one-${index}`, overrides));
    await Promise.all(clients.flatMap((leases) => [leases.hold(node, act), leases.hold(node, act)]));
    expect({ maxRunning, calls }).toEqual({ maxRunning: 1, calls: 12 });
  });
});
