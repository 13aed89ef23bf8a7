import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import type { KubeObject, Node } from '../../api/core.ts';
import { CLUSTER_UID_MEMO, MAINTENANCE_GATE, READINESS_TAINT } from '../../api/names.ts';
import type { RawPod } from '../../kube/resources.ts';
import { resources } from '../../kube/resources.ts';
import { clusterObjects } from '../../temporal-config/clusterObjects.ts';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually } from '../kit/eventually.ts';
import { gate, ofPool, readinessPolicy } from '../kit/readiness.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';
import { Windows } from './windows.ts';

/**
 * Each test installs node maintenance, brings it to work, and uninstalls it. A second cluster uses the same Temporal all the time, and must not
 * notice.
 */

let world: World;
let other: World;
let otherWorker: WorkerProcess;
let kubectl: Kubectl;
let worker: WorkerProcess | undefined;
let windows: Windows;
let before: Dump;

const deploy = new URL('../../deploy/', import.meta.url).pathname;
const pools = { patched: ['node-5'], gated: ['node-6'] } as const;

beforeAll(async () => {
  [world, other] = await Promise.all([
    createWorld({ nodes: 6, install: false, ownServers: true }),
    createWorld({ nodes: 2, ownServers: true }),
  ]);
  kubectl = kubectlOf(world.sandbox);
  windows = await Windows.in(world, pools);
  await succeeds(kubectl(['cordon', 'node-3']));
  await world.kube.create(resources.daemonSets, daemonSet as KubeObject);
  const { TEMPORAL_ADDRESS = '', TEMPORAL_NAMESPACE = '' } = world.sandbox.env;
  const env = { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE };
  otherWorker = startWorker(other.sandbox, { env, args: ['--cluster', 'berlin-1'] });
  await otherWorker.ready();
  await other.apply('rack', { nodes: ['node-1'], stage: 'Drain' });
  await other.eventually('rack', 'it is drained', drained);
  const inOther = await Windows.in(other, { patched: ['node-2'] });
  await inOther.applied('os', { pool: 'patched' });
  inOther.close();
  before = await dump();
});

afterAll(async () => {
  windows?.close();
  await worker?.kill();
  await otherWorker?.kill();
  await other?.close();
  await world?.close();
});

const daemonSet = {
  metadata: { name: 'agent', namespace: 'default' },
  spec: {
    selector: { matchLabels: { app: 'agent' } },
    template: {
      metadata: { labels: { app: 'agent' } },
      spec: { containers: [{ name: 'main', image: 'none' }], tolerations: [{ operator: 'Exists' }] },
    },
  },
};

async function install(): Promise<void> {
  const args = ['manifests/main.ts', '--webhook-host', '127.0.0.1', '--window-jobs'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 16 * 1024 * 1024 });
  const items = parseAllDocuments(stdout).map((document) => document.toJS() as unknown);
  const list = { apiVersion: 'v1', kind: 'List', items };
  await eventually('the manifests to be applied', () =>
    succeeds(kubectl(['apply', '--server-side', '-f', '-'], list)),
  );
  await succeeds(kubectl(['apply', '--server-side', '-k', join(deploy, 'temporal-user')]));
}

/** The Deployments, whose pods the sandbox only simulates: the worker is a process of the test. */
const installDeployments = async () => {
  for (const folder of ['admission-server', 'worker'])
    await succeeds(kubectl(['apply', '-k', join(deploy, folder)]));
};

