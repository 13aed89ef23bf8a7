import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubectlOf } from '../api/kubectl.ts';
import { operatorOf, operatorsDropped, registered, unregistered } from '../kit/admission.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';

let sandbox: Sandbox;
let c: TestCluster;
let node: string;
let operator: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'adm-only' });
  node = await c.nodeNamed('n');
  operator = await operatorOf(c, [node]);
});

afterAll(async () => {
  await unregistered(c);
  await operatorsDropped(c);
  await c?.close();
  await releaseSandbox(sandbox);
});

/** Starts a worker whose Temporal address is unreachable. */
const startAdmission = (...args: string[]): WorkerProcess =>
  startWorker(sandbox, {
    args: ['--admission-only', '--health-port', '0', ...args],
    env: { TEMPORAL_ADDRESS: '127.0.0.1:1' },
  });

const dryRun = () =>
  kubectlOf(sandbox)(
    ['create', '--dry-run=server', '--as', operator, '-f', '-'],
    c.maintenance({ nodes: [node] }),
  );

const portOf = (process: WorkerProcess) => Number(/"webhook":(\d+)/.exec(process.log())?.[1]);

test('admission is served without Temporal, and by another process when the first one ends', async () => {
  const first = startAdmission();
  const second = startAdmission();
  try {
    await Promise.all([first.ready(), second.ready()]);
    expect(portOf(first)).not.toBe(portOf(second));
    const url = await eventually('one of them to be registered and reachable', async () => {
      expect(await registered(c)).toBeDefined();
      expect(await dryRun()).toMatchObject({ code: 0 });
      return JSON.stringify(await registered(c));
    });
    const [registrar, other] = url.includes(`:${portOf(first)}/`) ? [first, second] : [second, first];
    expect(await registrar.stop()).toBe(0);
    await eventually('the other one to be registered', async () => {
      expect(JSON.stringify(await registered(c))).toContain(`:${portOf(other)}/`);
      expect(await dryRun()).toMatchObject({ code: 0 });
    });
  } finally {
    expect([await first.stop(), await second.stop()]).toEqual([0, 0]);
  }
});

test('a port that was set and is taken is an error that names the flag', async () => {
  const taken = new URL(sandbox.temporalUi).port;
  const process = startAdmission('--webhook-port', taken);
  expect(await process.exited()).toBe(1);
  expect(process.log()).toContain(`--webhook-port: port ${taken} is taken; choose another`);
});

test('an address that this host does not have is an error that names the flag', async () => {
  const process = startAdmission('--health-bind-address', '192.0.2.1');
  expect(await process.exited()).toBe(1);
  expect(process.log()).toContain('--health-bind-address: this host has no address 192.0.2.1; choose one');
});
