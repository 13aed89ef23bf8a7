import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { checks, examine } from '../../conformance/suite.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { evictionRequestControllerOn } from '../kit/evictionRequests.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

const run = promisify(execFile);

let sandbox: Sandbox;
let c: TestCluster;
let stop: () => Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox({ evictionRequest: true, nodes: 1 });
  c = await testCluster(sandbox, { prefix: 'conform' });
  stop = evictionRequestControllerOn(c);
});

afterAll(async () => {
  await stop?.();
  await c?.close();
  await releaseSandbox(sandbox);
});

// Jest starts a few of all of them at a time, in their order: the check of half a minute is of the imperative responder.
// The heartbeat deadline of 20 minutes is examined by `npm run conformance -- --slow` only.
describe.each(['imperative responder', 'controller', 'apiserver'] as const)('The %s', (subject) => {
  const short = checks.filter((check) => check.subject === subject && check.minutes === undefined);

  test.concurrent.each(short)('$rule', async (check) => {
    expect(await examine(c.admin, check)).toEqual({ kind: 'Passed' });
  });
});

describe('npm run conformance', () => {
  const command = (...args: string[]) => run(process.execPath, ['conformance/main.ts', ...args]);

  test('prints a row for each check, and exits with 0 if none fails', async () => {
    const { stdout } = await command('--kubeconfig', sandbox.kubeconfig, '--subject', 'apiserver');
    const examined = checks.filter(({ subject }) => subject === 'apiserver');
    expect(stdout.match(/^ok {6}apiserver/gm)).toHaveLength(examined.length);
    expect(stdout).toContain(`${examined.length} passed, 0 failed, 0 not applicable`);
  });

  test('exits with 1 if a check fails: the worker may not write what the checks write', async () => {
    const args = ['--kubeconfig', sandbox.workerKubeconfig, '--subject', 'apiserver'];
    await expect(command(...args)).rejects.toMatchObject({ code: 1 });
  });
});
