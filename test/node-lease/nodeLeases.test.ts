import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { leaseHolderOf, NODE_LEASE_NAMESPACE } from '../../api/names.ts';
import { nodeLeases } from '../../node-lease/index.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubeconfigOf } from '../kit/account.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { LeaseWorld } from './nodes.ts';

let sandbox: Sandbox;
let world: LeaseWorld;

beforeAll(async () => {
  sandbox = await testSandbox();
  world = new LeaseWorld(sandbox, 'lease');
});

afterAll(async () => {
  await world?.close();
  await releaseSandbox(sandbox);
});

const times = { acquireTime: expect.any(String), renewTime: expect.any(String) };
const held = { kind: 'Held', until: expect.any(Date), lease: expect.anything() };

describe('"If a client acquires a lease, it must set all fields" (KEP-1411 > Acquisition)', () => {
  test('a Lease that is missing is made for its node, renewed, released, and acquired again', async () => {
    const node = await world.node();
    const leases = world.client(leaseHolderOf('example'), { leaseDurationSeconds: undefined });
    const ours = { holderIdentity: 'nodemaintenance.k8s.io/example', leaseDurationSeconds: 900 };

    expect(await leases.acquire(node)).toEqual(held);
    const first = await world.lease(node);
    expect(first?.spec).toEqual({ ...ours, ...times, leaseTransitions: 0 });
    expect(first?.metadata.ownerReferences).toMatchObject([{ apiVersion: 'v1', kind: 'Node', name: node }]);

    expect(await leases.renew(node)).toEqual(held);
    const second = await world.specOf(node);
    expect(second).toEqual({ ...first?.spec, renewTime: expect.any(String) });
    expect(Date.parse(second?.renewTime ?? '')).toBeGreaterThan(Date.parse(first?.spec.renewTime ?? ''));

    expect(await leases.release(node)).toBe('Released');
    expect(await world.specOf(node)).toEqual({ holderIdentity: '', ...times, leaseTransitions: 0 });
    expect(await leases.release(node)).toBe('NotOurs');
    expect(await leases.renew(node)).toEqual({ kind: 'Lost', lease: await world.lease(node) });

    expect(await leases.acquire(node)).toEqual(held);
    expect(await world.specOf(node)).toEqual({ ...ours, ...times, leaseTransitions: 1 });
  });

  test('the Lease goes with its node', async () => {
    const node = await world.node();
    await world.client('us').acquire(node);
    await world.nodeDeleted(node);
    await eventually('the Lease to be removed', async () => expect(await world.lease(node)).toBeUndefined());
  });

  test.each([
    { when: 'empty', spec: () => ({}) },
    { when: "another's that has expired", spec: () => world.heldBy('another', 10, 5) },
    { when: "another's without any time", spec: () => ({ holderIdentity: 'another' }) },
  ])('one that is $when is taken', async ({ spec }) => {
    const node = await world.node(spec());
    expect(await world.client('us').acquire(node)).toEqual(held);
    expect(await world.specOf(node)).toMatchObject({ holderIdentity: 'us', leaseDurationSeconds: 6 });
  });

  test.each([
    { when: 'another holds', spec: () => world.heldBy('another', 1, 60), until: expect.any(Date) },
    {
      when: 'another held until a second ago',
      spec: () => world.heldBy('another', 60, 60),
      until: expect.any(Date),
    },
    { when: 'an administrator holds', spec: () => world.heldBy('kubeadm', 1_000_000, 1), until: undefined },
    { when: 'an administrator named alone', spec: () => ({ holderIdentity: 'kubeadm:x' }), until: undefined },
    {
      when: 'somebody holds until the end of time',
      spec: () => ({
        holderIdentity: '../..',
        leaseDurationSeconds: 2_147_483_647,
        renewTime: '9999-12-31T23:59:59.999999Z',
      }),
      until: expect.any(Date),
    },
  ])('what $when is neither taken nor renewed nor released', async ({ spec, until }) => {
    const node = await world.node(spec());
    const before = await world.lease(node);
    const leases = world.client('us');
    const answer = { kind: 'HeldByAnother', holder: before?.spec.holderIdentity, until };
    expect(await leases.acquire(node)).toEqual(answer);
    expect(await leases.renew(node)).toEqual(answer);
    expect(await leases.release(node)).toBe('NotOurs');
    expect(await world.lease(node)).toEqual(before);
  });

  test('of a crowd exactly one acquires it, and the others are told who', async () => {
    const node = await world.node();
    const crowd = Array.from({ length: 12 }, (_, index) => world.client(`one-${index}`));
    const answers = await Promise.all(crowd.map((leases) => leases.acquire(node)));
    expect(answers.filter(({ kind }) => kind === 'Held')).toHaveLength(1);
    const winner = (await world.specOf(node))?.holderIdentity;
    for (const answer of answers) if (answer.kind === 'HeldByAnother') expect(answer.holder).toBe(winner);
  });
});

