import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventually } from '../kit/eventually.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import {
  deedsOf,
  eventuallyProgress,
  type Handle,
  quietTemporal,
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

/** A run that has settled in `stage`. */
async function settledIn(stage: 'Idle' | 'Cordon' | 'Drain') {
  const fake = new FakeMaintenance({ stage });
  const handle = await lab.begun(fake);
  if (stage === 'Idle') await eventuallyProgress(handle, { nodes: fake.nodes });
  else await fake.underWay({ Cordon: 'keepCordoned Cordon', Drain: 'drain 0' }[stage]);
  return { fake, handle };
}

const update = (handle: Handle, name: string, ...args: unknown[]) =>
  handle.executeUpdate<unknown, [unknown]>(name, { args: args as [unknown] });

/** The sentence with which an update was refused. */
async function refusalOf(answer: Promise<unknown>): Promise<string> {
  try {
    await answer;
  } catch (error) {
    if (error instanceof WorkflowUpdateFailedError) return error.cause?.message ?? '';
    throw error;
  }
  return 'it was not refused';
}

describe('advance', () => {
  test.each([
    { from: 'Idle', to: undefined, then: 'Cordon' },
    { from: 'Idle', to: 'Drain', then: 'Drain' },
    { from: 'Idle', to: 'Complete', then: 'Complete' },
    { from: 'Cordon', to: undefined, then: 'Drain' },
    { from: 'Cordon', to: 'Complete', then: 'Complete' },
    { from: 'Drain', to: undefined, then: 'Complete' },
    { from: 'Drain', to: 'Drain', then: 'Drain' },
  ] as const)(
    'as an update, from $from to $to, writes $then to the object and answers with it',
    async ({ from, to, then }) => {
      const { fake, handle } = await settledIn(from);
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
    { from: 'Cordon', payload: [null], then: 'Drain' },
    { from: 'Cordon', payload: [{ to: 'Complete' }], then: 'Complete' },
  ] as const)(
    'as a signal with payload $payload, from $from, goes to $then',
    async ({ from, payload, then }) => {
      const { fake, handle } = await settledIn(from);
      await handle.signal<unknown[]>('advance', ...payload);
      await eventually(`stage ${then}`, () => expect(fake.stage).toBe(then));
      if (then === 'Complete') expect(await handle.result()).toMatchObject({ name: fake.name });
      else await eventuallyProgress(handle, { stage: then });
    },
  );

  test.each([
    { from: 'Drain', to: 'Cordon', says: 'stage cannot go from Drain back to Cordon: choose Complete' },
    {
      from: 'Cordon',
      to: 'Idle',
      says: 'to: expected "Cordon", "Drain" or "Complete" (got "Idle")',
    },
    { from: 'Cordon', to: 'Paint', says: 'to: expected "Cordon", "Drain" or "Complete" (got "Paint")' },
    { from: 'Cordon', to: 7, says: 'to: expected "Cordon", "Drain" or "Complete" (got 7)' },
  ] as const)(
    'as an update, from $from to $to, is refused and leaves no trace in the history',
    async ({ from, to, says }) => {
      const { fake, handle } = await settledIn(from);
      const before = await deedsOf(handle);
      expect(await refusalOf(update(handle, 'advance', { to }))).toBe(says);
      expect(await deedsOf(handle)).toEqual(before);
      expect(fake.stage).toBe(from);
    },
  );

  test.each([
    { payload: { stage: 'Drain' }, says: 'stage: unknown field; the only one is "to"' },
    { payload: 'Drain', says: 'expected one JSON object, such as {"to": "Drain"}, or none' },
    { payload: ['Drain'], says: 'expected one JSON object, such as {"to": "Drain"}, or none' },
  ])('as an update with payload $payload is refused with what is wrong', async ({ payload, says }) => {
    const { handle } = await settledIn('Cordon');
    const before = await deedsOf(handle);
    expect(await refusalOf(update(handle, 'advance', payload))).toBe(says);
    expect(await deedsOf(handle)).toEqual(before);
  });

  test.each([{ to: 'Cordon' }, { to: 'Nowhere' }, 'Drain', 42])(
    'as a signal that makes no sense in Drain (%j) is ignored, and the maintenance goes on',
    async (payload) => {
      const { fake, handle } = await settledIn('Drain');
      await handle.signal<unknown[]>('advance', payload);
      expect(await update(handle, 'advance', { to: 'Drain' })).toMatchObject({ stage: 'Drain' });
      await fake.tierDrained(0, 4);
      await fake.underWay('drain 4');
      expect(fake.calls).not.toContain('drain 0 cancelled');
    },
  );

  test('that comes before the maintenance was admitted waits for that', async () => {
    const fake = new FakeMaintenance({ stage: 'Idle' });
    fake.failing('admit', new Error('the apiserver is down'), new Error('the apiserver is down'));
    const handle = await lab.begun(fake);
    expect(await update(handle, 'advance', { to: 'Cordon' })).toMatchObject({ stage: 'Cordon' });
    expect(fake.calls.filter((call) => call === 'admit')).toHaveLength(3);
  });

  test('goes on from what a person has edited a moment before', async () => {
    const { fake, handle } = await settledIn('Idle');
    await handle.signal('observe', fake.edited('Drain'));
    expect(await update(handle, 'advance')).toMatchObject({ stage: 'Complete' });
    expect(await handle.result()).toMatchObject({ name: fake.name });
  });
});

describe('pause', () => {
  test('ends the drain under way, keeps the nodes cordoned, and is on the object', async () => {
    const { fake, handle } = await settledIn('Drain');
    await fake.tierDrained(0, 3);
    await fake.underWay('drain 3');
    expect(await update(handle, 'pause')).toMatchObject({ paused: true, position: 3 });
    await fake.underWay('keepCordoned Drain');
    expect(fake.calls).toContain('drain 3 cancelled');
    expect(fake.paused).toBe(true);
  });

  test('and resume go on at the same position', async () => {
    const { fake, handle } = await settledIn('Drain');
    await fake.tierDrained(0, 3);
    await fake.underWay('drain 3');
    await update(handle, 'pause');
    await fake.underWay('keepCordoned Drain');
    expect(await update(handle, 'resume')).toMatchObject({ paused: false, position: 3 });
    await fake.underWay('drain 3');
    expect(fake.paused).toBe(false);
    expect(fake.calls.filter((call) => call.startsWith('drain'))).toEqual([
      'drain 0',
      'drain 3',
      'drain 3 cancelled',
      'drain 3',
    ]);
  });

  test('as a signal does the same', async () => {
    const { fake, handle } = await settledIn('Drain');
    await handle.signal('pause');
    await fake.underWay('keepCordoned Drain');
    await handle.signal('resume');
    await fake.underWay('drain 0');
  });

  test('given before Drain holds the drain back until resume', async () => {
    const { fake, handle } = await settledIn('Idle');
    await update(handle, 'pause');
    await update(handle, 'advance', { to: 'Drain' });
    await fake.underWay('keepCordoned Drain');
    expect(fake.calls.filter((call) => call.startsWith('drain'))).toEqual([]);
    await update(handle, 'resume');
    await fake.underWay('drain 0');
  });

  test('does not keep a maintenance from being cancelled', async () => {
    const { fake, handle } = await settledIn('Drain');
    await update(handle, 'pause');
    await update(handle, 'cancel');
    expect(await handle.result()).toMatchObject({ drained: false });
    expect(fake.calls.slice(-3)).toEqual(['removeEvacuations', 'giveBackNodes', 'finish']);
  });
});
