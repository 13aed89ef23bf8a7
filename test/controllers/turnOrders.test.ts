import { TurnAnnotation, WINDOW_LABEL } from '../../api/names.ts';
import { runTurnOrdersController } from '../../controllers/turnOrders.ts';
import { isTrue } from '../../domain/conditions.ts';
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
let ended: Promise<void> | undefined;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'orders' });
  const { cluster } = c;
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  ended = runTurnOrdersController({ cluster, events, log: silentLog }, abort.signal);
}, 120_000);

afterAll(async () => {
  abort.abort();
  await ended;
  await c?.close();
  await releaseSandbox(sandbox);
}, 60_000);

test('a turn that failed is ended by annotation while its window is closed, and the node given back', async () => {
  const turn = c.maintenance({ nodes: ['nowhere'], stage: 'Drain' });
  const { name } = turn.metadata;
  await c.applied({ ...turn, metadata: { name, labels: { [WINDOW_LABEL]: 'closed' } } });
  const failed = { ...turnFailed('JobFailed', 'why'), lastTransitionTime: new Date().toISOString() };
  const status = { ...emptyStatus, conditions: [failed] };
  await c.admin.mergePatch(resources.nodeMaintenances, { name }, { status }, { subresource: 'status' });
  const annotations = { [TurnAnnotation.Advance]: 'true' };
  await c.admin.mergePatch(resources.nodeMaintenances, { name }, { metadata: { annotations } });
  const seen = await eventuallyHolds(
    'the turn to be over',
    () => c.maintenanceNow(name),
    ({ spec }) => spec.stage === 'Complete',
  );
  expect(seen.metadata.annotations?.[TurnAnnotation.Advance]).toBeUndefined();
  expect(isTrue(seen.status?.conditions, 'TurnSucceeded')).toBe(true);
});
