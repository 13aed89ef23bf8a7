import { ApplicationFailure } from '@temporalio/common';
import { WorkflowFailedError } from '@temporalio/client';
import type { NodeMaintenanceActivities } from '../../activities/contract.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import {
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

const givingBack = ['removeEvacuations', 'giveBackNodes', 'finish'];

/** Everywhere a run can be when its end comes. */
const whereabouts = [
  { where: 'Idle', stage: 'Idle', call: undefined, drained: false },
  { where: 'Cordon', stage: 'Cordon', call: 'keepCordoned Cordon', drained: false },
  { where: 'the middle of a drain', stage: 'Drain', call: 'drain 0', drained: false },
  { where: 'Drain, with all nodes drained', stage: 'Drain', call: 'keepDrained', drained: true },
] as const;

async function broughtTo({ stage, call, drained }: (typeof whereabouts)[number]) {
  const fake = new FakeMaintenance({ stage });
  const handle = await lab.begun(fake);
  if (drained) await fake.drained(0);
  if (call === undefined) await eventuallyProgress(handle, { nodes: fake.nodes });
  else await fake.underWay(call);
  return { fake, handle };
}

/** The calls that give the nodes back, as far as they were made, in their order. */
function gaveBack({ calls }: FakeMaintenance): string[] {
  return calls.filter((call) => givingBack.includes(call));
}

describe('The nodes are given back, in order and once,', () => {
  const orders = [
    { by: 'a cancel signal', give: (handle: Handle) => handle.signal('cancel') },
    { by: 'a cancel update', give: (handle: Handle) => handle.executeUpdate('cancel', { args: [] }) },
    { by: "Temporal's own cancellation", give: (handle: Handle) => handle.cancel() },
  ];
  const rows = orders.flatMap((order) => whereabouts.map((place) => ({ ...order, ...place })));

  test.each(rows)('after $by in $where', async ({ give, ...place }) => {
    const { fake, handle } = await broughtTo(place);
    await give(handle);
    expect(await handle.result()).toEqual({ name: fake.name, drained: place.drained, nodes: fake.nodes });
    expect(gaveBack(fake)).toEqual(givingBack);
    expect(fake.calls.at(-1)).toBe('finish');
    expect(fake.calls.filter((call) => call === 'beginStage Complete')).toHaveLength(1);
    expect(fake.stage).toBe('Complete');
    expect((await handle.describe()).status.name).toBe('COMPLETED');
  });

  test("after a person's edit to Complete", async () => {
    const { fake, handle } = await broughtTo(whereabouts[2]);
    await handle.signal('observe', fake.edited('Complete'));
    await handle.result();
    expect(gaveBack(fake)).toEqual(givingBack);
  });

  test('though a second cancel comes while they are', async () => {
    const { fake, handle } = await broughtTo(whereabouts[1]);
    fake.failing('giveBackNodes', new Error('the apiserver is down'));
    await handle.signal('cancel');
    await handle.cancel();
    await handle.signal('cancel').catch(() => undefined);
    await handle.result();
    expect(gaveBack(fake)).toEqual(['removeEvacuations', 'giveBackNodes', 'giveBackNodes', 'finish']);
  });
});

describe('An object that is gone', () => {
  test.each(whereabouts)('in $where ends the run; there is nothing to give back', async (place) => {
    const { fake, handle } = await broughtTo(place);
    await handle.signal('observe', fake.deleted());
    expect(await handle.result()).toMatchObject({ name: fake.name });
    expect(gaveBack(fake)).toEqual([]);
  });

  test('when the workflow writes to it ends the run', async () => {
    const { fake, handle } = await broughtTo(whereabouts[1]);
    fake.deleted();
    await handle.signal('cancel');
    await handle.result();
    expect(gaveBack(fake)).toEqual([]);
  });

  test('as an activity finds out ends the run', async () => {
    const { fake, handle } = await broughtTo(whereabouts[2]);
    fake.deleted();
    await fake.ends('drain 0', { kind: 'Gone' });
    await handle.result();
    expect(gaveBack(fake)).toEqual([]);
  });
});

describe('A failure', () => {
  test('to admit what makes no sense fails the run with that very sentence', async () => {
    const fake = new FakeMaintenance();
    const sentence = 'nodes[0]: there is no node "n9"; kubectl get nodes lists them';
    const options = { type: 'InvalidInput', message: sentence, nonRetryable: true };
    fake.failing('admit', ApplicationFailure.create(options));
    const handle = await lab.begun(fake, { name: fake.name, nodes: ['n9'] });
    const failure = await handle.result().then(
      () => undefined,
      (error: unknown) => error as WorkflowFailedError,
    );
    expect(failure).toBeInstanceOf(WorkflowFailedError);
    expect(failure?.cause).toMatchObject({ message: sentence, type: 'InvalidInput' });
    expect(fake.calls).toEqual(['admit']);
  });

  const passing = () =>
    Array.from({ length: 2 }, () =>
      ApplicationFailure.create({ type: 'Unavailable', message: 'the apiserver is down' }),
    );

  test.each<{ activity: keyof NodeMaintenanceActivities }>([
    { activity: 'admit' },
    { activity: 'beginStage' },
    { activity: 'keepCordoned' },
    { activity: 'requestStage' },
    { activity: 'removeEvacuations' },
    { activity: 'giveBackNodes' },
    { activity: 'finish' },
  ])('of $activity that passes is tried again and ends no maintenance', async ({ activity }) => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    fake.failing(activity, ...passing());
    const handle = await lab.begun(fake);
    await fake.underWay('keepCordoned Cordon');
    await handle.executeUpdate('cancel', { args: [] });
    expect(await handle.result()).toMatchObject({ name: fake.name });
  });

  test('of drain that passes is tried again at the same position', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain', position: 2 });
    fake.failing('drain', ...passing());
    await lab.begun(fake);
    await fake.underWay('drain 2');
    expect(fake.calls.filter((call) => call === 'drain 2')).toHaveLength(3);
  });

  test('of keepDrained that passes is tried again', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain' });
    fake.failing('keepDrained', ...passing());
    await lab.begun(fake);
    await fake.drained(0);
    await fake.underWay('keepDrained');
  });
});
