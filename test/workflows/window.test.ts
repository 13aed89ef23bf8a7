import { WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { workflowIdOf } from '../../api/names.ts';
import { turnName } from '../../domain/revision.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventually } from '../kit/eventually.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { FakeWindow, windowState } from '../kit/fakeWindow.ts';
import { newWindowRun } from '../../workflows/windowRun.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import {
  deedsOf,
  eventsOf,
  eventuallyProgress,
  quietTemporal,
  type WindowHandle,
  workflowLab,
  type WorkflowLab,
} from '../kit/workflows.ts';

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

async function opened(fake = new FakeWindow()) {
  const handle = await lab.opened(fake);
  await fake.ordered({});
  return { fake, handle };
}

const update = (handle: WindowHandle, name: string, ...args: unknown[]) =>
  handle.executeUpdate<unknown, [unknown]>(name, { args: args as [unknown] });

async function refusalOf(answer: Promise<unknown>): Promise<string> {
  try {
    await answer;
  } catch (error) {
    if (error instanceof WorkflowUpdateFailedError) return error.cause?.message ?? '';
    throw error;
  }
  return 'it was not refused';
}

const first = [{ node: 'n1', maintenance: 'turn-1' }];

test('A window sees its turns through, and tells how far it has come', async () => {
  const { fake, handle } = await opened();
  const waiting = { reason: 'MaxUnavailable', message: 'One at a time.' };
  await fake.ends({ kind: 'Progressed', state: windowState({ underWay: first, remaining: 3, waiting }) });
  await eventuallyProgress(handle, { name: fake.name, state: { underWay: first, waiting } } as object);
  const { currentDetails } = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
  expect(currentDetails).toContain(`- **MaintenanceWindow:** \`${fake.name}\``);
  expect(currentDetails).toContain('- **Now:** One at a time.');
  expect(currentDetails).toContain('| `n1`\u2003| under way');
  await fake.ends({ kind: 'Over', state: windowState({ done: 4, remaining: 0 }) });
  expect(await handle.result()).toEqual({ name: fake.name, nodes: 4, done: 4, failed: [], remaining: 0 });
  expect(fake.calls).toEqual(['openWindow', 'rollOut', 'rollOut', 'closeWindow']);
});

test('The end is awaited for as long as it is away, however long the opening took, and anew when a cancellation is ignored', async () => {
  const lastsMs = 3_600_000;
  const fake = new FakeWindow({ lastsMs });
  fake.refusal = ApplicationFailure.nonRetryable('you may not', 'InvalidInput');
  const { handle } = await opened(fake);
  await handle.cancel();
  const timers = await eventually('the end to be awaited anew', async () => {
    const { events } = await handle.fetchHistory();
    const started = (events ?? []).flatMap(({ timerStartedEventAttributes: timer }) => timer ?? []);
    expect(started).toHaveLength(2);
    return started.map(({ startToFireTimeout }) => tsToMs(startToFireTimeout));
  });
  const [before = 0, anew = 0] = timers;
  expect(before).toBeLessThanOrEqual(lastsMs);
  expect(anew).toBeLessThan(before);
});

test('At its time the window is over, and the turns under way are seen through', async () => {
  const fake = new FakeWindow({ lastsMs: 1_500 });
  const handle = await lab.opened(fake);
  await fake.ordered({ ended: true });
  await fake.ends({ kind: 'Over', state: windowState({ done: 1, remaining: 3 }) });
  expect(await handle.result()).toMatchObject({ done: 1, remaining: 3 });
});

describe('orders to a window', () => {
  test.each([
    { order: 'pause', args: [], then: { paused: true } },
    { order: 'cancel', args: [], then: { cancelled: true } },
    { order: 'approve', args: [], then: { approved: true } },
    { order: 'approve', args: [{ nodes: ['n1', 'n2'] }], then: { approvedNodes: ['n1', 'n2'] } },
  ])('reach the work under way, as update and as signal: $order $args', async ({ order, args, then }) => {
    for (const give of [
      (handle: WindowHandle) => update(handle, order, ...args),
      (handle: WindowHandle) => handle.signal<unknown[]>(order, ...args),
    ]) {
      const { fake, handle } = await opened();
      await give(handle);
      await fake.ordered(then);
    }
  });

  test('are undone by resume', async () => {
    const { fake, handle } = await opened();
    await update(handle, 'pause');
    await fake.ordered({ paused: true });
    await update(handle, 'resume');
    await fake.ordered({ paused: false });
  });

  test('end the turn of a node', async () => {
    const { fake, handle } = await opened();
    await update(handle, 'advance', { node: 'n1' });
    expect(fake.calls).toContain('advanceTurn n1');
  });

  test.each([
    { order: 'advance', args: [], says: 'node: say whose turn ends, such as {"node": "n1"}' },
    { order: 'advance', args: [{ node: 7 }], says: 'node: expected the name of a node' },
    { order: 'approve', args: [{ to: 'n1' }], says: 'to: unknown field; there are "node" and "nodes"' },
    { order: 'approve', args: ['n1'], says: 'expected one JSON object, such as {"node": "n1"}, or none' },
    { order: 'approve', args: [{ nodes: [1] }], says: 'nodes: expected a list of names of nodes' },
  ])('that make no sense are refused and leave no trace: $order $args', async ({ order, args, says }) => {
    const { handle } = await opened();
    const before = await deedsOf(handle);
    expect(await refusalOf(update(handle, order, ...args))).toBe(says);
    expect(await deedsOf(handle)).toEqual(before);
    await handle.signal<unknown[]>(order, ...args);
    expect(await update(handle, 'pause')).toMatchObject({ paused: true, approved: false });
  });

  test('of those who may not maintain the nodes are refused', async () => {
    const { fake, handle } = await opened();
    fake.refusal = ApplicationFailure.nonRetryable('you may not', 'InvalidInput');
    expect(await refusalOf(update(handle, 'cancel'))).toBe('you may not');
    await handle.signal('cancel');
    await eventually('both to be judged', () =>
      expect(fake.calls.filter((call) => call === 'authorizeOrder')).toHaveLength(2),
    );
    expect(await handle.query('progress')).toMatchObject({ cancelled: false });
  });
});

