import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { RebootAnnotation } from '../../../api/names.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { AgentHost } from '../../kit/agent.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let host: AgentHost;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'sentinel' });
  const node = await c.nodeNamed('n');
  host = await AgentHost.of(c.admin, { node, kubeconfig: sandbox.kubeconfig });
});

afterAll(async () => {
  await host?.close();
  await c?.close();
  await releaseSandbox(sandbox);
});

test('with the token of its node, an agent says on the Node that the host needs a reboot', async () => {
  const sentinel = join(host.dir, 'reboot-required');
  await writeFile(sentinel, '');
  host.start({ args: ['--reboot-command', 'true', '--reboot-sentinel', sentinel] });
  await eventually('the annotation', async () => {
    const node = await c.admin.get(resources.nodes, { name: host.node });
    expect(node?.metadata.annotations).toHaveProperty([RebootAnnotation.Required]);
  });
});
