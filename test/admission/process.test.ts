import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { KeyPair } from '../../admission/keyPair.ts';
import { issueAuthority, issueClient } from '../../admission/issue.ts';
import { paths } from '../../admission/registration.ts';
import { Component, COMPONENT_LABEL, SYSTEM_NAMESPACE } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { webhookClientName } from '../../sandbox/webhookClient.ts';
import { kubectlOf } from '../api/kubectl.ts';
import { operatorOf, operatorsDropped, registered } from '../kit/admission.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { exchange } from '../kit/rawConnection.ts';
import { resetRegistration } from '../kit/registration.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';

let sandbox: Sandbox;
let c: TestCluster;
let node: string;
let operator: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'adm-only' });
  node = await c.nodeNamed('n');
  operator = await operatorOf(c, [node]);
});

afterAll(async () => {
  await resetRegistration(c.admin);
  await operatorsDropped(c);
  await c?.close();
  await releaseSandbox(sandbox);
});

/** Starts a worker whose Temporal address is unreachable. */
const startAdmission = (...args: string[]): WorkerProcess =>
  startWorker(sandbox, {
    args: ['--components', 'admission', '--health-port', '0', ...args],
    env: { TEMPORAL_ADDRESS: '127.0.0.1:1' },
  });

const dryRun = () =>
  kubectlOf(sandbox)(
    ['create', '--dry-run=server', '--as', operator, '-f', '-'],
    c.maintenance({ nodes: [node] }),
  );

const portOf = (process: WorkerProcess) => Number(/"webhook":(\d+)/.exec(process.log())?.[1]);

test('admission is served without Temporal, and by another process when the first one ends', async () => {
  const first = startAdmission();
  const second = startAdmission();
  try {
    await Promise.all([first.ready(), second.ready()]);
    expect(portOf(first)).not.toBe(portOf(second));
    const url = await eventually('one of them to be registered and reachable', async () => {
      expect(JSON.stringify(await registered(c))).toContain('caBundle');
      expect(await dryRun()).toMatchObject({ code: 0 });
      return JSON.stringify(await registered(c));
    });
    const [registrar, other] = url.includes(`:${portOf(first)}/`) ? [first, second] : [second, first];
    expect(await registrar.stop()).toBe(0);
    await eventually('the other one to be registered', async () => {
      expect(JSON.stringify(await registered(c))).toContain(`:${portOf(other)}/`);
      expect(await dryRun()).toMatchObject({ code: 0 });
    });
  } finally {
    expect([await first.stop(), await second.stop()]).toEqual([0, 0]);
  }
});

test('admission alone keeps pods with evacuators from direct evictions, and deletes the identity Leases of processes that are gone', async () => {
  const gone = await c.admin.create(resources.leases, {
    metadata: {
      namespace: SYSTEM_NAMESPACE,
      name: `node-maintenance-worker-${'0'.repeat(64)}`,
      labels: { [COMPONENT_LABEL]: Component.Worker },
    },
    spec: { holderIdentity: 'gone', leaseDurationSeconds: 3_600, renewTime: '2026-01-01T00:00:00.000000Z' },
  });
  const process = startAdmission();
  try {
    await process.ready();
    const annotations = { 'evacuation.coordination.k8s.io/priority_migrate.example.com': '5000/example' };
    // The apiserver learns of the registration a moment later. Until then it evicts the pod.
    await eventually('the eviction to be rejected', async () => {
      const { metadata } = await c.podOn(node, { annotations });
      const pod = { namespace: metadata.namespace ?? '', name: metadata.name, uid: metadata.uid ?? '' };
      await expect(c.admin.evict(pod)).rejects.toThrow(
        'cannot be evicted because it has evacuators (migrate.example.com)',
      );
    });
    await eventually('the expired Lease to be deleted', async () =>
      expect(await c.admin.get(resources.leases, gone.metadata as { namespace: string; name: string })).toBe(
        undefined,
      ),
    );
  } finally {
    expect(await process.stop()).toBe(0);
  }
});

test('a port that was set and is taken is an error that names the flag', async () => {
  const taken = new URL(sandbox.temporalUi).port;
  const process = startAdmission('--webhook-port', taken);
  expect(await process.exited()).toBe(1);
  expect(process.log()).toContain(`--webhook-port: port ${taken} is taken; choose another`);
});

