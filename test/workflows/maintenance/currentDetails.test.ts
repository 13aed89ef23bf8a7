import { readFileSync } from 'node:fs';
import type { WorkflowHandle } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import type { DetailsSnapshot } from '../../../domain/maintenance/detailsSnapshot.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { eventually } from '../../kit/eventually.ts';
import { FakeMaintenance } from '../../kit/fakeMaintenance.ts';
import { FakeWindow, windowState } from '../../kit/fakeWindow.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import {
  eventsOf,
  eventuallyProgress,
  type Handle,
  quietTemporal,
  signalsTo,
  workflowLab,
  type WorkflowLab,
} from '../../kit/workflows.ts';
import { testScope } from '../../kit/temporalNames.ts';

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

/** Queries what the Temporal UI shows. */
const metadataOf = (handle: Handle) => handle.query<Metadata>('__temporal_workflow_metadata');

test('The progress query returns the state of a maintenance and the next stage', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain', position: 1 });
  const handle = await lab.startMaintenance(fake);
  await fake.tierDrained(1, 3);
  expect(await eventuallyProgress(handle, { position: 3 })).toEqual({
    name: fake.name,
    uid: fake.uid,
    cluster: { name: testScope.name, uid: testScope.uid },
    stage: 'Drain',
    next: 'Complete',
    paused: false,
    position: 3,
    planLength: 12,
    drained: false,
    nodes: ['n1', 'n2'],
  });
});

const details = (differs: Partial<DetailsSnapshot> = {}): DetailsSnapshot => ({
  at: '2026-01-01T12:01:00Z',
  stage: 'Drain',
  podsToEvacuate: 3,
  podsEvacuated: 4,
  podsBlocked: 0,
  rows: [{ node: 'n1', podsToEvacuate: 3, podsEvacuated: 4, message: 'Evacuating' }],
  more: 0,
  moreDone: 0,
  causes: [],
  moreCauses: 0,
  ...differs,
});

const cause = {
  message: 'PodDisruptionBudget shop/db can never allow a disruption.',
  requiresIntervention: true,
  pods: ['shop/db (n1)'],
  morePods: 0,
};

/** Waits until the current details contain all of these texts. */
const eventuallyShown = (handle: Handle, ...texts: string[]) =>
  eventually(`current details with ${texts.join(', ')}`, async () => {
    const { currentDetails } = await metadataOf(handle);
    for (const text of texts) expect(currentDetails).toContain(text);
  });

test('The current details show the progress of the drain after each tier', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.startMaintenance(fake);
  await eventuallyShown(handle, '### Draining 2 nodes', '| `pause`\u2003| none');
  fake.details = details({ drainTier: { number: 2, total: 3 } });
  await fake.tierDrained(0, 4);
  await eventuallyShown(handle, 'tier 2 of 3', '3 of 7 left', '| `n1`\u2003| 3 of 7\u2003| Evacuating |');
  fake.details = details({ podsToEvacuate: 0 });
  await fake.drained(4);
  await eventuallyShown(
    handle,
    '### Drained: 2 nodes ready for work',
    'ends the work: advances to **Complete**',
  );
  await handle.executeUpdate('pause', { args: [] });
  await eventuallyShown(handle, '### Paused', '| `resume`\u2003| none');
});

test('The current details show blocked pods when the drain begins to wait', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.startMaintenance(fake);
  fake.details = details({ podsBlocked: 1, causes: [cause] });
  await fake.stalled(0);
  await eventuallyShown(handle, '**1 blocked**', `- **Action required:** shop/db (n1): ${cause.message}`);
});

test('The controller refreshes the current details at once, unless the UID is that of another object', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.startMaintenance(fake);
  await fake.inProgress('drain 0');
  const refresh = (uid: string, podsToEvacuate: number) =>
    handle.signal('refreshDetails', {
      uid,
      details: details({ podsToEvacuate, podsBlocked: 1, causes: [cause] }),
    });
  await refresh(fake.uid, 2);
  await refresh('another', 1);
  await eventuallyShown(handle, '2 of 6 left', '**Action required:**');
  const last = await signalsTo(handle, 'refreshDetails');
  expect(last).toHaveLength(2);
  expect((await metadataOf(handle)).currentDetails).toContain('2 of 6 left');
});

/** Returns the names of all messages, and those without a description. */
async function undescribed(handle: WorkflowHandle): Promise<{ names: string[]; without: string[] }> {
  const { definition } = await handle.query<Metadata>('__temporal_workflow_metadata');
  const { signalDefinitions, updateDefinitions, queryDefinitions } = definition;
  // Names of the SDK's own queries start with __.
  const all = [...signalDefinitions, ...updateDefinitions, ...queryDefinitions].filter(
    ({ name }) => !name.startsWith('__'),
  );
  return {
    names: [...new Set(all.map(({ name }) => name))].toSorted(),
    without: all.filter(({ description }) => !description).map(({ name }) => name),
  };
}

test('Every message of a maintenance and of a window has a description', async () => {
  const fake = new FakeMaintenance();
  const handle = await lab.startMaintenance(fake);
  await eventuallyProgress(handle, { nodes: fake.nodes });
  expect(await undescribed(handle)).toEqual({
    names: ['advance', 'cancel', 'observe', 'pause', 'progress', 'refreshDetails', 'resume'],
    without: [],
  });
  const window = new FakeWindow();
  const opened = await lab.startWindow(window);
  await window.eventuallyRequested({});
  expect(await undescribed(opened)).toEqual({
    names: ['advance', 'approve', 'cancel', 'pause', 'progress', 'resume'],
    without: [],
  });
});

