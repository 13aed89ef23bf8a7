import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { eventually } from '../../kit/eventually.ts';
import { FakeMaintenance } from '../../kit/fakeMaintenance.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import {
  effectsOf,
  eventuallyProgress,
  type Handle,
  quietTemporal,
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

/** Starts a workflow and waits until it works in `stage`. */
async function startedIn(stage: 'Idle' | 'Cordon' | 'Drain') {
  const fake = new FakeMaintenance({ stage });
  const handle = await lab.startMaintenance(fake);
  if (stage === 'Idle') await eventuallyProgress(handle, { nodes: fake.nodes });
  else await fake.inProgress({ Cordon: 'keepCordoned Cordon', Drain: 'drain 0' }[stage]);
  return { fake, handle };
}

const update = (handle: Handle, name: string, ...args: unknown[]) =>
  handle.executeUpdate<unknown, [unknown]>(name, { args: args as [unknown] });

/** Returns the message of a rejected update. */
async function rejectionOf(answer: Promise<unknown>): Promise<string> {
  try {
    await answer;
  } catch (error) {
    if (error instanceof WorkflowUpdateFailedError) return error.cause?.message ?? '';
    throw error;
  }
  return 'not rejected';
}

describe('advance', () => {
  test.each([
    { from: 'Idle', to: undefined, then: 'Cordon' },
    { from: 'Idle', to: 'Drain', then: 'Drain' },
    { from: 'Idle', to: 'Complete', then: 'Complete' },
    { from: 'Cordon', to: undefined, then: 'Drain' },
    { from: 'Cordon', to: 'Complete', then: 'Complete' },
    { from: 'Drain', to: 'Drain', then: 'Drain' },
  ] as const)(
    'as an update, from $from to $to, writes $then to the object and answers with it',
    async ({ from, to, then }) => {
      const { fake, handle } = await startedIn(from);
      const payload = to === undefined ? [] : [{ to }];
      const answer = await update(handle, 'advance', ...payload);
      expect(answer).toMatchObject({ name: fake.name, stage: then });
      expect(fake.calls).toContain(`requestStage ${then}`);
      expect(fake.stage).toBe(then);
    },
  );

  test.each([
    { from: 'Idle', payload: [], then: 'Cordon' },
    { from: 'Idle', payload: [{}], then: 'Cordon' },
    { from: 'Cordon', payload: [{ from: 'Cordon' }], then: 'Drain' },
    { from: 'Drain', payload: [], then: 'Complete' },
    { from: 'Cordon', payload: [{ to: 'Complete' }], then: 'Complete' },
  ] as const)(
    'as a signal with payload $payload, from $from, goes to $then',
    async ({ from, payload, then }) => {
      const { fake, handle } = await startedIn(from);
      await handle.signal<unknown[]>('advance', ...payload);
      await eventually(`stage ${then}`, () => expect(fake.stage).toBe(then));
      if (then === 'Complete') expect(await handle.result()).toMatchObject({ name: fake.name });
      else await eventuallyProgress(handle, { stage: then });
    },
  );

  test.each([
    { from: 'Drain', to: 'Cordon', want: 'stage cannot go from Drain back to Cordon: choose Complete' },
    {
      from: 'Cordon',
      to: 'Idle',
      want: 'to: expected "Cordon", "Drain" or "Complete" (got "Idle")',
    },
    { from: 'Cordon', to: 'Paint', want: 'to: expected "Cordon", "Drain" or "Complete" (got "Paint")' },
    { from: 'Cordon', to: 7, want: 'to: expected "Cordon", "Drain" or "Complete" (got 7)' },
  ] as const)(
    'as an update, from $from to $to, is rejected and adds no event to the history',
    async ({ from, to, want }) => {
      const { fake, handle } = await startedIn(from);
      const before = await effectsOf(handle);
      expect(await rejectionOf(update(handle, 'advance', { to }))).toBe(want);
      expect(await effectsOf(handle)).toEqual(before);
      expect(fake.stage).toBe(from);
    },
  );

  test.each([
    { payload: { stage: 'Drain' }, want: 'stage: unknown field; expected "to" and "from"' },
    { payload: 'Drain', want: 'expected one JSON object, such as {"to": "Drain"}, or none (got "Drain")' },
    {
      payload: ['Drain'],
      want: 'expected one JSON object, such as {"to": "Drain"}, or none (got ["Drain"])',
    },
    { payload: null, want: 'expected one JSON object, such as {"to": "Drain"}, or none (got null)' },
    { payload: { from: 'Complete' }, want: 'from: expected "Idle", "Cordon" or "Drain" (got "Complete")' },
    { payload: { from: 7 }, want: 'from: expected "Idle", "Cordon" or "Drain" (got 7)' },
  ])('as an update with payload $payload is rejected with the reason', async ({ payload, want }) => {
    const { handle } = await startedIn('Cordon');
    const before = await effectsOf(handle);
    expect(await rejectionOf(update(handle, 'advance', payload))).toBe(want);
    expect(await effectsOf(handle)).toEqual(before);
  });

  test.each([{ to: 'Cordon' }, { to: 'Nowhere' }, { from: 'Cordon', to: 'Complete' }, 'Drain', 42, null])(
    'as an invalid signal in Drain (%j) is ignored, and the maintenance continues',
    async (payload) => {
      const { fake, handle } = await startedIn('Drain');
      await handle.signal<unknown[]>('advance', payload);
      expect(await update(handle, 'advance', { to: 'Drain' })).toMatchObject({ stage: 'Drain' });
      await fake.tierDrained(0, 4);
      await fake.inProgress('drain 4');
      expect(fake.calls).not.toContain('drain 0 cancelled');
    },
  );

  test('waits until the maintenance is admitted', async () => {
    const fake = new FakeMaintenance({ stage: 'Idle' });
    fake.failing('admit', new Error('the apiserver is down'), new Error('the apiserver is down'));
    const handle = await lab.startMaintenance(fake);
    expect(await update(handle, 'advance', { to: 'Cordon' })).toMatchObject({ stage: 'Cordon' });
    expect(fake.calls.filter((call) => call === 'admit')).toHaveLength(3);
  });

  test('advances from the stage that a user has just requested with kubectl', async () => {
    const fake = new FakeMaintenance({ stage: 'Idle' });
    const release = fake.block('startStage');
    const handle = await lab.startMaintenance(fake);
    await eventually('Idle to start', () => expect(fake.calls).toContain('startStage Idle'));
    await handle.signal('observe', fake.edited('Drain'));
    await eventuallyProgress(handle, { stage: 'Drain' });
    release();
    await fake.inProgress('drain 0');
    expect(fake.calls.filter((call) => call === 'startStage Idle')).toHaveLength(1);
    expect(await update(handle, 'advance', { from: 'Drain' })).toMatchObject({ stage: 'Complete' });
    expect(await handle.result()).toMatchObject({ name: fake.name });
  });

  test('from a stage has no effect the second time', async () => {
    const { fake, handle } = await startedIn('Cordon');
    for (let time = 1; time <= 2; time += 1)
      expect(await update(handle, 'advance', { from: 'Cordon' })).toMatchObject({ stage: 'Drain' });
    await handle.signal<unknown[]>('advance', { from: 'Cordon' });
    expect(await update(handle, 'advance', { to: 'Drain' })).toMatchObject({ stage: 'Drain' });
    expect(fake.stage).toBe('Drain');
  });

  test('from a stage that has passed is rejected', async () => {
    const { fake, handle } = await startedIn('Drain');
    expect(await rejectionOf(update(handle, 'advance', { from: 'Idle', to: 'Cordon' }))).toBe(
      'from: the maintenance is in stage Drain, not Idle: check it, and advance it from Drain if you want to',
    );
    expect(fake.stage).toBe('Drain');
  });

  test('as an update that would complete a stage which has just started asks for the stage', async () => {
    const { fake, handle } = await startedIn('Cordon');
    await update(handle, 'advance');
    expect(await rejectionOf(update(handle, 'advance'))).toBe(
      'from: required, because stage Drain started less than 10 s ago: send {"from": "Drain"} to complete the maintenance',
    );
    expect(fake.stage).toBe('Drain');
    expect(await update(handle, 'advance', { from: 'Drain' })).toMatchObject({ stage: 'Complete' });
  });
});

