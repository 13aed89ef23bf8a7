import { readFile, stat, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { runTokenRenewal } from '../../agent/token.ts';
import { AGENT_COMPONENT } from '../../api/names.ts';
import { nodeTokenClaims } from '../../domain/common/nodeToken.ts';
import { connectKube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { AgentHost } from '../kit/agent.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let host: AgentHost;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'agent-token' });
  const node = await c.nodeNamed('n');
  host = await AgentHost.of(c.admin, { node, kubeconfig: sandbox.kubeconfig });
});

afterAll(async () => {
  await host?.close();
  await c?.close();
  await releaseSandbox(sandbox);
});

interface Config {
  users: { user: { token: string } }[];
}

async function tokenIn(file: string): Promise<string> {
  const config = parse(await readFile(file, 'utf8')) as Config;
  return config.users[0]?.user.token ?? '';
}

const maintenance = (...args: string[]) => kubectlOf(sandbox)(['maintenance', ...args]);

test('kubectl maintenance agent kubeconfig prints a kubeconfig whose token is bound to the node', async () => {
  const printed = await succeeds(maintenance('agent', 'kubeconfig', host.node, '--duration', '24'));
  await writeFile(host.kubeconfig, printed, { mode: 0o600 });
  const claims = nodeTokenClaims(await tokenIn(host.kubeconfig));
  expect(claims).toMatchObject({ serviceAccount: 'node-maintenance-agent', node: { name: host.node } });
  expect((claims?.expiresAt.getTime() ?? 0) - (claims?.issuedAt.getTime() ?? 0)).toBe(86_400_000);
  const kube = connectKube({ kubeconfig: host.kubeconfig, userAgent: 'test', log: silentLog });
  expect(await kube.get(resources.nodes, { name: host.node })).toBeDefined();
  await kube.close();
});

test.each([
  { args: ['missing'], code: 1, want: /node missing does not exist/ },
  { args: ['missing', '--duration', '721'], code: 2, want: /expected whole hours, 1 to 720/ },
])('it refuses $args', async ({ args, code, want }) => {
  const answer = await maintenance('agent', 'kubeconfig', ...args);
  expect({ code: answer.code, text: answer.stderr }).toEqual({ code, text: expect.stringMatching(want) });
});

test('the agent renews its token in its kubeconfig at half of its time, and uses the new one', async () => {
  const file = host.kubeconfig;
  await writeFile(file, `# kept\n${await readFile(file, 'utf8')}`);
  const before = await tokenIn(file);
  const kube = connectKube({ kubeconfig: file, userAgent: AGENT_COMPONENT, reloads: true, log: silentLog });
  const halfTimeMs = (nodeTokenClaims(before)?.issuedAt.getTime() ?? 0) + 43_200_000;
  const clock = {
    now: () => new Date(halfTimeMs + 1_000),
    requestNodeToken: kube.requestNodeToken.bind(kube),
  };
  const stop = new AbortController();
  const deps = { kube: clock, node: host.node, log: silentLog };
  const renewal = runTokenRenewal(deps, { kubeconfig: file }, stop.signal);
  await eventually('another token', async () => expect(await tokenIn(file)).not.toBe(before));
  stop.abort();
  await renewal;
  expect(await readFile(file, 'utf8')).toMatch(/^# kept\n/);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const claims = nodeTokenClaims(await tokenIn(file));
  expect((claims?.expiresAt.getTime() ?? 0) - (claims?.issuedAt.getTime() ?? 0)).toBe(86_400_000);
  expect(await kube.get(resources.nodes, { name: host.node })).toBeDefined();
  await kube.close();
});

test('a kubeconfig that is replaced while the process runs is used', async () => {
  const file = host.kubeconfig;
  const text = await readFile(file, 'utf8');
  await writeFile(file, text.replace(await tokenIn(file), 'invalid'));
  const kube = connectKube({ kubeconfig: file, userAgent: 'test', reloads: true, log: silentLog });
  await expect(kube.get(resources.nodes, { name: host.node })).rejects.toMatchObject({
    kind: 'Unauthorized',
  });
  await writeFile(file, text);
  expect(await kube.get(resources.nodes, { name: host.node })).toBeDefined();
  await kube.close();
});
