import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mutating, validating, type WebhookConfiguration } from '../../admission/registration.ts';
import { WEBHOOK_CONFIGURATION, WEBHOOK_HOSTS_ANNOTATION } from '../../api/names.ts';
import { connectKube, type JsonPatchOperation, type Kube } from '../../kube/client.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { operatorOf, operatorsDropped } from '../kit/admission.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { resetRegistration } from '../kit/registration.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { kubectlOf } from './kubectl.ts';

// The webhook configurations of deploy/, and the policy webhook-registrations.nodemaintenance.k8s.io: what the token of the
// admission server may do to them.

let sandbox: Sandbox;
let c: TestCluster;
let attacker: Kube;
let node: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'registrations' });
  attacker = connectKube({ kubeconfig: sandbox.admissionKubeconfig, userAgent: 'attacker', log: silentLog });
  node = await c.nodeNamed('n');
  await resetRegistration(c.admin);
  await eventually('the policy to be known', () =>
    expect(
      attacker.jsonPatch(validating, key, [{ op: 'add', path: '/metadata/labels/probe', value: 'x' }]),
    ).rejects.toThrow(/metadata/),
  );
});

afterAll(async () => {
  await attacker?.close();
  await resetRegistration(c.admin);
  await operatorsDropped(c);
  await c?.close();
  await releaseSandbox(sandbox);
});

const key = { name: WEBHOOK_CONFIGURATION };

describe('before the first admission server has run', () => {
  const created = (...as: string[]) =>
    kubectlOf(sandbox)(['create', '--dry-run=server', ...as, '-f', '-'], c.maintenance({ nodes: [node] }));

  test('a user who may not delete every node cannot create a maintenance', async () => {
    const operator = await operatorOf(c, [node]);
    expect(await created('--as', operator)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('failed calling webhook "authorization.nodemaintenance.k8s.io"'),
    });
  });

  test('an administrator can', async () => {
    expect(await created()).toMatchObject({ code: 0 });
  });
});

const caBundle = Buffer.from('-----BEGIN CERTIFICATE-----').toString('base64');
const webhook = (path: string, value: unknown): JsonPatchOperation => ({
  op: 'add',
  path: `/webhooks/0/${path}`,
  value,
});
const addressed = (value: object): JsonPatchOperation[] => [webhook('clientConfig', value)];
const path = '/authorization';
const service = { namespace: 'node-maintenance', name: 'node-maintenance-admission', path, port: 443 };

/** Asks for every Secret that is written in the cluster. */
const ofSecrets = {
  name: 'secrets.nodemaintenance.k8s.io',
  sideEffects: 'None',
  admissionReviewVersions: ['v1'],
  rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['secrets'], operations: ['*'], scope: '*' }],
  clientConfig: { url: 'https://127.0.0.1:9443/secrets' },
};

const attacks: { what: string; operations: JsonPatchOperation[] }[] = [
  { what: 'add a webhook for Secrets', operations: [{ op: 'add', path: '/webhooks/-', value: ofSecrets }] },
  {
    what: 'replace a webhook by one for Secrets',
    operations: [{ op: 'replace', path: '/webhooks/0', value: ofSecrets }],
  },
  {
    what: 'replace a webhook by one for Secrets of the same name',
    operations: [webhook('rules', ofSecrets.rules)],
  },
  {
    what: 'extend the rules',
    operations: [{ op: 'add', path: '/webhooks/0/rules/-', value: ofSecrets.rules[0] }],
  },
  { what: 'remove a webhook', operations: [{ op: 'remove', path: '/webhooks/0' }] },
  { what: 'remove all webhooks', operations: [{ op: 'replace', path: '/webhooks', value: [] }] },
  {
    what: 'change the failurePolicy',
    operations: [webhook('failurePolicy', 'Ignore'), webhook('timeoutSeconds', 1)],
  },
  { what: 'remove the matchConditions', operations: [{ op: 'remove', path: '/webhooks/0/matchConditions' }] },
  {
    what: 'exempt a user',
    operations: [
      {
        op: 'add',
        path: '/webhooks/0/matchConditions/-',
        value: { name: 'not-mallory', expression: "request.userInfo.username != 'mallory'" },
      },
    ],
  },
  {
    what: 'set a namespaceSelector',
    operations: [webhook('namespaceSelector', { matchLabels: { a: 'b' } })],
  },
  { what: 'set an objectSelector', operations: [webhook('objectSelector', { matchLabels: { a: 'b' } })] },
  { what: 'change the timeout', operations: [webhook('timeoutSeconds', 30)] },
  ...[
    'https://evil.example.com:443/authorization',
    'https://evil.example.com/authorization',
    'https://127.0.0.1.evil.example.com:9443/authorization',
    'https://127.0.0.1:9443/other',
    'https://127.0.0.1:9443/authorization/../other',
    'https://127.0.0.2:9443/authorization',
    'https://[::1]:9443/authorization',
    'https://localhost:9443/authorization',
  ].map((url) => ({ what: `register ${url}`, operations: addressed({ url, caBundle }) })),
  {
    what: 'register another Service',
    operations: addressed({ service: { ...service, name: 'evil' }, caBundle }),
  },
  {
    what: 'register a Service of another namespace',
    operations: addressed({ service: { ...service, namespace: 'default' }, caBundle }),
  },
  {
    what: 'register another port of the Service',
    operations: addressed({ service: { ...service, port: 444 }, caBundle }),
  },
  {
    what: 'register another path of the Service',
    operations: addressed({ service: { ...service, path: '/warnings' }, caBundle }),
  },
  {
    what: 'allow another host',
    operations: [
      {
        op: 'replace',
        path: `/metadata/annotations/${WEBHOOK_HOSTS_ANNOTATION.replace('/', '~1')}`,
        value: 'evil.example.com',
      },
      ...addressed({ url: 'https://evil.example.com/authorization', caBundle }),
    ],
  },
  {
    what: 'change the labels',
    operations: [{ op: 'add', path: '/metadata/labels/a', value: 'b' }],
  },
  { what: 'set a finalizer', operations: [{ op: 'add', path: '/metadata/finalizers', value: ['a.io/b'] }] },
];

