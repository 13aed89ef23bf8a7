import { parseAllDocuments } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import { WORK_NAMESPACE } from '../../api/names.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { settingSources } from '../../worker/config.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from './kubectl.ts';

let sandbox: Sandbox | undefined;
let kubectl: Kubectl;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
});

afterAll(() => releaseSandbox(sandbox));

interface Rule {
  from?: { namespaceSelector?: { matchLabels: object } }[];
  ports: { port: number; protocol: string }[];
}

interface NetworkPolicy extends KubeObject {
  spec: {
    podSelector: { matchLabels?: Record<string, string> };
    policyTypes: string[];
    ingress?: Rule[];
  };
}

interface Deployment extends KubeObject {
  spec: {
    template: {
      metadata: { labels: object };
      spec: { containers: { ports: { name: string; containerPort: number }[] }[] };
    };
  };
}

interface Service extends KubeObject {
  spec: { ports: { name: string; targetPort: string }[] };
}

/** Returns the objects of a kind in a folder of deploy/. */
async function rendered<T extends KubeObject>(folder: string, kind: string): Promise<T[]> {
  const documents = parseAllDocuments(await succeeds(kubectl(['kustomize', folder])));
  return documents.map((document) => document.toJS() as T).filter((object) => object.kind === kind);
}

async function one<T extends KubeObject>(folder: string, kind: string): Promise<T> {
  const [object, ...others] = await rendered<T>(folder, kind);
  if (object === undefined || others.length > 0) throw new Error(`expected one ${kind} in ${folder}`);
  return object;
}

/** Returns the ports of the container in a Deployment by name. */
async function containerPorts(folder: string): Promise<Record<string, number>> {
  const { spec } = await one<Deployment>(folder, 'Deployment');
  const ports = spec.template.spec.containers.flatMap((container) => container.ports);
  return Object.fromEntries(ports.map(({ name, containerPort }) => [name, containerPort]));
}

describe.each([
  { folder: 'deploy/worker', isWebhook: false },
  { folder: 'deploy/admission-server', isWebhook: true },
])('the NetworkPolicy of $folder', ({ folder, isWebhook }) => {
  test('selects exactly the pods of its Deployment', async () => {
    const { spec } = await one<NetworkPolicy>(folder, 'NetworkPolicy');
    const { template } = (await one<Deployment>(folder, 'Deployment')).spec;
    expect(spec.podSelector.matchLabels).not.toEqual({});
    expect(template.metadata.labels).toMatchObject(spec.podSelector.matchLabels ?? {});
    expect(spec.policyTypes).toEqual(['Ingress']);
  });

  test('admits metrics from labelled namespaces, webhooks from anywhere, and nothing else', async () => {
    const { spec } = await one<NetworkPolicy>(folder, 'NetworkPolicy');
    const { webhook, metrics } = await containerPorts(folder);
    expect(spec.ingress).toEqual([
      ...(isWebhook ? [{ ports: [{ protocol: 'TCP', port: webhook }] }] : []),
      {
        from: [{ namespaceSelector: { matchLabels: { metrics: 'enabled' } } }],
        ports: [{ protocol: 'TCP', port: metrics }],
      },
    ]);
  });

  test('names the ports of the Service, and those that the process listens on', async () => {
    const ports = await containerPorts(folder);
    const { spec } = await one<Service>(folder, 'Service');
    const admitted = (await one<NetworkPolicy>(folder, 'NetworkPolicy')).spec.ingress ?? [];
    const served = spec.ports.map(({ targetPort }) => ports[targetPort]);
    expect(new Set(admitted.flatMap((rule) => rule.ports.map(({ port }) => port)))).toEqual(new Set(served));
    for (const [name, port] of Object.entries(ports)) {
      const setting = settingSources.find(({ flags }) => flags === `--${name}-port <port>`);
      expect([name, setting?.defaultText]).toEqual([name, String(port)]);
    }
  });
});

test('nothing connects to the pods of Jobs', async () => {
  const { metadata, spec } = await one<NetworkPolicy>('deploy/window-jobs', 'NetworkPolicy');
  expect(metadata.namespace).toBe(WORK_NAMESPACE);
  expect(spec).toEqual({ podSelector: {}, policyTypes: ['Ingress'] });
});

test.each([
  { what: 'deploy/worker', args: ['-k', 'deploy/worker'] },
  { what: 'deploy/admission-server', args: ['-k', 'deploy/admission-server'] },
  { what: 'deploy/window-jobs', args: ['-k', 'deploy/window-jobs'] },
  { what: 'the example for egress', args: ['-f', 'docs/examples/worker-egress.yaml'] },
])('the apiserver accepts the NetworkPolicy of $what', async ({ args }) => {
  const answer = await kubectl(['apply', '--server-side', '--force-conflicts', '--dry-run=server', ...args]);
  expect(answer).toMatchObject({ code: 0, stderr: '' });
  expect(answer.stdout).toMatch(
    /^networkpolicy\.networking\.k8s\.io\/\S+ serverside-applied \(server dry run\)$/m,
  );
});
