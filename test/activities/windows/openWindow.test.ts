import type { Activities } from '../../../activities/contract.ts';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { WindowAnnotation } from '../../../api/names.ts';
import { windowWorkflowIdOf, workflowIdOf } from '../../kit/temporalNames.ts';
import { newWindowMaintenance } from '../../../domain/windows/windowMaintenance.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { activitiesOn, performed, performedTwice, scheduledBy } from '../../kit/activity.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let activities: Activities;
let name: string;
const running = new Set<string>();
/** The types of the notifications that were enqueued. */
const notifications: string[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'opened' });
  ({ activities } = activitiesOn(c, {
    isRunning: async (workflowId) => running.has(workflowId),
    notifications: {
      enqueue: async ({ type }) => void notifications.push(type),
      dropped: () => undefined,
    },
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
  const found = await windowNow();
  await c?.admin.delete(resources.maintenanceWindows, { name }, { uid: found?.metadata.uid ?? '' });
  await c?.close();
  await releaseSandbox(sandbox);
});

const windowNow = () => c.admin.get(resources.maintenanceWindows, { name });

const open = (differs: object = {}) =>
  activities.openWindow({
    input: { name },
    workflowId: `${windowWorkflowIdOf(name)}-2025-11-02T05:30:00Z`,
    runId: 'run-1',
    startedAt: '2025-11-02T05:31:00.000Z',
    scheduledAt: nominal,
    ...differs,
  });

/** An opening of its schedule in the past. */
const nominal = '2025-11-02T05:30:00.000Z';

/** Closes the window as the run that has it open, or as another run. */
async function close(runId?: string): Promise<void> {
  const { metadata, status } = (await windowNow()) ?? {};
  const { active } = status ?? {};
  if (active === undefined) return;
  const ref = { name, uid: metadata?.uid ?? '' };
  const act = () => activities.closeWindow(ref, runId ?? active.runId);
  await performedTwice(c, () => scheduledBy(active, act));
}

/** The window forgets its last opening, so that the same one opens it again. */
const forgotten = () =>
  c.admin.mergePatch(
    resources.maintenanceWindows,
    { name },
    { status: { lastClosed: null } },
    { subresource: 'status' },
  );

const hourly = { cron: '0 * * * *', timeZone: 'UTC', duration: '2h' };
const weekly = { cron: '30 1 * * 0', timeZone: 'America/New_York', duration: '4h' };
const scheduled = (schedule: object) =>
  c.admin.mergePatch(resources.maintenanceWindows, { name }, { spec: { schedule } });

/** The latest opening of the hourly schedule. */
const thisHour = () => new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000).toISOString();

test('a window that its schedule opens late ends on time, and is marked as open once', async () => {
  await scheduled(hourly);
  const start = thisHour();
  const opened = await performedTwice(c, () =>
    open({ startedAt: new Date().toISOString(), scheduledAt: start }),
  );
  const times = { start, end: new Date(Date.parse(start) + 2 * 3_600_000).toISOString() };
  expect(opened).toMatchObject({ name, ...times, pausedByWindow: [] });
  expect((await windowNow())?.status?.active).toMatchObject({ runId: 'run-1', ...times });
  await close();
  expect((await windowNow())?.status).toMatchObject({ lastClosed: start });
  await forgotten();
  await scheduled(weekly);
});

test('a window stays open if another run than its own closes it', async () => {
  await performed(() => open());
  await close('another');
  expect((await windowNow())?.status?.active).toBeDefined();
  await close('run-1');
  expect((await windowNow())?.status?.active).toBeUndefined();
});

test('the second occurrence of the local time of an opening does not open the window', async () => {
  const again = '2025-11-02T06:30:00.000Z';
  const opened = await performed(() => open({ startedAt: again, scheduledAt: again, runId: 'run-2' }));
  expect(opened).toMatchObject({ start: again, end: again });
});

test('a window that is opened manually is open for the requested duration', async () => {
  const startedAt = new Date(Date.now() - 60_000).toISOString();
  const input = { name, duration: '90m' };
  const opened = await performed(() => open({ input, startedAt, scheduledAt: undefined, runId: 'run-3' }));
  const end = new Date(Date.parse(startedAt) + 90 * 60_000).toISOString();
  expect(opened).toMatchObject({ start: startedAt, end });
});

