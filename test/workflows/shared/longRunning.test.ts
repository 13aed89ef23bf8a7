import { ApplicationFailure } from '@temporalio/common';
import { tsToMs } from '@temporalio/common/lib/time.js';
import type { WorkflowHandle } from '@temporalio/client';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { FakeMaintenance } from '../../kit/fakeMaintenance.ts';
import { FakeWindow, windowState } from '../../kit/fakeWindow.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { eventsOf, quietTemporal, workflowLab, type WorkflowLab } from '../../kit/workflows.ts';

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

/** `EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED` and `EVENT_TYPE_TIMER_STARTED` of Temporal's API. */
const [cancelRequested, timerStarted] = ['15', '17'];

/** Returns the task queue and the heartbeat timeout of every activity, as `drain: 6 s, long-running`. */
async function optionsOf(handle: WorkflowHandle): Promise<string[]> {
  const { events } = await handle.fetchHistory();
  return (events ?? []).flatMap(({ activityTaskScheduledEventAttributes: scheduled }) => {
    if (!scheduled) return [];
    const { activityType, heartbeatTimeout, taskQueue } = scheduled;
    const seconds = tsToMs(heartbeatTimeout) / 1_000;
    const isLongRunning = taskQueue?.name?.endsWith('-long-running') === true;
    return `${activityType?.name}: ${seconds} s${isLongRunning ? ', long-running' : ''}`;
  });
}

test('Activities that last have a task queue of their own, and those that only wait send few heartbeats', async () => {
  const fake = new FakeMaintenance({ stage: 'Cordon' });
  const handle = await lab.startMaintenance(fake);
  await fake.inProgress('keepCordoned Cordon');
  await handle.executeUpdate('advance', { args: [] });
  await fake.stalled(0);
  await fake.ends('drain 0 Waiting', { kind: 'TierDrained', position: 3, nodes: fake.nodes });
  await fake.inProgress('drain 3');
  await handle.executeUpdate('pause', { args: [] });
  await handle.executeUpdate('resume', { args: [] });
  await fake.drained(3);
  await fake.inProgress('keepDrained');
  fake.awaitsLeases = true;
  await handle.executeUpdate('cancel', { args: [] });
  await handle.result();
  expect(await optionsOf(handle)).toEqual([
    'admit: 6 s',
    'startStage: 6 s',
    'keepCordoned: 540 s, long-running',
    'requestStage: 6 s',
    'startStage: 6 s',
    'drain: 6 s, long-running',
    'drain: 540 s, long-running',
    'drain: 6 s, long-running',
    'recordPause: 6 s',
    'keepCordoned: 540 s, long-running',
    'recordPause: 6 s',
    'drain: 6 s, long-running',
    'keepDrained: 540 s, long-running',
    'requestStage: 6 s',
    'requestStage: 6 s',
    'startStage: 6 s',
    'removeEvacuations: 6 s',
    'uncordonNodes: 6 s, long-running',
    'uncordonNodes: 540 s, long-running',
    'finish: 6 s',
  ]);
});

test('A heartbeat timeout that no worker returns does not block a run', async () => {
  for (const timeout of [Number.MAX_VALUE, -1, 'long', null]) {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    const { admit } = fake.activities;
    fake.activities.admit = async (request) => ({
      ...(await admit(request)),
      heartbeatTimeoutSeconds: timeout as number,
    });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('keepCordoned Cordon');
    expect((await optionsOf(handle)).at(-1)).toBe('keepCordoned: 6 s, long-running');
  }
});

describe('No order cancels an activity, which would learn of it late: the object ends it.', () => {
  test.each([
    { stage: 'Cordon', call: 'keepCordoned Cordon' },
    { stage: 'Drain', call: 'drain 0' },
  ] as const)('In $stage the nodes are uncordoned when it has ended', async ({ stage, call }) => {
    for (const order of ['update', 'signal', "Temporal's own cancellation"]) {
      const fake = new FakeMaintenance({ stage });
      const handle = await lab.startMaintenance(fake);
      await fake.inProgress(call);
      if (order === 'update') await handle.executeUpdate('cancel', { args: [] });
      else if (order === 'signal') await handle.signal('cancel');
      else await handle.cancel();
      await handle.result();
      expect(fake.stage).toBe('Complete');
      expect(await eventsOf(handle)).not.toContain(cancelRequested);
      expect(await eventsOf(handle)).not.toContain(timerStarted);
    }
  });

  test('A pause answers when the drain has ended', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('drain 0');
    const unblock = fake.block('recordPause');
    let answered = false;
    const paused = handle.executeUpdate('pause', { args: [] }).then(() => (answered = true));
    await eventually('the pause to be recorded', () => expect(fake.calls).toContain('recordPause true'));
    await throughout('it has no answer', 300, () => expect(answered).toBe(false));
    await fake.inProgress('drain 0');
    unblock();
    await paused;
    await fake.inProgress('keepCordoned Drain');
  });

  test('A window ends its rollout when the object records a request', async () => {
    const fake = new FakeWindow();
    const handle = await lab.startWindow(fake);
    await fake.eventuallyRequested({});
    await handle.executeUpdate('pause', { args: [] });
    await fake.eventuallyRequested({ paused: true });
    await handle.cancel();
    await fake.eventuallyRequested({ paused: true, cancelled: true });
    await fake.ends({ kind: 'Over', state: windowState() });
    await handle.result();
    expect(await eventsOf(handle)).not.toContain(cancelRequested);
    expect(await optionsOf(handle)).toContain('rollOut: 540 s, long-running');
  });
});

test('A cancellation from Temporal without authorization changes nothing, and later orders are followed', async () => {
  const fake = new FakeMaintenance({ stage: 'Cordon' });
  const handle = await lab.startMaintenance(fake);
  await fake.inProgress('keepCordoned Cordon');
  fake.failing('requestStage', ApplicationFailure.nonRetryable('you may not', 'InvalidInput'));
  await handle.cancel();
  await eventually('the authorization', () => expect(fake.calls).toContain('requestStage Complete'));
  await fake.inProgress('keepCordoned Cordon');
  await handle.executeUpdate('advance', { args: [{ to: 'Drain' }] });
  await fake.inProgress('drain 0');
  await handle.executeUpdate('cancel', { args: [] });
  expect(await handle.result()).toMatchObject({ name: fake.name });
});

test('A maintenance in Idle that ignored a cancellation from Temporal still follows its object', async () => {
  for (const end of ['Complete', 'Gone'] as const) {
    const fake = new FakeMaintenance({ stage: 'Idle' });
    const handle = await lab.startMaintenance(fake);
    await eventually('the stage', () => expect(fake.calls).toContain('startStage Idle'));
    fake.failing('requestStage', ApplicationFailure.nonRetryable('you may not', 'InvalidInput'));
    await handle.cancel();
    await eventually('the authorization', () => expect(fake.calls).toContain('requestStage Complete'));
    if (end === 'Complete') {
      await handle.signal('observe', fake.edited('Drain'));
      await fake.inProgress('drain 0');
      await handle.executeUpdate('cancel', { args: [] });
    } else await handle.signal('observe', fake.deleted());
    expect(await handle.result()).toMatchObject({ name: fake.name });
  }
});
