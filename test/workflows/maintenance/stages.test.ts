import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { FakeMaintenance } from '../../kit/fakeMaintenance.ts';
import { eventuallyHolds } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { eventuallyProgress, quietTemporal, workflowLab, type WorkflowLab } from '../../kit/workflows.ts';

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

describe('In Idle a maintenance', () => {
  test('changes no node: it only records the start of the stage, and waits', async () => {
    const fake = new FakeMaintenance({ stage: 'Idle' });
    const handle = await lab.startMaintenance(fake);
    await eventuallyProgress(handle, { stage: 'Idle', nodes: ['n1', 'n2'], next: 'Cordon' });
    // A query can be answered before the activity is called.
    await eventuallyHolds(
      'the start of Idle',
      () => fake.calls,
      (calls) => calls.length >= 2,
    );
    expect(fake.calls).toEqual(['admit', 'startStage Idle']);
  });

  test.each([
    { to: 'Cordon', calls: ['startStage Cordon', 'keepCordoned Cordon'] },
    { to: 'Drain', calls: ['startStage Cordon', 'startStage Drain', 'drain 0'] },
  ] as const)('continues when a user edits the stage to $to', async ({ to, calls }) => {
    const fake = new FakeMaintenance({ stage: 'Idle' });
    const handle = await lab.startMaintenance(fake);
    await eventuallyProgress(handle, { nodes: fake.nodes });
    await handle.signal('observe', fake.edited(to));
    await fake.inProgress(calls[calls.length - 1] ?? '');
    expect(fake.calls.slice(2)).toEqual(calls);
  });

  test('reads the nodes again, and stays in Idle, when another field is edited', async () => {
    const fake = new FakeMaintenance({ stage: 'Idle', nodes: ['n1'] });
    const handle = await lab.startMaintenance(fake);
    await eventuallyHolds(
      'the start of Idle',
      () => fake.calls,
      (calls) => calls.includes('startStage Idle'),
    );
    fake.nodes = ['n1', 'n2'];
    await handle.signal('observe', fake.edited('Idle'));
    await eventuallyProgress(handle, { stage: 'Idle', nodes: ['n1', 'n2'] });
    expect(fake.calls).toEqual(['admit', 'startStage Idle', 'startStage Idle']);
  });
});

describe('Beside the drain, an escalation', () => {
  const escalations = (fake: FakeMaintenance) => fake.calls.filter((call) => call === 'escalate').length;
  const eventuallyEscalated = (fake: FakeMaintenance, times: number) =>
    eventuallyHolds(
      `${times} escalations`,
      () => escalations(fake),
      (count) => count === times,
    );

  test('does each step when it is due, and does not disturb the drain', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain' });
    fake.escalationsInMs = [300, 300];
    const handle = await lab.startMaintenance(fake);
    await eventuallyEscalated(fake, 2);
    await fake.inProgress('drain 0');
    expect(fake.calls).not.toContain('drain 0 cancelled');
    expect(await handle.query('progress')).toMatchObject({ stage: 'Drain', position: 0 });
  });

  test('is asked again when the object has changed, because it may have another deadline', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('drain 0');
    expect(escalations(fake)).toBe(0);
    await handle.signal('observe', fake.edited('Drain'));
    await eventuallyEscalated(fake, 1);
  });

  test('ends with the drain: no step is done in Complete', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain' });
    fake.escalationsInMs = [3_600_000];
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('drain 0');
    await handle.executeUpdate('cancel', { args: [] });
    await handle.result();
    expect(escalations(fake)).toBe(0);
  });
});

describe('An observation of the controller', () => {
  test('is ignored if the workflow knows a newer generation', async () => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('keepCordoned Cordon');
    const late = fake.edited('Cordon');
    const newest = fake.edited('Drain');
    await handle.signal('observe', newest);
    await fake.inProgress('drain 0');
    await handle.signal('observe', late);
    expect(await handle.query('progress')).toMatchObject({ stage: 'Drain' });
    expect(fake.calls).not.toContain('drain 0 cancelled');
  });

  test('is ignored if it is about another object of the same name', async () => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('keepCordoned Cordon');
    const other = { uid: 'another-uid', generation: 9 };
    await handle.signal('observe', { ...other, kind: 'StageChanged', stage: 'Complete' });
    await handle.signal('observe', { ...other, kind: 'Gone' });
    expect(await handle.query('progress')).toMatchObject({ stage: 'Cordon' });
    await fake.inProgress('keepCordoned Cordon');
    expect(fake.calls).toEqual(['admit', 'startStage Cordon', 'keepCordoned Cordon']);
  });

  test('also reaches the workflow through the activity in progress', async () => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    await lab.startMaintenance(fake);
    await fake.inProgress('keepCordoned Cordon');
    const { stage, generation } = fake.edited('Drain') as { stage: 'Drain'; generation: number };
    await fake.ends('keepCordoned Cordon', { kind: 'StageChanged', stage, generation });
    await fake.inProgress('drain 0');
  });
});

describe('In Drain a maintenance', () => {
  test('runs Cordon first, then the tiers by position until Drained, then keeps the nodes drained', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain' });
    const handle = await lab.startMaintenance(fake);
    await fake.tierDrained(0, 2);
    await fake.tierDrained(2, 3);
    await fake.tierDrained(3, 7);
    expect(await eventuallyProgress(handle, { position: 7 })).toMatchObject({ drained: false });
    await fake.drained(7);
    await fake.inProgress('keepDrained');
    expect(await handle.query('progress')).toMatchObject({ drained: true, position: 7, stage: 'Drain' });
    expect(fake.calls).toEqual([
      'admit',
      'startStage Cordon',
      'startStage Drain',
      'drain 0',
      'drain 2',
      'drain 3',
      'drain 7',
      'keepDrained',
    ]);
  });

  test('that replaces a terminated run starts at the recorded position', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain', position: 5 });
    await lab.startMaintenance(fake);
    await fake.inProgress('drain 5');
  });

  test('that was paused before its run was terminated stays paused', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain', paused: true });
    await lab.startMaintenance(fake);
    await fake.inProgress('keepCordoned Drain');
    expect(fake.calls).not.toContain('drain 0');
  });

  test('after Cordon does not start Cordon again', async () => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('keepCordoned Cordon');
    await handle.signal('observe', fake.edited('Drain'));
    await fake.inProgress('drain 0');
    expect(fake.calls.filter((call) => call === 'startStage Cordon')).toHaveLength(1);
  });
});
