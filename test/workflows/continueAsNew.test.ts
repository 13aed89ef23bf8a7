import type { TestWorkflowEnvironment } from '@temporalio/testing';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventually } from '../kit/eventually.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { FakeWindow, windowState } from '../kit/fakeWindow.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Handle, ownTemporal, quietTemporal, workflowLab, type WorkflowLab } from '../kit/workflows.ts';

/** A server that suggests continue-as-new after this many events, in place of 4,096. */
const suggestedAfter = 40;

let sandbox: Sandbox;
let server: TestWorkflowEnvironment;
let lab: WorkflowLab;

beforeAll(async () => {
  quietTemporal();
  sandbox = await testSandbox();
  server = await ownTemporal(sandbox, { 'limit.historyCount.suggestContinueAsNew': suggestedAfter });
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

/** Sends pairs of pause and resume until the run has been continued as a new one; resolves with its id. */
async function continued(handle: Handle, fake: FakeMaintenance, call: string): Promise<string> {
  const before = await runIdOf(handle);
  for (let turn = 0; turn < suggestedAfter; turn++) {
    await fake.underWay(call);
    if ((await runIdOf(handle)) !== before) return runIdOf(handle);
    await handle.executeUpdate('pause', { args: [] });
    await fake.underWay('keepCordoned Drain');
    await handle.executeUpdate('resume', { args: [] });
  }
  throw new Error(`the run was not continued as new in ${suggestedAfter} turns`);
}

test('A long maintenance goes on in a new run, tier by tier, and begins no stage twice', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.begun(fake);
  const first = await runIdOf(handle);
  for (let position = 0; position < 11; position++) await fake.tierDrained(position, position + 1);
  await fake.underWay('drain 11');
  expect(await runIdOf(handle)).not.toBe(first);
  expect(await handle.query('progress')).toMatchObject({ position: 11, stage: 'Drain', uid: fake.uid });
  // Every run takes the Leases anew, when it begins.
  expect(fake.calls.filter((call) => call !== 'renewNodeLeases')).toEqual([
    'admit',
    'beginStage Cordon',
    'beginStage Drain',
    ...Array.from({ length: 12 }, (_, position) => `drain ${position}`),
  ]);
});

test('A new run remembers that the nodes are drained', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain', position: 3 });
  const handle = await lab.begun(fake);
  await fake.drained(3);
  await continued(handle, fake, 'keepDrained');
  expect(await handle.query('progress')).toMatchObject({ drained: true, position: 3 });
  expect(fake.calls.filter((call) => call.startsWith('drain '))).toEqual(['drain 3']);
});

test('A new run remembers a pause', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain', position: 3 });
  const handle = await lab.begun(fake);
  await fake.underWay('drain 3');
  const first = await runIdOf(handle);
  for (let turn = 0; (await runIdOf(handle)) === first && turn < suggestedAfter; turn++) {
    await handle.executeUpdate('pause', { args: [] });
    await fake.underWay('keepCordoned Drain');
  }
  expect(await runIdOf(handle)).not.toBe(first);
  await fake.underWay('keepCordoned Drain');
  expect(await handle.query('progress')).toMatchObject({ paused: true, position: 3 });
  expect(fake.calls.filter((call) => call === 'drain 3')).toHaveLength(1);
});

test('A new run takes orders and gives the nodes back, once', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.begun(fake);
  await continued(handle, fake, 'drain 0');
  await handle.executeUpdate('cancel', { args: [] });
  expect(await handle.result()).toMatchObject({ name: fake.name });
  expect(fake.calls.slice(-4)).toEqual([
    'beginStage Complete',
    'removeEvacuations',
    'giveBackNodes',
    'finish',
  ]);
  expect(fake.calls.filter((call) => call === 'admit')).toHaveLength(1);
});

test('The renewals of Leases alone never make a history too long: the run is continued as new', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  fake.renewAfterSeconds = 0.05;
  const handle = await lab.begun(fake);
  await fake.drained(0);
  const first = await runIdOf(handle);
  await eventually('a new run', async () => expect(await runIdOf(handle)).not.toBe(first));
  await fake.underWay('keepDrained');
  const before = fake.calls.filter((call) => call === 'renewNodeLeases').length;
  await eventually('more renewals', () =>
    expect(fake.calls.filter((call) => call === 'renewNodeLeases').length).toBeGreaterThan(before + 2),
  );
  await handle.executeUpdate('cancel', { args: [] });
  await handle.result();
  expect(fake.calls.slice(-2)).toEqual(['giveBackNodes', 'finish']);
});

test('The search attributes of a new run are those of the first', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.begun(fake);
  const newest = await continued(handle, fake, 'drain 0');
  await eventually('the new run to be found', async () => {
    const found: string[] = [];
    const query = `NodeMaintenanceName = "${fake.name}" AND NodeMaintenanceStage = "Drain" AND ExecutionStatus = "Running"`;
    for await (const { runId } of lab.client.workflow.list({ query })) found.push(runId);
    expect(found).toEqual([newest]);
  });
});

test('A long window goes on in a new run, with the orders that it was given', async () => {
  const fake = new FakeWindow();
  const handle = await lab.opened(fake);
  const first = (await handle.describe()).runId;
  await handle.executeUpdate('approve', { args: [{ node: 'n1' }] });
  await fake.ordered({ approvedNodes: ['n1'] });
  for (let done = 1; (await handle.describe()).runId === first; done++)
    await fake.ends({ kind: 'Progressed', state: windowState({ done }) });
  await fake.ordered({ approvedNodes: ['n1'], paused: false });
  await fake.ends({ kind: 'Over', state: windowState({ done: 4, remaining: 0 }), rest: [] });
  expect(await handle.result()).toMatchObject({ done: 4 });
  expect(fake.calls.filter((call) => call === 'openWindow')).toHaveLength(1);
});