/** Maintenances in every stage, an open window, a node whose gate is not ready. */
async function inMidWork(): Promise<void> {
  await install();
  worker = startWorker(world.sandbox);
  await worker.ready();
  // A mutating policy rejects an object until the apiserver has read the schema of its new CRD, which it does every 5 s.
  await eventually('the readiness policy to be accepted', () =>
    succeeds(kubectl(['apply', '--server-side', '-f', '-'], policy)),
  );
  await world.placePods('node-1', 2, { labels: { app: 'db' } });
  await world.budget('db', { app: 'db' }, { minAvailable: 2 });
  await world.apply('blocked', { nodes: ['node-1'], stage: 'Drain' });
  await world.apply('cordoned', { nodes: ['node-2', 'node-3'], stage: 'Cordon' });
  await world.apply('emptied', { nodes: ['node-4'], stage: 'Drain' });
  await world.apply('idle', { nodes: ['node-2'], stage: 'Idle' });
  await world.apply('done', { nodes: ['node-2'], stage: 'Complete' });
  // All nodes: the one with the gate is out of service as soon as it is tainted.
  await windows.setBudget(6);
  await windows.applied('os', { pool: 'patched' });
  const run = await windows.open('os');
  await windows.inProgress(run, 'node-5');
  await world.eventually('emptied', 'it is drained', drained);
  await world.eventually('done', 'it is finished', finished);
  await eventually('a DaemonSet pod to be kept off its node', async () => {
    const { items } = await world.kube.list(resources.pods);
    expect(items.some(isGated)).toBe(true);
  });
  await eventually('the taint of the gate', async () =>
    expect((await world.node('node-6')).spec.taints).toContainEqual(expect.objectContaining(READINESS_TAINT)),
  );
  for (const name of ['node-1', 'node-2', 'node-4', 'node-5'])
    await eventually(`${name} to be cordoned`, async () =>
      expect((await world.node(name)).spec.unschedulable).toBe(true),
    );
}

const policy = readinessPolicy('agents', ofPool('gated'), [gate({ name: 'cni', namespace: 'kube-system' })]);
const isGated = ({ spec }: RawPod) =>
  spec.schedulingGates?.some(({ name }) => name === MAINTENANCE_GATE) === true;

const uninstall = (...args: string[]) => kubectl(['maintenance', 'uninstall', ...args]);

async function removeWorkload(): Promise<void> {
  await succeeds(kubectl(['delete', 'pods,poddisruptionbudgets', '-l', 'app!=agent', '--wait=false']));
}

/** Everything in the cluster that an installation could change. */
type Dump = Record<string, unknown>;

/** Objects that others write all the time, or that depend on which pods run. */
const uncompared =
  /^(events|leases\.|pods$|endpoints|endpointslices|controllerrevisions|replicasets|componentstatuses)/;

