import type { Sandbox } from '../../sandbox/sandbox.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { eventuallyHolds } from '../kit/holds.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { eventuallyProgress, quietTemporal, workflowLab, type WorkflowLab } from '../kit/workflows.ts';

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
  test('touches nothing: it only notes that the stage has begun, and waits', async () => {
    const fake = new FakeMaintenance({ stage: 'Idle' });
    const handle = await lab.begun(fake);
    await eventuallyProgress(handle, { stage: 'Idle', nodes: ['n1', 'n2'], next: 'Cordon' });
    expect(fake.calls).toEqual(['admit', 'beginStage Idle']);
  });

  test.each([
    { to: 'Cordon', calls: ['beginStage Cordon', 'renewNodeLeases', 'keepCordoned Cordon'] },
    { to: 'Drain', calls: ['beginStage Cordon', 'beginStage Drain', 'renewNodeLeases', 'drain 0'] },
  ] as const)("is moved on by a person's edit of the stage to $to", async ({ to, calls }) => {
    const fake = new FakeMaintenance({ stage: 'Idle' });
    const handle = await lab.begun(fake);
    await eventuallyProgress(handle, { nodes: fake.nodes });
    await handle.signal('observe', fake.edited(to));
    await fake.underWay(calls[calls.length - 1] ?? '');
    expect(fake.calls.slice(2)).toEqual(calls);
  });

  test('looks again, and stays, when something else than the stage was edited', async () => {
    const fake = new FakeMaintenance({ stage: 'Idle', nodes: ['n1'] });
    const handle = await lab.begun(fake);
    await eventuallyHolds(
      'Idle is begun',
      () => fake.calls,
      (calls) => calls.includes('beginStage Idle'),
    );
    fake.nodes = ['n1', 'n2'];
    await handle.signal('observe', fake.edited('Idle'));
    await eventuallyProgress(handle, { stage: 'Idle', nodes: ['n1', 'n2'] });
    expect(fake.calls).toEqual(['admit', 'beginStage Idle', 'beginStage Idle']);
  });
});

describe('What the controller saw', () => {
  test('is ignored when the workflow knows a newer generation', async () => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    const handle = await lab.begun(fake);
    await fake.underWay('keepCordoned Cordon');
    const late = fake.edited('Cordon');
    const newest = fake.edited('Drain');
    await handle.signal('observe', newest);
    await fake.underWay('drain 0');
    await handle.signal('observe', late);
    expect(await handle.query('progress')).toMatchObject({ stage: 'Drain' });
    expect(fake.calls).not.toContain('drain 0 cancelled');
  });

  test('is ignored when it is about another object of the same name', async () => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    const handle = await lab.begun(fake);
    await fake.underWay('keepCordoned Cordon');
    const namesake = { uid: 'the-uid-of-a-namesake', generation: 9 };
    await handle.signal('observe', { ...namesake, kind: 'StageChanged', stage: 'Complete' });
    await handle.signal('observe', { ...namesake, kind: 'Gone' });
    expect(await handle.query('progress')).toMatchObject({ stage: 'Cordon' });
    await fake.underWay('keepCordoned Cordon');
    expect(fake.calls).toEqual(['admit', 'beginStage Cordon', 'renewNodeLeases', 'keepCordoned Cordon']);
  });

  test('reaches the workflow also through the activity that was under way', async () => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    await lab.begun(fake);
    await fake.underWay('keepCordoned Cordon');
    const { stage, generation } = fake.edited('Drain') as { stage: 'Drain'; generation: number };
    await fake.ends('keepCordoned Cordon', { kind: 'StageChanged', stage, generation });
    await fake.underWay('drain 0');
  });
});

describe('In Drain a maintenance', () => {
  test('runs Cordon first, then the tiers by position until Drained, then keeps the nodes drained', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain' });
    const handle = await lab.begun(fake);
    await fake.tierDrained(0, 2);
    await fake.tierDrained(2, 3);
    await fake.tierDrained(3, 7);
    expect(await eventuallyProgress(handle, { position: 7 })).toMatchObject({ drained: false });
    await fake.drained(7);
    await fake.underWay('keepDrained');
    expect(await handle.query('progress')).toMatchObject({ drained: true, position: 7, stage: 'Drain' });
    expect(fake.calls).toEqual([
      'admit',
      'beginStage Cordon',
      'beginStage Drain',
      'renewNodeLeases',
      'drain 0',
      'drain 2',
      'drain 3',
      'drain 7',
      'keepDrained',
    ]);
  });

  test('that goes on for a run that was terminated begins at the position on record', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain', position: 5 });
    await lab.begun(fake);
    await fake.underWay('drain 5');
  });

  test('that was paused before its run was terminated stays paused', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain', paused: true });
    await lab.begun(fake);
    await fake.underWay('keepCordoned Drain');
    expect(fake.calls).not.toContain('drain 0');
  });

  test('after Cordon does not begin Cordon again', async () => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    const handle = await lab.begun(fake);
    await fake.underWay('keepCordoned Cordon');
    await handle.signal('observe', fake.edited('Drain'));
    await fake.underWay('drain 0');
    expect(fake.calls.filter((call) => call === 'beginStage Cordon')).toHaveLength(1);
  });
});
