import { readFileSync } from 'node:fs';
import { parse, parseAllDocuments } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import { AGENT_COMPONENT, AGENT_SERVICE_ACCOUNT, COMPONENT_LABEL } from '../../api/names.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from './kubectl.ts';

let sandbox: Sandbox | undefined;
let kubectl: Kubectl;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
});

afterAll(() => releaseSandbox(sandbox));

interface PodSpec {
  serviceAccountName?: string;
  containers: { image: string; command: string[]; volumeMounts: { name: string; mountPath: string }[] }[];
  volumes: { name: string; hostPath: { path: string } }[];
}

const staticPod = 'deploy/agent/static-pod/node-maintenance-agent.yaml';

async function rendered(folder: string): Promise<KubeObject[]> {
  const documents = parseAllDocuments(await succeeds(kubectl(['kustomize', folder])));
  return documents.map((document) => document.toJS() as KubeObject);
}

interface PodTemplate {
  metadata: { labels: Record<string, string> };
  spec: PodSpec;
}

async function daemonSet(): Promise<{ spec: { template: PodTemplate } }> {
  const [one, ...others] = await rendered('deploy/agent-daemonset');
  expect([one?.kind, others]).toEqual(['DaemonSet', []]);
  return one as unknown as { spec: { template: PodTemplate } };
}

const podTemplates = async () => [
  (await daemonSet()).spec.template,
  parse(readFileSync(staticPod, 'utf8')) as PodTemplate,
];

test('the apiserver accepts the DaemonSet and the static pod of the node agent', async () => {
  for (const args of [
    ['-k', 'deploy/agent-daemonset'],
    ['-f', staticPod],
  ])
    expect(await kubectl(['apply', '--server-side', '--dry-run=server', ...args])).toMatchObject({
      code: 0,
      stderr: '',
    });
});

test('they run the program of the agent in the image of the worker, rename manifests within one mount, and are never drained', async () => {
  const [worker] = (await rendered('deploy/worker')).filter(({ kind }) => kind === 'Deployment');
  const { containers } = (worker as unknown as { spec: { template: { spec: PodSpec } } }).spec.template.spec;
  for (const { metadata, spec } of await podTemplates()) {
    const { containers: own, volumes } = spec;
    expect(metadata.labels[COMPONENT_LABEL]).toBe(AGENT_COMPONENT);
    const [{ image, command, volumeMounts } = { image: '', command: [], volumeMounts: [] }] = own;
    expect(image).toBe(containers[0]?.image);
    expect(command.slice(0, 2)).toEqual(['node', '/app/agent/main.js']);
    const paths = Object.fromEntries(volumes.map(({ name, hostPath }) => [name, hostPath.path]));
    for (const { name, mountPath } of volumeMounts) expect(mountPath).toBe(paths[name]);
    expect(Object.values(paths).filter((path) => path.startsWith('/etc/kubernetes'))).toEqual([
      '/etc/kubernetes',
    ]);
  }
});

test('the DaemonSet uses the account of the agents, which deploy/ contains', async () => {
  const { serviceAccountName } = (await daemonSet()).spec.template.spec;
  expect(serviceAccountName).toBe(AGENT_SERVICE_ACCOUNT);
  const accounts = (await rendered('deploy')).filter(({ kind }) => kind === 'ServiceAccount');
  expect(accounts.map(({ metadata }) => metadata.name)).toContain(AGENT_SERVICE_ACCOUNT);
});