async function dump(): Promise<Dump> {
  const kinds = (await succeeds(kubectl(['api-resources', '--verbs=list', '-o', 'name']))).trim().split('\n');
  const compared = kinds.filter((kind) => !uncompared.test(kind));
  const text = await succeeds(kubectl(['get', compared.join(','), '--all-namespaces', '-o', 'json']));
  const { items } = JSON.parse(text) as { items: KubeObject[] };
  return Object.fromEntries(
    items
      .map(
        (item) =>
          [`${item.kind} ${item.metadata.namespace ?? ''}/${item.metadata.name}`, contentOf(item)] as const,
      )
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
}

function contentOf(object: KubeObject): unknown {
  const { labels, annotations, finalizers } = object.metadata;
  if (object.kind !== 'Node') return { labels, finalizers };
  const { spec, status } = object as Node;
  const conditions = status?.conditions?.map(({ type, status: value }) => `${type} ${value}`).toSorted();
  return { labels, annotations, finalizers, spec, conditions };
}

const clusterUid = async ({ kube }: World) =>
  (await kube.get(resources.namespaces, { name: 'kube-system' }))?.metadata.uid ?? '';

/** Returns what a cluster has in the shared Temporal. */
async function inTemporal(of: World): Promise<{ runs: string[]; schedules: string[]; claims: string[] }> {
  const { runs, schedules, claims } = await clusterObjects(world.temporal, await clusterUid(of));
  const ids = (list: typeof runs) => list.map(({ workflowId }) => workflowId).toSorted();
  return { runs: ids(runs), schedules, claims: ids(claims) };
}

async function nothingIsLeft(): Promise<void> {
  await worker?.kill();
  await removeWorkload();
  await eventually('the cluster to be as it was before', async () => expect(await dump()).toEqual(before));
  const { items: leases } = await world.kube.list(resources.leases);
  expect(
    leases.filter(({ metadata }) => !/^kube-(system|node-lease)$/.test(metadata.namespace ?? '')),
  ).toEqual([]);
  const { items: pods } = await world.kube.list(resources.pods);
  expect(pods.filter((pod) => isGated(pod) || (pod.metadata.finalizers ?? []).length > 0)).toEqual([]);
  await eventually('the DaemonSet to run on all nodes', async () => {
    const all = await world.kube.list(resources.pods, { labelSelector: 'app=agent' });
    const nodes = all.items
      .filter(({ status }) => status?.phase === 'Running')
      .map(({ spec }) => spec.nodeName);
    expect(new Set(nodes).size).toBe(6);
  });
  await eventually('nothing of the cluster to be open in Temporal', async () =>
    expect(await inTemporal(world)).toEqual({ runs: [], schedules: [], claims: [] }),
  );
  expect(await inTemporal(other)).toEqual({
    runs: ['berlin-1.node-maintenance-rack'],
    schedules: ['berlin-1.maintenance-window-os'],
    claims: ['node-maintenance.berlin-1'],
  });
  const { memo } = await world.temporal.workflow.getHandle('berlin-1.node-maintenance-rack').describe();
  expect(memo?.[CLUSTER_UID_MEMO]).toBe(await clusterUid(other));
  expect((await other.node('node-1')).spec.unschedulable).toBe(true);
}

interface Row {
  kind: string;
  name: string;
  action: string;
  left: boolean;
}

describe('with a running worker', () => {
  beforeAll(async () => {
    await inMidWork();
    await installDeployments();
  });

  test('--plan lists what would be done, and changes nothing', async () => {
    const { items } = JSON.parse(await succeeds(uninstall('--plan', '--crds', '-o', 'json'))) as {
      items: Row[];
    };
    const actions = items.map(({ kind, name, action }) => `${kind} ${name}: ${action}`);
    expect(actions).toEqual(
      expect.arrayContaining([
        'NodeMaintenance blocked: delete',
        'MaintenanceWindow os: cancel',
        'Deployment node-maintenance-worker: delete',
        'Schedule maintenance-window-os: delete',
        'Workflow node-maintenance-blocked: terminate',
        'Node node-1: uncordon',
        'Node node-1: remove conditions',
        'Node node-3: keep',
        'Node node-6: remove taint',
        'Lease node-1: delete',
        'ValidatingWebhookConfiguration nodemaintenance.k8s.io: delete',
        'ClusterRole node-maintenance-view: delete',
        'Namespace kube-node-maintenance: delete',
        'CustomResourceDefinition nodemaintenances.nodemaintenance.k8s.io: delete',
        'Workflow node-maintenance: terminate',
      ]),
    );
    expect(actions).not.toContain('Node node-3: uncordon');
    expect(actions.filter((one) => one.includes('berlin'))).toEqual([]);
    expect(await succeeds(uninstall('--plan'))).toMatch(/^PHASE +KIND +NAME +ACTION +REASON\n/);
    expect((await world.maintenance('blocked'))?.metadata.deletionTimestamp).toBeUndefined();
  });

  test('is refused without confirmation, and without rights', async () => {
    expect(await uninstall()).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') });
    const asWorker = await uninstall('--yes', '--kubeconfig', world.sandbox.workerKubeconfig);
    expect(asWorker).toMatchObject({ code: 1, stdout: '' });
    expect(asWorker.stderr).toMatch(
      /^error: nothing was changed: uninstall needs the ClusterRole cluster-admin, .*delete nodes/,
    );
    expect((await world.maintenance('blocked'))?.metadata.deletionTimestamp).toBeUndefined();
  });

  test('leaves nothing', async () => {
    const { code, stdout, stderr } = await uninstall('--yes', '--crds');
    expect({ code, stdout, stderr }).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(
        /^Node maintenance is uninstalled, except for:\nPHASE .*\nNodes +Node +node-3 +keep +another client has cordoned it; kubectl uncordon node-3\n$/,
      ),
    });
    expect(stderr).toContain('NodeMaintenance blocked: delete (a worker returns its nodes to service)');
    await nothingIsLeft();
  });
});

test('a worker that was removed first, in the middle of a drain, is not needed', async () => {
  await inMidWork();
  await installDeployments();
  await succeeds(kubectl(['delete', '-k', join(deploy, 'worker')]));
  await worker?.kill();
  const { code, stderr } = await uninstall('--yes', '--crds');
  expect({ code, stderr }).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('Node node-1: uncordon'),
  });
  await nothingIsLeft();
});

