import type { Job, Lease } from '../../api/core.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { KUBELET_LEASE_NAMESPACE, TurnAnnotation, WORK_NAMESPACE } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { newTurn } from '../../api/windowTurn.ts';
import { runTurnOrdersController } from '../../controllers/turnOrders.ts';
import { runWindowProgressController } from '../../controllers/windowProgress.ts';
import type { ConditionFacts } from '../../domain/conditions.ts';
import { jobName, revisionOf } from '../../domain/revision.ts';
import { turnFailed, turnSucceeded } from '../../domain/turnVerdict.ts';
import { emptyStatus } from '../../domain/status.ts';
import { EventRecorder } from '../../kube/events.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { throughout } from '../kit/eventually.ts';
import { eventuallyHolds } from '../kit/holds.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
const abort = new AbortController();
let ended: Promise<unknown> | undefined;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'orders' });
  const { cluster } = c;
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  ended = Promise.all([
    runTurnOrdersController({ cluster, events, log: silentLog }, abort.signal),
    runWindowProgressController({ cluster, log: silentLog }, abort.signal),
  ]);
});

afterAll(async () => {
  abort.abort();
  await ended;
  await c?.close();
  await releaseSandbox(sandbox);
});

/** One that has been open, and is closed. */
async function closedWindow(node: string): Promise<MaintenanceWindow> {
  const { nodeSelector } = c.maintenance({ nodes: [node] }).spec;
  const schedule = { cron: '0 2 * * 6', timeZone: 'UTC', duration: '4h' };
  const window = await c.admin.create(resources.maintenanceWindows, {
    metadata: { name: c.named('window') },
    spec: { schedule, nodeSelector, suspend: true } as MaintenanceWindow['spec'],
  });
  const progress = { revision: revisionOf(window.spec), summary: '0/1' };
  const key = { name: window.metadata.name };
  const options = { subresource: 'status' };
  await c.admin.mergePatch(resources.maintenanceWindows, key, { status: { progress } }, options);
  return window;
}

const progressOf = async (name: string) =>
  (await c.admin.get(resources.maintenanceWindows, { name }))?.status?.progress;

/** A node's turn in a window that is closed; its conditions are what an open one left there. */
async function turnOf(window: MaintenanceWindow, node: string, ...facts: ConditionFacts[]) {
  const turn = newTurn(window, {
    name: c.named('turn'),
    revision: revisionOf(window.spec),
    drainPlan: [],
    node: { name: node, uid: (await c.node(node)).metadata.uid ?? '' },
  });
  const applied = await c.applied(turn);
  const lastTransitionTime = new Date().toISOString();
  const conditions = facts.map((one) => ({ ...one, lastTransitionTime }));
  return c.withStatus(applied, { ...emptyStatus, conditions });
}

const advanced = ({ metadata: { name } }: NodeMaintenance) =>
  c.patched(
    resources.nodeMaintenances,
    { name },
    { metadata: { annotations: { [TurnAnnotation.Advance]: 'true' } } },
  );

/** Resolves when the order is no more. */
const takenIn = ({ metadata: { name } }: NodeMaintenance): Promise<NodeMaintenance> =>
  eventuallyHolds(
    'the order to be taken in',
    () => c.maintenanceNow(name),
    ({ metadata }) => metadata.annotations?.[TurnAnnotation.Advance] === undefined,
  );

const completed = ({ metadata: { name } }: NodeMaintenance): Promise<NodeMaintenance> =>
  eventuallyHolds(
    'the turn to be completed',
    () => c.maintenanceNow(name),
    ({ spec }) => spec.stage === 'Complete',
  );

const verdictOf = ({ status }: NodeMaintenance) =>
  status?.conditions.find(({ type }) => type === 'TurnSucceeded');

async function deleted({ metadata: { name, uid = '' } }: MaintenanceWindow): Promise<void> {
  await c.admin.delete(resources.maintenanceWindows, { name }, { uid });
}

test('a turn that failed is ended by annotation while its window is closed, and the node given back as it is', async () => {
  const node = await c.unreadyNodeNamed('node');
  const window = await closedWindow(node);
  const { name } = window.metadata;
  const turn = await turnOf(window, node, turnFailed('JobFailed', 'why'));
  await eventuallyHolds(
    'the failure to be shown',
    () => progressOf(name),
    (progress) => progress?.failed === 1 && progress.failures[0]?.reason === 'JobFailed',
  );
  await advanced(turn);
  const seen = await completed(await takenIn(turn));
  expect(verdictOf(seen)).toMatchObject({ status: 'True', reason: 'Advanced' });
  await eventuallyHolds(
    'the failure not to be shown any more',
    () => progressOf(name),
    (progress) => progress?.failed === 0 && progress.failures.length === 0,
  );
  await deleted(window);
});

test('a turn under way that is advanced while its window is closed ends when its node is ready, and has been heard since', async () => {
  const node = await c.unreadyNodeNamed('node');
  const window = await closedWindow(node);
  const turn = await turnOf(window, node);
  const place = { namespace: KUBELET_LEASE_NAMESPACE, name: node };
  const renewTime = microTime(new Date());
  await c.admin.create(resources.leases, { metadata: place, spec: { renewTime } } as Lease);
  await advanced(turn);
  const waiting = await takenIn(turn);
  expect(verdictOf(waiting)).toMatchObject({ status: 'Unknown', reason: 'Advanced' });
  await throughout('the node is kept', 1_000, async () =>
    expect((await c.maintenanceNow(turn.metadata.name)).spec.stage).toBe('Drain'),
  );
  await c.saidToBeReady(node, 'True');
  const later = microTime(new Date(Date.now() + 1_000));
  const lease = await c.admin.mergePatch(resources.leases, place, { spec: { renewTime: later } });
  await completed(turn);
  await c.admin.delete(resources.leases, place, { uid: lease.metadata.uid ?? '' });
  await deleted(window);
});

test('an order that cannot be carried out is dropped, and says why: it would stand when the Job fails', async () => {
  const node = await c.silentNodeNamed('node');
  const window = await closedWindow(node);
  const turn = await turnOf(window, node);
  const key = { namespace: WORK_NAMESPACE, name: jobName(turn.metadata.name) };
  const container = { name: 'patch', image: 'none' };
  const template = { spec: { restartPolicy: 'Never', containers: [container] } };
  const job = await c.admin.create(resources.jobs, {
    metadata: key,
    spec: { suspend: true, template },
  } as Job);
  await advanced(turn);
  const kept = await takenIn(turn);
  expect([verdictOf(kept), kept.spec.stage]).toEqual([undefined, 'Drain']);
  const told = async () => (await c.eventsAbout(turn)).join('\n');
  const words = `TurnNotAdvanced: Not advanced: Job ${key.name} works on node ${node}`;
  await eventuallyHolds('the refusal to be told', told, (all) => all.includes(words));
  await c.admin.delete(resources.jobs, key, {
    uid: job.metadata.uid ?? '',
    propagationPolicy: 'Background',
  });
  const over = await turnOf(window, await c.silentNodeNamed('node'), turnSucceeded);
  await c.staged(over.metadata.name, 'Complete');
  await c.withStatus(over, {
    stageStatuses: [{ name: 'Complete', startTimestamp: new Date().toISOString() }],
  });
  await advanced(over);
  await takenIn(over);
  await eventuallyHolds(
    'the refusal to be told',
    async () => (await c.eventsAbout(over)).join('\n'),
    (all) => all.includes('TurnNotAdvanced: Not advanced: the turn is over'),
  );
  await deleted(window);
});
