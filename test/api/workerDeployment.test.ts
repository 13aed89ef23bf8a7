import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { eventually } from '../kit/eventually.ts';
import { type Kubectl, kubectlOf, succeeds } from './kubectl.ts';

const definitions = fileURLToPath(new URL('fixtures/temporal-worker-controller.yaml', import.meta.url));
const example = 'docs/examples/temporal-worker-controller';

let sandbox: Sandbox | undefined;
let kubectl: Kubectl;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  await succeeds(kubectl(['apply', '-f', definitions]));
});

afterAll(async () => {
  await kubectl(['delete', '-f', definitions]);
  await releaseSandbox(sandbox);
});

interface Workload extends KubeObject {
  spec: {
    replicas: number;
    template: { metadata: object; spec: { containers: { env: { name: string; value?: string }[] }[] } };
  };
}

async function workload(folder: string, kind: string): Promise<Workload> {
  const documents = parseAllDocuments(await succeeds(kubectl(['kustomize', folder])));
  return documents
    .map((document) => document.toJS() as Workload)
    .find((object) => object.kind === kind) as Workload;
}

test("the example for Temporal's worker controller runs the pods of deploy/worker, which leave the current version to it", async () => {
  const plain = (await workload('deploy/worker', 'Deployment')).spec;
  const versioned = (await workload(example, 'WorkerDeployment')).spec;
  plain.template.spec.containers[0]?.env.push({ name: 'SET_CURRENT_VERSION', value: 'false' });
  expect(versioned.template).toEqual(plain.template);
  expect(versioned.replicas).toBe(plain.replicas);
});

test('the definitions of the worker controller accept the example', async () => {
  await eventually('the definitions to be served', async () => {
    const apply = ['apply', '--server-side', '--dry-run=server', '-k', example, '--validate=strict'];
    const { stdout, stderr } = await kubectl(apply);
    expect(stderr).toBe('');
    expect(stdout).toContain('workerdeployment.temporal.io/node-maintenance-worker serverside-applied');
    expect(stdout).toContain('connection.temporal.io/node-maintenance serverside-applied');
  });
});