describe('the admission server may not', () => {
  test.each(attacks)('$what', async ({ operations }) => {
    const before = await c.admin.get(validating, key);
    await expect(attacker.jsonPatch(validating, key, operations)).rejects.toMatchObject({
      kind: 'Forbidden',
      message: expect.stringContaining('webhook-registrations.nodemaintenance.k8s.io'),
    });
    expect((await c.admin.get(validating, key))?.webhooks).toEqual(before?.webhooks);
  });

  test('do the same to the mutating configuration', async () => {
    const operations: JsonPatchOperation[] = [{ op: 'add', path: '/webhooks/-', value: ofSecrets }];
    await expect(attacker.jsonPatch(mutating, key, operations)).rejects.toMatchObject({
      kind: 'Forbidden',
      message: expect.stringContaining('webhook-registrations.nodemaintenance.k8s.io'),
    });
  });

  test('do so by server-side apply', async () => {
    const object = { metadata: key, webhooks: [ofSecrets] } as unknown as WebhookConfiguration;
    await expect(
      attacker.apply(validating, object, { fieldManager: 'attacker', force: true }),
    ).rejects.toMatchObject({ kind: 'Forbidden' });
  });

  test('create another configuration, or create its own after an administrator has deleted it', async () => {
    const other = { metadata: { name: 'evil.example.com' }, webhooks: [ofSecrets] };
    await expect(attacker.create(validating, other as unknown as WebhookConfiguration)).rejects.toMatchObject(
      {
        kind: 'Forbidden',
      },
    );
    const uid = (await c.admin.get(validating, key))?.metadata.uid ?? '';
    await c.admin.delete(validating, key, { uid });
    const own = { metadata: key, webhooks: [ofSecrets] } as unknown as WebhookConfiguration;
    await expect(
      attacker.apply(validating, own, { fieldManager: 'attacker', force: true }),
    ).rejects.toMatchObject({ kind: 'Forbidden' });
    await resetRegistration(c.admin);
  });

  test('change the policy, or read other Secrets', async () => {
    const policies: Resource = {
      group: 'admissionregistration.k8s.io',
      version: 'v1',
      plural: 'validatingadmissionpolicies',
      kind: 'ValidatingAdmissionPolicy',
      namespaced: false,
    };
    const policy = { name: 'webhook-registrations.nodemaintenance.k8s.io' };
    await expect(
      attacker.mergePatch(policies, policy, { spec: { failurePolicy: 'Ignore' } }),
    ).rejects.toMatchObject({ kind: 'Forbidden' });
    const secrets: Resource = { ...resources.services, plural: 'secrets', kind: 'Secret' };
    await expect(attacker.list(secrets)).rejects.toMatchObject({ kind: 'Forbidden' });
  });
});

describe('the admission server may', () => {
  const local = 'https://127.0.0.1:9443/authorization';
  test.each([
    { what: 'its authority', value: { url: local, caBundle } },
    { what: 'no authority', value: { url: local } },
    { what: 'a port of an allowed host', value: { url: 'https://127.0.0.1:12345/authorization' } },
    { what: 'its Service', value: { service } },
  ])('register $what', async ({ value }) => {
    const { webhooks } = await attacker.jsonPatch(validating, key, addressed(value));
    expect(webhooks[0]?.clientConfig).toEqual(value);
  });
});
