import { WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { workflowIdOf } from '../../kit/temporalNames.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import type { WindowRunProgress } from '../../../workflows/windows/run.ts';
import { eventually } from '../../kit/eventually.ts';
import { FakeMaintenance } from '../../kit/fakeMaintenance.ts';
import { FakeWindow, windowState } from '../../kit/fakeWindow.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import {
  effectsOf,
  eventsOf,
  eventuallyProgress,
  quietTemporal,
  type WindowHandle,
  workflowLab,
  type WorkflowLab,
} from '../../kit/workflows.ts';

let sandbox: Sandbox;
let lab: WorkflowLab;

beforeAll(async () => {
  quietTemporal();
  sandbox = await testSandbox();
  lab = await workflowLab(sandbox.temporalAddress);
});

afterEach(() => lab.clear());

afterAll(async () => {
  await lab?.close();
  await releaseSandbox(sandbox);
});

/** EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED */
const cancelRequested = 15;

async function openWindow(fake = new FakeWindow()) {
  const handle = await lab.startWindow(fake);
  await fake.eventuallyRequested({});
  return { fake, handle };
}

const update = (handle: WindowHandle, name: string, ...args: unknown[]) =>
  handle.executeUpdate<unknown, [unknown]>(name, { args: args as [unknown] });

async function rejectionOf(answer: Promise<unknown>): Promise<string> {
  try {
    await answer;
  } catch (error) {
    if (error instanceof WorkflowUpdateFailedError) return error.cause?.message ?? '';
    throw error;
  }
  return 'not rejected';
}

const first = [{ node: 'n1', maintenance: 'os-patch-n1' }];

test('A window maintains its nodes and reports its progress', async () => {
  const { fake, handle } = await openWindow();
  const waiting = { reason: 'MaxUnavailable', message: 'One at a time.' };
  await fake.ends({ kind: 'Progressed', state: windowState({ inProgress: first, remaining: 3, waiting }) });
  await eventuallyProgress(handle, { name: fake.name, state: { inProgress: first, waiting } } as object);
  const { currentDetails } = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
  expect(currentDetails).toContain(`- **MaintenanceWindow:** \`${fake.name}\``);
  expect(currentDetails).toContain('- **Now:** One at a time.');
  expect(currentDetails).toContain('| `n1`\u2003| in progress');
  await fake.ends({ kind: 'Over', state: windowState({ done: 4, remaining: 0 }) });
  expect(await handle.result()).toEqual({ name: fake.name, nodes: 4, done: 4, failed: [], remaining: 0 });
  expect(fake.calls).toEqual(['openWindow', 'rollOut', 'rollOut', 'closeWindow']);
});

test('The timer of the end starts with the remaining time, and not again when a cancellation is ignored', async () => {
  const lastsMs = 3_600_000;
  const fake = new FakeWindow({ lastsMs });
  fake.rejection = ApplicationFailure.nonRetryable('you may not', 'InvalidInput');
  const { handle } = await openWindow(fake);
  await handle.cancel();
  await eventually('the authorization', () => expect(fake.calls).toContain('authorizeRequest'));
  const { events } = await handle.fetchHistory();
  const started = (events ?? []).flatMap(({ timerStartedEventAttributes: timer }) => timer ?? []);
  expect(started).toHaveLength(1);
  expect(tsToMs(started[0]?.startToFireTimeout)).toBeLessThanOrEqual(lastsMs);
});

test('At its end the window says so, and finishes the nodes in progress', async () => {
  const fake = new FakeWindow({ lastsMs: 1_500 });
  const handle = await lab.startWindow(fake);
  await eventually('the end', async () => {
    const { currentDetails } = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
    expect(currentDetails).toContain('### Ended: no more nodes are started');
  });
  await fake.ends({ kind: 'Over', state: windowState({ done: 1, remaining: 3 }) });
  expect(await handle.result()).toMatchObject({ done: 1, remaining: 3 });
  expect(fake.calls).toEqual(['openWindow', 'rollOut', 'closeWindow']);
});

describe('messages to a window', () => {
  test.each([
    { message: 'pause', args: [], then: { paused: true } },
    { message: 'cancel', args: [], then: { cancelled: true } },
    { message: 'approve', args: [], then: { approved: true } },
    { message: 'approve', args: [{ nodes: ['n1', 'n2'] }], then: { approvedNodes: ['n1', 'n2'] } },
  ])(
    'reach the activity in progress, as update and as signal: $message $args',
    async ({ message, args, then }) => {
      for (const send of [
        (handle: WindowHandle) => update(handle, message, ...args),
        (handle: WindowHandle) => handle.signal<unknown[]>(message, ...args),
      ]) {
        const { fake, handle } = await openWindow();
        await send(handle);
        await fake.eventuallyRequested(then);
      }
    },
  );

  test('are undone by resume', async () => {
    const { fake, handle } = await openWindow();
    await update(handle, 'pause');
    await fake.eventuallyRequested({ paused: true });
    await update(handle, 'resume');
    await fake.eventuallyRequested({ paused: false });
  });

  test('mark the work on a node as done', async () => {
    const { fake, handle } = await openWindow();
    await update(handle, 'advance', { node: 'n1' });
    expect(fake.calls).toContain('advanceNode n1');
  });

  test.each([
    {
      message: 'advance',
      args: [],
      want: 'node: required; name the node whose work is done, such as {"node": "n1"}',
    },
    { message: 'advance', args: [{ node: 7 }], want: 'node: expected the name of a node' },
    { message: 'approve', args: [{ to: 'n1' }], want: 'to: unknown field; expected "node" and "nodes"' },
    {
      message: 'approve',
      args: ['n1'],
      want: 'expected one JSON object, such as {"node": "n1"}, or none (got "n1")',
    },
    {
      message: 'approve',
      args: [null],
      want: 'expected one JSON object, such as {"node": "n1"}, or none (got null)',
    },
    { message: 'pause', args: [null], want: 'expected no input (got null)' },
    { message: 'cancel', args: [7], want: 'expected no input (got 7)' },
    { message: 'approve', args: [{ nodes: [1] }], want: 'nodes: expected a list of node names' },
  ])(
    'that are invalid are rejected and add no event to the history: $message $args',
    async ({ message, args, want }) => {
      const { handle } = await openWindow();
      const before = await effectsOf(handle);
      expect(await rejectionOf(update(handle, message, ...args))).toBe(want);
      expect(await effectsOf(handle)).toEqual(before);
      await handle.signal<unknown[]>(message, ...args);
      expect(await update(handle, 'pause')).toMatchObject({ paused: true, approved: false });
    },
  );

  test('are rejected if their senders may not maintain the nodes', async () => {
    const { fake, handle } = await openWindow();
    fake.rejection = ApplicationFailure.nonRetryable('you may not', 'InvalidInput');
    expect(await rejectionOf(update(handle, 'cancel'))).toBe('you may not');
    await handle.signal('cancel');
    await eventually('both authorizations', () =>
      expect(fake.calls.filter((call) => call === 'authorizeRequest')).toHaveLength(2),
    );
    expect(await handle.query('progress')).toMatchObject({ cancelled: false });
  });
});

