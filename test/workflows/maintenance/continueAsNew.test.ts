import type { TestWorkflowEnvironment } from '@temporalio/testing';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { eventually } from '../../kit/eventually.ts';
import { FakeMaintenance } from '../../kit/fakeMaintenance.ts';
import { FakeWindow, windowState } from '../../kit/fakeWindow.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import {
  type Handle,
  ownTemporal,
  quietTemporal,
  workflowLab,
  type WorkflowLab,
} from '../../kit/workflows.ts';

/** The server suggests continue-as-new after this many events instead of 4,096. */
const maxEvents = 40;

let sandbox: Sandbox;
let server: TestWorkflowEnvironment;
let lab: WorkflowLab;

beforeAll(async () => {
  quietTemporal();
  sandbox = await testSandbox();
  server = await ownTemporal(sandbox, { 'limit.historyCount.suggestContinueAsNew': maxEvents });
  lab = await workflowLab(server.address);
});

afterEach(() => lab.clear());

afterAll(async () => {
  await lab?.close();
  await server?.teardown();
  await releaseSandbox(sandbox);
});

async function runIdOf(handle: Handle): Promise<string> {
  return (await handle.describe()).runId;
}

/** Pauses and resumes until the workflow continues as a new run; resolves with its id. */
async function continueAsNew(handle: Handle, fake: FakeMaintenance, call: string): Promise<string> {
  const before = await runIdOf(handle);
  for (let attempt = 0; attempt < maxEvents; attempt++) {
    await fake.inProgress(call);
    if ((await runIdOf(handle)) !== before) return runIdOf(handle);
    await handle.executeUpdate('pause', { args: [] });
    await fake.inProgress('keepCordoned Drain');
    await handle.executeUpdate('resume', { args: [] });
  }
  throw new Error(`the workflow did not continue as new after ${maxEvents} attempts`);
}

test('A long maintenance continues in a new run, tier by tier, and starts no stage twice', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.startMaintenance(fake);
  const first = await runIdOf(handle);
  for (let position = 0; position < 11; position++) await fake.tierDrained(position, position + 1);
  await fake.inProgress('drain 11');
  expect(await runIdOf(handle)).not.toBe(first);
  expect(await handle.query('progress')).toMatchObject({ position: 11, stage: 'Drain', uid: fake.uid });
  expect(fake.calls).toEqual([
    'admit',
    'startStage Cordon',
    'startStage Drain',
    ...Array.from({ length: 12 }, (_, position) => `drain ${position}`),
  ]);
});

test('A new run continues an escalation, also one whose step was in progress', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  fake.escalationsInMs = [100];
  const release = fake.block('escalate');
  const handle = await lab.startMaintenance(fake);
  await eventually('the first step', () => expect(fake.calls).toContain('escalate'));
  await continueAsNew(handle, fake, 'drain 0');
  release();
  await eventually('the step of the new run', () =>
    expect(fake.calls.filter((call) => call === 'escalate').length).toBeGreaterThanOrEqual(2),
  );
});

test('A new run preserves which steps of an escalation the history has', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  fake.escalationsInMs = [100];
  const handle = await lab.startMaintenance(fake);
  await eventually('the first step', () => expect(fake.recordedSteps).toEqual([[]]));
  await continueAsNew(handle, fake, 'drain 0');
  await handle.signal('observe', fake.edited('Drain'));
  await eventually('the next step', () => expect(fake.recordedSteps.at(-1)).toEqual(['Notify-0']));
});

test('A new run preserves that the nodes are drained', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain', position: 3 });
  const handle = await lab.startMaintenance(fake);
  await fake.drained(3);
  await continueAsNew(handle, fake, 'keepDrained');
  expect(await handle.query('progress')).toMatchObject({ drained: true, position: 3 });
  expect(fake.calls.filter((call) => call.startsWith('drain '))).toEqual(['drain 3']);
});

test('A new run preserves a pause', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain', position: 3 });
  const handle = await lab.startMaintenance(fake);
  await fake.inProgress('drain 3');
  const first = await runIdOf(handle);
  for (let attempt = 0; (await runIdOf(handle)) === first && attempt < maxEvents; attempt++) {
    await handle.executeUpdate('pause', { args: [] });
    await fake.inProgress('keepCordoned Drain');
  }
  expect(await runIdOf(handle)).not.toBe(first);
  await fake.inProgress('keepCordoned Drain');
  expect(await handle.query('progress')).toMatchObject({ paused: true, position: 3 });
  expect(fake.calls.filter((call) => call === 'drain 3')).toHaveLength(1);
});

test('A new run handles messages and uncordons the nodes once', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.startMaintenance(fake);
  await continueAsNew(handle, fake, 'drain 0');
  await handle.executeUpdate('cancel', { args: [] });
  expect(await handle.result()).toMatchObject({ name: fake.name });
  expect(fake.calls.slice(-4)).toEqual([
    'startStage Complete',
    'removeEvacuations',
    'uncordonNodes',
    'finish',
  ]);
  expect(fake.calls.filter((call) => call === 'admit')).toHaveLength(1);
});

test('Signals alone do not exceed the history limit: an activity that lasts is interrupted, and continues in a new run', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.startMaintenance(fake);
  await fake.drained(0);
  await fake.inProgress('keepDrained');
  const first = await runIdOf(handle);
  for (let sent = 0; sent < maxEvents && (await runIdOf(handle)) === first; sent++)
    await handle.signal<[unknown]>('refreshDetails', { uid: 'another' });
  await eventually('a new run', async () => expect(await runIdOf(handle)).not.toBe(first));
  await fake.inProgress('keepDrained');
  expect(fake.calls.slice(-3)).toEqual(['keepDrained', 'keepDrained cancelled', 'keepDrained']);
  await handle.executeUpdate('cancel', { args: [] });
  await handle.result();
  expect(fake.calls.slice(-2)).toEqual(['uncordonNodes', 'finish']);
});

test('A new run has the search attributes of the first run', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.startMaintenance(fake);
  const newest = await continueAsNew(handle, fake, 'drain 0');
  await eventually('the new run to be found', async () => {
    const found: string[] = [];
    const query = `NodeMaintenanceName = "${fake.name}" AND NodeMaintenanceStage = "Drain" AND ExecutionStatus = "Running"`;
    for await (const { runId } of lab.client.workflow.list({ query })) found.push(runId);
    expect(found).toEqual([newest]);
  });
});

test('A long window continues in a new run with the accepted requests', async () => {
  const fake = new FakeWindow();
  const handle = await lab.startWindow(fake);
  const first = (await handle.describe()).runId;
  await handle.executeUpdate('approve', { args: [{ node: 'n1' }] });
  await fake.eventuallyRequested({ approvedNodes: ['n1'] });
  for (let done = 1; (await handle.describe()).runId === first; done++)
    await fake.ends({ kind: 'Progressed', state: windowState({ done }) });
  await fake.eventuallyRequested({ approvedNodes: ['n1'], paused: false });
  await fake.ends({ kind: 'Over', state: windowState({ done: 4, remaining: 0 }) });
  expect(await handle.result()).toMatchObject({ done: 4 });
  expect(fake.calls.filter((call) => call === 'openWindow')).toHaveLength(1);
});
