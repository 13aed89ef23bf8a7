import { KubeConfig } from '@kubernetes/client-node';
import { NODE_LEASE_NAMESPACE } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import { isHeld, type NodeLeaseState, nodeLeases } from '../../node-lease/index.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubeconfigOf } from '../kit/account.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { LeaseFixture } from './nodes.ts';

let sandbox: Sandbox;
let fixture: LeaseFixture;

beforeAll(async () => {
  sandbox = await testSandbox();
  fixture = new LeaseFixture(sandbox, 'reader');
});

afterAll(async () => {
  await fixture?.close();
  await releaseSandbox(sandbox);
});

/** Reads a watch in the background. */
function observed(states: AsyncIterable<NodeLeaseState>) {
  const kinds: string[] = [];
  const ended = (async () => {
    for await (const { kind } of states) kinds.push(kind);
  })();
  return { kinds, ended };
}

describe('get', () => {
  test.each<{ when: string; spec: () => object | undefined; state: object; held: boolean }>([
    { when: 'the node has no Lease', spec: () => undefined, state: { kind: 'Missing' }, held: false },
    { when: 'nobody holds it', spec: () => ({}), state: { kind: 'Free' }, held: false },
    {
      when: 'a client holds it',
      spec: () => fixture.heldBy('joe', 1, 60),
      state: { kind: 'Held', holder: 'joe', until: expect.any(Date) },
      held: true,
    },
    {
      when: 'its holder stopped renewing',
      spec: () => fixture.heldBy('joe', 100, 60),
      state: { kind: 'Expired', holder: 'joe', at: expect.any(Date) },
      held: false,
    },
    {
      when: 'an administrator holds it',
      spec: () => ({ holderIdentity: 'kubeadm: a disk' }),
      state: { kind: 'HeldByAdministrator', holder: 'kubeadm: a disk' },
      held: true,
    },
  ])('when $when', async ({ spec, state, held }) => {
    const node = await fixture.node(spec());
    const found = await fixture.client('us').get(node);
    expect(found).toMatchObject({ node, ...state });
    expect(isHeld(found)).toBe(held);
  });

  test('returns a copy of the whole Lease', async () => {
    const node = await fixture.node(fixture.heldBy('joe', 1, 60));
    const found = await fixture.client('us').get(node);
    expect(found).toHaveProperty('lease.spec', await fixture.specOf(node));
  });
});

describe('watch', () => {
  test('yields the state of a node, and each change, also its expiry', async () => {
    const node = await fixture.node({});
    const stop = new AbortController();
    const { kinds, ended } = observed(fixture.client('us').watch({ node, signal: stop.signal }));
    await eventually('the first state', () => expect(kinds).toEqual(['Free']));
    await fixture.edited(node, fixture.heldBy('joe', 1, 2));
    await eventually('it to be held, and to expire', () =>
      expect(kinds).toEqual(['Free', 'Held', 'Expired']),
    );
    await fixture.edited(node, { holderIdentity: 'kubeadm' });
    await eventually('the administrator', () => expect(kinds.at(-1)).toBe('HeldByAdministrator'));
    await fixture.leaseDeleted(node);
    // The worker, if one runs, creates it again.
    await eventually('it to be deleted', () => expect(kinds).toContain('Missing'));
    stop.abort();
    await ended;
  });

  test('yields the states of all nodes, until the client is closed', async () => {
    const [one, other] = [await fixture.node({}), await fixture.node({ holderIdentity: 'kubeadm' })];
    const client = fixture.client('us');
    const found = new Map<string, NodeLeaseState>();
    const ended = (async () => {
      for await (const state of client.watch()) found.set(state.node, state);
    })();
    await eventually('both nodes', () =>
      expect([found.get(one)?.kind, found.get(other)?.kind]).toEqual(['Free', 'HeldByAdministrator']),
    );
    await client.close();
    await ended;
  });

  test('of all nodes yields once that a Lease is gone, and the state of the next one', async () => {
    const node = await fixture.node({ holderIdentity: 'kubeadm' });
    const client = fixture.client('us');
    const kinds: string[] = [];
    const ended = (async () => {
      for await (const state of client.watch()) if (state.node === node) kinds.push(state.kind);
    })();
    await eventually('the Lease', () => expect(kinds).toEqual(['HeldByAdministrator']));
    const key = { namespace: NODE_LEASE_NAMESPACE, name: node };
    const before = await fixture.admin.get(resources.leases, key);
    await fixture.admin.delete(resources.leases, key, { uid: before?.metadata.uid ?? '' });
    await eventually('its end', () => expect(kinds).toEqual(['HeldByAdministrator', 'Missing']));
    await fixture.admin.create(resources.leases, {
      metadata: { namespace: NODE_LEASE_NAMESPACE, name: node },
      spec: before?.spec ?? {},
    });
    await eventually('the next Lease', () =>
      expect(kinds).toEqual(['HeldByAdministrator', 'Missing', 'HeldByAdministrator']),
    );
    await client.close();
    await ended;
  });

  test('yields Missing for a node without a Lease', async () => {
    const node = await fixture.node();
    for await (const state of fixture.client('us').watch({ node })) {
      expect(state).toEqual({ node, kind: 'Missing' });
      break;
    }
  });

  test('gives a slow consumer the last state', async () => {
    const node = await fixture.node({});
    const holders: string[] = [];
    for await (const state of fixture.client('us').watch({ node })) {
      if (state.kind === 'HeldByAdministrator') holders.push(state.holder);
      if (holders.at(-1) === 'kubeadm 3') break;
      if (state.kind !== 'Free') continue;
      for (const index of [1, 2, 3]) await fixture.edited(node, { holderIdentity: `kubeadm ${index}` });
    }
    expect(holders.at(-1)).toBe('kubeadm 3');
  });
});

