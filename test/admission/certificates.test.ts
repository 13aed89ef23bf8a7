import { request } from 'node:https';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { hostsOf, registrationName, registrations, validating } from '../../admission/registration.ts';
import { type Secret, secretName, secrets } from '../../admission/secret.ts';
import { SYSTEM_NAMESPACE, workerUser } from '../../api/names.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { type Answer, kubectlOf, succeeds } from '../api/kubectl.ts';
import {
  operatorOf,
  operatorsDropped,
  registered,
  servedAdmission,
  type TestAdmission,
  unregistered,
} from '../kit/admission.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

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
  await unregistered(c);
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

/** Returns the serial number of the certificate served at the port, to a client that trusts the CA. */
function serialAt(port: number, ca: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: '127.0.0.1', port, ca, agent: false }, (incoming) => {
      incoming.resume();
      resolve(
        (
          outgoing.socket as unknown as { getPeerCertificate(): { serialNumber: string } }
        ).getPeerCertificate().serialNumber,
      );
    });
    outgoing.once('error', reject);
    outgoing.end();
  });
}

const withAuthorities = (bundles: Set<string>, count: number) =>
  [...bundles].filter((pem) => pem.match(/-----BEGIN CERTIFICATE-----/g)?.length === count);

test('through two changes of the authority every replica serves a trusted certificate, without a restart', async () => {
  const old = await c.admin.get(secrets, key);
  if (old !== undefined) await c.admin.delete(secrets, key, { uid: old.metadata.uid ?? '' });
  const lifetimes = { authorityMs: 30_000, servingMs: 14_000, settleMs: 5_000, skewMs: 0 };
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
      for (const { port } of replicas) serials.add(await serialAt(port, ca));
      // The next request of the apiserver opens a new connection, with the current certificate.
      for (const { admission } of replicas) admission.server.closeIdleConnections();
      const { code, stderr } = await dryRun();
      if (code !== 0) failures.push(stderr);
    };
    await eventually('three authorities, one after the other', async () => {
      await observe().catch((error: unknown) => failures.push(String(error)));
      expect({ failures, single: withAuthorities(bundles, 1).length >= 3 }).toEqual({
        failures: [],
        single: true,
      });
    });
    expect(withAuthorities(bundles, 2).length).toBeGreaterThanOrEqual(2);
    expect(serials.size).toBeGreaterThanOrEqual(4);
  } finally {
    for (const replica of replicas) await replica.stopped();
  }
});

test('in a cluster it is registered by its Service, whose name is in its certificate', async () => {
  const endpoint = {
    kind: 'Service',
    namespace: 'node-maintenance',
    name: 'node-maintenance-worker',
  } as const;
  const worker = workerUser(SYSTEM_NAMESPACE);
  const configurations = registrations({ endpoint, caBundle: '', worker, plainEvictions: 'reject' });
  const args = ['apply', '--server-side', '--field-manager=node-maintenance', '--dry-run=server'];
  for (const [{ kind }, object] of configurations) {
    const manifest = { apiVersion: 'admissionregistration.k8s.io/v1', kind, ...object };
    const answer = await succeeds(kubectlOf(sandbox)([...args, '-o', 'json', '-f', '-'], manifest));
    const { webhooks } = JSON.parse(answer) as { webhooks: { clientConfig: object }[] };
    const served =
      kind === validating.kind
        ? ['/authorization', '/warnings', '/readiness-policies', '/evictions']
        : ['/evacuations'];
    expect(webhooks.map(({ clientConfig }) => clientConfig)).toEqual(
      served.map((path) => ({
        service: { namespace: 'node-maintenance', name: 'node-maintenance-worker', path, port: 443 },
      })),
    );
  }
  expect(hostsOf(endpoint)).toContain('node-maintenance-worker.node-maintenance.svc');
});

describe('changes by other clients are reverted:', () => {
  let served: TestAdmission;
  beforeEach(async () => {
    served = await servedAdmission(c);
    await eventuallyReached(served);
  });
  afterEach(() => served.stopped());

  const webhooksNow = async () => (await registered(c))?.webhooks;

  test('the registration is deleted', async () => {
    const before = await webhooksNow();
    await unregistered(c);
    await eventually('the registration', async () => expect(await webhooksNow()).toEqual(before));
  });

  test('the registration is changed', async () => {
    const before = await webhooksNow();
    const operations = [{ op: 'replace', path: '/webhooks/0/failurePolicy', value: 'Ignore' } as const];
    await c.admin.jsonPatch(validating, { name: registrationName }, operations);
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
  ])('the certificates are $when', async ({ change }) => {
    const before = await bundle();
    await change((await c.admin.get(secrets, key)) as Secret);
    await eventually('another authority', async () => expect(await bundle()).not.toBe(before));
    await eventuallyReached(served);
  });
});
