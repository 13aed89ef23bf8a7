import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { WorkflowHandle } from '@temporalio/client';
import type { NotificationActivities } from '../../../activities/contract.ts';
import { createDeliverActivity } from '../../../activities/notifications/notifications.ts';
import { notificationWorkflowIdOf } from '../../kit/temporalNames.ts';
import { cloudEventOf } from '../../../api/notification.ts';
import { blocked } from '../../../domain/notifications/events.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { post } from '../../../worker/notifications/endpoint.ts';
import { startTestEndpoint, type TestEndpoint } from '../../kit/notificationEndpoint.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { quietTemporal, workflowLab, type WorkflowLab } from '../../kit/workflows.ts';

let sandbox: Sandbox;
let lab: WorkflowLab;
let endpoint: TestEndpoint;
let outcomes: string[];
let dropReasons: string[];

beforeAll(async () => {
  quietTemporal();
  sandbox = await testSandbox();
  lab = await workflowLab(sandbox.temporalAddress);
});

beforeEach(async () => {
  endpoint = await startTestEndpoint();
  outcomes = [];
  dropReasons = [];
});

afterEach(async () => {
  await lab.clear();
  await endpoint.close();
});

afterAll(async () => {
  await lab?.close();
  await releaseSandbox(sandbox);
});

/** Starts the workflow of one notification, which delivers to the endpoint. */
async function startNotify(retryUntilSeconds = 600): Promise<WorkflowHandle> {
  const maintenance = { name: 'rack-7', uid: crypto.randomUUID() };
  const blocker = { reason: 'EvictionRejected', message: 'a long message. '.repeat(70) };
  const notification = blocked(
    maintenance,
    { pod: 'shop/db-0', node: 'n1', blocker },
    new Date().toISOString(),
  );
  const event = cloudEventOf(notification, 'lab');
  const to = { url: endpoint.url, headersFile: undefined, caFile: undefined, timeoutSeconds: 30 };
  const recordDropped: NotificationActivities['recordDropped'] = async (_, reason) => {
    dropReasons.push(reason);
  };
  const deliver = createDeliverActivity({
    post: (one, signal) => post(to, one, signal),
    onOutcome: (outcome) => outcomes.push(outcome),
  });
  const request = { event, taskQueue: lab.taskQueue, timeoutSeconds: 30, retryUntilSeconds };
  return lab.start('notify', {
    workflowId: notificationWorkflowIdOf(event.id),
    args: [request],
    activities: { ...deliver, recordDropped },
  });
}

test('an unavailable endpoint gets the same event again, not before Retry-After', async () => {
  endpoint.respondWith((_, attempt) =>
    attempt === 1 ? { status: 503, headers: { 'retry-after': '2' } } : { status: 200 },
  );
  await (await startNotify()).result();
  const [first, second, ...others] = endpoint.requests;
  expect(others).toEqual([]);
  expect(second?.event).toEqual(first?.event);
  expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThan(1_900);
  expect(outcomes).toEqual(['failed', 'sent']);
  expect(dropReasons).toEqual([]);
});

test('a rejected notification is not retried; the workflow fails, and sends it again after a reset', async () => {
  endpoint.respondWith(() => ({ status: 400 }));
  const run = await startNotify();
  await expect(run.result()).rejects.toMatchObject({
    cause: {
      message: 'The notification was not delivered: the endpoint rejected the notification: HTTP 400',
    },
  });
  expect(endpoint.requests).toHaveLength(1);
  expect(dropReasons).toEqual(['the endpoint rejected the notification: HTTP 400']);
  endpoint.respondWith(() => ({ status: 200 }));
  const reset = [
    'reset',
    '--workflow-id',
    run.workflowId,
    '--type',
    'FirstWorkflowTask',
    '--reason',
    'endpoint repaired',
  ];
  await promisify(execFile)(`${sandbox.bin}/temporal`, ['workflow', ...reset], {
    env: { ...process.env, ...sandbox.env },
  });
  await lab.client.workflow.getHandle(run.workflowId).result();
  expect(endpoint.accepted()).toHaveLength(1);
});

test('a notification to an unreachable endpoint is dropped after its maximum age', async () => {
  const run = startNotify(3);
  await endpoint.close();
  await expect((await run).result()).rejects.toMatchObject({
    cause: { message: expect.stringContaining('the endpoint did not respond: connect ECONNREFUSED') },
  });
  expect(outcomes.length).toBeGreaterThan(1);
  expect(dropReasons).toHaveLength(1);
});

test.each([
  { request: undefined, problem: 'expected one JSON object' },
  { request: 'page everyone', problem: 'expected one JSON object' },
  { request: { taskQueue: 'q', timeoutSeconds: Number.MAX_SAFE_INTEGER }, problem: 'timeoutSeconds' },
  { request: { taskQueue: 'q', timeoutSeconds: 1, retryUntilSeconds: -1 }, problem: 'retryUntilSeconds' },
  {
    request: {
      taskQueue: 'q',
      timeoutSeconds: 1,
      retryUntilSeconds: 1,
      event: { url: 'http://169.254.169.254/', message: 'forged' },
    },
    problem: 'event.type',
  },
])(
  'a start with other input than the worker sends fails, and sends nothing: $problem',
  async ({ request, problem }) => {
    const run = await lab.start('notify', { workflowId: `notify-${crypto.randomUUID()}`, args: [request] });
    await expect(run.result()).rejects.toMatchObject({
      cause: { type: 'InvalidInput', message: expect.stringContaining(problem) },
    });
    expect(endpoint.requests).toEqual([]);
  },
);
