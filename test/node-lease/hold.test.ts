import { getEventListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { CLOCK_DRIFT } from '../../domain/lease.ts';
import { NodeLeaseLostError, type Waiting } from '../../node-lease/index.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { UnreliableNetwork } from '../kube/unreliableNetwork.ts';
import { keyOf, LeaseWorld } from './nodes.ts';
import { resources } from '../../kube/resources.ts';

let sandbox: Sandbox;
let world: LeaseWorld;

beforeAll(async () => {
  sandbox = await testSandbox();
  world = new LeaseWorld(sandbox, 'hold');
});

afterAll(async () => {
  await world?.close();
  await releaseSandbox(sandbox);
});

/** Resolves with the signal's reason, which it takes for granted. */
function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    const tell = () => resolve(signal.reason);
    if (signal.aborted) tell();
    signal.addEventListener('abort', tell, { once: true });
  });
}

const free = { holderIdentity: '', acquireTime: expect.any(String), renewTime: expect.any(String) };

describe('while a node is held', () => {
  test('its Lease is renewed, what was done is returned, and the Lease released', async () => {
    const node = await world.node();
    const done = await world.client('us', { leaseDurationSeconds: 3 }).hold(node, async (signal) => {
      const before = await world.specOf(node);
      await eventually('two renewals', async () => {
        const spec = await world.specOf(node);
        const between = Date.parse(spec?.renewTime ?? '') - Date.parse(before?.renewTime ?? '');
        expect(between).toBeGreaterThanOrEqual(1_500);
        expect(spec).toEqual({ ...before, renewTime: spec?.renewTime });
      });
      return { aborted: signal.aborted };
    });
    expect(done).toEqual({ aborted: false });
    expect(await world.specOf(node)).toEqual({ ...free, leaseTransitions: 0 });
  });

  test('what goes wrong is thrown, and the Lease released', async () => {
    const node = await world.node();
    const wrong = new Error('the node does not answer');
    const { signal } = new AbortController();
    const act = () => {
      throw wrong;
    };
    await expect(world.client('us').hold(node, act, { signal })).rejects.toBe(wrong);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect(await world.specOf(node)).toEqual({ ...free, leaseTransitions: 0 });
  });

  test('whoever asked for it may end it', async () => {
    const node = await world.node();
    const stop = new AbortController();
    const options = { signal: stop.signal };
    const ended = world.client('us').hold(
      node,
      async (signal) => {
        stop.abort('enough');
        return aborted(signal);
      },
      options,
    );
    expect(await ended).toBe('enough');
    expect(await world.specOf(node)).toMatchObject({ holderIdentity: '' });
  });

  test('a second call of the same process for the same node waits for its turn', async () => {
    const node = await world.node();
    const leases = world.client('us');
    const story: string[] = [];
    const act = (name: string) => async () => {
      story.push(`${name} begins`);
      await eventually('a renewal', async () => expect(await world.specOf(node)).toBeDefined());
      story.push(`${name} ends`);
    };
    await Promise.all([leases.hold(node, act('first')), leases.hold(node, act('second'))]);
    expect(story).toEqual(['first begins', 'first ends', 'second begins', 'second ends']);
  });

  test('a crowd of other writers does not end it', async () => {
    const node = await world.node();
    const result = await world.client('us').hold(node, async (signal) => {
      const before = await world.specOf(node);
      const writer = async (name: string) => {
        for (let index = 0; index < 40; index++)
          await world.admin.mergePatch(resources.leases, keyOf(node), {
            metadata: { annotations: { [name]: `${index}` } },
          });
      };
      while (!signal.aborted && (await world.specOf(node))?.renewTime === before?.renewTime)
        await Promise.all(['a', 'b', 'c', 'd'].map(writer));
      return signal.aborted;
    });
    expect(result).toBe(false);
  });
});