describe('without waiting, hold', () => {
  test('calls the function when the node is free', async () => {
    const node = await fixture.node();
    expect(await fixture.client('us').hold(node, () => 'done', { wait: false })).toBe('done');
    expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: '' });
  });

  test('rejects with the holder when another client holds the node', async () => {
    const node = await fixture.node(fixture.heldBy('joe', 1, 60));
    const act = () => Promise.reject(new Error('it was called'));
    await expect(fixture.client('us').hold(node, act, { wait: false })).rejects.toMatchObject({
      name: 'NodeHeldError',
      kind: 'Held',
      node,
      holder: 'joe',
      until: expect.any(Date),
      message: `node ${node} is held by joe`,
    });
    expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: 'joe' });
  });

  test('rejects while another call of the same client holds the node', async () => {
    const node = await fixture.node();
    const client = fixture.client('us');
    await client.hold(node, async () => {
      await expect(client.hold(node, () => undefined, { wait: false })).rejects.toMatchObject({
        kind: 'Held',
        holder: 'us',
      });
    });
  });

  test('rejects when the apiserver does not answer', async () => {
    const kubeconfig = new KubeConfig();
    kubeconfig.loadFromClusterAndUser(
      { name: 'c', server: 'http://127.0.0.1:1', skipTLSVerify: true },
      { name: 'u' },
    );
    const leases = nodeLeases({ kubeconfig });
    await expect(leases.hold('node-1', () => undefined, { wait: false })).rejects.toMatchObject({
      kind: 'Unavailable',
      node: 'node-1',
    });
    await leases.close();
  });
});

describe('a client', () => {
  test('has a holder of its own by default', async () => {
    const [one, other] = [1, 2].map(() => nodeLeases({ kubeconfig: sandbox.kubeconfig }));
    expect(one?.holder).toMatch(/^node-lease\/.+_[-0-9a-f]{36}$/);
    expect(other?.holder).not.toBe(one?.holder);
    const node = await fixture.node();
    await one?.hold(node, async () =>
      expect(await other?.acquire(node)).toMatchObject({ kind: 'HeldByAnother', holder: one.holder }),
    );
    await Promise.all([one?.close(), other?.close()]);
  });

  test('takes a KubeConfig, and does not change it', async () => {
    const kubeconfig = new KubeConfig();
    kubeconfig.loadFromFile(sandbox.kubeconfig);
    const [context] = kubeconfig.getContexts();
    const before = kubeconfig.exportConfig();
    kubeconfig.setCurrentContext('none');
    const leases = nodeLeases({ kubeconfig, context: context?.name ?? '' });
    expect(await leases.get(await fixture.node())).toMatchObject({ kind: 'Missing' });
    await leases.close();
    expect(kubeconfig.getCurrentContext()).toBe('none');
    expect(kubeconfig.exportConfig()).toBe(
      before.replace(/"current-context":"[^"]*"/, '"current-context":"none"'),
    );
  });
});

describe('errors have a kind:', () => {
  test('InvalidArgument', async () => {
    const node = 'Not_a_node';
    await expect(fixture.client('us').get(node)).rejects.toMatchObject({ kind: 'InvalidArgument' });
    await expect(fixture.client('us').hold(node, () => undefined)).rejects.toMatchObject({
      kind: 'InvalidArgument',
    });
    expect(() => nodeLeases({ holder: 'kubeadm-1' })).toThrow(
      expect.objectContaining({ kind: 'InvalidArgument' }),
    );
    expect(() => nodeLeases({ kubeconfig: '/nowhere' })).toThrow(
      expect.objectContaining({ kind: 'InvalidArgument' }),
    );
  });

  test('NodeNotFound', async () => {
    await expect(fixture.client('us').acquire('gone-1')).rejects.toMatchObject({
      kind: 'NodeNotFound',
      node: 'gone-1',
    });
  });

  test('Forbidden', async () => {
    const account = { namespace: 'default', name: 'default' };
    const leases = nodeLeases({ kubeconfig: await kubeconfigOf(sandbox, account, sandbox.dir) });
    const forbidden = { kind: 'Forbidden', name: 'NodeLeaseError' };
    await expect(leases.get('node-1')).rejects.toMatchObject(forbidden);
    await expect(leases.acquire('node-1')).rejects.toMatchObject(forbidden);
    await expect(leases.hold('node-1', () => undefined)).rejects.toMatchObject(forbidden);
    const watched = leases.watch()[Symbol.asyncIterator]().next();
    await expect(watched).rejects.toMatchObject({
      ...forbidden,
      message: expect.stringContaining(
        'missing RBAC permissions to watch Leases: add to a Role in namespace kube-node-maintenance',
      ),
    });
    await leases.close();
  });

  test('Closed', async () => {
    const leases = nodeLeases({ kubeconfig: sandbox.kubeconfig });
    await leases.close();
    await expect(leases.hold('node-1', () => undefined)).rejects.toMatchObject({ kind: 'Closed' });
  });
});