test('a window that waited for another run until after its own end is never open: it resumes no drain and sends no notification', async () => {
  const window = (await windowNow()) as MaintenanceWindow;
  await close();
  await forgotten();
  const node = { name: await c.nodeNamed('paused'), uid: 'uid-of-the-node' };
  const maintenance = newWindowMaintenance(window, node);
  Object.assign(maintenance.metadata.annotations ?? {}, { [WindowAnnotation.PausedByWindow]: 'true' });
  const applied = await c.applied(maintenance);
  const paused = { type: 'Paused', status: 'True', reason: 'Paused', message: '' };
  await c.withStatus(applied, { ...emptyStatus, conditions: [{ ...paused, lastTransitionTime: nominal }] });
  const opening = async (runId: string, startedAt: string) => {
    notifications.length = 0;
    const opened = await performed(() => open({ runId, startedAt, scheduledAt: startedAt }));
    await close();
    await forgotten();
    return { ...opened, notifications: notifications.map((type) => type.split('.').slice(-2).join('.')) };
  };
  await scheduled(hourly);
  expect(await opening('run-in-time', thisHour())).toMatchObject({
    pausedByWindow: [workflowIdOf(applied.metadata.name)],
    notifications: ['window.opened', 'window.closed'],
  });
  await scheduled(weekly);
  const end = '2025-11-02T09:30:00.000Z';
  expect(await opening('run-too-late', nominal)).toMatchObject({
    start: end,
    end,
    pausedByWindow: [],
    notifications: [],
  });
  await c.deleted(applied);
});

describe('while another run has the window open', () => {
  test('a scheduled run waits, and a manual run is rejected', async () => {
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
    expect(opened).toMatchObject({ end: '2025-11-02T09:30:00.000Z' });
  });

  test('a run that follows a terminated run keeps the window open until the same time', async () => {
    const workflowId = (await windowNow())?.status?.active?.workflowId;
    const startedAt = '2026-11-21T12:00:00.000Z';
    const next = { workflowId, startedAt, scheduledAt: undefined, runId: 'run-7' };
    expect(await performed(() => open(next))).toMatchObject({ end: '2025-11-02T09:30:00.000Z' });
    expect((await windowNow())?.status?.active?.runId).toBe('run-7');
  });

  test('and continues with the requests that were accepted', async () => {
    const ref = { name, uid: (await windowNow())?.metadata.uid ?? '' };
    const node = await c.nodeNamed('requested', { rack: 'nowhere' });
    const { workflowId = '' } = (await windowNow())?.status?.active ?? {};
    const request = (fields: object) =>
      performed(() => scheduledBy({ workflowId }, () => activities.authorizeRequest(ref, fields)));
    await request({ paused: true });
    await request({ approvedNodes: [node] });
    const pausedBy = (reason: string | null) =>
      c.patched(
        resources.maintenanceWindows,
        { name },
        { metadata: { annotations: { 'nodemaintenance.k8s.io/paused': reason } } },
      );
    await pausedBy('disk');
    await expect(request({ paused: false })).rejects.toMatchObject({
      type: 'InvalidInput',
      message: `the window is paused by its annotation nodemaintenance.k8s.io/paused: run kubectl maintenance window resume ${name}`,
    });
    await pausedBy(null);
    await expect(request({ approvedNodes: ['typo'] })).rejects.toMatchObject({ type: 'InvalidInput' });
    const next = {
      workflowId,
      startedAt: '2026-11-21T12:00:00.000Z',
      scheduledAt: undefined,
      runId: 'run-7b',
    };
    expect(await performed(() => open(next))).toMatchObject({
      requests: { paused: true, approvedNodes: [node] },
    });
  });

  test('and continues an opening that was recorded under another value of --cluster, whose runs have no workers any more', async () => {
    const former = `berlin-1.${windowWorkflowIdOf(name)}`;
    const { active } = (await windowNow())?.status ?? {};
    const recorded = { ...active, workflowId: former, runId: 'former' };
    const options = { subresource: 'status' };
    await c.admin.mergePatch(
      resources.maintenanceWindows,
      { name },
      { status: { active: recorded } },
      options,
    );
    running.add(former);
    const next = {
      workflowId: windowWorkflowIdOf(name),
      startedAt: '2026-11-21T12:00:00.000Z',
      scheduledAt: undefined,
      runId: 'run-7c',
    };
    expect(await performed(() => open(next))).toMatchObject({
      end: '2025-11-02T09:30:00.000Z',
      requests: { paused: true },
    });
    expect((await windowNow())?.status?.active).toMatchObject({
      workflowId: windowWorkflowIdOf(name),
      runId: 'run-7c',
    });
    running.clear();
  });

  test('but another opening has none of them', async () => {
    const next = {
      workflowId: `${windowWorkflowIdOf(name)}-2025-11-09T06:30:00Z`,
      startedAt: '2025-11-09T06:31:00.000Z',
      scheduledAt: '2025-11-09T06:30:00.000Z',
      runId: 'run-8',
    };
    expect(await performed(() => open(next))).not.toHaveProperty('requests');
    const active = (await windowNow())?.status?.active;
    expect(active).toMatchObject({ runId: 'run-8', nodes: [] });
    expect(active).not.toHaveProperty('requests');
  });
});

