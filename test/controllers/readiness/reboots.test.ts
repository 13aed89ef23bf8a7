import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { KubeObject } from '../../../api/core.ts';
import { NODE_READINESS, READINESS_TAINT } from '../../../api/names.ts';
import { runNodeReadinessController } from '../../../controllers/readiness/nodeReadiness.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { type Resource, resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { gate, gatePermissions } from '../../kit/readiness.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

// The test is the kubelet of its nodes: it reports the boot ID, the Ready condition and the pods.

let sandbox: Sandbox;
let c: TestCluster;
let stop: AbortController;
let running: Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'boots' });
  startController();
});

afterAll(async () => {
  await stopController();
  await c?.close();
  await releaseSandbox(sandbox);
});

/** No grace period ends during a test. */
const timing = { graceMs: 3_600_000, dampingMs: 3_600_000 };

function startController(): void {
  stop = new AbortController();
  const { cluster } = c;
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const permissions = gatePermissions(cluster.kube);
  const deps = { cluster, permissions, timing, events, log: silentLog };
  running = runNodeReadinessController(deps, stop.signal);
}

async function stopController(): Promise<void> {
  stop?.abort();
  await running;
}

async function reportBootId(node: string, bootID: string): Promise<void> {
  const options = { subresource: 'status' };
  await c.admin.mergePatch(resources.nodes, { name: node }, { status: { nodeInfo: { bootID } } }, options);
}

/** Reports the pod as Ready with a container of this ID; without one, as not Ready. */
async function reportPod(name: string, containerID?: string): Promise<void> {
  const ready = containerID !== undefined;
  const container = { name: 'main', image: 'fake', imageID: 'fake', restartCount: 0, ready };
  const status = {
    phase: 'Running',
    conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
    containerStatuses: [{ ...container, ...(ready && { containerID }) }],
  };
  const key = { namespace: c.namespace, name };
  await c.admin.mergePatch(resources.pods, key, { status }, { subresource: 'status' });
}

async function gatePodOn(node: string, containerID: string): Promise<string> {
  const name = c.named('cni');
  const spec = { nodeName: node, containers: [{ name: 'main', image: 'fake' }] };
  const metadata = { name, namespace: c.namespace, labels: { app: 'cni' } };
  await c.admin.create(resources.pods as Resource, { metadata, spec } as KubeObject);
  await reportPod(name, containerID);
  return name;
}

async function gated(node: string, readinessGates: object[]): Promise<void> {
  const { apiVersion, kind } = NODE_READINESS;
  const object = { apiVersion, kind, metadata: { name: node }, spec: { readinessGates } };
  await c.admin.apply(resources.nodeReadinesses, object, { fieldManager: 'jane' });
}

const isTainted = async (node: string) =>
  (await c.node(node)).spec.taints?.some(({ key }) => key === READINESS_TAINT.key) === true;

const statusOf = async (node: string) =>
  (await c.admin.get(resources.nodeReadinesses, { name: node }))?.status;

/** Waits for the taint of a node, and for its status. */
const eventuallyClosed = (node: string, want: boolean, status: object) =>
  eventually(`node ${node} ${want ? 'to be closed' : 'to be open'}`, async () =>
    expect({ closed: await isTainted(node), status: await statusOf(node) }).toMatchObject({
      closed: want,
      status,
    }),
  );

/** A node with a boot ID that is open, because the only pod of its gate is Ready. */
async function openNode(): Promise<{ node: string; pod: string }> {
  const node = await c.silentNodeNamed('crash');
  await c.saidToBeReady(node, 'True');
  await reportBootId(node, 'boot-1');
  const pod = await gatePodOn(node, 'containerd://1');
  await gated(node, [gate({ name: 'cni', namespace: c.namespace })]);
  await eventuallyClosed(node, false, { gates: '1/1', bootID: 'boot-1', containers: [expect.anything()] });
  return { node, pod };
}

test('a node that rebooted while it seemed Ready accepts no pods until the pods of its gates have started again', async () => {
  const { node, pod } = await openNode();
  await reportBootId(node, 'boot-2');
  await eventuallyClosed(node, true, { gates: '0/1', bootID: 'boot-2', losses: 1 });
  expect((await statusOf(node))?.readiness[0]?.message).toBe(
    `pod is not ready: ${c.namespace}/${pod} (not reported since the reboot)`,
  );
  await reportPod(pod);
  await eventuallyClosed(node, true, {
    readiness: [{ message: `pod is not ready: ${c.namespace}/${pod} (Running)` }],
  });
  await reportPod(pod, 'containerd://2');
  await eventuallyClosed(node, false, { gates: '1/1', containers: [expect.anything()] });
});

test('a node that registers again under its name accepts no pods until the pods of its gates have started again', async () => {
  const { node, pod } = await openNode();
  const { metadata } = await c.node(node);
  // The times of objects have a resolution of a second.
  const found = await c.admin.get(resources.pods, { namespace: c.namespace, name: pod });
  const createdAtMs = Date.parse(found?.metadata.creationTimestamp ?? '');
  await eventually('the next second', () =>
    expect(c.admin.now().getTime()).toBeGreaterThanOrEqual(createdAtMs + 1_000),
  );
  await c.deleted({ kind: 'Node', metadata });
  await eventually('its NodeReadiness to go', async () => expect(await statusOf(node)).toBeUndefined());
  await c.admin.create<KubeObject>(resources.nodes as Resource, { metadata: { name: node } });
  await c.saidToBeReady(node, 'True');
  await reportBootId(node, 'boot-2');
  await gated(node, [gate({ name: 'cni', namespace: c.namespace })]);
  await eventuallyClosed(node, true, { gates: '0/1', bootID: 'boot-2' });
  expect((await statusOf(node))?.readiness[0]?.message).toBe(
    `pod is not ready: ${c.namespace}/${pod} (not reported since the reboot)`,
  );
  await reportPod(pod, 'containerd://2');
  await eventuallyClosed(node, false, { gates: '1/1', containers: [expect.anything()] });
});

test('a node that rebooted while no worker was leading accepts no pods from then on', async () => {
  const { node, pod } = await openNode();
  await stopController();
  await reportBootId(node, 'boot-2');
  startController();
  await eventuallyClosed(node, true, { gates: '0/1', bootID: 'boot-2' });
  await reportPod(pod, 'containerd://2');
  await eventuallyClosed(node, false, { gates: '1/1' });
});

test('a node that is not Ready loses its grace period', async () => {
  const { node, pod } = await openNode();
  await reportPod(pod);
  await eventuallyClosed(node, false, { gates: '0/1', conditions: [{ reason: 'GatesLost' }] });
  await c.saidToBeReady(node, 'False');
  await eventuallyClosed(node, true, { conditions: [{ reason: 'GatesNotReady' }] });
  await c.saidToBeReady(node, 'True');
  await reportPod(pod, 'containerd://1');
  await eventuallyClosed(node, false, { gates: '1/1' });
});

test('the gate of docs/examples/own-gate.yaml closes a node that accepts pods at once', async () => {
  const { node } = await openNode();
  const file = new URL('../../../docs/examples/own-gate.yaml', import.meta.url);
  const example = parse(readFileSync(file, 'utf8')) as KubeObject;
  const own = { ...example, metadata: { name: node } };
  await c.admin.apply(resources.nodeReadinesses, own, { fieldManager: 'burn-in' });
  await eventuallyClosed(node, true, { gates: '1/2', blockedBy: 'jane/burn-in', losses: 0 });
});
