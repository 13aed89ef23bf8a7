import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { WorkflowHandle } from '@temporalio/client';
import type { NoticeActivities } from '../../activities/contract.ts';
import { deliverer } from '../../activities/notices.ts';
import { noticeWorkflowIdOf } from '../../api/names.ts';
import { cloudEventOf } from '../../api/notice.ts';
import { blocked } from '../../domain/notices.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { post } from '../../worker/receiver.ts';
import { startReceiver, type TestReceiver } from '../kit/receiver.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { quietTemporal, workflowLab, type WorkflowLab } from '../kit/workflows.ts';

let sandbox: Sandbox;
let lab: WorkflowLab;
let receiver: TestReceiver;
let outcomes: string[];
let undelivered: string[];

beforeAll(async () => {
  quietTemporal();
  sandbox = await testSandbox();
  lab = await workflowLab(sandbox.temporalAddress);
});

beforeEach(async () => {
  receiver = await startReceiver();
  outcomes = [];
  undelivered = [];
});

afterEach(async () => {
  await lab.clear();
  await receiver.close();
});

afterAll(async () => {
  await lab?.close();
  await releaseSandbox(sandbox);
});

/** The workflow of one notice, with a worker that delivers to the receiver. */
async function notified(patienceSeconds = 600): Promise<WorkflowHandle> {
  const maintenance = { name: 'rack-7', uid: crypto.randomUUID() };
  const blocker = { reason: 'EvictionRefused', message: 'a long story. '.repeat(70) };
  const notice = blocked(maintenance, { pod: 'shop/db-0', node: 'n1', blocker }, new Date().toISOString());
  const event = cloudEventOf(notice, 'lab');
  const to = { url: receiver.url, headersFile: undefined, caFile: undefined, timeoutSeconds: 30 };
  const noteUndelivered: NoticeActivities['noteUndelivered'] = async (_, because) => {
    undelivered.push(because);
  };
  const deliver = deliverer({
    post: (one, signal) => post(to, one, signal),
    onOutcome: (outcome) => outcomes.push(outcome),
  });
  const taskQueue = noticeWorkflowIdOf(event.id);
  await lab.worker(taskQueue, { ...deliver, noteUndelivered });
  const order = { event, taskQueue, timeoutSeconds: 30, patienceSeconds };
  return lab.client.workflow.start('notify', { workflowId: taskQueue, taskQueue, args: [order] });
}

test('a receiver that cannot take it now gets the same event again, not before the time that it asks for', async () => {
  receiver.answersWith((_, attempt) =>
    attempt === 1 ? { status: 503, headers: { 'retry-after': '4' } } : { status: 200 },
  );
  await (await notified()).result();
  const [first, second, ...others] = receiver.requests;
  expect(others).toEqual([]);
  expect(second?.event).toEqual(first?.event);
  expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThan(3_900);
  expect(outcomes).toEqual(['failed', 'sent']);
  expect(undelivered).toEqual([]);
});

test('a receiver that refuses it is not asked again; the run fails, and sends it when somebody resets it', async () => {
  receiver.answersWith(() => ({ status: 400 }));
  const run = await notified();
  await expect(run.result()).rejects.toMatchObject({
    cause: { message: 'The notice was not delivered: the receiver refused it: HTTP 400' },
  });
  expect(receiver.requests).toHaveLength(1);
  expect(undelivered).toEqual(['the receiver refused it: HTTP 400']);
  receiver.answersWith(() => ({ status: 200 }));
  const reset = [
    'reset',
    '--workflow-id',
    run.workflowId,
    '--type',
    'FirstWorkflowTask',
    '--reason',
    'mended',
  ];
  await promisify(execFile)(`${sandbox.bin}/temporal`, ['workflow', ...reset], {
    env: { ...process.env, ...sandbox.env },
  });
  await lab.client.workflow.getHandle(run.workflowId).result();
  expect(receiver.taken()).toHaveLength(1);
});

test('a receiver that stays away is given up in the end', async () => {
  const run = notified(4);
  await receiver.close();
  await expect((await run).result()).rejects.toMatchObject({
    cause: { message: expect.stringContaining('no answer from the receiver: connect ECONNREFUSED') },
  });
  expect(outcomes.length).toBeGreaterThan(1);
  expect(undelivered).toHaveLength(1);
});
