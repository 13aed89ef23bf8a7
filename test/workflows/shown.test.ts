import { readFileSync } from 'node:fs';
import type { WorkflowHandle } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import type { Glance } from '../../domain/glance.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventually } from '../kit/eventually.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { FakeWindow, windowState } from '../kit/fakeWindow.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import {
  eventsOf,
  eventuallyProgress,
  type Handle,
  quietTemporal,
  signalsTo,
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

const glance = (differs: Partial<Glance> = {}): Glance => ({
  at: '2026-01-01T12:01:00Z',
  stage: 'Drain',
  podsLeft: 3,
  podsEvacuated: 4,
  podsBlocked: 0,
  rows: [{ node: 'n1', podsLeft: 3, podsEvacuated: 4, message: 'Evacuating' }],
  more: 0,
  moreDone: 0,
  causes: [],
  moreCauses: 0,
  ...differs,
});

const cause = {
  message: 'PodDisruptionBudget shop/db can never allow a disruption.',
  needsAPerson: true,
  pods: ['shop/db (n1)'],
  morePods: 0,
};

/** Resolves when the page in the Temporal UI says all of this. */
const eventuallyShown = (handle: Handle, ...said: string[]) =>
  eventually(`a page with ${said.join(', ')}`, async () => {
    const { currentDetails } = await metadataOf(handle);
    for (const one of said) expect(currentDetails).toContain(one);
  });

test('The page of a maintenance tells where the drain stands, as the end of every tier has it', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.begun(fake);
  await eventuallyShown(handle, '### Draining 2 nodes', 'entry 1 of 12', '| `pause`\u2003| none');
  fake.glance = glance();
  await fake.tierDrained(0, 4);
  await eventuallyShown(handle, 'entry 5 of 12', '3 left of 7', '| `n1`\u2003| 3 of 7\u2003| Evacuating |');
  await fake.drained(4);
  await eventuallyShown(
    handle,
    '### Drained: 2 nodes ready for work',
    'the work is done: goes on to **Complete**',
  );
  await handle.executeUpdate('pause', { args: [] });
  await eventuallyShown(handle, '### Paused', '| `resume`\u2003| none');
});

test('What blocks is on the page with the next renewal of the Leases', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  fake.renewAfterSeconds = 0.2;
  const handle = await lab.begun(fake);
  await fake.underWay('drain 0');
  fake.glance = glance({ podsBlocked: 1, causes: [cause] });
  await eventuallyShown(handle, '**1 cannot leave**', `- **Needs somebody:** shop/db (n1): ${cause.message}`);
});

test('What the controller tells of blocked pods is on the page at once, unless it is about a namesake', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.begun(fake);
  await fake.underWay('drain 0');
  const told = (uid: string, podsLeft: number) =>
    handle.signal('glance', { uid, glance: glance({ podsLeft, podsBlocked: 1, causes: [cause] }) });
  await told(fake.uid, 2);
  await told('another', 1);
  await eventuallyShown(handle, '2 left of 6', '**Needs somebody:**');
  const last = await signalsTo(handle, 'glance');
  expect(last).toHaveLength(2);
  expect((await metadataOf(handle)).currentDetails).toContain('2 left of 6');
});

/** In `definition`, with the names that have no description. */
async function undescribed(handle: WorkflowHandle): Promise<{ names: string[]; without: string[] }> {
  const { definition } = await handle.query<Metadata>('__temporal_workflow_metadata');
  const { signalDefinitions, updateDefinitions, queryDefinitions } = definition;
  // The SDK's own queries begin so.
  const all = [...signalDefinitions, ...updateDefinitions, ...queryDefinitions].filter(
    ({ name }) => !name.startsWith('__'),
  );
  return {
    names: [...new Set(all.map(({ name }) => name))].toSorted(),
    without: all.filter(({ description }) => !description).map(({ name }) => name),
  };
}

test('Every message of a maintenance and of a window is described in the Temporal UI', async () => {
  const fake = new FakeMaintenance();
  const handle = await lab.begun(fake);
  await eventuallyProgress(handle, { nodes: fake.nodes });
  expect(await undescribed(handle)).toEqual({
    names: ['advance', 'cancel', 'glance', 'observe', 'pause', 'progress', 'resume'],
    without: [],
  });
  const window = new FakeWindow();
  const opened = await lab.opened(window);
  await window.ordered({});
  expect(await undescribed(opened)).toEqual({
    names: ['advance', 'approve', 'cancel', 'pause', 'progress', 'resume'],
    without: [],
  });
});

/** What the timeline of the Temporal UI says of each activity and timer; "without" where it says nothing but a name. */
async function summariesOf(handle: WorkflowHandle): Promise<string[]> {
  const { events } = await handle.fetchHistory();
  return (events ?? []).flatMap((event) => {
    const { activityTaskScheduledEventAttributes: activity, timerStartedEventAttributes: timer } = event;
    if (!activity && !timer) return [];
    const summary = event.userMetadata?.summary;
    const name = activity?.activityType?.name ?? 'timer';
    return summary ? defaultPayloadConverter.fromPayload<string>(summary) : `${name} without`;
  });
}

