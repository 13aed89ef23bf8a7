import type { Activities } from '../../activities/contract.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { TurnAnnotation, windowWorkflowIdOf, workflowIdOf } from '../../api/names.ts';
import { newTurn } from '../../api/windowTurn.ts';
import { emptyStatus } from '../../domain/status.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { activitiesOn, performed, performedTwice } from '../kit/activity.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let activities: Activities;
let name: string;
const running = new Set<string>();
/** Types of what was put out to the receiver. */
const notices: string[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'opened' });
  ({ activities } = activitiesOn(c, async (workflowId) => running.has(workflowId), {
    put: async ({ type }) => void notices.push(type),
    lost: () => undefined,
  }));
  name = c.namespace;
  const matchExpressions = [{ key: 'rack', operator: 'In' as const, values: ['nowhere'] }];
  await c.admin.create(resources.maintenanceWindows, {
    metadata: { name },
    spec: {
      schedule: { cron: '30 1 * * 0', timeZone: 'America/New_York', duration: '4h' },
      nodeSelector: { nodeSelectorTerms: [{ matchExpressions }] },
    } as MaintenanceWindow['spec'],
  });
});

afterAll(async () => {
  const found = await seen();
  await c?.admin.delete(resources.maintenanceWindows, { name }, { uid: found?.metadata.uid ?? '' });
  await c?.close();
  await releaseSandbox(sandbox);
});

const seen = () => c.admin.get(resources.maintenanceWindows, { name });

const open = (differs: object = {}) =>
  activities.openWindow({
    input: { name },
    workflowId: `${windowWorkflowIdOf(name)}-2026-11-01T05:30:00Z`,
    runId: 'run-1',
    startedAt: '2026-11-01T05:31:00.000Z',
    scheduledAt: nominal,
    ...differs,
  });

/** Sundays, as it is opened on; the one is past, the other to come. */
const nominal = '2026-11-01T05:30:00.000Z';
const toCome = '2099-11-01T05:30:00.000Z';

test('a window that its schedule opens late ends at its time all the same, and is marked as open once', async () => {
  const opened = await performedTwice(c, () =>
    open({ startedAt: '2099-11-01T05:31:00.000Z', scheduledAt: toCome }),
  );
  const times = { start: toCome, end: '2099-11-01T09:30:00.000Z' };
  expect(opened).toMatchObject({ name, ...times, resting: [] });
  expect((await seen())?.status?.active).toMatchObject({ runId: 'run-1', ...times });
});

test('a window that is closed by another run than the one that has it open stays open', async () => {
  const { uid } = await performed(() => open());
  await performed(() => activities.closeWindow({ name, uid }, 'another'));
  expect((await seen())?.status?.active).toBeDefined();
  await performedTwice(c, () => activities.closeWindow({ name, uid }, 'run-1'));
  expect((await seen())?.status?.active).toBeUndefined();
});

test('the second time that clocks show the time of an opening opens it for no time', async () => {
  const again = '2026-11-01T06:30:00.000Z';
  const opened = await performed(() => open({ startedAt: again, scheduledAt: again, runId: 'run-2' }));
  expect(opened).toMatchObject({ start: again, end: again });
});

test('a window that is opened by hand lasts as long as is asked for', async () => {
  const startedAt = '2099-11-21T12:00:00.000Z';
  const input = { name, duration: '90m' };
  const opened = await performed(() => open({ input, startedAt, scheduledAt: undefined, runId: 'run-3' }));
  expect(opened).toMatchObject({ start: startedAt, end: '2099-11-21T13:30:00.000Z' });
});

test('a window that has waited for another until after its end is open for no time: no drain goes on, and nobody is told', async () => {
  const window = (await seen()) as MaintenanceWindow;
  const { uid = '' } = window.metadata;
  await performed(() => activities.closeWindow({ name, uid }, 'run-3'));
  const node = { name: await c.nodeNamed('resting'), uid: 'of-its-machine' };
  const turn = newTurn(window, { name: c.named('turn'), revision: 'r', drainPlan: [], node });
  Object.assign(turn.metadata.annotations ?? {}, { [TurnAnnotation.Resting]: 'true' });
  const applied = await c.applied(turn);
  const paused = { type: 'Paused', status: 'True', reason: 'Paused', message: '' };
  await c.withStatus(applied, { ...emptyStatus, conditions: [{ ...paused, lastTransitionTime: nominal }] });
  const opening = async (runId: string, startedAt: string) => {
    notices.length = 0;
    const opened = await performed(() => open({ runId, startedAt, scheduledAt: startedAt }));
    await performed(() => activities.closeWindow({ name, uid }, runId));
    return { ...opened, notices: notices.map((type) => type.split('.').slice(-2).join('.')) };
  };
  expect(await opening('run-in-time', toCome)).toMatchObject({
    resting: [workflowIdOf(applied.metadata.name)],
    notices: ['window.opened', 'window.closed'],
  });
  const end = '2026-11-01T09:30:00.000Z';
  expect(await opening('run-too-late', nominal)).toMatchObject({ start: end, end, resting: [], notices: [] });
  await c.deleted(applied);
});

