import { WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { windowWorkflowIdOf, workflowIdOf } from '../kit/temporalNames.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventually } from '../kit/eventually.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { FakeWindow, windowState } from '../kit/fakeWindow.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import {
  eventuallyProgress,
  quietTemporal,
  signalsTo,
  workflowLab,
  type WorkflowLab,
} from '../kit/workflows.ts';

/** Tests of what a client that may write to the Temporal namespace can send to the workflows. */
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

/** No message has one of these as its input. */
const garbage = [
  'text',
  '',
  0,
  -1,
  1e308,
  true,
  [],
  [{ to: 'Drain' }],
  [[[]]],
  { to: { to: 'Drain' } },
  { to: 'Idle' },
  { generation: Number.MAX_SAFE_INTEGER },
  { uid: null, kind: 'Gone' },
  { node: 7 },
  { nodes: [null] },
  { constructor: { prototype: {} } },
  JSON.parse('{"__proto__": {"uid": "polluted"}}') as object,
  { name: 'x', uid: 'y', approved: true, end: '2099-01-01T00:00:00.000Z' },
  'x'.repeat(100_000),
  { ['x'.repeat(100_000)]: 1 },
];

/** Sends a signal whose payload is no JSON, which the SDK's clients would not send. */
async function signalUndecodable({ workflowId }: WorkflowHandle, signalName: string): Promise<void> {
  const payload = { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('{"to":') };
  await lab.client.workflowService.signalWorkflowExecution({
    namespace: 'default',
    workflowExecution: { workflowId },
    signalName,
    input: { payloads: [payload] },
  });
}

async function signalGarbage(handle: WorkflowHandle, signals: readonly string[]): Promise<void> {
  for (const signal of signals) {
    for (const payload of garbage) await handle.signal<[unknown]>(signal, payload);
    await signalUndecodable(handle, signal);
  }
}

describe('a maintenance', () => {
  const signals = ['observe', 'refreshDetails', 'advance', 'cancel', 'pause', 'resume', 'unknown'];

  test('is not changed by signals with any payload, and continues', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('drain 0');
    const before = [...fake.calls];
    const progress = await handle.query('progress');
    await signalGarbage(handle, signals);
    expect(await handle.query('progress')).toEqual(progress);
    expect(fake.calls).toEqual(before);
    await fake.tierDrained(0, 3);
    await fake.inProgress('drain 3');
  });

  test('rejects updates with any payload', async () => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('keepCordoned Cordon');
    const before = [...fake.calls];
    for (const update of ['advance', 'cancel', 'pause', 'resume'])
      for (const payload of garbage)
        await expect(
          handle.executeUpdate<unknown, [unknown]>(update, { args: [payload] }),
        ).rejects.toMatchObject({
          cause: { message: expect.stringMatching(/^.{1,200}$/) },
        });
    expect(fake.calls).toEqual(before);
  });

  test('survives a payload of 1 MiB', async () => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('keepCordoned Cordon');
    await handle.signal<[unknown]>('advance', { to: 'x'.repeat(1_048_576) });
    await handle.signal<[unknown]>('observe', { uid: 'x'.repeat(1_000_000), kind: 'Gone' });
    expect(await handle.query('progress')).toMatchObject({ stage: 'Cordon' });
    await handle.executeUpdate('advance', { args: [] });
    await fake.inProgress('drain 0');
  });

  test.each([
    { claim: 'Complete', from: 'Drain', call: 'drain 0' },
    { claim: 'Complete', from: 'Cordon', call: 'keepCordoned Cordon' },
    { claim: 'Drain', from: 'Cordon', call: 'keepCordoned Cordon' },
    { claim: 'Cordon', from: 'Cordon', call: 'keepCordoned Cordon' },
    { claim: 'Gone', from: 'Drain', call: 'drain 0' },
  ] as const)(
    'in $from that receives $claim at a huge generation reads its object, continues, and follows the next edit',
    async ({ claim, from, call }) => {
      const fake = new FakeMaintenance({ stage: from });
      const handle = await lab.startMaintenance(fake);
      await fake.inProgress(call);
      const generation = Number.MAX_SAFE_INTEGER;
      const forged =
        claim === 'Gone'
          ? { uid: fake.uid, kind: 'Gone' }
          : { uid: fake.uid, kind: 'StageChanged', stage: claim, generation };
      await handle.signal<[unknown]>('observe', forged);
      await eventually('the claim to be handled', async () =>
        expect(await signalsTo(handle, 'observe')).toHaveLength(1),
      );
      await fake.inProgress(call);
      await eventuallyProgress(handle, { stage: from });
      expect(fake.stage).toBe(from);
      expect(fake.calls).not.toContain('requestStage Complete');
      expect(fake.calls).not.toContain('uncordonNodes');
      await handle.signal('observe', fake.edited('Complete'));
      expect(await handle.result()).toMatchObject({ name: fake.name });
      expect(fake.calls.at(-1)).toBe('finish');
    },
  );

  test('in Idle that receives a huge generation follows the next edit', async () => {
    const fake = new FakeMaintenance({ stage: 'Idle' });
    const handle = await lab.startMaintenance(fake);
    await eventuallyProgress(handle, { nodes: fake.nodes });
    for (const stage of ['Idle', 'Drain', 'Complete']) {
      const generation = Number.MAX_SAFE_INTEGER;
      await handle.signal<[unknown]>('observe', { uid: fake.uid, kind: 'StageChanged', stage, generation });
    }
    await eventuallyProgress(handle, { stage: 'Idle' });
    expect(fake.calls.filter((call) => /Cordon|Drain|uncordon/.test(call))).toEqual(
      fake.calls.filter((call) => call === 'startStage Cordon'),
    );
    await handle.signal('observe', fake.edited('Cordon'));
    await fake.inProgress('keepCordoned Cordon');
  });

  test('whose activity another client completes with an unknown result ends, so that the controller starts it again', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('drain 0');
    const { raw } = await handle.describe();
    const pending = raw.pendingActivities?.find(({ activityType }) => activityType?.name === 'drain');
    const data = Buffer.from('{"kind":"StageChanged","stage":"Paint","generation":"many"}');
    await lab.client.workflowService.respondActivityTaskCompletedById({
      namespace: 'default',
      workflowId: handle.workflowId,
      activityId: pending?.activityId ?? '',
      result: { payloads: [{ metadata: { encoding: Buffer.from('json/plain') }, data }] },
    });
    await expect(handle.result()).rejects.toMatchObject({
      cause: { type: 'InvalidInput', message: 'an activity was completed with an unknown result' },
    });
  });
});

