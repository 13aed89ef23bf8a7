import { X509Certificate } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { KeyPair } from '../../admission/keyPair.ts';
import { issueAuthority, issueServing } from '../../admission/issue.ts';
import { type Secret, secretName, secrets } from '../../admission/secret.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { type Answer, kubectlOf } from '../api/kubectl.ts';
import { operatorOf, operatorsDropped, registered } from '../kit/admission.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { resetRegistration } from '../kit/registration.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { servedSerial } from '../kit/servingCertificate.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';

// A server whose certificate another program issues: the test takes the place of cert-manager.

const key = { namespace: SYSTEM_NAMESPACE, name: secretName };
/** So short that a server which issues its own certificates would renew them at once. */
const validity = { notBefore: Date.now() - 86_400_000, notAfter: Date.now() + 1_800_000 };

let sandbox: Sandbox;
let c: TestCluster;
let node: string;
let operator: string;
let server: WorkerProcess;
let authority: KeyPair;
/** The Secret as it was last written here. */
let written: Secret;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'external-cert' });
  node = await c.nodeNamed('n');
  operator = await operatorOf(c, [node]);
  await secretDropped();
  await resetRegistration(c.admin);
  server = startWorker(sandbox, {
    args: ['--components', 'admission'],
    env: { WEBHOOK_CERTIFICATES: 'external' },
  });
});

afterAll(async () => {
  await server?.stop();
  await secretDropped();
  await resetRegistration(c.admin);
  await operatorsDropped(c);
  await c?.close();
  await releaseSandbox(sandbox);
});

async function secretDropped(): Promise<void> {
  const { uid } = (await c.admin.get(secrets, key))?.metadata ?? {};
  if (uid !== undefined) await c.admin.delete(secrets, key, { uid });
}

/** Writes the Secret with the fields that cert-manager writes; the key of the authority is not among them. */
async function issued(by: KeyPair): Promise<KeyPair> {
  const serving = await issueServing(by, ['localhost', '127.0.0.1'], validity);
  const data = { 'ca.crt': by.certificate, 'tls.crt': serving.certificate, 'tls.key': serving.key };
  const encoded = Object.entries(data).map(([name, pem]) => [name, Buffer.from(pem).toString('base64')]);
  const secret: Secret = { metadata: key, type: 'kubernetes.io/tls', data: Object.fromEntries(encoded) };
  written = await c.admin.apply(secrets, secret, { fieldManager: 'cert-manager', force: true });
  return serving;
}

/** Creates a maintenance as the operator, whose requests need the server (dry run). */
const dryRun = (): Promise<Answer> =>
  kubectlOf(sandbox)(
    ['create', '--dry-run=server', '--as', operator, '-f', '-'],
    c.maintenance({ nodes: [node] }),
  );

const portOf = () => Number(/"webhook":(\d+)/.exec(server.log())?.[1]);

/** Waits until the apiserver reaches the server with this certificate, as issued by this authority. */
const eventuallyServed = (serving: KeyPair) =>
  eventually('the apiserver to reach the server', async () => {
    const webhooks = (await registered(c))?.webhooks ?? [];
    const bundles = webhooks.map(({ clientConfig }) => clientConfig.caBundle ?? '');
    const trusted = new Set(bundles.map((bundle) => Buffer.from(bundle, 'base64').toString()));
    expect([...trusted]).toEqual([authority.certificate]);
    const { serialNumber } = new X509Certificate(serving.certificate);
    expect(await servedSerial(portOf(), authority.certificate)).toBe(serialNumber);
    expect(await dryRun()).toMatchObject({ code: 0 });
  });

const expectUntouched = async () => {
  const found = await c.admin.get(secrets, key);
  expect(found?.metadata.resourceVersion).toBe(written.metadata.resourceVersion);
};

test('without the Secret it is not ready, says which one it waits for, and writes none', async () => {
  await eventually('the problem', async () =>
    expect(await server.readyz()).toBe(
      '503 Secret node-maintenance/node-maintenance-webhook has no ca.crt, tls.crt and tls.key: let cert-manager write it, or start the admission server with --webhook-certificates managed',
    ),
  );
  await eventually('the report of the server that registers', () =>
    expect(server.log()).toContain('Admission server could not be registered'),
  );
  expect(await c.admin.get(secrets, key)).toBeUndefined();
  expect(await dryRun()).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('failed calling webhook'),
  });
});

test('when the Secret is written, it serves the certificate and registers the authority', async () => {
  authority = await issueAuthority(validity);
  const serving = await issued(authority);
  await eventuallyServed(serving);
  await server.ready();
  await expectUntouched();
});

test.each([
  { what: 'the certificate', ofAnotherAuthority: false },
  { what: 'the certificate and its authority', ofAnotherAuthority: true },
])(
  'when the other program renews $what, it serves that without a restart',
  async ({ ofAnotherAuthority }) => {
    if (ofAnotherAuthority) authority = await issueAuthority(validity);
    const serving = await issued(authority);
    await eventuallyServed(serving);
    await server.ready();
  },
);

test('it never writes the Secret, and serves on when another client deletes it', async () => {
  await expectUntouched();
  await secretDropped();
  await eventually('the server to report it', () =>
    expect(server.log()).toContain('Secret of the serving certificate was deleted'),
  );
  expect(await server.readyz()).toBe('200 ok');
  expect(await dryRun()).toMatchObject({ code: 0 });
  expect(await c.admin.get(secrets, key)).toBeUndefined();
});
