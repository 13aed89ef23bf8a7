import { TurnAnnotation } from '../../api/names.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { newTurn } from '../../api/windowTurn.ts';
import { runTurnOrdersController } from '../../controllers/turnOrders.ts';
import { runWindowProgressController } from '../../controllers/windowProgress.ts';
import { isTrue } from '../../domain/conditions.ts';
import { revisionOf } from '../../domain/revision.ts';
import { turnFailed } from '../../domain/turnVerdict.ts';
import { emptyStatus } from '../../domain/status.ts';
import { EventRecorder } from '../../kube/events.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
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

test('a turn that failed is ended by annotation while its window is closed, and the node given back', async () => {
  const node = await c.nodeNamed('node');
  const window = await closedWindow(node);
  const { name, uid = '' } = window.metadata;
  const turn = newTurn(window, {
    name: c.named('turn'),
    revision: revisionOf(window.spec),
    drainPlan: [],
    node: { name: node, uid: (await c.node(node)).metadata.uid ?? '' },
  });
  await c.applied(turn);
  const key = { name: turn.metadata.name };
  const failed = { ...turnFailed('JobFailed', 'why'), lastTransitionTime: new Date().toISOString() };
  const status = { ...emptyStatus, conditions: [failed] };
  await c.admin.mergePatch(resources.nodeMaintenances, key, { status }, { subresource: 'status' });
  await eventuallyHolds(
    'the failure to be shown',
    () => progressOf(name),
    (progress) => progress?.failed === 1 && progress.failures[0]?.reason === 'JobFailed',
  );

  const annotations = { [TurnAnnotation.Advance]: 'true' };
  await c.admin.mergePatch(resources.nodeMaintenances, key, { metadata: { annotations } });
  const seen = await eventuallyHolds(
    'the turn to be over',
    () => c.maintenanceNow(key.name),
    ({ spec }) => spec.stage === 'Complete',
  );
  expect(seen.metadata.annotations?.[TurnAnnotation.Advance]).toBeUndefined();
  expect(isTrue(seen.status?.conditions, 'TurnSucceeded')).toBe(true);
  await eventuallyHolds(
    'the failure not to be shown any more',
    () => progressOf(name),
    (progress) => progress?.failed === 0 && progress.failures.length === 0,
  );
  await c.admin.delete(resources.maintenanceWindows, { name }, { uid });
});
