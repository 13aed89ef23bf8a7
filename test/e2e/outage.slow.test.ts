import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { NODE_LEASE_NAMESPACE, WORK_NAMESPACE } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import { eventually, eventuallyHolds } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

let world: World;
const workers: WorkerProcess[] = [];

const start: typeof startWorker = (...args) => {
  const worker = startWorker(...args);
  workers.push(worker);
  return worker;
};
const logs = (worker: WorkerProcess, text: string) =>
  eventuallyHolds(
    `the log to contain "${text}"`,
    () => worker.log(),
    (log) => log.includes(text),
  );

beforeAll(async () => {
  world = await createWorld({ nodes: 3, install: false, ownServers: true });
});
afterAll(async () => {
  for (const worker of workers) await worker.kill();
  await world?.close();
});

describe('a worker that starts where something is missing', () => {
  let scratch: string;
  beforeAll(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'nm-outage-'));
  });
  afterAll(() => rm(scratch, { recursive: true, force: true }));

  test('a kubeconfig that does not exist: one line that names it, and exit 1', async () => {
    const worker = start(world.sandbox, { env: { KUBECONFIG: '/nowhere/config' } });
    expect(await worker.exited()).toBe(1);
    expect(worker.log()).toContain(
      'kubeconfig /nowhere/config does not exist: set KUBECONFIG to an existing file',
    );
  });

  test('a kubeconfig that is not one: one line that names it, and exit 1', async () => {
    const file = join(scratch, 'config');
    await writeFile(file, 'apiVersion: [');
    const worker = start(world.sandbox, { env: { KUBECONFIG: file } });
    expect(await worker.exited()).toBe(1);
    expect(worker.log()).toContain(file);
  });

  test('an invalid port: one line that names flag and variable, and exit 2', async () => {
    const worker = start(world.sandbox, { args: ['--health-port', 'eighty'] });
    expect(await worker.exited()).toBe(2);
    expect(worker.log()).toContain('--health-port (HEALTH_PORT): expected a port, 0 to 65535 (got "eighty")');
  });

  test('a configured port that is taken: one line with the remedy, and exit 1', async () => {
    const server = createServer().listen(0);
    const { port } = server.address() as AddressInfo;
    const worker = start(world.sandbox, { env: { HEALTH_PORT: String(port) } });
    expect(await worker.exited()).toBe(1);
    expect(worker.log()).toContain(`--health-port: port ${port} is taken; choose another`);
    server.close();
  });

  test('no CRDs: it waits, logs the remedy, and is not ready, until an administrator runs --install', async () => {
    const worker = start(world.sandbox, { env: { KUBECONFIG: world.sandbox.kubeconfig } });
    await logs(worker, 'CustomResourceDefinition nodemaintenances.nodemaintenance.k8s.io is missing');
    expect(worker.log()).toContain('the Helm chart, or npm start -- --install applies them');
    const installer = start(world.sandbox, {
      env: { KUBECONFIG: world.sandbox.kubeconfig },
      args: ['--install', '--window-jobs', '--work-pod-security', 'privileged'],
    });
    await installer.ready();
    await worker.ready();
    const { metadata } = (await world.kube.get(resources.namespaces, { name: WORK_NAMESPACE })) ?? {};
    expect(metadata?.labels).toMatchObject({ 'pod-security.kubernetes.io/enforce': 'privileged' });
    expect(await installer.stop()).toBe(0);
    expect(await worker.stop()).toBe(0);
  });

  test('no apiserver: it waits, logs the reason, and works when there is one', async () => {
    await world.sandbox.server('kube-apiserver').kill();
    const worker = start(world.sandbox);
    await logs(worker, 'Waiting for the Kubernetes API');
    await world.sandbox.server('kube-apiserver').start();
    await worker.ready();
    await worker.kill();
  });

  test('no Temporal: it waits, logs the reason, and works when there is one', async () => {
    await world.sandbox.server('temporal').kill();
    const worker = start(world.sandbox);
    await logs(worker, `Waiting for Temporal at ${world.sandbox.temporalAddress}`);
    await world.sandbox.server('temporal').start();
    await worker.ready();
  });
});

describe('an outage in mid-drain', () => {
  const slow = { labels: { 'sandbox.nodemaintenance.k8s.io/slow-exit': 'true' }, grace: 30 };

  test.each([
    { server: 'kube-apiserver' as const, node: 'node-1' },
    { server: 'temporal' as const, node: 'node-2' },
  ])('of $server: nothing is lost, and the drain ends when it is back', async ({ server, node }) => {
    const name = `outage-${server}`;
    await world.placePods(node, 4, slow);
    await world.deployment(name, 6);
    await world.apply(name, { nodes: [node], stage: 'Drain' });
    await eventuallyHolds(
      'Evacuations to be created',
      () => world.record.evacuations.size,
      (made) => made >= 4,
    );
    await world.sandbox.server(server).kill();
    await world.sandbox.server(server).start();
    await world.eventually(name, 'it is drained', drained);
    expect(await world.podsOn(node)).toEqual([]);
    for (const made of world.record.evacuations.values()) expect(made.size).toBe(1);
    // An apiserver that has just started answers 503 until it knows the schema that its policies apply to.
    await eventually('the stage to be accepted', () => world.patch(name, { stage: 'Complete' }));
    await world.eventually(name, 'it is finished', finished);
    expect((await world.node(node)).spec.unschedulable ?? false).toBe(false);
  });
});

test('the namespace of node Leases is created again when a user deletes it', async () => {
  const key = { name: NODE_LEASE_NAMESPACE };
  const { uid = '' } = (await world.kube.get(resources.namespaces, key))?.metadata ?? {};
  await world.kube.delete(resources.namespaces, key, { uid });
  await eventually('another namespace', async () => {
    const found = await world.kube.get(resources.namespaces, key);
    expect(found?.metadata.uid ?? uid).not.toBe(uid);
  });
});
