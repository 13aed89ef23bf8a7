import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { leaseHolderOf, NODE_LEASE_NAMESPACE } from '../../api/names.ts';
import { nodeLeases } from '../../node-lease/index.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubeconfigOf } from '../kit/account.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { LeaseFixture } from './nodes.ts';

let sandbox: Sandbox;
let fixture: LeaseFixture;

beforeAll(async () => {
  sandbox = await testSandbox();
  fixture = new LeaseFixture(sandbox, 'lease');
});

afterAll(async () => {
  await fixture?.close();
  await releaseSandbox(sandbox);
});

const times = { acquireTime: expect.any(String), renewTime: expect.any(String) };
const held = { kind: 'Held', until: expect.any(Date), lease: expect.anything() };

describe('"If a client acquires a lease, it must set all fields" (KEP-1411 > Acquisition)', () => {
  test('a missing Lease is created, renewed, released, and acquired again', async () => {
    const node = await fixture.node();
    const leases = fixture.client(leaseHolderOf('example'), { leaseDurationSeconds: undefined });
    const ours = { holderIdentity: 'nodemaintenance.k8s.io/example', leaseDurationSeconds: 900 };

    expect(await leases.acquire(node)).toEqual(held);
    const first = await fixture.lease(node);
    expect(first?.spec).toEqual({ ...ours, ...times, leaseTransitions: 0 });
    expect(first?.metadata.ownerReferences).toMatchObject([{ apiVersion: 'v1', kind: 'Node', name: node }]);

    expect(await leases.renew(node)).toEqual(held);
    const second = await fixture.specOf(node);
    expect(second).toEqual({ ...first?.spec, renewTime: expect.any(String) });
    expect(Date.parse(second?.renewTime ?? '')).toBeGreaterThan(Date.parse(first?.spec.renewTime ?? ''));

    expect(await leases.release(node)).toBe('Released');
    expect(await fixture.specOf(node)).toEqual({ holderIdentity: '', ...times, leaseTransitions: 0 });
    expect(await leases.release(node)).toBe('NotOurs');
    expect(await leases.renew(node)).toEqual({ kind: 'Lost', lease: await fixture.lease(node) });

    expect(await leases.acquire(node)).toEqual(held);
    expect(await fixture.specOf(node)).toEqual({ ...ours, ...times, leaseTransitions: 1 });
  });

  test('the Lease is deleted with its node', async () => {
    const node = await fixture.node();
    await fixture.client('us').acquire(node);
    await fixture.nodeDeleted(node);
    await eventually('the Lease to be removed', async () =>
      expect(await fixture.lease(node)).toBeUndefined(),
    );
  });

  test.each([
    { when: 'empty', spec: () => ({}) },
    { when: 'held by another client, and expired', spec: () => fixture.heldBy('another', 10, 5) },
    { when: 'held by another client, without renewTime', spec: () => ({ holderIdentity: 'another' }) },
  ])('a Lease that is $when is acquired', async ({ spec }) => {
    const node = await fixture.node(spec());
    expect(await fixture.client('us').acquire(node)).toEqual(held);
    expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: 'us', leaseDurationSeconds: 6 });
  });

  test.each([
    { when: 'another client holds', spec: () => fixture.heldBy('another', 1, 60), until: expect.any(Date) },
    {
      when: 'another client held until a second ago',
      spec: () => fixture.heldBy('another', 60, 60),
      until: expect.any(Date),
    },
    { when: 'an administrator holds', spec: () => fixture.heldBy('kubeadm', 1_000_000, 1), until: undefined },
    {
      when: 'an administrator holds without renewTime',
      spec: () => ({ holderIdentity: 'kubeadm:x' }),
      until: undefined,
    },
    {
      when: 'another client holds until the year 9999',
      spec: () => ({
        holderIdentity: '../..',
        leaseDurationSeconds: 2_147_483_647,
        renewTime: '9999-12-31T23:59:59.999999Z',
      }),
      until: expect.any(Date),
    },
  ])('a Lease that $when is neither acquired nor renewed nor released', async ({ spec, until }) => {
    const node = await fixture.node(spec());
    const before = await fixture.lease(node);
    const leases = fixture.client('us');
    const answer = { kind: 'HeldByAnother', holder: before?.spec.holderIdentity, until };
    expect(await leases.acquire(node)).toEqual(answer);
    expect(await leases.renew(node)).toEqual(answer);
    expect(await leases.release(node)).toBe('NotOurs');
    expect(await fixture.lease(node)).toEqual(before);
  });

  test('exactly one of several clients acquires it, and the others get the holder', async () => {
    const node = await fixture.node();
    const clients = Array.from({ length: 12 }, (_, index) => fixture.client(`one-${index}`));
    const answers = await Promise.all(clients.map((leases) => leases.acquire(node)));
    expect(answers.filter(({ kind }) => kind === 'Held')).toHaveLength(1);
    const winner = (await fixture.specOf(node))?.holderIdentity;
    for (const answer of answers) if (answer.kind === 'HeldByAnother') expect(answer.holder).toBe(winner);
  });
});

