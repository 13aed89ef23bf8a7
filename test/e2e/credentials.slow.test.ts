import { X509Certificate } from 'node:crypto';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { KeyPair } from '../../admission/keyPair.ts';
import { issueAuthority, issueClient, issueServing } from '../../admission/issue.ts';
import { eventuallyHolds } from '../kit/eventually.ts';
import { startTlsProxy, type TlsProxy } from '../kit/tlsProxy.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, finished, stageStarted, type World } from '../kit/world.ts';

// Certificates and API keys expire within days. The files that contain them are replaced while the worker runs.

const day = 24 * 3_600_000;
const now = Date.now();
const validity = { notBefore: now - day, notAfter: now + 30 * day };

let world: World;
let scratch: string;
let authority: KeyPair;
let worker: WorkerProcess;
let proxy: TlsProxy;

beforeAll(async () => {
  world = await createWorld({ nodes: 1 });
  scratch = await mkdtemp(join(tmpdir(), 'nm-credentials-'));
  authority = await issueAuthority(validity);
  await written('ca.crt', authority.certificate);
});

afterEach(async () => {
  await worker?.stop();
  await proxy?.close();
});

afterAll(async () => {
  await rm(scratch, { recursive: true, force: true });
  await world?.close();
});

/** Replaces a file at once, as the kubelet does. */
async function written(name: string, content: string): Promise<string> {
  const path = join(scratch, name);
  await writeFile(`${path}.new`, content);
  await rename(`${path}.new`, path);
  return path;
}

const serving = () => issueServing(authority, ['localhost'], validity);

async function certificate(): Promise<KeyPair & { serialNumber: string }> {
  const issued = await issueClient(authority, 'node-maintenance-worker', validity);
  return { ...issued, serialNumber: new X509Certificate(issued.certificate).serialNumber };
}

const inLog = (text: string) =>
  eventuallyHolds(
    `the log to contain "${text}"`,
    () => worker.log(),
    (log) => log.includes(text),
  );

const countInLog = (text: string) => worker.log().split(text).length - 1;

/** Waits until workers and client have used them; `calls` returns the paths of their calls. */
const usesNewCredentials = (calls: () => readonly string[]) =>
  eventuallyHolds(
    'workers and client to use the new credentials',
    () => calls().map((path) => path.split('/').at(-1)),
    (names) =>
      ['PollWorkflowTaskQueue', 'PollActivityTaskQueue', 'ListWorkflowExecutions'].every((name) =>
        names.includes(name),
      ),
  );

/** A whole maintenance: the control loops start its run, and the workers of Temporal execute it. */
async function maintains(name: string): Promise<void> {
  await world.apply(name, { nodes: ['node-1'], stage: 'Cordon' });
  await world.eventually(name, 'Cordon has started', (one) => stageStarted(one, 'Cordon'));
  await world.patch(name, { stage: 'Complete' });
  await world.eventually(name, 'it is finished', finished);
}

test('a certificate that is renewed is used without a restart, also when the former one is not accepted any more', async () => {
  const [first, second] = [await certificate(), await certificate()];
  proxy = await startTlsProxy({
    target: world.sandbox.temporalAddress,
    serving: await serving(),
    clientAuthority: authority.certificate,
  });
  const cert = await written('tls.crt', first.certificate);
  const key = await written('tls.key', first.key);
  worker = startWorker(world.sandbox, {
    env: {
      TEMPORAL_ADDRESS: proxy.address,
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: join(scratch, 'ca.crt'),
      TEMPORAL_TLS_CLIENT_CERT_PATH: cert,
      TEMPORAL_TLS_CLIENT_KEY_PATH: key,
    },
  });
  await worker.ready();
  await maintains('before-renewal');
  expect(proxy.callsOf(second.serialNumber)).toEqual([]);

  // The certificate without its key, as a reader may see it in the middle of a change.
  await written('tls.crt', second.certificate);
  await inLog('Temporal credentials could not be reloaded, and the former ones stay in use');
  expect(worker.log()).toContain('does not belong to the certificate of');
  await written('tls.key', second.key);
  await inLog('Temporal credentials reloaded');
  await usesNewCredentials(() => proxy.callsOf(second.serialNumber));

  proxy.revoke(first.serialNumber);
  const { length: formerCalls } = proxy.callsOf(first.serialNumber);
  await maintains('after-renewal');
  expect(proxy.callsOf(first.serialNumber)).toHaveLength(formerCalls);
  expect(countInLog('Worker started')).toBe(1);
});

test('an API key in a file is replaced without a restart: one that was wrong from the start, and one that works; one that Temporal rejects is not used', async () => {
  const accepted = new Set(['key-1']);
  proxy = await startTlsProxy({
    target: world.sandbox.temporalAddress,
    serving: await serving(),
    denies: ({ authorization }) =>
      accepted.has(authorization?.replace('Bearer ', '') ?? '')
        ? undefined
        : { code: 16, message: 'invalid or missing API key' },
  });
  const file = await written('api-key', 'key-0\n');
  worker = startWorker(world.sandbox, {
    env: {
      TEMPORAL_ADDRESS: proxy.address,
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: join(scratch, 'ca.crt'),
      TEMPORAL_API_KEY_FILE: file,
    },
  });
  await inLog('Waiting for Temporal');
  await written('api-key', 'key-1\n');
  await inLog('Temporal credentials reloaded');
  await worker.ready();

  await written('api-key', 'key-2\n');
  await inLog('Temporal credentials could not be reloaded, and the former ones stay in use');
  await maintains('with-former-key');
  accepted.add('key-2');
  await eventuallyHolds(
    'the new key to be used',
    () => countInLog('Temporal credentials reloaded'),
    (count) => count === 2,
  );
  accepted.delete('key-1');
  await maintains('with-new-key');
  await usesNewCredentials(() =>
    proxy.calls
      .filter(({ authorization }) => authorization === 'Bearer key-2')
      .map(({ ':path': path = '' }) => path),
  );
  expect(countInLog('Worker started')).toBe(1);
});
