import type { Job, Lease } from '../../../api/core.ts';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import {
  KUBELET_LEASE_NAMESPACE,
  NODE_MAINTENANCE,
  WindowAnnotation,
  WORK_NAMESPACE,
} from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { newWindowMaintenance } from '../../../domain/windows/windowMaintenance.ts';
import { runAdvanceController } from '../../../controllers/windows/advanceAnnotation.ts';
import { runWindowProgressController } from '../../../controllers/windows/progress.ts';
import type { ConditionFacts } from '../../../domain/common/conditions.ts';
import { jobName, revisionOf } from '../../../domain/common/revision.ts';
import { nodeFailed, nodeSucceeded } from '../../../domain/windows/nodeResult.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { jobPermission } from '../../../kube/jobPermission.ts';
import { microTime } from '../../../kube/leaseRecord.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventuallyHolds, throughout } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
const abort = new AbortController();
let ended: Promise<unknown> | undefined;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'advance' });
  const { cluster } = c;
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  ended = Promise.all([
    runAdvanceController(
      { cluster, events, mayRunJobs: jobPermission(cluster.kube), log: silentLog },
      abort.signal,
    ),
    runWindowProgressController({ cluster, log: silentLog }, abort.signal),
  ]);
});

afterAll(async () => {
  abort.abort();
  await ended;
  await c?.close();
  await releaseSandbox(sandbox);
});

/** A window that was open before, and is closed now. */
async function closedWindow(node: string, work?: object): Promise<MaintenanceWindow> {
  const { nodeSelector } = c.maintenance({ nodes: [node] }).spec;
  const schedule = { cron: '0 2 * * 6', timeZone: 'UTC', duration: '4h' };
  const window = await c.admin.create(resources.maintenanceWindows, {
    metadata: { name: c.named('window') },
    spec: { schedule, nodeSelector, suspend: true, ...(work && { work }) } as MaintenanceWindow['spec'],
  });
  const progress = { revision: revisionOf(window.spec), summary: '0/1' };
  const key = { name: window.metadata.name };
  const options = { subresource: 'status' };
  await c.admin.mergePatch(resources.maintenanceWindows, key, { status: { progress } }, options);
  return window;
}

const progressOf = async (name: string) =>
  (await c.admin.get(resources.maintenanceWindows, { name }))?.status?.progress;

/** Creates the NodeMaintenance of a node in a closed window, with the conditions that the open window recorded. */
async function maintenanceOf(window: MaintenanceWindow, node: string, ...facts: ConditionFacts[]) {
  const maintenance = newWindowMaintenance(window, {
    name: node,
    uid: (await c.node(node)).metadata.uid ?? '',
  });
  const applied = await c.applied(maintenance);
  const lastTransitionTime = new Date().toISOString();
  const conditions = facts.map((one) => ({ ...one, lastTransitionTime }));
  return c.withStatus(applied, { ...emptyStatus, conditions });
}

const advanced = ({ metadata: { name } }: NodeMaintenance) =>
  c.patched(
    resources.nodeMaintenances,
    { name },
    { metadata: { annotations: { [WindowAnnotation.WorkDone]: 'true' } } },
  );

/** Resolves when the annotation is removed. */
const handled = ({ metadata: { name } }: NodeMaintenance): Promise<NodeMaintenance> =>
  eventuallyHolds(
    'the annotation to be removed',
    () => c.maintenanceNow(name),
    ({ metadata }) => metadata.annotations?.[WindowAnnotation.WorkDone] === undefined,
  );

const completed = ({ metadata: { name } }: NodeMaintenance): Promise<NodeMaintenance> =>
  eventuallyHolds(
    'the maintenance to be completed',
    () => c.maintenanceNow(name),
    ({ spec }) => spec.stage === 'Complete',
  );

const resultOf = ({ status }: NodeMaintenance) => status?.conditions.find(({ type }) => type === 'Succeeded');

/** A Job with another owner is not the Job of the node. */
const ownerOf = ({ metadata: { name, uid = '' } }: NodeMaintenance) => ({
  apiVersion: NODE_MAINTENANCE.apiVersion,
  kind: NODE_MAINTENANCE.kind,
  name,
  uid,
});