describe('users who open a window must be allowed to maintain its nodes', () => {
  let node: string;
  const rejected = { type: 'InvalidInput' };

  beforeAll(async () => {
    node = await c.nodeNamed('node', { rack: 'nowhere' });
    await c.temporalMayDelete(['another']);
  });
  beforeEach(async () => {
    await close();
    await forgotten();
  });
  afterAll(() => c.temporalMayDelete());

  test('unless its own schedule opens it, or Temporal fires on the second occurrence of its local time', async () => {
    await performed(() => open({ runId: 'run-8' }));
    await close();
    const again = '2025-11-02T06:30:00.000Z';
    expect(
      await performed(() => open({ startedAt: again, scheduledAt: again, runId: 'run-8b' })),
    ).toMatchObject({ start: again, end: again });
  });

  test('for another duration than its own', async () => {
    const input = { name, duration: '90m' };
    const opening = performed(() => open({ input, runId: 'run-9' }));
    await expect(opening).rejects.toMatchObject({ ...rejected, message: expect.stringContaining(node) });
  });

  test.each([
    { given: 'as the server reports', startedAt: '2025-10-30T12:00:00.000Z', scheduledAt: nominal },
    {
      given: 'although the start claims a later time',
      startedAt: '2099-11-01T05:31:00.000Z',
      scheduledAt: '2099-11-01T05:30:00.000Z',
    },
  ])('if the scheduled time lies in the future, $given', async ({ startedAt, scheduledAt }) => {
    const opening = performed(() => open({ startedAt, scheduledAt, runId: 'run-10' }));
    await expect(opening).rejects.toMatchObject(rejected);
  });

  test('to open it again for a time at which it was open before', async () => {
    await scheduled(hourly);
    const times = { startedAt: new Date().toISOString(), scheduledAt: thisHour() };
    try {
      await performed(() => open({ ...times, runId: 'run-12' }));
      await close();
      await expect(performed(() => open({ ...times, runId: 'run-13' }))).rejects.toMatchObject(rejected);
    } finally {
      await scheduled(weekly);
    }
  });

  test('but a run that takes over from a terminated one continues with its end and its requests', async () => {
    await scheduled(hourly);
    const times = { startedAt: new Date().toISOString(), scheduledAt: thisHour() };
    const end = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 600_000).toISOString();
    const requests = { paused: true };
    const status = { active: { end, requests } };
    const options = { subresource: 'status' };
    try {
      await performed(() => open({ ...times, runId: 'run-14' }));
      await c.admin.mergePatch(resources.maintenanceWindows, { name }, { status }, options);
      const workflowId = `${windowWorkflowIdOf(name)}-another`;
      const next = await performed(() => open({ ...times, workflowId, runId: 'run-15' }));
      expect(next).toMatchObject({ end, requests });
    } finally {
      await scheduled(weekly);
    }
  });

  test('while it is suspended', async () => {
    const suspended = (suspend: boolean) =>
      c.admin.mergePatch(resources.maintenanceWindows, { name }, { spec: { suspend } });
    await suspended(true);
    await expect(performed(() => open({ runId: 'run-11' }))).rejects.toMatchObject(rejected);
    await suspended(false);
  });

  test('while an annotation pauses it, and on a date that an annotation skips', async () => {
    const annotated = (annotations: Record<string, string | null>) =>
      c.admin.mergePatch(resources.maintenanceWindows, { name }, { metadata: { annotations } });
    await annotated({ 'nodemaintenance.k8s.io/paused': 'disk' });
    await expect(performed(() => open({ runId: 'run-16' }))).rejects.toMatchObject({
      ...rejected,
      message: `The window was not opened: MaintenanceWindow "${name}" is paused`,
    });
    await annotated({ 'nodemaintenance.k8s.io/paused': null });
    await annotated({ 'nodemaintenance.k8s.io/skipped-dates': nominal.slice(0, 10) });
    await expect(performed(() => open({ runId: 'run-17' }))).rejects.toMatchObject({
      ...rejected,
      message: `The window was not opened: MaintenanceWindow "${name}" skips this opening`,
    });
    await annotated({ 'nodemaintenance.k8s.io/skipped-dates': null });
    await performed(() => open({ runId: 'run-18' }));
  });
});

describe('a run is rejected, with a message that message how to fix it,', () => {
  test.each([
    {
      when: 'when the window does not exist',
      differs: { input: { name: 'unknown' }, workflowId: 'maintenance-window-unknown' },
      message: 'name: MaintenanceWindow "unknown" not found; kubectl get mw lists all windows',
    },
    {
      when: 'when its workflow id is the one of another window',
      differs: { workflowId: 'maintenance-window-other' },
      message: 'workflow id: expected "maintenance-window-',
    },
    {
      when: 'when its input has unknown fields',
      differs: { input: { name: 'unknown', nodes: [] } },
      message: 'nodes: unknown field; remove it or correct its name',
    },
    {
      when: 'when its duration is not valid',
      differs: { input: { name: 'unknown', duration: 'long' } },
      message: 'duration: expected a duration from 1m to 168h, such as 4h, 90m or 1h30m',
    },
    {
      when: 'when its duration exceeds the maximum',
      differs: { input: { name: 'unknown', duration: '169h' } },
      message: 'duration: expected a duration from 1m to 168h',
    },
  ])('$when', async ({ differs, message }) => {
    await expect(performed(() => open(differs))).rejects.toMatchObject({
      type: 'InvalidInput',
      nonRetryable: true,
      message: expect.stringContaining(message),
    });
  });
});
