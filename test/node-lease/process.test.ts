import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { kubeconfigOf } from '../kit/account.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { LeaseFixture } from './nodes.ts';

// Runs the example of the README as a separate process, with only the permissions of its manifest.

const repository = fileURLToPath(new URL('../..', import.meta.url));
const example = join(repository, 'node-lease', 'example.ts');
const manifest = join(repository, 'node-lease', 'rbac.yaml');
const account = { namespace: 'reboot-daemon', name: 'reboot-daemon' };
const fromSource = '--conditions=node-maintenance-source';

let sandbox: Sandbox;
let fixture: LeaseFixture;
let dir: string;
let kubeconfig: string;
const children: ChildProcess[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  fixture = new LeaseFixture(sandbox, 'program');
  dir = await mkdtemp(join(tmpdir(), 'nm-node-lease-'));
  await succeeds(kubectlOf(sandbox)(['apply', '-f', manifest]));
  kubeconfig = await kubeconfigOf(sandbox, account, dir);
});

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});

afterAll(async () => {
  if (sandbox) await kubectlOf(sandbox)(['delete', '--ignore-not-found', '--wait=false', '-f', manifest]);
  await fixture?.close();
  await rm(dir, { recursive: true, force: true });
  await releaseSandbox(sandbox);
});

interface Program {
  readonly child: ChildProcess;
  /** Resolves with the exit code. */
  readonly exited: Promise<unknown>;
  output(): string;
}

function started(...args: string[]): Program {
  const PATH = `${sandbox.bin}:${process.env['PATH'] ?? ''}`;
  const env = { ...process.env, KUBECONFIG: kubeconfig, NODE_OPTIONS: '', HOME: sandbox.dir, PATH };
  const child = spawn(process.execPath, args, { cwd: repository, env, stdio: ['ignore', 'pipe', 'pipe'] });
  children.push(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
  return { child, exited: once(child, 'exit').then(([code]) => code), output: () => output };
}

/** Writes the holder of the node into a file. */
const writeHolder = [
  'sh',
  '-c',
  'kubectl get lease -n kube-node-maintenance $0 -o jsonpath={.spec.holderIdentity} > $1',
];

describe('the example of the README', () => {
  test('waits for the current holder, works while it holds the Lease, and releases it', async () => {
    const node = await fixture.node({ holderIdentity: 'kubeadm: looking into it' });
    const file = join(dir, 'holder');
    const program = started(fromSource, example, node, ...writeHolder, node, file);
    await eventually('it to wait', () => expect(program.output()).toContain('waiting'));
    await fixture.edited(node, { holderIdentity: '' });
    expect(await program.exited).toBe(0);
    expect(program.output()).toBe(`${node} is held by kubeadm: looking into it: waiting\n${node} is done\n`);
    expect(await readFile(file, 'utf8')).toBe(`reboot-daemon/${node}`);
    expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: '', leaseTransitions: 0 });
  });

  test('stops its work when an administrator takes the node', async () => {
    const node = await fixture.node({});
    const program = started(fromSource, example, node, 'sleep', '600');
    await eventually('it to hold the node', async () =>
      expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: `reboot-daemon/${node}` }),
    );
    await fixture.edited(node, { holderIdentity: 'kubeadm' });
    expect(await program.exited).toBe(1);
    expect(program.output()).toContain(
      `NodeLeaseLostError: the maintenance Lease of node ${node} was lost: it was taken by kubeadm`,
    );
  });
});

const stoppable = `
import { nodeLeases } from '@node-maintenance/node-lease';
const leases = nodeLeases({ holder: 'first', leaseDurationSeconds: 3 });
const untilAborted = (signal) => new Promise((resolve) => {
  console.log('first starts');
  signal.addEventListener('abort', () => resolve(console.log('first ends')));
});
await leases.hold(process.argv[1], untilAborted).catch((error) => console.log(error.message));
await leases.close();
`;

test('a process that was stopped for longer than its Lease notices the loss when it continues', async () => {
  const node = await fixture.node();
  const first = started(fromSource, '--input-type=module', '-e', stoppable, node);
  await eventually('the first to start', () => expect(first.output()).toContain('first starts'));
  first.child.kill('SIGSTOP');
  await fixture.client('second').hold(node, async () => {
    expect(first.output()).toBe('first starts\n');
    first.child.kill('SIGCONT');
    await eventually('the first to end', () => expect(first.output()).toContain('first ends'));
    await first.exited;
  });
  expect(first.output()).toContain(`the maintenance Lease of node ${node} was lost: `);
  expect(await fixture.specOf(node)).toMatchObject({ holderIdentity: '', leaseTransitions: 1 });
});