test('an uninstallation that is killed again and again is completed by the next one', async () => {
  await inMidWork();
  await worker?.kill();
  for (const lines of [1, 8, 40, 80]) await interruptedAfter(lines, (child) => child.kill('SIGKILL'));
  expect(await uninstall('--yes', '--crds')).toMatchObject({ code: 0 });
  await nothingIsLeft();
  expect(await uninstall('--yes', '--crds')).toMatchObject({ code: 0 });
});

/** Interrupts an uninstallation when it has announced so many items. Resolves with its exit code and the lines that it has written. */
async function interruptedAfter(
  lines: number,
  interrupt: (child: ChildProcess) => void,
  settings: Record<string, string> = {},
): Promise<{ code: number | null; written: string[] }> {
  const { bin, env, dir } = world.sandbox;
  const child = spawn(join(bin, 'kubectl-maintenance'), ['uninstall', '--yes', '--crds'], {
    env: { ...env, ...settings, HOME: dir },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const written: string[] = [];
  createInterface(child.stderr).on('line', (line) => {
    written.push(line);
    if (written.length === lines) interrupt(child);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, written };
}

/** Passes connections on to Temporal until it is closed. */
async function temporalProxy(): Promise<{ address: string; close: () => void }> {
  const { hostname, port } = new URL(`http://${world.sandbox.env['TEMPORAL_ADDRESS'] ?? ''}`);
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    for (const socket of [client, upstream]) sockets.add(socket.on('error', () => undefined));
    client.pipe(upstream).pipe(client);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

test('an uninstallation during which Temporal fails says so, and is completed by the next one', async () => {
  await inMidWork();
  await worker?.kill();
  const proxy = await temporalProxy();
  const { code, written } = await interruptedAfter(1, () => proxy.close(), {
    TEMPORAL_ADDRESS: proxy.address,
  });
  expect({ code, last: written.at(-1) }).toEqual({
    code: 1,
    last: expect.stringMatching(/^error: Temporal does not answer any more: .*run the command again$/),
  });
  expect(await uninstall('--yes', '--crds')).toMatchObject({ code: 0 });
  await nothingIsLeft();
});

test('without --crds, the objects of users stay, and the next installation continues with them', async () => {
  await inMidWork();
  expect(await uninstall('--yes')).toMatchObject({ code: 0 });
  await worker?.kill();
  const names = async (kind: string) =>
    (await succeeds(kubectl(['get', kind, '-o', 'name']))).trim().split('\n');
  expect(await names('nodemaintenances')).toEqual(
    ['done', 'idle'].map((name) => `nodemaintenance.nodemaintenance.k8s.io/${name}`),
  );
  expect(await names('maintenancewindows')).toEqual(['maintenancewindow.nodemaintenance.k8s.io/os']);
  const window = await windows.now('os');
  expect([window?.metadata.finalizers, window?.status?.active]).toEqual([undefined, undefined]);
  await install();
  worker = startWorker(world.sandbox);
  await worker.ready();
  await eventually('the Schedule of the window', async () =>
    expect((await inTemporal(world)).schedules).toEqual(['maintenance-window-os']),
  );
  await world.patch('idle', { stage: 'Drain' });
  await world.eventually('idle', 'it is drained', drained);
  expect(await uninstall('--yes', '--crds')).toMatchObject({ code: 0 });
  await nothingIsLeft();
});

test('without Temporal, the command names what stays there', async () => {
  await inMidWork();
  await worker?.kill();
  const address = { ...world.sandbox, env: { ...world.sandbox.env, TEMPORAL_ADDRESS: '127.0.0.1:1' } };
  const { code, stdout, stderr } = await kubectlOf(address)(['maintenance', 'uninstall', '--yes', '--crds']);
  expect({ code, stderr }).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('need an action of yours'),
  });
  expect(stdout).toContain('temporal schedule delete --schedule-id maintenance-window-os');
  expect(stdout).toContain('temporal workflow terminate --workflow-id node-maintenance-blocked');
  // With Temporal, the rest is done.
  expect(await uninstall('--yes', '--crds')).toMatchObject({ code: 0 });
  await nothingIsLeft();
});
