import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { parse, parseAllDocuments, stringify } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import { NODE_DISRUPTION_BUDGET_NAME } from '../../api/names.ts';
import { validating } from '../../admission/registration.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { chart, ensureHelm, Helm } from '../kit/helm.ts';
import { clusterRoleBindings, deployments } from '../kit/resources.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let dir: string;
let sandbox: Sandbox;
let helm: Helm;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-chart-'));
  const [path, started] = await Promise.all([ensureHelm(), testSandbox({ install: false })]);
  sandbox = started;
  helm = new Helm(path, dir, sandbox.env);
}, 1_800_000);

afterAll(async () => {
  await releaseSandbox(sandbox);
  await rm(dir, { recursive: true, force: true });
});

const definitions = fileURLToPath(new URL('definitions.yaml', import.meta.url));
/** Values with which the chart renders everything that it can. */
const everythingOn = fileURLToPath(new URL('everything.yaml', import.meta.url));

const namespace = 'node-maintenance';
const policiesServed = ['--api-versions', 'admissionregistration.k8s.io/v1/MutatingAdmissionPolicy'];

type Rendered = Record<string, KubeObject>;

function objectsIn(text: string): KubeObject[] {
  return parseAllDocuments(text)
    .map((document) => document.toJS() as KubeObject | null)
    .filter((object) => object !== null);
}

/** Removes what only one of the two has, and does not matter. */
function comparable(text: string): Rendered {
  const objects = objectsIn(text)
    .filter(({ metadata }) => metadata.annotations?.['helm.sh/hook'] === undefined)
    .map((object) => JSON.parse(withoutHash(JSON.stringify(object))) as KubeObject)
    .map(withoutHelm);
  return Object.fromEntries(
    objects.map((object) => [
      `${object.kind} ${object.metadata.namespace ?? ''}/${object.metadata.name}`,
      object,
    ]),
  );
}

/** The suffix by which kustomize restarts the pods when the ConfigMap changes. */
function withoutHash(text: string): string {
  return text.replaceAll(/"node-maintenance-worker-[0-9a-z]{10}"/g, '"node-maintenance-worker"');
}

function withoutHelm(object: KubeObject): KubeObject {
  const { spec } = object as { spec?: { template?: { metadata?: { annotations?: object } } } };
  // A checksum, by which Helm does the same.
  if (spec?.template?.metadata?.annotations !== undefined) delete spec.template.metadata.annotations;
  const { annotations } = object.metadata;
  if (annotations?.['helm.sh/resource-policy'] !== undefined) delete annotations['helm.sh/resource-policy'];
  if (annotations !== undefined && Object.keys(annotations).length === 0) delete object.metadata.annotations;
  return object;
}

async function kustomized(folders: readonly string[], components: readonly string[] = []): Promise<Rendered> {
  const overlay = await mkdtemp(join(dir, 'overlay-'));
  const path = (folder: string) =>
    relative(overlay, fileURLToPath(new URL(`../../${folder}`, import.meta.url)));
  await writeFile(
    join(overlay, 'kustomization.yaml'),
    stringify({ resources: folders.map(path), components: components.map(path) }),
  );
  const { stdout } = await promisify(execFile)('kubectl', ['kustomize', overlay], {
    env: sandbox.env,
    maxBuffer: 50_000_000,
  });
  return comparable(stdout);
}

const template = (...args: string[]) =>
  helm.output('template', 'nm', chart, '--kube-version', '1.36.0', '--namespace', namespace, ...args);

async function templated(...args: string[]): Promise<Rendered> {
  return comparable(await template(...args));
}

/** Webhooks in the order of their names: kustomize appends them one by one. */
function withSortedWebhooks(rendered: Rendered): Rendered {
  for (const object of Object.values(rendered) as { webhooks?: { name: string }[] }[])
    object.webhooks?.sort((a, b) => (a.name < b.name ? -1 : 1));
  return rendered;
}

/** Returns the settings in values, such as `worker.replicas`, with what they are set to. */
function settingsIn(values: object, path: readonly string[] = []): [string, string][] {
  return Object.entries(values).flatMap(([key, value]: [string, unknown]): [string, string][] => {
    const inner = [...path, key];
    const isSection = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (isSection && Object.keys(value).length > 0) return settingsIn(value, inner);
    return [[inner.join('.'), JSON.stringify(value)]];
  });
}