describe('while another run has it open', () => {
  test('a window that its schedule opens waits, and one that a person opens is refused', async () => {
    const workflowId = `${windowWorkflowIdOf(name)}-by-hand`;
    const startedAt = '2026-11-21T12:00:00.000Z';
    running.add(workflowId);
    await performed(() => open({ workflowId, startedAt, scheduledAt: undefined, runId: 'run-4' }));
    await expect(performed(() => open({ runId: 'run-5' }))).rejects.toMatchObject({
      type: 'Busy',
      nonRetryable: false,
    });
    const another = { workflowId: `${workflowId}-2`, scheduledAt: undefined, runId: 'run-6' };
    await expect(performed(() => open(another))).rejects.toMatchObject({ type: 'InvalidInput' });
    running.clear();
    const opened = await performed(() => open({ runId: 'run-5' }));
    expect(opened).toMatchObject({ end: '2026-11-01T09:30:00.000Z' });
  });

  test('a run that follows one which was terminated has it open until the same time', async () => {
    const workflowId = (await seen())?.status?.active?.workflowId;
    const startedAt = '2026-11-21T12:00:00.000Z';
    const next = { workflowId, startedAt, scheduledAt: undefined, runId: 'run-7' };
    expect(await performed(() => open(next))).toMatchObject({ end: '2026-11-01T09:30:00.000Z' });
    expect((await seen())?.status?.active?.runId).toBe('run-7');
  });

  test('and goes on with what was ordered of it', async () => {
    const ref = { name, uid: (await seen())?.metadata.uid ?? '' };
    const node = await c.nodeNamed('ordered', { rack: 'nowhere' });
    const ordered = (order: object) => performed(() => activities.authorizeOrder(ref, order));
    await ordered({ paused: true });
    await ordered({ approvedNodes: [node] });
    await expect(ordered({ approvedNodes: ['typo'] })).rejects.toMatchObject({ type: 'InvalidInput' });
    const workflowId = (await seen())?.status?.active?.workflowId;
    const next = {
      workflowId,
      startedAt: '2026-11-21T12:00:00.000Z',
      scheduledAt: undefined,
      runId: 'run-7b',
    };
    expect(await performed(() => open(next))).toMatchObject({
      given: { paused: true, approvedNodes: [node] },
    });
  });
});

describe('those who start it must be allowed to maintain the nodes', () => {
  let node: string;
  const refused = { type: 'InvalidInput' };

  beforeAll(async () => {
    node = await c.nodeNamed('node', { rack: 'nowhere' });
    await c.temporalMayDelete(['another']);
  });
  beforeEach(async () => {
    const { metadata, status } = (await seen()) ?? {};
    const ref = { name, uid: metadata?.uid ?? '' };
    await performed(() => activities.closeWindow(ref, status?.active?.runId ?? ''));
  });
  afterAll(() => c.temporalMayDelete());

  test('unless it is its own schedule that opens it', async () => {
    await performed(() => open({ runId: 'run-8' }));
  });

  test('for a duration of its own', async () => {
    const input = { name, duration: '90m' };
    const opening = performed(() => open({ input, runId: 'run-9' }));
    await expect(opening).rejects.toMatchObject({ ...refused, message: expect.stringContaining(node) });
  });

  test('when they say that its schedule opens it, and the time is still to come', async () => {
    const startedAt = '2026-10-30T12:00:00.000Z';
    await expect(performed(() => open({ startedAt, runId: 'run-10' }))).rejects.toMatchObject(refused);
  });

  test('while it is suspended', async () => {
    const suspended = (suspend: boolean) =>
      c.admin.mergePatch(resources.maintenanceWindows, { name }, { spec: { suspend } });
    await suspended(true);
    await expect(performed(() => open({ runId: 'run-11' }))).rejects.toMatchObject(refused);
    await suspended(false);
  });
});

describe('a run is refused, with the remedy,', () => {
  test.each([
    {
      when: 'when there is no such window',
      differs: { input: { name: 'nobody' }, workflowId: 'maintenance-window-nobody' },
      says: 'name: there is no MaintenanceWindow "nobody"; kubectl get mw lists them',
    },
    {
      when: "when it has another window's id",
      differs: { workflowId: 'maintenance-window-other' },
      says: 'workflow id: expected "maintenance-window-',
    },
    {
      when: 'when its input has unknown fields',
      differs: { input: { name: 'nobody', nodes: [] } },
      says: 'nodes: unknown field; remove it or correct its name',
    },
    {
      when: 'when its duration is none',
      differs: { input: { name: 'nobody', duration: 'long' } },
      says: 'duration: expected a duration from 1m to 168h, such as 4h, 90m or 1h30m',
    },
    {
      when: 'when its duration is longer than a window may be',
      differs: { input: { name: 'nobody', duration: '169h' } },
      says: 'duration: expected a duration from 1m to 168h',
    },
  ])('$when', async ({ differs, says }) => {
    await expect(performed(() => open(differs))).rejects.toMatchObject({
      type: 'InvalidInput',
      nonRetryable: true,
      message: expect.stringContaining(says),
    });
  });
});