describe('in one line it is said', () => {
  const word = 'expected lower case letters, digits, "-" and "."';

  test.each([
    { name: '', words: `node: ${word}` },
    { name: 'a/b', words: '(got "a/b")' },
    { name: '../../secrets/x', words: '(got "../../secrets/x")' },
    { name: 'a\nb', words: '(got "a\\nb")' },
    { name: 'x'.repeat(100_000), words: '(got 100000 characters)' },
    { name: 'no-such-node', words: 'node: there is no node "no-such-node"; kubectl get nodes lists them' },
  ])('that there is no node called $words', async ({ name, words }) => {
    const leases = world.client('us');
    for (const act of [
      () => leases.acquire(name),
      () => leases.hold(name, () => expect('held').toBe('not')),
    ]) {
      const message = await refusalOf(act());
      expect(message).toContain(words);
      expect(message).not.toContain('\n');
    }
  });

  test.each([
    { differs: { holder: ' ' }, words: 'holder: expected a name' },
    { differs: { holder: 'x'.repeat(254) }, words: 'holder: expected at most 253 characters (got 254)' },
    {
      differs: { holder: 'kubeadm-us' },
      words: 'which KEP-1411 reserves for administrators; choose another',
    },
    { differs: { leaseDurationSeconds: 0 }, words: 'expected a whole number from 1 to 3600 (got 0)' },
    { differs: { leaseDurationSeconds: 3_601 }, words: 'expected a whole number from 1 to 3600 (got 3601)' },
    { differs: { leaseDurationSeconds: 1.5 }, words: 'expected a whole number from 1 to 3600 (got 1.5)' },
    { differs: { kubeconfig: '/nowhere' }, words: 'kubeconfig /nowhere does not exist: set KUBECONFIG' },
  ])('$words', ({ differs, words }) => {
    const options = { holder: 'us', kubeconfig: sandbox.kubeconfig, ...differs };
    expect(() => nodeLeases(options)).toThrow(words);
  });

  test('what RBAC forbids, and which rules there should be', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'nm-forbidden-'));
    const account = { namespace: NODE_LEASE_NAMESPACE, name: 'default' };
    const kubeconfig = await kubeconfigOf(sandbox, account, dir);
    const node = await world.node();
    const leases = world.client('us', { kubeconfig });
    expect(await refusalOf(leases.acquire(node))).toMatch(
      /cannot get resource "leases".*: the rules that are needed are in node-lease\/rbac.yaml$/,
    );
    expect(await refusalOf(leases.hold(node, () => 'held'))).toBe(
      'RBAC does not allow to hold a node: add to a Role in namespace kube-node-maintenance the rule {apiGroups: ["coordination.k8s.io"], resources: [leases], verbs: [get, list, watch, create, patch]}',
    );
    expect(await world.lease(node)).toBeUndefined();
    await rm(dir, { recursive: true });
  });

  test('that the namespace is missing', async () => {
    const bare = await testSandbox({ install: false, nodes: 1 });
    const elsewhere = new LeaseWorld(bare, 'bare');
    try {
      const refusal = await refusalOf(elsewhere.client('us').acquire('node-1'));
      expect(refusal).toBe(
        'there is no namespace kube-node-maintenance: kubectl create namespace kube-node-maintenance, or install node-maintenance',
      );
    } finally {
      await elsewhere.close();
      await releaseSandbox(bare);
    }
  });
});

async function refusalOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'nothing was refused',
    (error: Error) => error.message,
  );
}
