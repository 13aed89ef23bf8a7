import { mkdtemp, rm } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { LeaseSummary } from '../../../domain/leases/summary.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { type Answer, type Kubectl, kubectlOf, succeeds } from '../../api/kubectl.ts';
import { kubeconfigOf } from '../../kit/account.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { LeaseFixture } from '../../node-lease/nodes.ts';

let sandbox: Sandbox;
let world: LeaseFixture;
let kubectl: Kubectl;

beforeAll(async () => {
  sandbox = await testSandbox();
  world = new LeaseFixture(sandbox, 'cli');
  kubectl = kubectlOf(sandbox);
});

afterAll(async () => {
  await world?.close();
  await releaseSandbox(sandbox);
});

/** Runs the command as a user does: kubectl finds the plugin on PATH. */
function lease(...args: string[]): Promise<Answer> {
  return kubectl(['maintenance', 'lease', ...args]);
}

/** The sandbox's administrator. */
const user = 'sandbox-admin';

test('a node is acquired, rejected while held by another, taken over by force, and released', async () => {
  const node = await world.node(world.heldBy('snapshots', 1, 630));
  const refused = await lease('acquire', node, '--reason', 'bad disk');
  expect(refused).toMatchObject({ code: 1, stdout: '' });
  expect(refused.stderr).toMatch(
    new RegExp(
      `^error: node/${node} is held by snapshots, expires in 10m unless renewed: wait, or take it over with --force\n$`,
    ),
  );
  expect(await lease('release', node)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('held by snapshots, expires in'),
  });
  expect(await world.specOf(node)).toMatchObject({ holderIdentity: 'snapshots' });

  const forced = await lease('acquire', node, '--reason', 'bad disk', '--force');
  expect(forced).toMatchObject({
    code: 0,
    stdout: `node/${node} acquired by ${user}, taken over from snapshots, who may still be working on the node\n`,
  });
  const holder = `kubeadm:${user}@${hostname()}: bad disk`;
  expect(await world.specOf(node)).toEqual({
    holderIdentity: holder,
    leaseDurationSeconds: 3_600,
    acquireTime: expect.any(String),
    renewTime: expect.any(String),
    leaseTransitions: 5,
  });
  expect(await world.client('snapshots').acquire(node)).toMatchObject({ kind: 'HeldByAnother', holder });

  expect(await lease('release', node)).toEqual({
    code: 0,
    stdout: `node/${node} released, previously held by ${holder}\n`,
    stderr: '',
  });
  expect(await lease('release', node, 'no-such-node')).toEqual({
    code: 1,
    stdout: `node/${node} was not held\n`,
    stderr: 'error: node: there is no node "no-such-node"; kubectl get nodes lists them\n',
  });
  expect(await world.client('snapshots').acquire(node)).toMatchObject({ kind: 'Held' });
});

test('of several nodes, the available ones are acquired, even without a Lease, and the others are reported', async () => {
  const [node, missing] = [await world.node(), 'no-such-node'];
  const answer = await lease('acquire', missing, '../../secrets/x', node, '--reason', 'audit');
  expect(answer).toMatchObject({ code: 1, stdout: `node/${node} acquired by ${user}\n` });
  expect(answer.stderr.split('\n')).toEqual([
    'error: node: there is no node "no-such-node"; kubectl get nodes lists them',
    expect.stringMatching(/^error: node: expected lower case letters.*\(got "\.\.\/\.\.\/secrets\/x"\)$/),
    '',
  ]);
  const owners = (await world.lease(node))?.metadata.ownerReferences;
  expect(owners).toMatchObject([{ kind: 'Node', name: node }]);
});

test('a hold of the same user on another host, or written manually, is reported and kept without force', async () => {
  const elsewhere = await world.node({ holderIdentity: `kubeadm:${user}@elsewhere: bad disk` });
  const byHand = await world.node({ holderIdentity: 'kubeadm: jane replaces a disk' });
  const acquired = await lease('acquire', elsewhere, byHand, '--reason', 'audit');
  expect(acquired).toEqual({
    code: 1,
    stdout: '',
    stderr: [
      `error: node/${elsewhere} is held by kubeadm:${user}@elsewhere: bad disk, does not expire: wait, or take it over with --force\n`,
      `error: node/${byHand} is held by kubeadm: jane replaces a disk, does not expire: wait, or take it over with --force\n`,
    ].join(''),
  });
  expect(await lease('release', elsewhere, byHand)).toMatchObject({ code: 1, stdout: '' });
  expect(await world.specOf(byHand)).toEqual({ holderIdentity: 'kubeadm: jane replaces a disk' });
});