test('Every activity and every timer of a maintenance has a line of its own in the timeline', async () => {
  const fake = new FakeMaintenance();
  fake.renewAfterSeconds = 0.2;
  const handle = await lab.begun(fake);
  await eventuallyProgress(handle, { nodes: fake.nodes });
  await handle.executeUpdate('advance', { args: [] });
  await fake.underWay('keepCordoned Cordon');
  await handle.executeUpdate('advance', { args: [] });
  await fake.underWay('drain 0');
  await handle.executeUpdate('pause', { args: [] });
  await handle.executeUpdate('resume', { args: [] });
  await fake.drained(0);
  await fake.underWay('keepDrained');
  await handle.executeUpdate('advance', { args: [] });
  await handle.result();
  const summaries = await summariesOf(handle);
  expect(summaries.filter((one) => one.endsWith('without'))).toEqual([]);
  expect(summaries).toEqual(
    expect.arrayContaining([
      'Begin stage Drain',
      'Until the Leases are renewed',
      'Drained: evacuate what appears',
    ]),
  );
});

test('Every activity and every timer of a window has a line of its own in the timeline', async () => {
  const fake = new FakeWindow();
  const handle = await lab.opened(fake);
  await fake.ordered({});
  await handle.executeUpdate('pause', { args: [] });
  await handle.executeUpdate<unknown, [object]>('advance', { args: [{ node: 'n1' }] });
  await fake.ends({ kind: 'Over', state: windowState() });
  await handle.result();
  const summaries = await summariesOf(handle);
  expect(summaries.filter((one) => one.endsWith('without'))).toEqual([]);
  expect(summaries).toContain('The window ends');
});

/** The searches of docs/temporal-ui.md, by what they answer. */
const searches = searchesIn(readFileSync(new URL('../../docs/temporal-ui.md', import.meta.url), 'utf8'));

function searchesIn(page: string): Record<string, string> {
  const rows = [...page.matchAll(/^\| (.+?) \| `(.+=.+)` \|$/gm)];
  return Object.fromEntries(rows.map(([, question = '', query = '']) => [question, query]));
}

/** Ids of the runs that a search finds, with its names replaced. */
async function found(question: string, names: Record<string, string> = {}): Promise<string[]> {
  const asked = searches[question];
  if (asked === undefined) throw new Error(`docs/temporal-ui.md does not answer: ${question}`);
  const query = Object.entries(names).reduce((text, [from, to]) => text.replaceAll(from, to), asked);
  const ids: string[] = [];
  for await (const { workflowId } of lab.client.workflow.list({ query })) ids.push(workflowId);
  return ids;
}

const eventuallyFound = (question: string, names: Record<string, string>, ids: string[]) =>
  eventually(`"${question}" to find ${ids.join(', ')}`, async () =>
    expect((await found(question, names)).toSorted()).toEqual(ids.toSorted()),
  );

test('The documented searches find who holds a node, what is draining, what is planned, and which window is open', async () => {
  const node = `a-${crypto.randomUUID()}`;
  const held = { 'node-1': node };
  const [cordoned, draining, planned] = (['Cordon', 'Drain', 'Idle'] as const).map(
    (stage) => new FakeMaintenance({ stage, nodes: [node, 'another'] }),
  ) as [FakeMaintenance, FakeMaintenance, FakeMaintenance];
  const cordon = await lab.begun(cordoned);
  const drain = await lab.begun(draining);
  const plan = await lab.begun(planned);
  await eventuallyFound('Which maintenances hold node `node-1`', held, [cordon.workflowId, drain.workflowId]);
  await eventuallyFound('Which maintenances want node `node-1`, planned ones too', held, [
    cordon.workflowId,
    drain.workflowId,
    plan.workflowId,
  ]);
  expect(await found('What is draining now')).toContain(drain.workflowId);
  expect(await found('What is draining now')).not.toContain(cordon.workflowId);
  expect(await found('What is planned')).toContain(plan.workflowId);
  await eventuallyFound('Every run of maintenance `rack-7`', { 'rack-7': cordoned.name }, [
    cordon.workflowId,
  ]);

  const window = new FakeWindow();
  const opened = await lab.opened(window);
  const underWay = [{ node, maintenance: 'turn' }];
  await window.ends({ kind: 'Progressed', state: windowState({ underWay }) });
  await eventuallyFound('Which window has node `node-1` in its turn', held, [opened.workflowId]);
  expect(await found('Which windows are open')).toContain(opened.workflowId);

  await cordon.executeUpdate('advance', { args: [] });
  await eventually('the run in Drain', async () =>
    expect(await found('What is draining now')).toContain(cordon.workflowId),
  );
  await cordon.executeUpdate('cancel', { args: [] });
  await eventuallyFound('Which maintenances hold node `node-1`', held, [drain.workflowId]);
  await eventuallyFound('Every maintenance that node `node-1` ever had', held, [
    cordon.workflowId,
    drain.workflowId,
    plan.workflowId,
  ]);
});

test('A node list that is too long for a search attribute is left out, and the maintenance is found as one of those', async () => {
  const nodes = Array.from({ length: 200 }, (_, index) => `node-in-a-large-rack-${index}`);
  const fake = new FakeMaintenance({ stage: 'Cordon', nodes });
  const handle = await lab.begun(fake);
  await fake.underWay('keepCordoned Cordon');
  const { typedSearchAttributes } = await handle.describe();
  const shown = Object.fromEntries(typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]));
  expect(shown).toMatchObject({ NodeMaintenanceName: fake.name, NodeMaintenanceStage: 'Cordon' });
  expect(shown).not.toHaveProperty('MaintenanceNodes');
  await eventually('the run among those without a list', async () =>
    expect(await found('Which maintenances hold more nodes than are listed')).toContain(handle.workflowId),
  );
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
