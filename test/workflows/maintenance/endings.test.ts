import { ApplicationFailure } from '@temporalio/common';
import { WorkflowFailedError } from '@temporalio/client';
import type { NodeMaintenanceActivities } from '../../../activities/contract.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { FakeMaintenance } from '../../kit/fakeMaintenance.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import {
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

const completion = ['removeEvacuations', 'uncordonNodes', 'finish'];

/** The states in which a workflow can be when it ends. */
const states = [
  { state: 'Idle', stage: 'Idle', call: undefined, drained: false },
  { state: 'Cordon', stage: 'Cordon', call: 'keepCordoned Cordon', drained: false },
  { state: 'Drain', stage: 'Drain', call: 'drain 0', drained: false },
  { state: 'Drain with all nodes drained', stage: 'Drain', call: 'keepDrained', drained: true },
] as const;

async function startedIn({ stage, call, drained }: (typeof states)[number]) {
  const fake = new FakeMaintenance({ stage });
  const handle = await lab.startMaintenance(fake);
  if (drained) await fake.drained(0);
  if (call === undefined) await eventuallyProgress(handle, { nodes: fake.nodes });
  else await fake.inProgress(call);
  return { fake, handle };
}

/** Returns the calls that complete the maintenance, in order. */
function completionCalls({ calls }: FakeMaintenance): string[] {
  return calls.filter((call) => completion.includes(call));
}

test('Evacuations that are too many for one call are removed by several, before the nodes are uncordoned', async () => {
  const { fake, handle } = await startedIn(states[2]);
  fake.removals = 3;
  await handle.signal('cancel');
  await handle.result();
  const removal = 'removeEvacuations';
  expect(completionCalls(fake)).toEqual([removal, removal, removal, 'uncordonNodes', 'finish']);
});

describe('The nodes are uncordoned once, after their Evacuations are removed,', () => {
  const requests = [
    { by: 'a cancel signal', send: (handle: Handle) => handle.signal('cancel') },
    { by: 'a cancel update', send: (handle: Handle) => handle.executeUpdate('cancel', { args: [] }) },
    { by: "Temporal's own cancellation", send: (handle: Handle) => handle.cancel() },
  ];
  const rows = requests.flatMap((request) => states.map((state) => ({ ...request, ...state })));

  test.each(rows)('after $by in $state', async ({ send, ...state }) => {
    const { fake, handle } = await startedIn(state);
    await send(handle);
    expect(await handle.result()).toEqual({ name: fake.name, drained: state.drained, nodes: fake.nodes });
    expect(completionCalls(fake)).toEqual(completion);
    expect(fake.calls.at(-1)).toBe('finish');
    expect(fake.calls.filter((call) => call === 'startStage Complete')).toHaveLength(1);
    expect(fake.stage).toBe('Complete');
    expect((await handle.describe()).status.name).toBe('COMPLETED');
  });

  test('after a user edits the stage to Complete', async () => {
    const { fake, handle } = await startedIn(states[2]);
    await handle.signal('observe', fake.edited('Complete'));
    await handle.result();
    expect(completionCalls(fake)).toEqual(completion);
  });

  test("after Temporal's own cancellation while the maintenance is admitted, which may create its object all the same", async () => {
    const fake = new FakeMaintenance({ stage: 'Drain' });
    const unblock = fake.block('admit');
    const handle = await lab.startMaintenance(fake);
    await eventually('the admission', () => expect(fake.calls).toContain('admit'));
    await handle.cancel();
    unblock();
    expect(await handle.result()).toMatchObject({ name: fake.name });
    expect(fake.stage).toBe('Complete');
    expect(fake.calls).not.toContain('startStage Drain');
    expect(completionCalls(fake)).toEqual(completion);
  });

  test('if a second cancel follows', async () => {
    const { fake, handle } = await startedIn(states[1]);
    fake.failing('uncordonNodes', new Error('the apiserver is down'));
    await handle.signal('cancel');
    await handle.cancel();
    await handle.signal('cancel').catch(() => undefined);
    await handle.result();
    expect(completionCalls(fake)).toEqual(['removeEvacuations', 'uncordonNodes', 'uncordonNodes', 'finish']);
  });
});

describe('A deleted object', () => {
  test.each(states)('in $state ends the workflow without uncordoning nodes', async (state) => {
    const { fake, handle } = await startedIn(state);
    await handle.signal('observe', fake.deleted());
    expect(await handle.result()).toMatchObject({ name: fake.name });
    expect(completionCalls(fake)).toEqual([]);
  });

  test('that the workflow writes to ends the workflow', async () => {
    const { fake, handle } = await startedIn(states[1]);
    fake.deleted();
    await handle.signal('cancel');
    await handle.result();
    expect(completionCalls(fake)).toEqual([]);
  });

  test('that an activity detects ends the workflow', async () => {
    const { fake, handle } = await startedIn(states[2]);
    fake.deleted();
    await fake.ends('drain 0', { kind: 'Gone' });
    await handle.result();
    expect(completionCalls(fake)).toEqual([]);
  });
});

describe('A failure', () => {
  test('to admit an invalid input fails the workflow with the message of the activity', async () => {
    const fake = new FakeMaintenance();
    const message = 'nodes[0]: there is no node "n9"; kubectl get nodes lists them';
    const options = { type: 'InvalidInput', message, nonRetryable: true };
    fake.failing('admit', ApplicationFailure.create(options));
    const handle = await lab.startMaintenance(fake, { name: fake.name, nodes: ['n9'] });
    const failure = await handle.result().then(
      () => undefined,
      (error: unknown) => error as WorkflowFailedError,
    );
    expect(failure).toBeInstanceOf(WorkflowFailedError);
    expect(failure?.cause).toMatchObject({ message, type: 'InvalidInput' });
    expect(fake.calls).toEqual(['admit']);
  });

  const temporary = () =>
    Array.from({ length: 2 }, () =>
      ApplicationFailure.create({ type: 'Unavailable', message: 'the apiserver is down' }),
    );

  test.each<{ activity: keyof NodeMaintenanceActivities }>([
    { activity: 'admit' },
    { activity: 'startStage' },
    { activity: 'keepCordoned' },
    { activity: 'requestStage' },
    { activity: 'removeEvacuations' },
    { activity: 'uncordonNodes' },
    { activity: 'finish' },
  ])('of $activity that is temporary is retried and does not end the maintenance', async ({ activity }) => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    fake.failing(activity, ...temporary());
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('keepCordoned Cordon');
    await handle.executeUpdate('cancel', { args: [] });
    expect(await handle.result()).toMatchObject({ name: fake.name });
  });

  test('of drain that is temporary is retried at the same position', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain', position: 2 });
    fake.failing('drain', ...temporary());
    await lab.startMaintenance(fake);
    await fake.inProgress('drain 2');
    expect(fake.calls.filter((call) => call === 'drain 2')).toHaveLength(3);
  });

  test('of keepDrained that is temporary is retried', async () => {
    const fake = new FakeMaintenance({ stage: 'Drain' });
    fake.failing('keepDrained', ...temporary());
    await lab.startMaintenance(fake);
    await fake.drained(0);
    await fake.inProgress('keepDrained');
  });
});