describe('an error of one line reports', () => {
  const rule = 'expected lower case letters, digits, "-" and "."';

  test.each([
    { name: '', text: `node: ${rule}` },
    { name: 'a/b', text: '(got "a/b")' },
    { name: '../../secrets/x', text: '(got "../../secrets/x")' },
    { name: 'a\nb', text: '(got "a\\nb")' },
    { name: 'x'.repeat(100_000), text: '(got 100000 characters)' },
    { name: 'no-such-node', text: 'node: there is no node "no-such-node"; kubectl get nodes lists them' },
  ])('an invalid node name: $text', async ({ name, text }) => {
    const leases = fixture.client('us');
    for (const act of [
      () => leases.acquire(name),
      () => leases.hold(name, () => expect('held').toBe('not')),
    ]) {
      const message = await refusalOf(act());
      expect(message).toContain(text);
      expect(message).not.toContain('\n');
    }
  });

  test.each([
    { differs: { holder: ' ' }, text: 'holder: required' },
    { differs: { holder: 'x'.repeat(254) }, text: 'holder: expected at most 253 characters (got 254)' },
    {
      differs: { holder: 'kubeadm-us' },
      text: 'which KEP-1411 reserves for administrators; choose another',
    },
    { differs: { leaseDurationSeconds: 0 }, text: 'expected a whole number from 1 to 3600 (got 0)' },
    { differs: { leaseDurationSeconds: 3_601 }, text: 'expected a whole number from 1 to 3600 (got 3601)' },
    { differs: { leaseDurationSeconds: 1.5 }, text: 'expected a whole number from 1 to 3600 (got 1.5)' },
    { differs: { kubeconfig: '/nowhere' }, text: 'kubeconfig /nowhere does not exist: set KUBECONFIG' },
  ])('an invalid option: $text', ({ differs, text }) => {
    const options = { holder: 'us', kubeconfig: sandbox.kubeconfig, ...differs };
    expect(() => nodeLeases(options)).toThrow(text);
  });

  test('missing RBAC permissions, with the required rules', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'nm-forbidden-'));
    const account = { namespace: NODE_LEASE_NAMESPACE, name: 'default' };
    const kubeconfig = await kubeconfigOf(sandbox, account, dir);
    const node = await fixture.node();
    const leases = fixture.client('us', { kubeconfig });
    expect(await refusalOf(leases.acquire(node))).toMatch(
      /cannot get resource "leases".*: grant the rules in node-lease\/rbac.yaml$/,
    );
    expect(await refusalOf(leases.hold(node, () => 'held'))).toBe(
      'missing RBAC permissions to hold a node: add to a Role in namespace kube-node-maintenance the rule {apiGroups: ["coordination.k8s.io"], resources: [leases], verbs: [get, list, watch, create, patch]}',
    );
    expect(await fixture.lease(node)).toBeUndefined();
    await rm(dir, { recursive: true });
  });

  test('a missing namespace', async () => {
    const bare = await testSandbox({ install: false, nodes: 1 });
    const elsewhere = new LeaseFixture(bare, 'bare');
    try {
      const refusal = await refusalOf(elsewhere.client('us').acquire('node-1'));
      expect(refusal).toBe(
        'namespace kube-node-maintenance does not exist; create it with kubectl create namespace kube-node-maintenance, or install node-maintenance',
      );
    } finally {
      await elsewhere.close();
      await releaseSandbox(bare);
    }
  });
});

async function refusalOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'no error',
    (error: Error) => error.message,
  );
}
