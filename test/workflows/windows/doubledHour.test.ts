import { ScheduleOverlapPolicy } from '@temporalio/client';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { type ClusterScope, temporalNames } from '../../../api/names.ts';
import { Schedules } from '../../../controllers/windows/schedules.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { activitiesOn } from '../../kit/activity.ts';
import { SettableAvailability } from '../../kit/availability.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { quietTemporal, workflowLab, type WorkflowLab } from '../../kit/workflows.ts';

/** Workflows and activities of a window on a real cluster and a real Schedule, on the clock of a night in which an hour occurs twice. */
let sandbox: Sandbox;
let lab: WorkflowLab;
let c: TestCluster;
let scope: ClusterScope;
/** The time that the worker takes for that of the apiserver. */
let now = '';

beforeAll(async () => {
  quietTemporal();
  sandbox = await testSandbox();
  lab = await workflowLab(sandbox.temporalAddress);
  c = await testCluster(sandbox, { prefix: 'doubled' });
  scope = { name: c.namespace, uid: crypto.randomUUID(), names: temporalNames(c.namespace) };
  Object.assign(c.cluster.kube, { now: () => new Date(now) });
});

afterAll(async () => {
  await lab?.clear();
  await c?.close();
  await lab?.close();
  await releaseSandbox(sandbox);
});

test('a window whose local time occurs twice in a night opens once, and needs no permission for the second start by Temporal', async () => {
  const node = await c.nodeNamed('node');
  const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: [node] }];
  const window = await c.admin.create(resources.maintenanceWindows, {
    metadata: { name: c.named('window') },
    spec: {
      schedule: { cron: '30 1 * * 0', timeZone: 'America/New_York', duration: '30m' },
      nodeSelector: { nodeSelectorTerms: [{ matchFields }] },
      // No node is started: the night passes until the window ends.
      approval: 'PerWindow',
    } as MaintenanceWindow['spec'],
  });
  const { name, uid = '' } = window.metadata;
  const { activities, flushEvents } = activitiesOn(c, { scope, areScheduled: true });
  await lab.worker(scope.names.taskQueue, activities);
  const events = new EventRecorder({ kube: c.cluster.kube, component: 'node-maintenance', log: silentLog });
  const availability = new SettableAvailability();
  const schedules = new Schedules({ temporal: lab.client, availability, scope, events, log: silentLog });
  expect(await schedules.reconcile(window, true)).toEqual({ kind: 'UpToDate' });
  const schedule = lab.client.schedule.getHandle(scope.names.windowId(name));
  /** Lets Temporal start what the Schedule starts in an hour, as it does when the hour passes. */
  const passes = async (from: string, to: string, at: string) => {
    now = at;
    const overlap = ScheduleOverlapPolicy.ALLOW_ALL;
    await schedule.backfill({ start: new Date(from), end: new Date(to), overlap });
    return lab.client.workflow.getHandle(`${scope.names.windowId(name)}-${at.slice(0, 17)}00Z`);
  };
  const statusNow = async () => (await c.admin.get(resources.maintenanceWindows, { name }))?.status;
  try {
    await c.temporalMayDelete(['another']);
    const first = await passes('2025-11-02T05:00:00Z', '2025-11-02T06:00:00Z', '2025-11-02T05:30:05.000Z');
    await eventually('the window to wait for approval', async () =>
      expect((await statusNow())?.active).toMatchObject({
        start: '2025-11-02T05:30:00.000Z',
        end: '2025-11-02T06:00:00.000Z',
        waiting: { reason: 'ApprovalNeeded' },
      }),
    );
    now = '2025-11-02T06:00:05.000Z';
    await c.patched(resources.maintenanceWindows, { name }, { metadata: { labels: { time: 'passes' } } });
    expect(await first.result()).toMatchObject({ done: 0, remaining: 1 });
    expect(await statusNow()).toMatchObject({ lastClosed: '2025-11-02T05:30:00.000Z' });

    const second = await passes('2025-11-02T06:00:00Z', '2025-11-02T07:00:00Z', '2025-11-02T06:30:05.000Z');
    expect(await eventually('the second run', () => second.result())).toMatchObject({
      done: 0,
      remaining: 1,
    });
    expect(await statusNow()).toMatchObject({ lastClosed: '2025-11-02T05:30:00.000Z' });
    await flushEvents();
    expect((await c.eventsAbout(window)).filter((event) => event.startsWith('WindowOpened'))).toEqual([
      'WindowOpened: The window is open until 2025-11-02T06:00:00.000Z.',
    ]);
  } finally {
    await c.temporalMayDelete();
    await schedule.delete();
    await c.admin.delete(resources.maintenanceWindows, { name }, { uid });
  }
});
