import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { hostsOf, validating } from '../../admission/registration.ts';
import { type Secret, secretName, secrets } from '../../admission/secret.ts';
import { SYSTEM_NAMESPACE, WEBHOOK_CONFIGURATION } from '../../api/names.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { type Answer, kubectlOf } from '../api/kubectl.ts';
import {
  operatorOf,
  operatorsDropped,
  registered,
  servedAdmission,
  type TestAdmission,
} from '../kit/admission.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { installRegistration, removeRegistration, resetRegistration } from '../kit/registration.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { servedSerial } from '../kit/servingCertificate.ts';

let sandbox: Sandbox;
let c: TestCluster;
let operator: string;
let node: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'cert' });
  node = await c.nodeNamed('n');
  operator = await operatorOf(c, [node]);
});

afterAll(async () => {
  await resetRegistration(c.admin);
  await operatorsDropped(c);
  await c?.close();
  await releaseSandbox(sandbox);
});

const key = { namespace: SYSTEM_NAMESPACE, name: secretName };

/** Creates a maintenance as the operator, whose requests need the server (dry run). */
function dryRun(): Promise<Answer> {
  const args = ['create', '--dry-run=server', '--as', operator, '-f', '-'];
  return kubectlOf(sandbox)(args, c.maintenance({ nodes: [node] }));
}

/** Resolves when this server is registered and reachable. */
const eventuallyReached = ({ port, admission }: TestAdmission) =>
  eventually('the apiserver to reach the server', async () => {
    expect(admission.isServing).toBe(true);
    expect(JSON.stringify(await registered(c))).toContain(`:${port}/`);
    expect(await dryRun()).toMatchObject({ code: 0 });
  });

async function bundle(): Promise<string> {
  const webhooks = (await registered(c))?.webhooks as { clientConfig: { caBundle: string } }[] | undefined;
  return Buffer.from(webhooks?.[0]?.clientConfig.caBundle ?? '', 'base64').toString();
}

const withAuthorities = (bundles: Set<string>, count: number) =>
  [...bundles].filter((pem) => pem.match(/-----BEGIN CERTIFICATE-----/g)?.length === count);

test('through two changes of the authority every replica serves a trusted certificate, without a restart', async () => {
  const old = await c.admin.get(secrets, key);
  if (old !== undefined) await c.admin.delete(secrets, key, { uid: old.metadata.uid ?? '' });
  const lifetimes = { authorityMs: 60_000, servingMs: 28_000, settleMs: 10_000, skewMs: 0 };
  const registrar = await servedAdmission(c, { lifetimes });
  const other = await servedAdmission(c, { isMaintainer: false });
  const replicas = [registrar, other];
  try {
    await eventuallyReached(registrar);
    await eventually('the other replica to serve', () => expect(other.admission.isServing).toBe(true));
    const bundles = new Set<string>();
    const serials = new Set<string>();
    const failures: string[] = [];
    const observe = async () => {
      const ca = await bundle();
      bundles.add(ca);
      for (const { port } of replicas) serials.add(await servedSerial(port, ca));
      // The next request of the apiserver opens a new connection, with the current certificate.
      for (const { admission } of replicas) admission.server.closeIdleConnections();
      const { code, stderr } = await dryRun();
      if (code !== 0) failures.push(stderr);
    };
    const threeInTurn = async () => {
      await observe().catch((error: unknown) => failures.push(String(error)));
      expect({ failures, single: withAuthorities(bundles, 1).length >= 3 }).toEqual({
        failures: [],
        single: true,
      });
    };
    await eventually('three authorities, one after the other', threeInTurn, { timeoutMs: 400_000 });
    expect(withAuthorities(bundles, 2).length).toBeGreaterThanOrEqual(2);
    expect(serials.size).toBeGreaterThanOrEqual(4);
  } finally {
    for (const replica of replicas) await replica.stopped();
  }
});

test('in a cluster its certificate contains the name of its Service', () => {
  const service = { kind: 'Service', namespace: 'berlin', name: 'node-maintenance-admission' } as const;
  expect(hostsOf(service)).toContain('node-maintenance-admission.berlin.svc');
});

describe('changes by other clients:', () => {
  let served: TestAdmission;
  beforeEach(async () => {
    served = await servedAdmission(c);
    await eventuallyReached(served);
  });
  afterEach(() => served.stopped());

  const webhooksNow = async () => (await registered(c))?.webhooks;

  test('a deleted registration is reported with the remedy, and completed when it is installed again', async () => {
    const before = await webhooksNow();
    await removeRegistration(c.admin);
    const missing = (kind: string) =>
      `${kind} nodemaintenance.k8s.io is missing: install it again with npm start -- --install, or with npm run -s manifests and kubectl apply`;
    const both = ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration'].map(missing).join('; ');
    await eventually('the report', () =>
      expect(served.admission.problem).toBe(`requests are not checked: ${both}`),
    );
    await installRegistration(c.admin);
    await eventually('the registration', async () => expect(await webhooksNow()).toEqual(before));
    await eventually('no report', () => expect(served.admission.problem).toBeUndefined());
  });

  test.each([
    { what: 'the URL', path: 'url', value: 'https://127.0.0.1:1/authorization' },
    { what: 'the authority', path: 'caBundle', value: '' },
  ])('$what of a webhook is restored', async ({ path, value }) => {
    const before = await webhooksNow();
    const operations = [{ op: 'replace', path: `/webhooks/0/clientConfig/${path}`, value } as const];
    await c.admin.jsonPatch(validating, { name: WEBHOOK_CONFIGURATION }, operations);
    await eventually('the registration as it was', async () => expect(await webhooksNow()).toEqual(before));
  });

  test.each<{ when: string; change: (secret: Secret) => Promise<unknown> }>([
    { when: 'deleted', change: ({ metadata }) => c.admin.delete(secrets, key, { uid: metadata.uid ?? '' }) },
    {
      when: 'emptied',
      change: () =>
        c.admin.mergePatch(secrets, key, {
          data: { 'ca.crt': '', 'ca.key': '', 'tls.crt': '', 'tls.key': '' },
        }),
    },
    {
      when: 'damaged',
      change: () => {
        const damage = Buffer.from('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n').toString(
          'base64',
        );
        return c.admin.mergePatch(secrets, key, { data: { 'ca.crt': damage } });
      },
    },
    {
      when: 'given another key',
      change: ({ data = {} }) => c.admin.mergePatch(secrets, key, { data: { 'tls.key': data['ca.key'] } }),
    },
  ])('certificates that are $when are issued again', async ({ change }) => {
    const before = await bundle();
    await change((await c.admin.get(secrets, key)) as Secret);
    await eventually('another authority', async () => expect(await bundle()).not.toBe(before));
    await eventuallyReached(served);
  });
});

test('a host that the installation does not allow is reported', async () => {
  const remote = await servedAdmission(c, { host: '192.0.2.1' });
  try {
    await eventually('the report', () =>
      expect(remote.admission.problem).toContain(
        'ValidatingWebhookConfiguration nodemaintenance.k8s.io was not changed: ',
      ),
    );
    expect(remote.admission.problem).toContain('nodemaintenance.k8s.io/webhook-hosts (127.0.0.1)');
  } finally {
    await remote.stopped();
  }
});