describe('the list', () => {
  let nodes: Record<'held' | 'abandoned' | 'nonsense' | 'jane' | 'none', string>;

  beforeAll(async () => {
    nodes = {
      held: await world.node(world.heldBy('snapshots', 60, 900)),
      abandoned: await world.node(world.heldBy('crashed', 7_230, 900)),
      nonsense: await world.node({
        holderIdentity: '../..\n\u001B[31mred\u009B\u007F\u202E',
        leaseDurationSeconds: 2_147_483_647,
        renewTime: '9999-12-31T23:59:59.999999Z',
      }),
      jane: await world.node({ holderIdentity: 'kubeadm:jane@laptop: bad disk' }),
      none: await world.node(),
    };
  });

  test('shows every node with its holder, renewal and expiry, aligned', async () => {
    const lines = (await succeeds(lease('list'))).split('\n');
    const line = (name: string) =>
      lines.find((one) => one.startsWith(`${name} `))?.replaceAll(/ {3,}/g, ' | ');
    expect(lines[0]).toMatch(/^NODE +STATE +HOLDER +RENEWED +EXPIRES +REASON$/);
    expect(line(nodes.held)).toMatch(/\| Held \| snapshots \| \d+s ago \| in 1\dm \| <none>$/);
    expect(line(nodes.abandoned)).toMatch(
      /\| Abandoned \| crashed \| 120m ago \| 10\dm ago \| StoppedRenewing$/,
    );
    expect(line(nodes.nonsense)).toMatch(
      /\| Held \| \.\.\/\.\.\\u000a\\u001b\[31mred\\u009b\\u007f\\u202e \| in \d+y \| in \d+y \| RenewedInTheFuture$/,
    );
    expect(line(nodes.jane)).toMatch(
      /\| HeldByAdministrator \| kubeadm:jane@laptop \| <none> \| never \| bad disk$/,
    );
    expect(line(nodes.none)).toMatch(/\| Missing \| <none> \| <none> \| <none> \| <none>$/);
    const column = lines[0]?.indexOf('STATE') ?? 0;
    for (const name of Object.values(nodes))
      expect(lines.find((one) => one.startsWith(`${name} `))?.slice(column - 1)).toMatch(/^ [A-Z]/);
  });

  test('escapes control characters in the messages of acquire and release', async () => {
    const escaped = String.raw`../..\u000a\u001b[31mred\u009b\u007f\u202e`;
    const refused = await lease('release', nodes.nonsense);
    expect(refused.stderr).toMatch(/^error: .*\n$/);
    expect(refused.stderr).toContain(`is held by ${escaped}, expires in`);
    expect(await succeeds(lease('acquire', nodes.nonsense, '--reason', 'audit', '--force'))).toBe(
      `node/${nodes.nonsense} acquired by ${user}, taken over from ${escaped}, who may still be working on the node\n`,
    );
  });

  test('is available as JSON and YAML', async () => {
    const read = async (format: 'json' | 'yaml') =>
      (parse(await succeeds(lease('list', '-o', format))) as { items: LeaseSummary[] }).items;
    const [json, yaml] = [await read('json'), await read('yaml')];
    expect(json.find(({ node }) => node === nodes.jane)).toEqual({
      node: nodes.jane,
      state: 'HeldByAdministrator',
      holder: 'kubeadm:jane@laptop: bad disk',
      reason: 'bad disk',
    });
    expect(yaml.find(({ node }) => node === nodes.held)).toEqual({
      node: nodes.held,
      state: 'Held',
      holder: 'snapshots',
      acquireTime: expect.any(String),
      renewTime: expect.any(String),
      expireTime: expect.any(String),
      leaseDurationSeconds: 900,
      leaseTransitions: 4,
    });
    expect(json.find(({ node }) => node === nodes.abandoned)?.problem).toEqual({
      reason: 'StoppedRenewing',
      message: expect.stringContaining('"crashed" stopped renewing'),
    });
  });

  test('has more columns with -o wide', async () => {
    const [title] = (await succeeds(lease('list', '-o', 'wide'))).split('\n');
    expect(title?.split(/ {3,}/)).toEqual([
      'NODE',
      'STATE',
      'HOLDER',
      'RENEWED',
      'EXPIRES',
      'ACQUIRED',
      'DURATION',
      'TRANSITIONS',
      'REASON',
    ]);
  });
});

test.each([
  {
    when: 'a reason is missing',
    args: ['acquire', 'n'],
    code: 2,
    message: "required option '--reason <text>'",
  },
  {
    when: 'a reason is empty',
    args: ['acquire', 'n', '--reason', ''],
    code: 2,
    message: 'required; describe why you hold the node',
  },
  {
    when: 'a kubeconfig is missing',
    args: ['list', '--kubeconfig', '/nowhere'],
    code: 1,
    message: 'error: kubeconfig /nowhere does not exist: set KUBECONFIG',
  },
])('when $when the error is one line', async ({ args, code, message }) => {
  const answer = await lease(...args);
  expect(answer).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(message) });
  expect(answer.stderr.trimEnd()).not.toContain('\n');
});

test('a user without permissions gets a one-line remedy; the roles permit list, acquire and release', async () => {
  const account = { namespace: 'default', name: `cli-${crypto.randomUUID().slice(0, 5)}` };
  const bind = (...what: string[]) =>
    succeeds(kubectl(['create', ...what, `--serviceaccount=${account.namespace}:${account.name}`]));
  const binding = ['rolebinding', account.name, '-n', 'kube-node-maintenance'];
  const node = await world.node({});
  const dir = await mkdtemp(join(tmpdir(), 'nm-cli-'));
  await succeeds(kubectl(['create', 'serviceaccount', account.name, '-n', account.namespace]));
  try {
    const kubeconfig = await kubeconfigOf(sandbox, account, dir);
    const theirs = (...args: string[]) => lease(...args, '--kubeconfig', kubeconfig);
    const refused = await theirs('list');
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(
      /^error: list .* forbidden: .*: bind the ClusterRole node-maintenance-view\n$/,
    );

    await bind('clusterrolebinding', account.name, '--clusterrole=node-maintenance-operator');
    await bind(...binding, '--role=node-maintenance-lease-administrator');
    await eventually('the user to acquire a node', async () =>
      expect(await theirs('acquire', node, '--reason', 'audit')).toMatchObject({ code: 0 }),
    );
    expect(await succeeds(theirs('list'))).toContain(
      `kubeadm:system:serviceaccount:default:${account.name}@`,
    );
    expect(await succeeds(theirs('release', node))).toContain(`node/${node} released`);
  } finally {
    await kubectl(['delete', ...binding]);
    await kubectl(['delete', 'clusterrolebinding', account.name]);
    await succeeds(kubectl(['delete', 'serviceaccount', account.name, '-n', account.namespace]));
    await rm(dir, { recursive: true });
  }
});