/** Returns the summary of each activity and timer; its name and "without" if it has none. */
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

test('Every activity and timer of a maintenance has a summary', async () => {
  const fake = new FakeMaintenance();
  const handle = await lab.startMaintenance(fake);
  await eventuallyProgress(handle, { nodes: fake.nodes });
  await handle.executeUpdate('advance', { args: [] });
  await fake.inProgress('keepCordoned Cordon');
  await handle.executeUpdate('advance', { args: [] });
  await fake.inProgress('drain 0');
  await handle.executeUpdate('pause', { args: [] });
  await handle.executeUpdate('resume', { args: [] });
  await fake.drained(0);
  await fake.inProgress('keepDrained');
  await handle.executeUpdate<unknown, [object]>('advance', { args: [{ from: 'Drain' }] });
  await handle.result();
  const summaries = await summariesOf(handle);
  expect(summaries.filter((one) => one.endsWith('without'))).toEqual([]);
  expect(summaries).toEqual(expect.arrayContaining(['Start stage Drain', 'Drained: evacuate new pods']));
});

test('Every activity and timer of a window has a summary', async () => {
  const fake = new FakeWindow();
  const handle = await lab.startWindow(fake);
  await fake.eventuallyRequested({});
  await handle.executeUpdate('pause', { args: [] });
  await handle.executeUpdate<unknown, [object]>('advance', { args: [{ node: 'n1' }] });
  await fake.ends({ kind: 'Over', state: windowState() });
  await handle.result();
  const summaries = await summariesOf(handle);
  expect(summaries.filter((one) => one.endsWith('without'))).toEqual([]);
  expect(summaries).toContain('End of the window');
});

/** The queries of docs/how-to/temporal-ui.md by the question that they answer. */
const searches = searchesIn(
  readFileSync(new URL('../../../docs/how-to/temporal-ui.md', import.meta.url), 'utf8'),
);

function searchesIn(page: string): Record<string, string> {
  const rows = [...page.matchAll(/^\| (.+?) \| `(.+=.+)` \|$/gm)];
  return Object.fromEntries(rows.map(([, question = '', query = '']) => [question, query]));
}

/** Returns the workflow ids that a query of the documentation finds, with its example names replaced. */
async function found(question: string, names: Record<string, string> = {}): Promise<string[]> {
  const documented = searches[question];
  if (documented === undefined) throw new Error(`docs/how-to/temporal-ui.md does not answer: ${question}`);
  const query = Object.entries(names).reduce((text, [from, to]) => text.replaceAll(from, to), documented);
  const ids: string[] = [];
  for await (const { workflowId } of lab.client.workflow.list({ query })) ids.push(workflowId);
  return ids;
}

const eventuallyFound = (question: string, names: Record<string, string>, ids: string[]) =>
  eventually(`"${question}" to find ${ids.join(', ')}`, async () =>
    expect((await found(question, names)).toSorted()).toEqual(ids.toSorted()),
  );

test('The documented queries find the maintenances of a node, by stage, and the open windows', async () => {
  const node = `a-${crypto.randomUUID()}`;
  const held = { 'node-1': node };
  const [cordoned, draining, planned] = (['Cordon', 'Drain', 'Idle'] as const).map(
    (stage) => new FakeMaintenance({ stage, nodes: [node, 'another'] }),
  ) as [FakeMaintenance, FakeMaintenance, FakeMaintenance];
  const cordon = await lab.startMaintenance(cordoned);
  const drain = await lab.startMaintenance(draining);
  const plan = await lab.startMaintenance(planned);
  await eventuallyFound('Which maintenances hold node `node-1`', held, [cordon.workflowId, drain.workflowId]);
  await eventuallyFound('Which maintenances select node `node-1`, planned ones included', held, [
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
  const opened = await lab.startWindow(window);
  const inProgress = [{ node, maintenance: 'os-patch-n1' }];
  await window.ends({ kind: 'Progressed', state: windowState({ inProgress }) });
  await eventuallyFound('Which window has node `node-1` in progress', held, [opened.workflowId]);
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

test('A node list that is too long for a search attribute is omitted, and a documented query finds such maintenances', async () => {
  const nodes = Array.from({ length: 200 }, (_, index) => `node-in-a-large-rack-${index}`);
  const fake = new FakeMaintenance({ stage: 'Cordon', nodes });
  const handle = await lab.startMaintenance(fake);
  await fake.inProgress('keepCordoned Cordon');
  const { typedSearchAttributes } = await handle.describe();
  const shown = Object.fromEntries(typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]));
  expect(shown).toMatchObject({ NodeMaintenanceName: fake.name, NodeMaintenanceStage: 'Cordon' });
  expect(shown).not.toHaveProperty('MaintenanceNodes');
  await eventually('the run among those without a list', async () =>
    expect(await found('Which maintenances hold more nodes than are listed')).toContain(handle.workflowId),
  );
});

test('The history grows with tiers, not with pods', async () => {
  const fake = new FakeMaintenance({ stage: 'Drain' });
  const handle = await lab.startMaintenance(fake);
  await fake.inProgress('drain 0');
  const before = (await eventsOf(handle)).length;
  await fake.tierDrained(0, 1);
  await fake.tierDrained(1, 2);
  await fake.inProgress('drain 2');
  expect((await eventsOf(handle)).length - before).toBeLessThanOrEqual(14);
});