const release = `Namespace /${namespace}`;
const everything = ['deploy', 'deploy/admission-server', 'deploy/worker'];

describe('the chart', () => {
  test('has no problems that helm lint finds', async () => {
    const { code, stdout } = await helm.answer('lint', '--strict', chart);
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('0 chart(s) failed') });
  });

  test('renders the same objects as kustomize', async () => {
    // Helm creates the namespace of the release.
    const { [release]: _, ...expected } = await kustomized(everything);
    expect(await templated(...policiesServed)).toEqual(expected);
  });

  test('renders the same objects as kustomize for Kubernetes before 1.36', async () => {
    const { [release]: _, ...expected } = withSortedWebhooks(
      await kustomized(everything, ['deploy/before-1.36']),
    );
    expect(withSortedWebhooks(await templated())).toEqual(expected);
    expect(await templated(...policiesServed, '--set', 'mutatingPolicies=webhooks')).toEqual(
      await templated(),
    );
  });

  test('renders the optional parts of deploy/', async () => {
    const { [release]: _, ...expected } = await kustomized([
      ...everything,
      'deploy/window-jobs',
      'deploy/temporal-user',
      'deploy/agent-daemonset',
    ]);
    const args = ['--set', 'windowJobs.enabled=true,temporalUser.allNodes=true,agent.enabled=true'];
    expect(await templated(...policiesServed, ...args)).toEqual(expected);
  });

  test.each([
    { part: 'controller of EvictionRequests', name: 'evictionRequestController', variable: 'CONTROLLER' },
    { part: 'responders alone', name: 'evictionRequestResponders', variable: 'RESPONDERS' },
  ])('renders the permissions of the $part, and enables it', async ({ name, variable }) => {
    const enabled = await templated(...policiesServed, '--set', `${name}.enabled=true`);
    const permissions = await kustomized(['deploy/eviction-requests']);
    expect(enabled).toMatchObject(permissions);
    const worker = JSON.stringify(enabled['Deployment node-maintenance/node-maintenance-worker']);
    expect(worker.match(/"EVICTION_REQUEST_\w+","value":"true"/g)).toEqual([
      `"EVICTION_REQUEST_${variable}","value":"true"`,
    ]);
  });

  test('names the namespace of the release everywhere', async () => {
    const text = await helm.output(
      'template',
      'nm',
      chart,
      '--kube-version',
      '1.36.0',
      '--namespace',
      'berlin',
      ...policiesServed,
    );
    expect(text).not.toMatch(/system:serviceaccount:node-maintenance:/);
    expect(text).toContain('system:serviceaccount:berlin:node-maintenance-worker');
    expect(text).not.toMatch(/namespace: node-maintenance$/m);
  });

  test('leaves out what is disabled, and adds what is enabled', async () => {
    const off = await templated(
      ...policiesServed,
      '--set',
      'crds.install=false,userRoles.create=false,readinessGates.enabled=false,deploymentEvacuator.enabled=false,networkPolicy.enabled=false,podDisruptionBudget.enabled=false',
    );
    const names = Object.keys(off).join('\n');
    expect(names).not.toMatch(
      /CustomResourceDefinition|NetworkPolicy|PodDisruptionBudget|readiness-taint|node-maintenance-viewer/,
    );
    const disabled = JSON.stringify(off['Deployment node-maintenance/node-maintenance-worker']);
    for (const feature of ['READINESS_GATES', 'DEPLOYMENT_EVACUATOR'])
      expect(disabled).toContain(`{"name":"${feature}","value":"false"}`);
    const on = await templated(
      '--set',
      'cluster=berlin-1,temporal.tlsSecret=tls,temporal.apiKeySecret=key,webhook.certificates=cert-manager,webhook.issuerRef.name=ca,monitoring.podMonitor.enabled=true,monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true',
    );
    expect(Object.keys(on)).toEqual(
      expect.arrayContaining([
        'Certificate node-maintenance/node-maintenance-webhook',
        'PodMonitor node-maintenance/node-maintenance',
        'PrometheusRule node-maintenance/node-maintenance',
        'ConfigMap node-maintenance/node-maintenance-dashboard',
      ]),
    );
    const worker = JSON.stringify(on['Deployment node-maintenance/node-maintenance-worker']);
    expect(worker).toContain('{"name":"NODE_MAINTENANCE_CLUSTER","value":"berlin-1"}');
    expect(worker).toContain('{"secret":{"name":"tls","optional":false,"items":');
    // The authority of Temporal Cloud is public.
    expect(on['ConfigMap node-maintenance/node-maintenance-worker']).toEqual({
      ...on['ConfigMap node-maintenance/node-maintenance-worker'],
      data: {
        TEMPORAL_ADDRESS: expect.any(String),
        TEMPORAL_NAMESPACE: 'default',
        TEMPORAL_TLS_CLIENT_KEY_PATH: '/etc/node-maintenance/temporal/tls.key',
        TEMPORAL_TLS_CLIENT_CERT_PATH: '/etc/node-maintenance/temporal/tls.crt',
        TEMPORAL_API_KEY_FILE: '/etc/node-maintenance/temporal/api-key',
      },
    });
    expect(JSON.stringify(on['Deployment node-maintenance/node-maintenance-admission'])).toContain(
      '{"name":"WEBHOOK_CERTIFICATES","value":"external"}',
    );
  });

  test('has no option that the test of every option leaves out', async () => {
    const [defaults, set] = await Promise.all(
      [join(chart, 'values.yaml'), everythingOn].map(
        async (path) => new Map(settingsIn(parse(await readFile(path, 'utf8')) as object)),
      ),
    );
    // These remove objects, or choose among them.
    const others =
      /^(?:crds\.install|mutatingPolicies|(?:readinessGates|deploymentEvacuator|networkPolicy|podDisruptionBudget|resourceQuota)\.enabled|deploymentEvacuator\.registration|userRoles\.create|agent\.nodeSelector\.kubernetes\.io\/os)$/;
    const isChanged = ([name, value]: [string, string]) =>
      [...(set ?? [])].some(
        ([other, to]) => to !== value && (other === name || other.startsWith(`${name}.`)),
      );
    const left = [...(defaults ?? [])]
      .filter(([name]) => !others.test(name))
      .filter((one) => !isChanged(one));
    expect(left).toEqual([]);
  });

  test.each([
    {
      set: 'worker.replica=1',
      message:
        /worker: Additional property replica is not allowed|additional properties 'replica' not allowed/,
    },
    { set: 'logLevel=loud', message: /logLevel/ },
    { set: 'cluster=Berlin', message: /cluster/ },
    { set: 'worker.replicas=-1', message: /replicas/ },
    {
      set: 'deploymentEvacuator.registration=automatic,deploymentEvacuator.enabled=false',
      message: /deploymentEvacuator\.registration: automatic requires deploymentEvacuator\.enabled/,
    },
    {
      set: 'deploymentEvacuator.registration=automatic,evictionApi=auto',
      message: /deploymentEvacuator\.registration: automatic requires evictionApi evacuation/,
    },
    { set: `cluster=${'a'.repeat(64)}`, message: /cluster/ },
    { set: 'cluster=notify-prod', message: /cluster: expected another beginning than notify-/ },
    {
      set: 'agent.env[0].name=HEALTH_PORT,agent.env[0].value=1',
      message: /agent\.env: HEALTH_PORT is that of the liveness probe; set agent\.healthPort/,
    },
    { set: 'webhook.certificates=cert-manager', message: /webhook\.issuerRef\.name: name the issuer/ },
  ])('rejects $set with the field', async ({ set, message }) => {
    const { code, stderr } = await helm.answer(
      'template',
      'nm',
      chart,
      '--kube-version',
      '1.36.0',
      '--set',
      set,
    );
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(message) });
  });
});