test('A window shows requests that its object records, and passes them on until they change', async () => {
  const { fake, handle } = await openWindow();
  const requests = { approved: true, approvedNodes: ['n1'], paused: true, cancelled: false };
  await fake.ends({ kind: 'Progressed', state: windowState({ requests }) });
  await fake.eventuallyRequested(requests);
  const { state, ...shown } = await handle.query<WindowRunProgress>('progress');
  expect(shown).toMatchObject(requests);
  expect(state).toEqual(windowState());
  const { currentDetails } = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
  expect(currentDetails).toContain('### Paused: no more nodes are started');
  expect(currentDetails).toContain('- **Approved:** the whole window');
  await update(handle, 'resume');
  await fake.eventuallyRequested({ ...requests, paused: false });
});

test('A window that is cancelled from Temporal finishes its nodes', async () => {
  const { fake, handle } = await openWindow();
  await handle.cancel();
  await fake.eventuallyRequested({ cancelled: true });
  await fake.ends({ kind: 'Over', state: windowState() });
  expect(await handle.result()).toMatchObject({ done: 0 });
  expect(fake.calls.at(-1)).toBe('closeWindow');
});

test.each([
  { when: 'nothing was paused', pausedByWindow: [] },
  { when: 'it resumes what it had paused', pausedByWindow: ['node-maintenance-of-window'] },
])('A window that is cancelled from Temporal while it opens is closed: $when', async ({ pausedByWindow }) => {
  const fake = new FakeWindow();
  fake.pausedByWindow = pausedByWindow;
  const opens = Promise.withResolvers<void>();
  fake.opening = opens.promise;
  const handle = await lab.startWindow(fake);
  await eventually('the opening', () => expect(fake.calls).toEqual(['openWindow']));
  await handle.cancel();
  await eventually('the cancellation', async () =>
    expect(await eventsOf(handle)).toContain(String(cancelRequested)),
  );
  opens.resolve();
  await fake.eventuallyRequested({ cancelled: true });
  await fake.ends({ kind: 'Over', state: windowState() });
  await handle.result();
  expect(fake.calls.at(-1)).toBe('closeWindow');
});

test('A window continues if it is cancelled from Temporal without authorization', async () => {
  const fake = new FakeWindow();
  fake.rejection = ApplicationFailure.nonRetryable('you may not', 'InvalidInput');
  const { handle } = await openWindow(fake);
  await handle.cancel();
  await eventually('the authorization', () => expect(fake.calls.slice(2)).toEqual(['authorizeRequest']));
  await fake.eventuallyRequested({ cancelled: false });
  fake.rejection = undefined;
  await update(handle, 'pause');
  await fake.eventuallyRequested({ paused: true });
  await fake.ends({ kind: 'Over', state: windowState({ done: 4, remaining: 0 }) });
  expect(await handle.result()).toMatchObject({ done: 4 });
});

test('A window whose object is deleted ends', async () => {
  const { fake, handle } = await openWindow();
  await fake.ends({ kind: 'Gone' });
  expect(await handle.result()).toMatchObject({ name: fake.name, done: 0 });
});

test('A window pauses drains, and the next one resumes them; a workflow that has ended is skipped', async () => {
  const maintenance = new FakeMaintenance({ stage: 'Drain' });
  await lab.startMaintenance(maintenance);
  await maintenance.inProgress('drain 0');
  const workflowIds = [workflowIdOf('ended'), workflowIdOf(maintenance.name)];
  const { fake, handle } = await openWindow();
  await fake.ends({ kind: 'Signal', state: windowState(), pause: workflowIds, resume: [] });
  await fake.eventuallyRequested({
    sentSignals: workflowIds.map((workflowId) => ({ workflowId, signal: 'pause' })),
  });
  await maintenance.inProgress('keepCordoned Drain');
  await fake.ends({ kind: 'Over', state: windowState() });
  await handle.result();
  const next = new FakeWindow();
  next.pausedByWindow = workflowIds;
  await openWindow(next);
  await next.eventuallyRequested({
    sentSignals: workflowIds.map((workflowId) => ({ workflowId, signal: 'resume' })),
  });
  await maintenance.inProgress('drain 0');
});