test('A window that is cancelled from Temporal brings its turns to an end', async () => {
  const { fake, handle } = await opened();
  await handle.cancel();
  await fake.ordered({ cancelled: true });
  await fake.ends({ kind: 'Over', state: windowState() });
  expect(await handle.result()).toMatchObject({ done: 0 });
  expect(fake.calls.at(-1)).toBe('closeWindow');
});

test('A window that is cancelled from Temporal while it opens is closed again', async () => {
  const fake = new FakeWindow();
  const opens = Promise.withResolvers<void>();
  fake.opening = opens.promise;
  const handle = await lab.opened(fake);
  await eventually('it to open', () => expect(fake.calls).toEqual(['openWindow']));
  await handle.cancel();
  await eventually('the run to know it', async () =>
    expect(await eventsOf(handle)).toContain(String(cancelRequested)),
  );
  opens.resolve();
  await fake.ordered({ cancelled: true });
  await fake.ends({ kind: 'Over', state: windowState() });
  await handle.result();
  expect(fake.calls.at(-1)).toBe('closeWindow');
});

test('A window that is cancelled from Temporal by those who may not maintain its nodes goes on', async () => {
  const fake = new FakeWindow();
  fake.refusal = ApplicationFailure.nonRetryable('you may not', 'InvalidInput');
  const { handle } = await opened(fake);
  await handle.cancel();
  await eventually('it to be judged', () =>
    expect(fake.calls.slice(2)).toEqual(['authorizeOrder', 'rollOut']),
  );
  await fake.ordered({ cancelled: false });
  fake.refusal = undefined;
  await update(handle, 'pause');
  await fake.ordered({ paused: true });
  await fake.ends({ kind: 'Over', state: windowState({ done: 4, remaining: 0 }) });
  expect(await handle.result()).toMatchObject({ done: 4 });
});

test('A window goes on from the state of an earlier release, in which turns that failed are names of nodes', async () => {
  const fake = new FakeWindow();
  const state = windowState({ failed: ['n3'] as never, remaining: 3 });
  const end = new Date(Date.now() + 3_600_000).toISOString();
  const given = { name: fake.name, uid: 'uid', start: end, end, state, told: ['turn'] as never };
  const handle = await lab.opened(fake, { ...newWindowRun('first'), ...given });
  await fake.ordered({});
  const { currentDetails } = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
  expect(currentDetails).toContain(`/${workflowIdOf(turnName(fake.name, 'r', 'n3'))})`);
  await fake.ends({ kind: 'Over', state });
  expect(await handle.result()).toMatchObject({ failed: ['n3'] });
  expect(fake.calls).toEqual(['rollOut', 'closeWindow']);
});

test('A window whose object is gone ends', async () => {
  const { fake, handle } = await opened();
  await fake.ends({ kind: 'Gone' });
  expect(await handle.result()).toMatchObject({ name: fake.name, done: 0 });
});

test('The drains of turns rest when a window holds them, and go on in the next; one that has ended hinders nobody', async () => {
  const turn = new FakeMaintenance({ stage: 'Drain' });
  await lab.begun(turn);
  await turn.underWay('drain 0');
  const rest = [workflowIdOf('no-such-turn'), workflowIdOf(turn.name)];
  const { fake, handle } = await opened();
  await fake.ends({ kind: 'Tell', state: windowState(), pause: rest, resume: [] });
  await fake.ordered({ told: rest.map((run) => ({ run, word: 'pause' })) });
  await turn.underWay('keepCordoned Drain');
  await fake.ends({ kind: 'Over', state: windowState() });
  await handle.result();
  const next = new FakeWindow();
  next.resting = rest;
  await opened(next);
  await next.ordered({ told: rest.map((run) => ({ run, word: 'resume' })) });
  await turn.underWay('drain 0');
});