test('an address that this host does not have is an error that names the flag', async () => {
  const process = startAdmission('--health-bind-address', '192.0.2.1');
  expect(await process.exited()).toBe(1);
  expect(process.log()).toContain('--health-bind-address: this host has no address 192.0.2.1; choose one');
});

describe('client certificates', () => {
  const validity = { notBefore: Date.now() - 3_600_000, notAfter: Date.now() + 3_600_000 };
  let dir: string;
  let foreign: KeyPair;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'nm-client-ca-'));
    foreign = await issueAuthority(validity);
  });

  afterAll(() => rm(dir, { recursive: true, force: true }));

  /** Posts a review, as any pod can that reaches the port. */
  function post(worker: WorkerProcess, client?: KeyPair): Promise<string> {
    const body = JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' });
    const head = [
      `POST ${paths.authorization} HTTP/1.1`,
      'Host: x',
      'Connection: close',
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
    ];
    return exchange(portOf(worker), `${head.join('\r\n')}\r\n\r\n${body}`, { over: 'tls', client });
  }

  const foreignDryRun = async () =>
    kubectlOf(sandbox)(
      ['create', '--dry-run=server', '--as', operator, '-f', '-'],
      c.maintenance({ nodes: ['node-1'] }),
    );

  /** Waits until the apiserver has the decisions of this worker: of the two maintenances, it denies one. */
  const expectReviews = () =>
    eventually('the reviews of the worker', async () => {
      expect(await dryRun()).toMatchObject({ code: 0 });
      expect(await foreignDryRun()).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('may not delete'),
      });
    });

  test('are not asked for without the setting', async () => {
    const worker = startAdmission();
    try {
      await worker.ready();
      await expectReviews();
      expect(await post(worker)).toMatch(/^HTTP\/1\.1 400 /);
    } finally {
      expect(await worker.stop()).toBe(0);
    }
  });

  test('let only the apiserver have an answer', async () => {
    const args = [
      '--webhook-client-ca',
      sandbox.webhookClientCa,
      '--webhook-client-names',
      webhookClientName,
    ];
    const worker = startAdmission(...args);
    try {
      await worker.ready();
      await expectReviews();
      expect(await post(worker)).toBe('');
      expect(await post(worker, await issueClient(foreign, webhookClientName, validity))).toBe('');
      expect(await post(worker, foreign)).toBe('');
      await expectReviews();
    } finally {
      expect(await worker.stop()).toBe(0);
    }
  });

  test('of an authority that a changed file contains are accepted without a restart', async () => {
    const caFile = join(dir, 'ca.crt');
    await writeFile(caFile, foreign.certificate);
    const worker = startAdmission('--webhook-client-ca', caFile);
    try {
      await worker.ready();
      const own = await issueClient(foreign, 'anyone', validity);
      expect(await post(worker, own)).toMatch(/^HTTP\/1\.1 400 /);
      await eventually('the apiserver to be refused', async () =>
        expect(await dryRun()).toMatchObject({
          code: 1,
          stderr: expect.stringContaining('failed calling webhook'),
        }),
      );
      await writeFile(caFile, await readFile(sandbox.webhookClientCa));
      await expectReviews();
      expect(await post(worker, own)).toBe('');
    } finally {
      expect(await worker.stop()).toBe(0);
    }
  });

  test('of the apiserver are refused under another name', async () => {
    const args = ['--webhook-client-ca', sandbox.webhookClientCa, '--webhook-client-names', 'another'];
    const worker = startAdmission(...args);
    try {
      await worker.ready();
      await eventually('the apiserver to be refused', async () => {
        expect(await dryRun()).toMatchObject({ code: 1 });
        expect(worker.log()).toContain(`"commonName":"${webhookClientName}"`);
      });
    } finally {
      expect(await worker.stop()).toBe(0);
    }
  });

  test('whose authorities cannot be read are an error that names the flag', async () => {
    const missing = join(dir, 'missing.crt');
    const worker = startAdmission('--webhook-client-ca', missing);
    expect(await worker.exited()).toBe(1);
    expect(worker.log()).toContain(`--webhook-client-ca: ${missing} could not be read`);
  });
});