async function deleted({ metadata: { name, uid = '' } }: MaintenanceWindow): Promise<void> {
  await c.admin.delete(resources.maintenanceWindows, { name }, { uid });
}

test('the annotation resolves a failure while the window is closed, and the node is uncordoned at once', async () => {
  const node = await c.unreadyNodeNamed('node');
  const window = await closedWindow(node);
  const { name } = window.metadata;
  const maintenance = await maintenanceOf(window, node, nodeFailed('JobFailed', 'why'));
  await eventuallyHolds(
    'the failure in the status',
    () => progressOf(name),
    (progress) => progress?.failed === 1 && progress.failures[0]?.reason === 'JobFailed',
  );
  await advanced(maintenance);
  const current = await completed(await handled(maintenance));
  expect(resultOf(current)).toMatchObject({ status: 'True', reason: 'Advanced' });
  await eventuallyHolds(
    'the failure to disappear from the status',
    () => progressOf(name),
    (progress) => progress?.failed === 0 && progress.failures.length === 0,
  );
  await deleted(window);
});

test('a node in progress that is advanced while its window is closed is uncordoned when it is ready, after a kubelet heartbeat', async () => {
  const node = await c.unreadyNodeNamed('node');
  const window = await closedWindow(node);
  const maintenance = await maintenanceOf(window, node);
  const place = { namespace: KUBELET_LEASE_NAMESPACE, name: node };
  // The clock of the node is ahead: its heartbeats look as if they came after the request.
  const renewedAt = (ms: number) => ({ spec: { renewTime: microTime(new Date(ms + 3_600_000)) } });
  const lease = await c.admin.create(resources.leases, {
    metadata: place,
    ...renewedAt(Date.now()),
  } as Lease);
  await advanced(maintenance);
  const waiting = await handled(maintenance);
  expect(resultOf(waiting)).toMatchObject({ status: 'Unknown', reason: 'Advanced' });
  const staysCordoned = () =>
    throughout('the node stays cordoned', 1_000, async () =>
      expect((await c.maintenanceNow(maintenance.metadata.name)).spec.stage).toBe('Drain'),
    );
  await staysCordoned();
  await c.saidToBeReady(node, 'True');
  await staysCordoned();
  await c.admin.mergePatch(resources.leases, place, renewedAt(Date.now()));
  await completed(maintenance);
  await c.admin.delete(resources.leases, place, { uid: lease.metadata.uid ?? '' });
  await deleted(window);
});

test('the annotation is removed and an Event reports why if the Job is running or the node is in service', async () => {
  const node = await c.silentNodeNamed('node');
  const container = { name: 'patch', image: 'none' };
  const window = await closedWindow(node, {
    type: 'Job',
    job: { template: { spec: { containers: [container] } } },
  });
  const maintenance = await maintenanceOf(window, node);
  const key = { namespace: WORK_NAMESPACE, name: jobName(maintenance.metadata.name) };
  const template = { spec: { restartPolicy: 'Never', containers: [container] } };
  const job = await c.admin.create(resources.jobs, {
    metadata: { ...key, ownerReferences: [ownerOf(maintenance)] },
    spec: { suspend: true, template },
  } as Job);
  await advanced(maintenance);
  const kept = await handled(maintenance);
  expect([resultOf(kept), kept.spec.stage]).toEqual([undefined, 'Drain']);
  const events = async () => (await c.eventsAbout(maintenance)).join('\n');
  const rejection = `AdvanceRejected: Not advanced: Job ${key.name} is running on node ${node}`;
  await eventuallyHolds('the Event', events, (all) => all.includes(rejection));
  await c.admin.delete(resources.jobs, key, {
    uid: job.metadata.uid ?? '',
    propagationPolicy: 'Background',
  });
  const over = await maintenanceOf(window, await c.silentNodeNamed('node'), nodeSucceeded);
  await c.staged(over.metadata.name, 'Complete');
  await c.withStatus(over, {
    stageStatuses: [{ name: 'Complete', startTimestamp: new Date().toISOString() }],
  });
  await advanced(over);
  await handled(over);
  await eventuallyHolds(
    'the Event',
    async () => (await c.eventsAbout(over)).join('\n'),
    (all) => all.includes('AdvanceRejected: Not advanced: node'),
  );
  await deleted(window);
});