describe('the Lease is lost, which is told at once, and thrown in the end', () => {
  test.each([
    {
      when: 'an administrator takes it',
      lose: (node: string) => world.edited(node, { holderIdentity: 'kubeadm' }),
      loss: { kind: 'Taken', by: 'kubeadm' },
      words: 'kubeadm has taken it',
      left: { holderIdentity: 'kubeadm' },
    },
    {
      when: 'another takes it by force',
      lose: (node: string) => world.edited(node, { ...world.heldBy('another', 0, 60) }),
      loss: { kind: 'Taken', by: 'another' },
      words: 'another has taken it',
      left: { holderIdentity: 'another', leaseDurationSeconds: 60 },
    },
    {
      when: 'somebody releases it',
      lose: (node: string) => world.edited(node, { holderIdentity: null }),
      loss: { kind: 'Released' },
      words: 'somebody has released it',
      left: {},
    },
    {
      when: 'somebody deletes it',
      lose: (node: string) => world.leaseDeleted(node),
      loss: { kind: 'Deleted' },
      words: 'it was deleted',
      left: undefined,
    },
  ])('when $when', async ({ lose, loss, words, left }) => {
    const node = await world.node();
    let toldAfter = Number.NaN;
    const lost = world.client('us', { leaseDurationSeconds: 60 }).hold(node, async (signal) => {
      await lose(node);
      const began = performance.now();
      await aborted(signal);
      toldAfter = performance.now() - began;
      return 'done';
    });
    const error = await lost.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(NodeLeaseLostError);
    expect(error).toMatchObject({ node, loss });
    expect((error as Error).message).toBe(`the maintenance Lease of node ${node} was lost: ${words}`);
    expect(toldAfter).toBeLessThan(CLOCK_DRIFT);
    const seen = await world.specOf(node);
    if (left === undefined) expect(seen).toBeUndefined();
    else expect(seen).toMatchObject(left);
  });

  test('which what was done under it may put in its own words', async () => {
    const node = await world.node();
    const lost = world.client('us').hold(node, async (signal) => {
      await world.edited(node, { holderIdentity: 'kubeadm' });
      await aborted(signal);
      throw new Error('half of the disk is written');
    });
    await expect(lost).rejects.toThrow('half of the disk is written');
  });

  test('also when it is a function of node that was cut short', async () => {
    const node = await world.node();
    const cut = world.client('us').hold(node, async (signal) => {
      await world.leaseDeleted(node);
      await sleep(60_000, undefined, { signal });
    });
    await expect(cut).rejects.toBeInstanceOf(NodeLeaseLostError);
  });
});

describe('while the apiserver cannot be reached', () => {
  test('the Lease is held for as long as it lasts, and no longer; then another has it, never both', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const node = await world.node();
    const story: string[] = [];
    let renewedAt = Number.NaN;
    let second: Promise<unknown> | undefined;
    const leaseDurationSeconds = 3;
    const first = world.client('first', { kubeconfig, leaseDurationSeconds }).hold(node, async (signal) => {
      network.down();
      second = world.client('second').hold(node, () => story.push('second begins'));
      renewedAt = Date.parse((await world.specOf(node))?.renewTime ?? '');
      await aborted(signal);
      const over = renewedAt + leaseDurationSeconds * 1_000 + CLOCK_DRIFT;
      expect(world.admin.now().getTime()).toBeLessThan(over);
      story.push('first ends');
    });
    await expect(first).rejects.toMatchObject({ loss: { kind: 'RanOut', because: expect.any(String) } });
    await second;
    expect(story).toEqual(['first ends', 'second begins']);
    await close();
  });

  test.each([
    { when: 'it is down', down: 'down' as const },
    { when: 'a renewal has no answer', down: 'freeze' as const },
  ])('a short while is waited out, when $when', async ({ down }) => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const node = await world.node();
    // A third of it passes until the first renewal; the rest is for a machine that is busy.
    const leaseDurationSeconds = 15;
    const client = world.client('us', { kubeconfig, leaseDurationSeconds });
    const result = await client.hold(node, async (signal) => {
      const before = await world.specOf(node);
      network[down]();
      await sleep(6_000);
      network.up();
      await eventually('a renewal', async () => {
        expect((await world.specOf(node))?.renewTime).not.toBe(before?.renewTime);
      });
      return signal.aborted;
    });
    expect(result).toBe(false);
    await close();
  });

  test('a loss is told by a renewal, when the watch has fallen silent', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const node = await world.node();
    const lost = world.client('us', { kubeconfig, leaseDurationSeconds: 4 }).hold(node, async (signal) => {
      network.freeze();
      await world.edited(node, { holderIdentity: null });
      return aborted(signal);
    });
    await expect(lost).rejects.toMatchObject({ node, loss: { kind: 'Released' } });
    await close();
  });

  test('nothing is begun under a Lease whose time was over when its answer came', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const node = await world.node({});
    const leaseDurationSeconds = 1;
    network.late(800);
    const begun = world
      .client('us', { kubeconfig, leaseDurationSeconds })
      .hold(node, async () => world.admin.now().getTime());
    const first = await eventually('the first that comes too late', async () => {
      const spec = await world.specOf(node);
      expect(spec).toMatchObject({ holderIdentity: 'us' });
      return spec;
    });
    await eventually('another', async () =>
      expect((await world.specOf(node))?.renewTime).not.toBe(first?.renewTime),
    );
    network.late(0);
    expect(await begun).toBeGreaterThan(Date.parse(first?.renewTime ?? '') + leaseDurationSeconds * 1_000);
    await close();
  });
});

