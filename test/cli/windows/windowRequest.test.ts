import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { WindowRequestAnnotation } from '../../../api/names.ts';
import { requestOf } from '../../../cli/windows/windowRequest.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

/** No worker runs: the tests do what it does. */
let sandbox: Sandbox;
let c: TestCluster;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'window-request' });
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const { Approve, Cancel } = WindowRequestAnnotation;
const runId = 'run-1';

async function openWindow(annotations?: Record<string, string>): Promise<MaintenanceWindow> {
  const name = c.named('window');
  const { nodeSelector } = c.maintenance({ nodes: ['no-node'] }).spec;
  const schedule = { cron: '0 2 * * 6', timeZone: 'UTC', duration: '4h' };
  await c.admin.create(resources.maintenanceWindows, {
    metadata: { name, ...(annotations && { annotations }) },
    spec: { schedule, nodeSelector } as MaintenanceWindow['spec'],
  });
  return withActive(name, {
    workflowId: 'w',
    runId,
    start: '2026-01-01T00:00:00.000Z',
    end: '2099-01-01T00:00:00.000Z',
  });
}

const withActive = (name: string, active: object | null): Promise<MaintenanceWindow> =>
  c.admin.mergePatch(
    resources.maintenanceWindows,
    { name },
    { status: { active } },
    { subresource: 'status' },
  );

const annotated = ({ metadata: { name } }: MaintenanceWindow, annotations: Record<string, string | null>) =>
  c.admin.mergePatch(resources.maintenanceWindows, { name }, { metadata: { annotations } });

const annotationsOf = async ({ metadata: { name } }: MaintenanceWindow) =>
  (await c.admin.get(resources.maintenanceWindows, { name }))?.metadata.annotations;

async function deleted({ metadata: { name, uid = '' } }: MaintenanceWindow): Promise<void> {
  await c.admin.delete(resources.maintenanceWindows, { name }, { uid });
}

const cancel = { annotation: Cancel, verb: 'cancel' };

/** Sends a request, and resolves with the message of its failure or `undefined`. */
const failureOf = (request: Promise<void>): Promise<string | undefined> =>
  request.then(
    () => undefined,
    (error: Error) => error.message,
  );

test('without a worker a request is given up in time, names the remedy, and stays on the window', async () => {
  const window = await openWindow();
  const { name } = window.metadata;
  expect(await failureOf(requestOf(c.admin, window, cancel, 1_000))).toBe(
    `maintenancewindow/${name}: no worker handled the request within 1 s: check the workers (kubectl maintenance workers). The request stays on the window, and is handled when a worker runs`,
  );
  expect(await annotationsOf(window)).toEqual({ [Cancel]: runId });
  await deleted(window);
});

test('a request that waits in vain for an earlier one says that it was not sent', async () => {
  const earlier = `${runId}:node-1`;
  const window = await openWindow({ [Approve]: earlier });
  const { name } = window.metadata;
  const request = { annotation: Approve, verb: 'approve', nodes: ['node-2'] };
  expect(await failureOf(requestOf(c.admin, window, request, 1_000))).toBe(
    `maintenancewindow/${name}: no worker handled the earlier request within 1 s: check the workers (kubectl maintenance workers). This request was not sent: repeat it when a worker runs`,
  );
  expect(await annotationsOf(window)).toEqual({ [Approve]: earlier });
  await deleted(window);
});

test('a request waits for an earlier one of the same kind, and does not replace it', async () => {
  const earlier = `${runId}:node-1`;
  const window = await openWindow({ [Approve]: earlier });
  const nodes = ['node-2', 'node-3'];
  const failure = failureOf(requestOf(c.admin, window, { annotation: Approve, verb: 'approve', nodes }));
  const other = failureOf(requestOf(c.admin, window, cancel));
  await eventually('the other request', async () =>
    expect(await annotationsOf(window)).toEqual({ [Approve]: earlier, [Cancel]: runId }),
  );
  await annotated(window, { [Approve]: null });
  await eventually('the request', async () =>
    expect(await annotationsOf(window)).toMatchObject({ [Approve]: `${runId}:node-2,node-3` }),
  );
  await withActive(window.metadata.name, { requests: { approvedNodes: nodes, cancelled: true } });
  await annotated(window, { [Approve]: null, [Cancel]: null });
  expect([await failure, await other]).toEqual([undefined, undefined]);
  await deleted(window);
});

test('a request that is rejected says where the reason is', async () => {
  const window = await openWindow();
  const { name } = window.metadata;
  const request = { annotation: Approve, verb: 'approve', nodes: ['node-9'] };
  const failure = failureOf(requestOf(c.admin, window, request));
  await eventually('the request', async () =>
    expect(await annotationsOf(window)).toEqual({ [Approve]: `${runId}:node-9` }),
  );
  await annotated(window, { [Approve]: null });
  expect(await failure).toBe(
    `maintenancewindow/${name} rejected the request; check that it selects node-9: its Event RequestRejected says why (kubectl describe mw ${name})`,
  );
  await deleted(window);
});

test('a request is not sent to another opening than the one that the user has seen', async () => {
  const window = await openWindow();
  await withActive(window.metadata.name, { runId: 'run-2' });
  expect(await failureOf(requestOf(c.admin, window, cancel))).toContain(
    'was closed, or is run by another workflow run, in the meantime',
  );
  expect(await annotationsOf(window)).toBeUndefined();
  await withActive(window.metadata.name, null);
  const closed = (await c.admin.get(resources.maintenanceWindows, window.metadata)) as MaintenanceWindow;
  expect(await failureOf(requestOf(c.admin, closed, cancel))).toBe(
    `maintenancewindow/${window.metadata.name} is not open: there is nothing to cancel`,
  );
  await deleted(window);
});
