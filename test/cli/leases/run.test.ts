import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { endOf } from '../../../cli/leases/run.ts';
import { kubeconfigOf } from '../../kit/account.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { LeaseFixture } from '../../node-lease/nodes.ts';

let sandbox: Sandbox;
let fixture: LeaseFixture;
let dir: string;
const children: ChildProcess[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  fixture = new LeaseFixture(sandbox, 'run');
  dir = await mkdtemp(join(tmpdir(), 'nm-lease-run-'));
});

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});

afterAll(async () => {
  await fixture?.close();
  await rm(dir, { recursive: true, force: true });
  await releaseSandbox(sandbox);
});

interface Run {
  readonly child: ChildProcess;
  readonly ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
  stdout(): string;
  stderr(): string;
}

/** Starts the plugin itself, which kubectl replaces itself with: so a signal reaches it. */
function leaseRun(...args: string[]): Run {
  const env = {
    ...sandbox.env,
    PATH: `${sandbox.bin}:${process.env['PATH']}`,
    KUBECONFIG: sandbox.kubeconfig,
    HOME: dir,
  };
  const program = join(sandbox.bin, 'kubectl-maintenance');
  // Not in the foreground of the terminal in which the tests may run, whose signals reach both processes.
  const child = spawn(program, ['lease', 'run', ...args], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  children.push(child);
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].on('data', (chunk: Buffer) => {
      output[name] += chunk.toString();
    });
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, ...output }));
  return { child, ended, stdout: () => output.stdout, stderr: () => output.stderr };
}

const sh = (script: string, ...args: string[]) => ['--', 'sh', '-c', script, ...args];

test('the node is held while the command runs, and released afterwards', async () => {
  const node = await fixture.node();
  const file = join(dir, 'holder');
  const script =
    'kubectl get lease -n kube-node-maintenance $0 -o jsonpath={.spec.holderIdentity} > $1; echo "$2"; exit 7';
  const { ended } = leaseRun(node, ...sh(script, node, file, '--force -x'));
  expect(await ended).toEqual({ code: 7, stdout: '--force -x\n', stderr: '' });
  expect(await readFile(file, 'utf8')).toMatch(/^lease-run\/sandbox-admin@.+_[0-9a-f]{8}$/);
  expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: '' });
});

test('it waits for the holder, which it names', async () => {
  const node = await fixture.node(fixture.heldBy('joe', 1, 600));
  const run = leaseRun(node, '--holder', 'us', '--duration', '60', ...sh('echo ran'));
  await eventually('it to wait', () =>
    expect(run.stderr()).toMatch(
      new RegExp(`^waiting: node/${node} is held by joe, until 2\\S+Z unless renewed\n$`),
    ),
  );
  expect(run.stdout()).toBe('');
  await fixture.edited(node, { holderIdentity: '' });
  expect(await run.ended).toMatchObject({ code: 0, stdout: 'ran\n' });
  expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: '', leaseTransitions: 5 });
});

test('with --no-wait it does not run the command on a node that another client holds', async () => {
  const node = await fixture.node({ holderIdentity: 'kubeadm: a disk' });
  expect(await leaseRun(node, '--no-wait', ...sh('echo ran')).ended).toEqual({
    code: 125,
    stdout: '',
    stderr: `error: node/${node} is held by kubeadm: a disk, which does not expire: wait, or leave out --no-wait\n`,
  });
});

test('when an administrator takes the node, the command is stopped', async () => {
  const node = await fixture.node();
  const run = leaseRun(
    node,
    ...sh('sleep 600 >/dev/null 2>&1 & trap "kill $!; echo stopped; exit 0" TERM; echo runs; wait'),
  );
  await eventually('the command to run', () => expect(run.stdout()).toBe('runs\n'));
  await fixture.edited(node, { holderIdentity: 'kubeadm' });
  expect(await run.ended).toEqual({
    code: 124,
    stdout: 'runs\nstopped\n',
    stderr: `error: the maintenance Lease of node ${node} was lost: it was taken by kubeadm; the command has ended\n`,
  });
  expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: 'kubeadm' });
});