describe('a release', () => {
  let c: TestCluster;
  const install = ['--namespace', namespace, '--create-namespace', '--wait', '--timeout', '3m'];

  const budgets = async () => (await c.admin.list(resources.nodeDisruptionBudgets)).items;
  const replicasOf = async (name: string) => {
    const found = await c.admin.get<KubeObject & { spec?: { replicas?: number } }>(deployments as never, {
      namespace,
      name,
    });
    return found?.spec?.replicas;
  };

  test('is installed, and its pods run', async () => {
    // The simulated nodes run every image.
    const printed = await helm.output('install', 'nm', chart, ...install);
    expect(printed).toContain('is installed in namespace node-maintenance');
    c = await testCluster(sandbox, { prefix: 'chart' });
    expect(await replicasOf('node-maintenance-worker')).toBe(2);
    expect(await c.admin.get(validating, { name: 'nodemaintenance.k8s.io' })).toBeDefined();
  });

  test('is accepted by the apiserver with every option, field by field', async () => {
    const kubectl = kubectlOf(sandbox);
    // Those of the release exist.
    const workNamespace = ['namespace', 'node-maintenance-work'];
    await succeeds(kubectl(['apply', '-f', definitions]));
    await succeeds(kubectl(['create', ...workNamespace]));
    try {
      const group = ['--api-group', 'admissionregistration.k8s.io', '--output', 'name'];
      const served = await succeeds(kubectl(['api-resources', ...group]));
      // Since Kubernetes 1.36.
      const hasPolicies = served.includes('mutatingadmissionpolicies.');
      for (const mutatingPolicies of hasPolicies ? ['policies', 'webhooks'] : ['webhooks']) {
        const options = ['--values', everythingOn, '--set', `mutatingPolicies=${mutatingPolicies}`];
        const items = objectsIn(await template(...policiesServed, ...options));
        const kinds = items.map(({ kind }) => kind);
        expect(kinds).toEqual(
          expect.arrayContaining(['Certificate', 'PodMonitor', 'PrometheusRule', 'DaemonSet']),
        );
        const apply = [
          'apply',
          '--server-side',
          '--force-conflicts',
          '--dry-run=server',
          '--validate=strict',
        ];
        // The new kinds are served a moment later.
        const { stdout } = await eventually('the apiserver to accept everything', async () => {
          const answer = await kubectl([...apply, '-f', '-'], { apiVersion: 'v1', kind: 'List', items });
          expect(answer).toMatchObject({ code: 0, stderr: '' });
          return answer;
        });
        expect(stdout.trim().split('\n')).toHaveLength(items.length);
      }
    } finally {
      await succeeds(kubectl(['delete', '--wait', ...workNamespace]));
      await succeeds(kubectl(['delete', '--wait', '-f', definitions]));
    }
  });

  test('is upgraded and rolled back, and keeps the objects', async () => {
    const budget = { metadata: { name: NODE_DISRUPTION_BUDGET_NAME }, spec: { maxUnavailable: 1 } };
    await c.admin.apply(resources.nodeDisruptionBudgets, budget as never, { fieldManager: 'kubectl' });
    await helm.output('upgrade', 'nm', chart, ...install, '--set', 'worker.replicas=3');
    expect(await replicasOf('node-maintenance-worker')).toBe(3);
    await helm.output('rollback', 'nm', '1', '--namespace', namespace, '--wait');
    expect(await replicasOf('node-maintenance-worker')).toBe(2);
    expect(await budgets()).toHaveLength(1);
  });

  test('is left to Helm by kubectl maintenance uninstall, but for what acts or permits to act', async () => {
    const uninstalled = await succeeds(kubectlOf(sandbox)(['maintenance', 'uninstall', '--yes']));
    expect(uninstalled).toMatch(
      /ClusterRole +node-maintenance-worker +keep +Helm removes it: helm uninstall nm\n/,
    );
    expect(await replicasOf('node-maintenance-worker')).toBe(0);
    expect(await c.admin.get(validating, { name: 'nodemaintenance.k8s.io' })).toBeUndefined();
    expect(await c.admin.get(clusterRoleBindings, { name: 'node-maintenance-worker' })).toBeUndefined();
    expect(await budgets()).toHaveLength(1);
  });

  test('is uninstalled without its CRDs and their objects', async () => {
    await helm.output('uninstall', 'nm', '--namespace', namespace, '--wait');
    expect(await replicasOf('node-maintenance-worker')).toBeUndefined();
    expect(await c.admin.get(validating, { name: 'nodemaintenance.k8s.io' })).toBeUndefined();
    expect(await budgets()).toHaveLength(1);
    await c.close();
  });
});