test.each(['cancel', 'pause', 'resume'])(
  '%s with an input that is not documented changes nothing',
  async (name) => {
    const { fake, handle } = await startedIn('Drain');
    const calls = [...fake.calls];
    for (const payload of [null, 7, 'x', [], { to: 'Complete' }]) {
      expect(await rejectionOf(update(handle, name, payload))).toMatch(/^expected no input \(got /);
      await handle.signal<unknown[]>(name, payload);
    }
    await eventuallyProgress(handle, { stage: 'Drain', paused: false });
    expect(fake.calls).toEqual(calls);
  },
);

describe('pause', () => {
  test('is recorded after an earlier resume, although its attempt takes longer', async () => {
    const { fake, handle } = await startedIn('Drain');
    const release = fake.block('recordPause');
    await handle.signal('resume');
    await eventually('the resume to be recorded', () => expect(fake.calls).toContain('recordPause false'));
    await handle.signal('pause');
    // The run has handled the signal when it answers the query.
    await handle.query('progress');
    expect(fake.calls).not.toContain('recordPause true');
    release();
    await eventuallyProgress(handle, { paused: true });
    expect(fake.paused).toBe(true);
    expect(fake.calls.filter((call) => call.startsWith('recordPause'))).toEqual([
      'recordPause false',
      'recordPause true',
    ]);
  });

  test('ends the drain, keeps the nodes cordoned, and is recorded on the object', async () => {
    const { fake, handle } = await startedIn('Drain');
    await fake.tierDrained(0, 3);
    await fake.inProgress('drain 3');
    expect(await update(handle, 'pause')).toMatchObject({ paused: true, position: 3 });
    await fake.inProgress('keepCordoned Drain');
    expect(fake.calls).not.toContain('drain 3 cancelled');
    expect(fake.paused).toBe(true);
  });

  test('and resume continue at the same position', async () => {
    const { fake, handle } = await startedIn('Drain');
    await fake.tierDrained(0, 3);
    await fake.inProgress('drain 3');
    await update(handle, 'pause');
    await fake.inProgress('keepCordoned Drain');
    expect(await update(handle, 'resume')).toMatchObject({ paused: false, position: 3 });
    await fake.inProgress('drain 3');
    expect(fake.paused).toBe(false);
    expect(fake.calls.filter((call) => call.startsWith('drain'))).toEqual(['drain 0', 'drain 3', 'drain 3']);
  });

  test('as a signal has the same effect', async () => {
    const { fake, handle } = await startedIn('Drain');
    await handle.signal('pause');
    await fake.inProgress('keepCordoned Drain');
    await handle.signal('resume');
    await fake.inProgress('drain 0');
  });

  test('before Drain delays the drain until resume', async () => {
    const { fake, handle } = await startedIn('Idle');
    await update(handle, 'pause');
    await update(handle, 'advance', { to: 'Drain' });
    await fake.inProgress('keepCordoned Drain');
    expect(fake.calls.filter((call) => call.startsWith('drain'))).toEqual([]);
    await update(handle, 'resume');
    await fake.inProgress('drain 0');
  });

  test('does not prevent a cancellation', async () => {
    const { fake, handle } = await startedIn('Drain');
    await update(handle, 'pause');
    await update(handle, 'cancel');
    expect(await handle.result()).toMatchObject({ drained: false });
    expect(fake.calls.slice(-3)).toEqual(['removeEvacuations', 'uncordonNodes', 'finish']);
  });
});