test('a command that ignores SIGTERM is killed after the grace period', async () => {
  const node = await fixture.node();
  const ignores =
    "process.on('SIGTERM', () => console.log('no')); console.log('runs'); setInterval(() => undefined, 1000)";
  const run = leaseRun(node, '--grace-period', '1', '--', process.execPath, '-e', ignores);
  await eventually('the command to run', () => expect(run.stdout()).toBe('runs\n'));
  await fixture.leaseDeleted(node);
  expect(await run.ended).toMatchObject({ code: 124, stdout: 'runs\nno\n' });
});

test.each(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1'] as const)(
  '%s is passed on to the command, whose exit code is returned',
  async (signal) => {
    const node = await fixture.node();
    const passed = `process.on('${signal}', () => process.exit(42)); console.log('runs'); setInterval(() => undefined, 1000)`;
    const run = leaseRun(node, '--', process.execPath, '-e', passed);
    await eventually('the command to run', () => expect(run.stdout()).toBe('runs\n'));
    run.child.kill(signal);
    expect(await run.ended).toEqual({ code: 42, stdout: 'runs\n', stderr: '' });
    expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: '' });
  },
);

test('a command that may not be signalled is waited for', async () => {
  const child = spawn('sh', ['-c', 'sleep 0.5; exit 7']);
  const ended = endOf(child);
  // What Node.js does when kill(2) fails with EPERM.
  child.emit('error', Object.assign(new Error('kill EPERM'), { code: 'EPERM' }));
  expect(await ended).toBe(7);
});

test('a command that a signal ended has 128 and its number', async () => {
  const node = await fixture.node();
  expect((await leaseRun(node, ...sh('kill -9 $$')).ended).code).toBe(137);
});

test('a signal ends the wait', async () => {
  const node = await fixture.node({ holderIdentity: 'kubeadm' });
  const run = leaseRun(node, ...sh('echo ran'));
  await eventually('it to wait', () => expect(run.stderr()).toContain('waiting'));
  run.child.kill('SIGTERM');
  expect(await run.ended).toMatchObject({ code: 143, stdout: '' });
  expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: 'kubeadm' });
});

describe('without running the command it exits with', () => {
  test('127 if there is no such command', async () => {
    const { code, stderr } = await leaseRun(await fixture.node(), '--', 'no-such-command').ended;
    expect({ code, stderr }).toEqual({ code: 127, stderr: 'error: spawn no-such-command ENOENT\n' });
  });

  test('126 if the command cannot be executed', async () => {
    const file = join(dir, 'plain');
    await writeFile(file, '');
    expect((await leaseRun(await fixture.node(), '--', file).ended).code).toBe(126);
  });

  test('125 if there is no such node', async () => {
    const { code, stderr } = await leaseRun('gone-1', ...sh('echo ran')).ended;
    expect({ code, stderr }).toEqual({
      code: 125,
      stderr: 'error: node: there is no node "gone-1"; kubectl get nodes lists them\n',
    });
  });

  test('125 if permissions are missing', async () => {
    const account = { namespace: 'default', name: 'default' };
    const kubeconfig = await kubeconfigOf(sandbox, account, dir);
    const { code, stderr } = await leaseRun('node-1', '--kubeconfig', kubeconfig, ...sh('echo ran')).ended;
    expect(code).toBe(125);
    expect(stderr).toContain('missing RBAC permissions to hold a node');
  });

  test.each([
    { when: 'no command', args: ['node-1'] },
    { when: 'a holder that is reserved', args: ['node-1', '--holder', 'kubeadm-1', '--', 'true'] },
    { when: 'a duration that KEP-1411 does not allow', args: ['node-1', '--duration', '3601', '--', 'true'] },
  ])('2 for $when', async ({ args }) => {
    expect((await leaseRun(...args).ended).code).toBe(2);
  });
});