describe('a node that another has is waited for', () => {
  test('until its release, knowing who has it', async () => {
    const node = await world.node();
    const seen: Waiting[] = [];
    const release = Promise.withResolvers<void>();
    let releasedAt = Number.NaN;
    const first = world.client('first', { leaseDurationSeconds: 600 }).hold(node, async () => {
      await release.promise;
      releasedAt = performance.now();
    });
    await eventually('the first to hold it', async () =>
      expect(await world.specOf(node)).toMatchObject({ holderIdentity: 'first' }),
    );
    const second = world.client('second').hold(node, () => performance.now(), {
      onWaiting: (waiting) => {
        seen.push(waiting);
        release.resolve();
      },
    });
    await first;
    expect((await second) - releasedAt).toBeLessThan(CLOCK_DRIFT);
    expect(seen).toEqual([{ node, holder: 'first', until: expect.any(Date) }]);
  });

  test('until it has expired, its administrator has released it, or it is deleted', async () => {
    const dead = await world.node(world.heldBy('dead', 61, 60));
    const investigated = await world.node({ holderIdentity: 'kubeadm:jane' });
    const stale = await world.node(world.heldBy('stale', 0, 600));
    const leases = world.client('us');
    const holders: string[] = [];
    const change = async ({ node }: Waiting) => {
      if (node === investigated) await world.edited(node, { holderIdentity: 'released' });
      if (node === stale) await world.leaseDeleted(node);
    };
    const onWaiting = (waiting: Waiting) => {
      holders.push(waiting.holder);
      void change(waiting);
    };
    const held = [dead, investigated, stale].map((node) => leases.hold(node, () => node, { onWaiting }));
    expect(await Promise.all(held)).toEqual([dead, investigated, stale]);
    expect(holders.toSorted()).toEqual(['dead', 'kubeadm:jane', 'stale']);
  });

  test('until whoever asked has had enough, also of an apiserver that does not answer', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    network.swallow();
    const stop = new AbortController();
    const node = await world.node();
    const leases = world.client('us', { kubeconfig });
    const waiting = leases.hold(node, () => 'held', { signal: stop.signal });
    await eventually('a connection', () => expect(network.mostConnections).toBeGreaterThan(0));
    const began = performance.now();
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    expect(performance.now() - began).toBeLessThan(CLOCK_DRIFT);
    await leases.close();
    await close();
  });

  test('until whoever waits has had enough, and nothing was changed', async () => {
    const node = await world.node(world.heldBy('another', 0, 600));
    const before = await world.lease(node);
    const stop = new AbortController();
    const onWaiting = () => stop.abort(new Error('enough'));
    const waiting = world.client('us').hold(node, () => 'held', { signal: stop.signal, onWaiting });
    await expect(waiting).rejects.toThrow('enough');
    expect(await world.lease(node)).toEqual(before);
  });

  test('until the client is closed, which also ends what runs, and releases it', async () => {
    const [mine, others] = [await world.node(), await world.node(world.heldBy('another', 0, 600))];
    const leases = world.client('us');
    const running = leases.hold(mine, aborted);
    const waiting = leases.hold(others, () => 'held');
    const ended = Promise.allSettled([running, waiting]);
    await eventually('the first to be held', async () =>
      expect(await world.specOf(mine)).toMatchObject({ holderIdentity: 'us' }),
    );
    await leases.close();
    const closed = new Error('the client of node Leases was closed');
    expect(await ended).toEqual([
      { status: 'fulfilled', value: closed },
      { status: 'rejected', reason: closed },
    ]);
    expect(await world.specOf(mine)).toMatchObject({ holderIdentity: '' });
  });

  test('by a crowd, of which one at a time has it', async () => {
    const node = await world.node();
    let [now, most, turns] = [0, 0, 0];
    const act = async () => {
      most = Math.max(most, ++now);
      await sleep(20);
      turns++;
      now--;
    };
    const crowd = Array.from({ length: 6 }, (_, index) => world.client(`one-${index}`));
    await Promise.all(crowd.flatMap((leases) => [leases.hold(node, act), leases.hold(node, act)]));
    expect({ most, turns }).toEqual({ most: 1, turns: 12 });
  });
});
