import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { WindowRequestAnnotation } from '../../../api/names.ts';
import { runWindowRequestController } from '../../../controllers/windows/requestAnnotations.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventuallyHolds } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

/** The controller has the worker's permissions, and no more. */
let sandbox: Sandbox;
let c: TestCluster;
let node: string;
let stopped: { abort: AbortController; ended: Promise<void> } | undefined;

const { Approve, Resume, Cancel } = WindowRequestAnnotation;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'request' });
  node = await c.nodeNamed('node');
  started();
});

afterAll(async () => {
  await ended();
  for (const { metadata } of (await c.admin.list(resources.maintenanceWindows)).items)
    if (metadata.name.startsWith(c.namespace))
      await c.admin.delete(
        resources.maintenanceWindows,
        { name: metadata.name },
        { uid: metadata.uid ?? '' },
      );
  await c?.close();
  await releaseSandbox(sandbox);
});

function started(): void {
  const { cluster } = c;
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const abort = new AbortController();
  stopped = {
    abort,
    ended: runWindowRequestController({ cluster, events, log: silentLog }, abort.signal),
  };
}

async function ended(): Promise<void> {
  stopped?.abort.abort();
  await stopped?.ended;
}

const runId = 'f0a1c2b3-0000-4000-8000-000000000001';

async function windowWith(
  active: object | undefined,
  spec: Partial<MaintenanceWindow['spec']> = {},
): Promise<string> {
  const name = c.named('window');
  const { nodeSelector } = c.maintenance({ nodes: [node] }).spec;
  const schedule = { cron: '0 2 * * 6', timeZone: 'UTC', duration: '4h' };
  await c.admin.create(resources.maintenanceWindows, {
    metadata: { name },
    spec: { schedule, nodeSelector, approval: 'PerNode', ...spec } as MaintenanceWindow['spec'],
  });
  if (active !== undefined) await withActive(name, active);
  return name;
}

async function withActive(name: string, active: object): Promise<void> {
  const opening = {
    workflowId: 'w',
    runId,
    start: '2026-01-01T00:00:00.000Z',
    end: '2099-01-01T00:00:00.000Z',
    waiting: { reason: 'ApprovalNeeded', message: 'why' },
    ...active,
  };
  const options = { subresource: 'status' };
  await c.admin.mergePatch(resources.maintenanceWindows, { name }, { status: { active: opening } }, options);
}

const annotated = (name: string, annotations: Record<string, string>) =>
  c.admin.mergePatch(resources.maintenanceWindows, { name }, { metadata: { annotations } });

const windowNow = async (name: string) =>
  (await c.admin.get(resources.maintenanceWindows, { name })) as MaintenanceWindow;

/** Resolves when no request is left on the window. */
const handled = (name: string): Promise<MaintenanceWindow> =>
  eventuallyHolds(
    'the annotations to be removed',
    () => windowNow(name),
    ({ metadata }) =>
      Object.values(WindowRequestAnnotation).every((key) => metadata.annotations?.[key] === undefined),
  );

async function rejected(name: string, text: string): Promise<void> {
  const window = await windowNow(name);
  const events = async () => (await c.eventsAbout(window)).join('\n');
  await eventuallyHolds('the Event', events, (all) => all.includes(`RequestRejected: Rejected: ${text}`));
}

test('requests are recorded in the order in which they are made, and change nothing else of the window', async () => {
  const name = await windowWith({ requests: { approvedNodes: ['earlier'], paused: true } });
  const { status: before, spec } = await windowNow(name);
  await annotated(name, { [Approve]: `${runId}:${node}`, 'example.com/note': 'kept' });
  const approved = await handled(name);
  expect(approved.status).toEqual({
    ...before,
    active: { ...before?.active, requests: { approvedNodes: ['earlier', node], paused: true } },
  });
  expect(approved.spec).toEqual(spec);
  expect(approved.metadata.annotations).toEqual({ 'example.com/note': 'kept' });
  const requestsAfter = async (key: string) => {
    await annotated(name, { [key]: runId });
    return (await handled(name)).status?.active?.requests;
  };
  const approvedNodes = ['earlier', node];
  expect(await requestsAfter(Resume)).toEqual({ approvedNodes, paused: false });
  expect(await requestsAfter(Approve)).toEqual({ approvedNodes, paused: false, approved: true });
  expect(await requestsAfter(Cancel)).toEqual({
    approvedNodes,
    paused: false,
    approved: true,
    cancelled: true,
  });
  expect(await c.eventsAbout(approved)).toEqual([]);
});

test('a request for another opening is removed and an Event reports why', async () => {
  const name = await windowWith({});
  await annotated(name, { [Cancel]: 'an-earlier-run' });
  expect((await handled(name)).status?.active?.requests).toBeUndefined();
  await rejected(
    name,
    `metadata.annotations[${Cancel}]: expected the run id of the opening, .status.active.runId, which is ${runId} (got "an-earlier-run")`,
  );
});

test('a request to a closed window does not apply to its next opening', async () => {
  const name = await windowWith(undefined);
  await annotated(name, { [Approve]: runId });
  expect((await handled(name)).status?.active).toBeUndefined();
  await rejected(name, `metadata.annotations[${Approve}]: the window is not open, or not any more`);
  await withActive(name, { runId: 'another-run' });
  expect((await handled(name)).status?.active?.requests).toBeUndefined();
});

test('an approval of a node that the window does not select is removed, and approves none', async () => {
  const name = await windowWith({});
  await annotated(name, { [Approve]: `${runId}:${node},no-such-node`, [Cancel]: runId });
  expect((await handled(name)).status?.active?.requests).toEqual({ cancelled: true });
  await rejected(name, `metadata.annotations[${Approve}]: the window does not select "no-such-node"`);
});

test('a request that was made while no worker ran is recorded when one runs', async () => {
  const name = await windowWith({});
  await ended();
  await annotated(name, { [Approve]: runId });
  await eventuallyHolds(
    'the annotation in the informer',
    () => c.cluster.windows.get(name),
    (cached) => cached?.metadata.annotations?.[Approve] === runId,
  );
  started();
  expect((await handled(name)).status?.active?.requests).toEqual({ approved: true });
});
