import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { RebootAnnotation, WindowAnnotation } from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { runAdvanceController } from '../../../controllers/windows/advanceAnnotation.ts';
import { runRebootRequestsController } from '../../../controllers/windows/rebootRequests.ts';
import type { ConditionFacts } from '../../../domain/common/conditions.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import {
  nodeCancelled,
  nodeFailed,
  nodeResultOf,
  rebootRequested,
} from '../../../domain/windows/nodeResult.ts';
import { newWindowMaintenance } from '../../../domain/windows/windowMaintenance.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { resources } from '../../../kube/resources.ts';
import { NodeLeases } from '../../../node-lease/nodeLeases.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { holder } from '../../kit/activity.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

// Withdraws requests for reboots while windows are closed: no activity runs here.

const { Required, Requested, Started } = RebootAnnotation;

let sandbox: Sandbox;
let c: TestCluster;
const abort = new AbortController();
let ended: Promise<unknown> | undefined;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'reboot-requests' });
  const { cluster } = c;
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const mayRunJobs = () => Promise.resolve(false);
  const leases = new NodeLeases({ kube: cluster.kube, holder, leaseDurationSeconds: 900 });
  ended = Promise.all([
    runAdvanceController({ cluster, events, mayRunJobs, log: silentLog }, abort.signal),
    runRebootRequestsController({ cluster, leases, log: silentLog }, abort.signal),
  ]);
});

afterAll(async () => {
  abort.abort();
  await ended;
  await c?.close();
  await releaseSandbox(sandbox);
});

interface Rebooting {
  node: string;
  maintenance: NodeMaintenance;
}

/** A node whose reboot a window has requested. */
async function rebooting(annotations: Record<string, string> = {}): Promise<Rebooting> {
  const node = await c.nodeNamed('node');
  const { uid = '' } = (await c.node(node)).metadata;
  const window = {
    metadata: { name: c.named('window') },
    spec: { template: {}, work: { type: 'Reboot' } },
  } as unknown as MaintenanceWindow;
  const maintenance = await c.applied(newWindowMaintenance(window, { name: node, uid, bootId: 'boot-1' }));
  await recorded(maintenance, rebootRequested);
  const status = { nodeInfo: { bootID: 'boot-1' } };
  await c.admin.mergePatch(resources.nodes, { name: node }, { status }, { subresource: 'status' });
  const all = { [Requested]: 'boot-1', [Required]: 'kernel', ...annotations };
  await c.patched(resources.nodes, { name: node }, { metadata: { annotations: all } });
  return { node, maintenance };
}

async function recorded(maintenance: NodeMaintenance, ...facts: ConditionFacts[]): Promise<void> {
  const lastTransitionTime = new Date().toISOString();
  const conditions = facts.map((one) => ({ ...one, lastTransitionTime }));
  await c.withStatus(maintenance, { ...emptyStatus, conditions });
}

const requestOn = async (node: string) => {
  const { annotations = {} } = (await c.node(node)).metadata;
  return [annotations[Requested], annotations[Started]];
};

const withdrawn = (node: string) =>
  eventually('the request to be withdrawn', async () =>
    expect(await requestOn(node)).toEqual([undefined, undefined]),
  );

const kept = (node: string, ...want: (string | undefined)[]) =>
  throughout('the request', 1_000, async () => expect(await requestOn(node)).toEqual(want));

test('a request that a window waits for is kept, until its NodeMaintenance is deleted', async () => {
  const { node, maintenance } = await rebooting();
  await kept(node, 'boot-1', undefined);
  await c.deleted(maintenance);
  await withdrawn(node);
  expect((await c.node(node)).metadata.annotations).toMatchObject({ [Required]: 'kernel' });
});

test('a request is withdrawn when its maintenance is cancelled, and stays if the agent was faster', async () => {
  const early = await rebooting();
  await recorded(early.maintenance, rebootRequested, nodeCancelled);
  await withdrawn(early.node);
  const late = await rebooting({ [Started]: 'boot-1' });
  await recorded(late.maintenance, rebootRequested, nodeCancelled);
  await kept(late.node, 'boot-1', 'boot-1');
});

test('a request is withdrawn when the reboot has failed, whatever the agent does', async () => {
  const { node, maintenance } = await rebooting({ [Started]: 'boot-1' });
  await recorded(maintenance, rebootRequested, nodeFailed('RebootTimeout', 'why'));
  await withdrawn(node);
});

test('a request is withdrawn when a user completes the maintenance', async () => {
  const { node, maintenance } = await rebooting();
  await c.staged(maintenance.metadata.name, 'Complete');
  await withdrawn(node);
});

test('a request is withdrawn when another client acquires the Lease of the node, unless the agent was faster', async () => {
  const [early, late] = [await rebooting(), await rebooting({ [Started]: 'boot-1' })];
  for (const { node } of [early, late]) await c.leaseWritten(node, { holderIdentity: 'kubeadm: jane' });
  await withdrawn(early.node);
  await kept(late.node, 'boot-1', 'boot-1');
});

test('a request of no window is withdrawn: its author may not be there any more', async () => {
  const node = await c.nodeNamed('node');
  await c.patched(resources.nodes, { name: node }, { metadata: { annotations: { [Requested]: 'boot-1' } } });
  await withdrawn(node);
});

test('a node that a user marks as done while its window is closed is uncordoned after its request was withdrawn', async () => {
  const { node, maintenance } = await rebooting();
  const { name } = maintenance.metadata;
  const annotations = { [WindowAnnotation.WorkDone]: 'true' };
  await c.patched(resources.nodeMaintenances, { name }, { metadata: { annotations } });
  await withdrawn(node);
  const completed = await eventually('the maintenance to be completed', async () => {
    const current = await c.maintenanceNow(name);
    expect(current.spec.stage).toBe('Complete');
    return current;
  });
  expect(nodeResultOf(completed)).toMatchObject({ status: 'Unknown', reason: 'Advanced' });
});
