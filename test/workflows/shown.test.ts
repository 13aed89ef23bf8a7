import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventually } from '../kit/eventually.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import {
  eventsOf,
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

interface Metadata {
  currentDetails: string;
  definition: Record<'signalDefinitions' | 'updateDefinitions' | 'queryDefinitions', Definition[]>;
}
interface Definition {
  name: string;
  description: string;
}

/** What the Temporal UI asks the worker for. */
const metadataOf = (handle: Handle) => handle.query<Metadata>('__temporal_workflow_metadata');

test('The progress query tells where a maintenance stands, and what comes next', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain', position: 1 });
  const handle = await lab.begun(fake);
  await fake.tierDrained(1, 3);
  expect(await eventuallyProgress(handle, { position: 3 })).toEqual({
    name: fake.name,
    uid: fake.uid,
    stage: 'Drain',
    next: 'Complete',
    paused: false,
    position: 3,
    planLength: 12,
    drained: false,
    nodes: ['n1', 'n2'],
  });
});

test('The details in the Temporal UI say what is done now and what the next order would do', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.begun(fake);
  await fake.tierDrained(0, 4);
  const page = [
    `### NodeMaintenance ${fake.name}`,
    '',
    '| | |',
    '|---|---|',
    '| Stage | **Drain** |',
    '| Now | Pods are evacuated tier by tier. |',
    '| Drain plan | entry 5 of 12 |',
    '| Nodes | 2: n1, n2 |',
    '',
    '`advance` goes on to **Complete**; `cancel` gives the nodes back at once.',
  ];
  await eventually('the details', async () =>
    expect((await metadataOf(handle)).currentDetails).toBe(page.join('\n')),
  );
});

test('The details say so when the drain is over, and when it is paused', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.begun(fake);
  await fake.drained(0);
  await eventually('Drained in the details', async () =>
    expect((await metadataOf(handle)).currentDetails).toContain('Drained: the nodes are ready for work.'),
  );
  await handle.executeUpdate('pause', { args: [] });
  await eventually('the pause in the details', async () =>
    expect((await metadataOf(handle)).currentDetails).toContain('**Drain**, paused'),
  );
});

test('Every message that a person can send is described in the Temporal UI', async () => {
  const fake = new FakeMaintenance();
  const handle = await lab.begun(fake);
  await eventuallyProgress(handle, { nodes: fake.nodes });
  const { definition } = await metadataOf(handle);
  const names = ['advance', 'cancel', 'pause', 'resume'];
  const described = (list: Definition[]) =>
    list.filter(({ description }) => description !== '').map(({ name }) => name);
  expect(described(definition.updateDefinitions)).toEqual(expect.arrayContaining(names));
  expect(described(definition.signalDefinitions)).toEqual(expect.arrayContaining(names));
  expect(described(definition.queryDefinitions)).toContain('progress');
});

test('Maintenances are found by name, by stage and by node', async () => {
  const fake = new FakeMaintenance({ stage: 'Cordon', nodes: [`a-${crypto.randomUUID()}`] });
  const handle = await lab.begun(fake);
  await fake.underWay('keepCordoned Cordon');
  const found = async (query: string) => {
    const ids: string[] = [];
    for await (const { workflowId } of lab.client.workflow.list({ query })) ids.push(workflowId);
    return ids;
  };
  const query = (stage: string) =>
    `NodeMaintenanceName = "${fake.name}" AND NodeMaintenanceStage = "${stage}" AND MaintenanceNodes = "${fake.nodes[0]}"`;
  await eventually('the run in Cordon', async () =>
    expect(await found(query('Cordon'))).toEqual([handle.workflowId]),
  );
  await handle.executeUpdate('advance', { args: [] });
  await eventually('the run in Drain', async () =>
    expect(await found(query('Drain'))).toEqual([handle.workflowId]),
  );
});

test('A node list that is too long for a search attribute is left out, and the maintenance goes on', async () => {
  const nodes = Array.from({ length: 200 }, (_, index) => `node-in-a-large-rack-${index}`);
  const fake = new FakeMaintenance({ stage: 'Cordon', nodes });
  const handle = await lab.begun(fake);
  await fake.underWay('keepCordoned Cordon');
  const { typedSearchAttributes } = await handle.describe();
  const shown = Object.fromEntries(typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]));
  expect(shown).toMatchObject({ NodeMaintenanceName: fake.name, NodeMaintenanceStage: 'Cordon' });
  expect(shown).not.toHaveProperty('MaintenanceNodes');
});

test('The history grows with tiers, not with what happens in them', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.begun(fake);
  await fake.underWay('drain 0');
  const before = (await eventsOf(handle)).length;
  await fake.tierDrained(0, 1);
  await fake.tierDrained(1, 2);
  await fake.underWay('drain 2');
  expect((await eventsOf(handle)).length - before).toBeLessThanOrEqual(14);
});