describe('a window', () => {
  const signals = ['approve', 'advance', 'cancel', 'pause', 'resume', 'unknown'];

  test('is not changed by messages with any payload, and continues', async () => {
    const fake = new FakeWindow();
    const handle = await lab.startWindow(fake);
    await fake.eventuallyRequested({});
    const progress = await handle.query('progress');
    await signalGarbage(handle, signals);
    for (const update of signals.slice(0, -1))
      for (const payload of garbage)
        await expect(
          handle.executeUpdate<unknown, [unknown]>(update, { args: [payload] }),
        ).rejects.toMatchObject({ cause: { message: expect.stringMatching(/^.{1,200}$/) } });
    expect(await handle.query('progress')).toEqual(progress);
    expect(fake.calls).toEqual(['openWindow', 'rollOut']);
    await fake.ends({ kind: 'Over', state: windowState() });
    expect(await handle.result()).toMatchObject({ name: fake.name });
  });
});

describe('a second input', () => {
  const refused = {
    cause: { type: 'InvalidInput', message: expect.stringContaining('expected one JSON object as input') },
  };

  test('to a maintenance is refused, and nothing is done', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain' });
    const forged = { name: fake.name, uid: fake.uid, generation: 1, stage: 'Complete', startedStages: [] };
    const handle = await lab.start('nodeMaintenance', {
      workflowId: workflowIdOf(fake.name),
      args: [{ name: fake.name }, forged],
      activities: fake.activities,
    });
    await expect(handle.result()).rejects.toThrow(WorkflowFailedError);
    await expect(handle.result()).rejects.toMatchObject(refused);
    expect(fake.calls).toEqual([]);
  });

  test('to a window is refused, and nothing is done', async () => {
    const fake = new FakeWindow();
    const forged = { name: fake.name, uid: 'uid', approved: true, end: '2099-01-01T00:00:00.000Z' };
    const handle = await lab.startWindow(fake, forged as never);
    await expect(handle.result()).rejects.toMatchObject(refused);
    expect(fake.calls).toEqual([]);
  });

  test('is refused in every run of a cron schedule, although those name a previous run', async () => {
    const fake = new FakeWindow();
    const workflowId = windowWorkflowIdOf(fake.name);
    await lab.start('maintenanceWindow', {
      workflowId,
      cronSchedule: '@every 1s',
      args: [{ name: fake.name }, { name: fake.name, uid: 'uid', approved: true }],
      activities: fake.activities,
    });
    await eventually('three runs', async () => {
      const failed: string[] = [];
      const query = `WorkflowId = "${workflowId}" AND ExecutionStatus = "Failed"`;
      for await (const { runId } of lab.client.workflow.list({ query })) failed.push(runId);
      expect(failed.length).toBeGreaterThanOrEqual(3);
    });
    await lab.client.workflow.getHandle(workflowId).terminate();
    expect(fake.calls).toEqual([]);
  });
});
