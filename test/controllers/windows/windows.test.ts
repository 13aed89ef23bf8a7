import { Client, Connection, type ScheduleDescription, ScheduleNotFoundError } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import type { MaintenanceWindow, WindowSchedule } from '../../../api/maintenanceWindow.ts';
import type { Condition } from '../../../api/core.ts';
import { MAINTENANCE_WINDOW, NODE_MAINTENANCE, WindowAnnotation, WINDOW_LABEL } from '../../../api/names.ts';
import { TASK_QUEUE, testScope, windowWorkflowIdOf } from '../../kit/temporalNames.ts';
import { runWindowsController } from '../../../controllers/windows/windows.ts';
import { nextOpening, isRepeatedOpening } from '../../../domain/windows/schedule.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { jobPermission } from '../../../kube/jobPermission.ts';
import { resources } from '../../../kube/resources.ts';
import { newWindowMaintenance } from '../../../domain/windows/windowMaintenance.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import type { WorkQueueObserver } from '../../../kube/workQueue.ts';
import { UnreliableNetwork } from '../../kube/unreliableNetwork.ts';
import { SettableAvailability } from '../../kit/availability.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually, eventuallyHolds } from '../../kit/eventually.ts';
import { withBrokenWorkflow } from '../../kit/otherBuilds.ts';
import { rejectCreations } from '../../kit/rejection.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import {
  ownTemporal,
  quietTemporal,
  workflowBundle,
  workflowLab,
  type WorkflowLab,
} from '../../kit/workflows.ts';

/** No worker polls the task queue: the tests observe the Schedules in Temporal. */
let sandbox: Sandbox;
let temporal: TestWorkflowEnvironment;
let lab: WorkflowLab;
let c: TestCluster;
const abort = new AbortController();
let ended: Promise<void> | undefined;
let events: EventRecorder;
/** The connection between the controller and Temporal. */
let relay: Awaited<ReturnType<typeof UnreliableNetwork.beforePort>>;
let connection: Connection;
const availability = new SettableAvailability();
let deps: Parameters<typeof runWindowsController>[0];

beforeAll(async () => {
  quietTemporal();
  sandbox = await testSandbox();
  // Only the first failure of a workflow task is reported. The next attempt fails when it times out.
  temporal = await ownTemporal(sandbox, { 'history.defaultWorkflowTaskTimeout': '3s' });
  lab = await workflowLab(temporal.address);
  c = await testCluster(sandbox, { prefix: 'windows' });
  const { kube } = c.cluster;
  events = new EventRecorder({ kube, component: 'node-maintenance', log: silentLog });
  relay = await UnreliableNetwork.beforePort(Number(temporal.address.split(':')[1]));
  connection = await Connection.connect({ address: relay.address });
  deps = {
    cluster: c.cluster,
    temporal: new Client({ connection }),
    availability,
    scope: testScope,
    events,
    mayRunJobs: jobPermission(kube),
    log: silentLog,
    temporalTimeoutMs: 1_500,
    requeueUnavailableMs: 200,
    stalledRunTimeoutSeconds: 3,
  };
  ended = runWindowsController(deps, abort.signal);
});

afterAll(async () => {
  await lab?.clear();
  await Promise.all((c?.cluster.windows.list() ?? []).map(({ metadata }) => deleted(metadata.name)));
  abort.abort();
  await ended;
  await c?.close();
  await connection?.close();
  await relay?.close();
  await lab?.close();
  await temporal?.teardown();
  await releaseSandbox(sandbox);
});

let serial = 0;
const weekly = { cron: '0 2 * * 6', timeZone: 'Europe/Berlin', duration: '4h' };

/** Creates a window that selects no existing node. */
async function applied(spec: object = {}): Promise<string> {
  const name = `${c.namespace}-${(serial += 1)}`;
  const matchExpressions = [{ key: 'rack', operator: 'In' as const, values: ['nowhere'] }];
  const nodeSelector = { nodeSelectorTerms: [{ matchExpressions }] };
  await c.admin.create(resources.maintenanceWindows, {
    metadata: { name },
    spec: { schedule: weekly, nodeSelector, ...spec } as MaintenanceWindow['spec'],
  });
  return name;
}

const patched = (name: string, spec: object) =>
  c.admin.mergePatch(resources.maintenanceWindows, { name }, { spec });
const windowNow = (name: string) => c.admin.get(resources.maintenanceWindows, { name });

async function deleted(name: string): Promise<void> {
  const { metadata } = (await windowNow(name)) ?? {};
  if (metadata === undefined) return;
  await c.admin.delete(resources.maintenanceWindows, { name }, { uid: metadata.uid ?? '' });
  await eventually(`${name} to be gone`, async () => expect(await windowNow(name)).toBeUndefined());
}

/** Rejects NodeMaintenances with this reason, until the returned function is called. Resolves when that is in effect. */
async function rejectReason(reason: string): Promise<() => Promise<void>> {
  const admit = await rejectCreations(c.admin, c.named('reasons'), {
    apiGroup: NODE_MAINTENANCE.group,
    apiVersion: '*',
    resource: NODE_MAINTENANCE.plural,
    expression: `!has(object.spec.reason) || object.spec.reason != '${reason}'`,
    message: 'reason: expected the number of a ticket',
  });
  const probe = c.maintenance({ nodes: ['nowhere'], reason });
  await eventually('the policy to be in effect', () =>
    expect(c.admin.create(resources.nodeMaintenances, probe, { dryRun: true })).rejects.toThrow('ticket'),
  );
  return admit;
}

const handleOf = (name: string) => lab.client.schedule.getHandle(windowWorkflowIdOf(name));

async function scheduleOf(name: string): Promise<ScheduleDescription | undefined> {
  try {
    return await handleOf(name).describe();
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return undefined;
    throw error;
  }
}

async function condition(name: string, type: string, facts: object): Promise<Condition> {
  return eventually(`condition ${type}`, async () => {
    const { status, metadata } = (await windowNow(name)) ?? {};
    const found = status?.conditions.find((one) => one.type === type);
    expect(found).toMatchObject({ ...facts, observedGeneration: metadata?.generation });
    return found as Condition;
  });
}

test('a window has a Schedule that starts its workflow, and reports its next opening', async () => {
  const name = await applied();
  await condition(name, 'Valid', { status: 'True' });
  await condition(name, 'Scheduled', { status: 'True' });
  const schedule = await scheduleOf(name);
  expect(schedule?.action).toMatchObject({
    type: 'startWorkflow',
    workflowType: 'maintenanceWindow',
    taskQueue: 'node-maintenance',
    args: [{ name }],
    staticSummary: `Window ${name}`,
    staticDetails: expect.stringContaining(`kubectl get mw ${name} -o yaml`),
    memo: { kubectl: `kubectl get mw ${name} -o wide` },
  });
  expect(schedule?.policies).toMatchObject({ overlap: 'BUFFER_ALL', catchupWindow: 4 * 3_600_000 });
  const { status } = (await windowNow(name)) ?? {};
  expect(status).toMatchObject({ schedule: '0 2 * * 6' });
  expect(new Date(status?.nextTime ?? '')).toEqual(schedule?.info.nextActionTimes[0]);
});

test('an edit of the window changes the Schedule', async () => {
  const name = await applied();
  await condition(name, 'Scheduled', { status: 'True' });
  await patched(name, { schedule: { ...weekly, cron: '30 5 * * *', duration: '1h' } });
  await eventually('the Schedule to be changed', async () => {
    const schedule = await scheduleOf(name);
    expect(schedule?.policies.catchupWindow).toBe(3_600_000);
    const next = (await windowNow(name))?.status?.nextTime ?? '';
    expect(schedule?.info.nextActionTimes[0]).toEqual(new Date(next));
    expect(next).toMatch(/T0[34]:30:00/);
  });
});

test('a suspended window pauses its Schedule, and unpauses it when it is not suspended any more', async () => {
  const name = await applied({ suspend: true });
  await condition(name, 'Scheduled', { status: 'False', reason: 'Suspended' });
  expect((await scheduleOf(name))?.state.paused).toBe(true);
  expect((await windowNow(name))?.status?.nextTime).toBeUndefined();
  await patched(name, { suspend: false });
  await condition(name, 'Scheduled', { status: 'True' });
  expect((await scheduleOf(name))?.state.paused).toBe(false);
  await patched(name, { suspend: true });
  await condition(name, 'Scheduled', { status: 'False', reason: 'Suspended' });
  expect((await scheduleOf(name))?.state.paused).toBe(true);
});

describe('what a manifest of the window does not say', () => {
  const { apiVersion, kind } = MAINTENANCE_WINDOW;
  /** Applies the manifest again as Argo CD heals it: it takes over every field of the manifest. */
  const healed = async (name: string) => {
    const { spec } = (await windowNow(name)) ?? {};
    const manifest = {
      apiVersion,
      kind,
      metadata: { name },
      spec: { ...spec, schedule: weekly, suspend: false },
    };
    const options = { fieldManager: 'argocd-controller', force: true };
    return c.admin.apply<MaintenanceWindow>(
      resources.maintenanceWindows,
      manifest as MaintenanceWindow,
      options,
    );
  };
  const annotated = (name: string, annotations: Record<string, string | null>) =>
    c.admin.mergePatch(resources.maintenanceWindows, { name }, { metadata: { annotations } });

  test('stays when it is applied again: a pause', async () => {
    const name = await applied();
    await condition(name, 'Scheduled', { status: 'True' });
    await annotated(name, { 'nodemaintenance.k8s.io/paused': 'disk' });
    await condition(name, 'Scheduled', { status: 'False', reason: 'Paused' });
    expect((await scheduleOf(name))?.state).toMatchObject({
      paused: true,
      note: 'annotation nodemaintenance.k8s.io/paused of the MaintenanceWindow',
    });
    expect((await windowNow(name))?.status?.nextTime).toBeUndefined();
    const generation = (await windowNow(name))?.metadata.generation;
    expect((await healed(name)).metadata).toMatchObject({
      generation,
      annotations: { 'nodemaintenance.k8s.io/paused': 'disk' },
    });
    await patched(name, { approval: 'PerWindow' });
    await condition(name, 'Valid', { status: 'True' });
    expect((await scheduleOf(name))?.state.paused).toBe(true);
    await annotated(name, { 'nodemaintenance.k8s.io/paused': null });
    await condition(name, 'Scheduled', { status: 'True' });
    expect((await scheduleOf(name))?.state.paused).toBe(false);
  });

  test('stays when it is applied again: an opening that is skipped', async () => {
    const name = await applied();
    await condition(name, 'Scheduled', { status: 'True' });
    const next = (await windowNow(name))?.status?.nextTime ?? '';
    const date = next.slice(0, 10);
    await annotated(name, { 'nodemaintenance.k8s.io/skipped-dates': date });
    const isSkipped = async () => {
      expect(Date.parse((await windowNow(name))?.status?.nextTime ?? '')).toBeGreaterThan(Date.parse(next));
      expect((await scheduleOf(name))?.info.nextActionTimes[0]?.toISOString()).not.toContain(date);
    };
    await eventually('the opening to be skipped', isSkipped);
    const generation = (await windowNow(name))?.metadata.generation;
    expect((await healed(name)).metadata.generation).toBe(generation);
    await isSkipped();
    await annotated(name, { 'nodemaintenance.k8s.io/skipped-dates': null });
    await eventually('the opening to be the next', async () =>
      expect((await windowNow(name))?.status?.nextTime).toBe(next),
    );
  });
});

test('a Schedule that a user paused in Temporal stays paused, and the window reports it', async () => {
  const name = await applied();
  await condition(name, 'Scheduled', { status: 'True' });
  await handleOf(name).pause('freeze until Monday');
  await patched(name, { approval: 'PerWindow' });
  await condition(name, 'Scheduled', {
    status: 'False',
    reason: 'PausedInTemporal',
    message:
      'The Schedule was paused in Temporal (freeze until Monday): the window does not open until the Schedule is unpaused there.',
  });
  expect((await scheduleOf(name))?.state.paused).toBe(true);
});

test('deleting a window deletes its Schedule', async () => {
  const name = await applied();
  await condition(name, 'Scheduled', { status: 'True' });
  await deleted(name);
  expect(await scheduleOf(name)).toBeUndefined();
});

test('deleting a window deletes its Schedule even if its finalizer was removed', async () => {
  const name = await applied();
  await condition(name, 'Scheduled', { status: 'True' });
  const { uid = '' } = (await windowNow(name))?.metadata ?? {};
  relay.network.down();
  await c.admin.delete(resources.maintenanceWindows, { name }, { uid });
  await c.admin.mergePatch(resources.maintenanceWindows, { name }, { metadata: { uid, finalizers: null } });
  expect(await windowNow(name)).toBeUndefined();
  relay.network.up();
  await eventually('the Schedule to be deleted', async () => expect(await scheduleOf(name)).toBeUndefined());
});

test('deleting a window while a drain is paused keeps the node cordoned, and an Event reports it', async () => {
  const name = await applied();
  await condition(name, 'Scheduled', { status: 'True' });
  const maintenance = c.maintenance({ nodes: ['nowhere'], stage: 'Drain' });
  const labels = { [WINDOW_LABEL]: name };
  const annotations = { [WindowAnnotation.Node]: 'nowhere' };
  const { metadata } = await c.applied({
    ...maintenance,
    metadata: { ...maintenance.metadata, labels, annotations },
  });
  await deleted(name);
  await events.flush();
  const left = await c.maintenanceNow(metadata.name);
  expect(left).toMatchObject({ metadata: { uid: metadata.uid }, spec: { stage: 'Drain' } });
  expect(left.metadata.deletionTimestamp).toBeUndefined();
  expect(await c.eventsAbout(left)).toEqual([
    `NodeKeptCordoned: Window ${name} was deleted, and node nowhere stays cordoned: when nothing works on it any more, run kubectl delete nm ${metadata.name} to uncordon it.`,
  ]);
});

test('while Temporal is unavailable, condition Scheduled is Unknown, and a deleted window stays until its Schedule is deleted', async () => {
  const [edited, gone] = [await applied(), await applied()];
  for (const name of [edited, gone]) await condition(name, 'Scheduled', { status: 'True' });
  relay.network.down();
  await patched(edited, { approval: 'PerWindow' });
  await c.admin.delete(
    resources.maintenanceWindows,
    { name: gone },
    { uid: (await windowNow(gone))?.metadata.uid ?? '' },
  );
  for (const name of [edited, gone])
    await condition(name, 'Scheduled', {
      status: 'Unknown',
      reason: 'TemporalUnavailable',
      message: expect.stringContaining('Temporal is unavailable'),
    });
  expect((await windowNow(edited))?.status?.nextTime).toBeUndefined();
  expect(await scheduleOf(gone)).toBeDefined();
  relay.network.up();
  await condition(edited, 'Scheduled', { status: 'True' });
  await eventually('the other window to be gone', async () => expect(await windowNow(gone)).toBeUndefined());
  expect(await scheduleOf(gone)).toBeUndefined();
});

test('a window that is created during a known outage is validated, and scheduled when the outage ends', async () => {
  availability.down('this cluster has not been claimed yet');
  const name = await applied();
  await condition(name, 'Valid', { status: 'True' });
  await condition(name, 'Scheduled', {
    status: 'Unknown',
    reason: 'TemporalUnavailable',
    message: 'Temporal is unavailable: this cluster has not been claimed yet',
  });
  // Temporal answers, and nothing was sent to it.
  expect(await scheduleOf(name)).toBeUndefined();
  availability.up();
  await condition(name, 'Scheduled', { status: 'True' });
});

test('a control loop that waits for Temporal has no reconciliation in progress, which would look stuck', async () => {
  const done = new Set<string>();
  const queues: WorkQueueObserver = {
    started: () => () => undefined,
    taken: () => undefined,
    done: (queue) => done.add(queue),
    retried: () => undefined,
  };
  const outage = new SettableAvailability({ reason: 'no response', sinceMs: Date.now() });
  const stop = new AbortController();
  const cluster = { ...c.cluster, queues };
  const running = runWindowsController({ ...deps, cluster, availability: outage }, stop.signal);
  await eventually('the clean-up to be put off', () => expect(done).toContain('window-cleanup'));
  stop.abort();
  await running;
  // The controller of the other tests corrects what this one has reported of their windows.
  availability.up();
});

test('a Schedule that a user edited in Temporal is reset, and an Event reports it', async () => {
  const name = await applied();
  await condition(name, 'Scheduled', { status: 'True' });
  await handleOf(name).update((before) => ({ ...before, spec: { cronExpressions: ['0 3 * * *'] } }));
  await patched(name, { approval: 'PerWindow' });
  const found = await eventuallyHolds(
    'the Schedule to be reset',
    () => scheduleOf(name),
    (schedule) => {
      const [next] = schedule?.info.nextActionTimes ?? [];
      return next?.getUTCDay() === 6;
    },
  );
  expect(found?.action).toMatchObject({ args: [{ name }] });
  const window = (await windowNow(name)) as MaintenanceWindow;
  await eventually('the Event', async () =>
    expect((await c.eventsAbout(window)).join('\n')).toContain('ScheduleRepaired'),
  );
});

test('a Schedule is not written again while neither the window nor the Schedule changes', async () => {
  const name = await applied({ template: { reason: 'ticket 4711' } });
  await condition(name, 'Scheduled', { status: 'True' });
  const written = (await scheduleOf(name))?.info.lastUpdatedAt;
  for (let maxFailures = 2; maxFailures < 7; maxFailures += 1) {
    await patched(name, { rollout: { maxFailures } });
    await condition(name, 'Scheduled', { status: 'True' });
  }
  expect((await scheduleOf(name))?.info.lastUpdatedAt).toEqual(written);
});

test('if a run ends without closing its window, a new run starts', async () => {
  const name = await applied();
  await condition(name, 'Scheduled', { status: 'True' });
  const workflowId = `${windowWorkflowIdOf(name)}-lost`;
  const times = { start: '2026-11-21T12:00:00Z', end: '2099-01-01T00:00:00Z' };
  const active = { workflowId, runId: 'lost', ...times, nodes: [] };
  const options = { subresource: 'status' };
  await c.admin.mergePatch(resources.maintenanceWindows, { name }, { status: { active } }, options);
  const run = lab.client.workflow.getHandle(workflowId);
  await eventually('the run', async () => expect((await run.describe()).status.name).toBe('RUNNING'));
  const closed = { status: { active: null } };
  await c.admin.mergePatch(resources.maintenanceWindows, { name }, closed, options);
  await run.terminate('the test is over');
});

test('an opening that was recorded under another value of --cluster continues under the own id of the window', async () => {
  const name = await applied();
  await condition(name, 'Scheduled', { status: 'True' });
  const times = { start: '2026-11-21T12:00:00Z', end: '2099-01-01T00:00:00Z' };
  const former = `berlin-1.${windowWorkflowIdOf(name)}`;
  const active = { workflowId: former, runId: 'former', ...times, nodes: [] };
  const options = { subresource: 'status' };
  await c.admin.mergePatch(resources.maintenanceWindows, { name }, { status: { active } }, options);
  const run = lab.client.workflow.getHandle(windowWorkflowIdOf(name));
  await eventually('the run', async () => expect((await run.describe()).status.name).toBe('RUNNING'));
  await c.admin.mergePatch(resources.maintenanceWindows, { name }, { status: { active: null } }, options);
  await run.terminate('the test is over');
});

test('a run that cannot continue is reported on its window, and is replaced by one that continues until its end', async () => {
  const name = await applied();
  await condition(name, 'Scheduled', { status: 'True' });
  await lab.worker(TASK_QUEUE, {}, withBrokenWorkflow((await workflowBundle()).code, 'maintenanceWindow'));
  const workflowId = `${windowWorkflowIdOf(name)}-broken`;
  const times = { start: '2026-11-21T12:00:00Z', end: '2099-01-01T00:00:00Z' };
  const active = { workflowId, runId: 'broken', ...times, nodes: [] };
  const options = { subresource: 'status' };
  await c.admin.mergePatch(resources.maintenanceWindows, { name }, { status: { active } }, options);
  const run = lab.client.workflow.getHandle(workflowId);
  const first = await eventually('the run', async () => (await run.describe()).runId);
  const { message, lastTransitionTime } = await condition(name, 'Stalled', {
    status: 'True',
    reason: 'WorkflowTaskFailed',
    message: expect.stringContaining('its workflow task fails again and again (a broken build).'),
  });
  const replacedAt = new Date(Date.parse(lastTransitionTime) + 3_000).toISOString();
  expect(message).toContain(`The worker terminates it at ${replacedAt}.`);
  await eventually('another run', async () => {
    const { runId, status } = await run.describe();
    expect({ status: status.name, isFirst: runId === first }).toEqual({ status: 'RUNNING', isFirst: false });
  });
  expect((await lab.client.workflow.getHandle(workflowId, first).describe()).status.name).toBe('TERMINATED');
  const window = (await windowNow(name)) as MaintenanceWindow;
  await eventually('the Events', async () =>
    expect(await c.eventsAbout(window)).toEqual(
      expect.arrayContaining([`WorkflowStalled: ${message}`, expect.stringMatching(/^WindowResumed: /)]),
    ),
  );
  await lab.clear();
  const closed = { status: { active: null } };
  await c.admin.mergePatch(resources.maintenanceWindows, { name }, closed, options);
  await run.terminate('the test is over');
  await condition(name, 'Stalled', { status: 'False' });
});

test('a run that cannot open its window is reported, and is not replaced, because the window does not record it', async () => {
  const name = await applied();
  await condition(name, 'Scheduled', { status: 'True' });
  await lab.worker(TASK_QUEUE, {}, withBrokenWorkflow((await workflowBundle()).code, 'maintenanceWindow'));
  await handleOf(name).trigger();
  const runNow = async () => {
    const { action } = (await scheduleOf(name))?.info.recentActions.at(-1) ?? {};
    return lab.client.workflow.getHandle(action?.workflow.workflowId ?? '');
  };
  let isRepeated = false;
  await eventually('condition Stalled', async () => {
    const { spec, status } = (await windowNow(name)) ?? {};
    const found = status?.conditions.find(({ type }) => type === 'Stalled');
    const isBroken =
      found?.message.endsWith(
        '(a broken build). Roll back the workers to the version that ran the workflow before.',
      ) === true;
    // On a slow machine the first task may time out before it fails, and the history has only the first failure.
    if (!isRepeated && found?.message.includes('no worker finishes it in time') === true) {
      isRepeated = true;
      await (await runNow()).terminate('its first task timed out');
      await handleOf(name).trigger();
    }
    // The window is compared with its Schedule after each edit.
    if (!isBroken)
      await patched(name, { approval: spec?.approval === 'PerWindow' ? 'PerNode' : 'PerWindow' });
    expect({ ...found, isBroken }).toMatchObject({
      status: 'True',
      reason: 'WorkflowTaskFailed',
      isBroken: true,
    });
  });
  await lab.clear();
  await (await runNow()).terminate('the test is over');
  await condition(name, 'Stalled', { status: 'False' });
});

describe('a window that cannot be scheduled has no Schedule, and reports why:', () => {
  test.each([
    {
      when: 'an unknown time zone',
      spec: { schedule: { ...weekly, timeZone: 'Europe/Berlim' } },
      message: 'schedule.timeZone: unknown time zone "Europe/Berlim"',
    },
    {
      when: 'a date that does not exist',
      spec: { schedule: { ...weekly, cron: '0 2 30 2 *' } },
      message: 'schedule: the date never occurs',
    },
    {
      when: 'a year in the past',
      spec: { schedule: { timeZone: 'UTC', duration: '1h', calendar: [{ time: '02:00', years: [2020] }] } },
      message: 'schedule: all times are in the past',
    },
    {
      when: 'a duration that exceeds its period',
      spec: { schedule: { ...weekly, cron: '0 * * * *', duration: '2h' } },
      message: 'schedule.duration: 2h is longer than the 60 minutes between',
    },
    {
      when: 'a drain plan that is too long after the injected entries are added',
      spec: {
        template: {
          drainPlan: Array.from({ length: 260 }, (_, podPriority) => ({ podType: 'Default', podPriority })),
        },
      },
      message: 'template: the apiserver rejected its NodeMaintenance',
    },
    {
      when: 'a Job that the apiserver would reject',
      spec: {
        work: { type: 'Job', job: { template: { spec: { containers: [{ name: 'No Name' }] } } } },
      },
      message: 'work.job.template: the apiserver rejected its Job',
    },
    {
      when: 'a Job whose pods the apiserver would reject',
      spec: {
        work: {
          type: 'Job',
          job: { template: { spec: { hostPID: true, containers: [{ name: 'a', image: 'a' }] } } },
        },
      },
      message:
        'work.job.template: the apiserver would reject the pods of its Job, which would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)',
    },
  ])('$when', async ({ spec, message }) => {
    const name = await applied(spec);
    await condition(name, 'Valid', { status: 'False', message: expect.stringContaining(message) });
    await condition(name, 'Scheduled', { status: 'False', reason: 'InvalidSpec' });
    expect(await scheduleOf(name)).toBeUndefined();
  });

  test('a template that an admission policy of the cluster rejects', async () => {
    const admit = await rejectReason('because');
    const name = await applied({ template: { reason: 'because' } });
    await condition(name, 'Valid', {
      status: 'False',
      message: expect.stringMatching(
        /^template: the apiserver rejected its NodeMaintenance, .*the number of a ticket/,
      ),
    });
    await condition(name, 'Scheduled', { status: 'False', reason: 'InvalidSpec' });
    await admit();
  });

  test('no more when a user takes the name of the sample that the apiserver validates', async () => {
    const name = await applied();
    await condition(name, 'Valid', { status: 'True' });
    const found = await c.admin.get(resources.maintenanceWindows, { name });
    if (found === undefined) throw new Error('it was applied');
    const sample = newWindowMaintenance(found, { name: 'no-node', uid: 'none' });
    const taken = c.maintenance({ nodes: [await c.nodeNamed('n')] });
    await c.applied({ ...taken, metadata: { ...taken.metadata, name: sample.metadata.name } });
    await patched(name, { schedule: { ...weekly, cron: '0 5 * * *' } });
    await condition(name, 'Scheduled', { status: 'True' });
    expect((await windowNow(name))?.status?.schedule).toBe('0 5 * * *');
  });

  test('an existing Schedule is paused, and unpaused when the window is corrected', async () => {
    const name = await applied();
    await condition(name, 'Scheduled', { status: 'True' });
    await patched(name, { schedule: { ...weekly, timeZone: 'Nowhere/At_All' } });
    await condition(name, 'Valid', { status: 'False' });
    await condition(name, 'Scheduled', { status: 'False', reason: 'InvalidSpec' });
    expect((await scheduleOf(name))?.state.paused).toBe(true);
    await patched(name, { schedule: weekly });
    await condition(name, 'Scheduled', { status: 'True' });
    expect((await scheduleOf(name))?.state.paused).toBe(false);
  });

  test('the pause of a user outlasts the problem', async () => {
    const name = await applied();
    await condition(name, 'Scheduled', { status: 'True' });
    await handleOf(name).pause('freeze until Monday');
    await patched(name, { schedule: { ...weekly, timeZone: 'Nowhere/At_All' } });
    await condition(name, 'Valid', { status: 'False' });
    await patched(name, { schedule: weekly });
    await condition(name, 'Scheduled', { status: 'False', reason: 'PausedInTemporal' });
  });
});

describe('Temporal starts the window at its openings, including days with a change of daylight saving time:', () => {
  const year = { from: Date.parse('2027-01-01T00:00:00Z'), to: Date.parse('2028-01-01T00:00:00Z') };
  const schedules: WindowSchedule[] = [
    { cron: '30 2 * * *', timeZone: 'Europe/Berlin', duration: '1h' },
    { cron: '30 1 * * 0', timeZone: 'America/New_York', duration: '1h' },
    { cron: '30 2 * * 0', timeZone: 'America/New_York', duration: '1h', exceptions: ['2027-07-04'] },
    {
      calendar: [
        { time: '00:15', daysOfWeek: ['Saturday', 'Sunday'], months: [3, 10, 11] },
        { time: '23:45', daysOfMonth: [1, 31] },
      ],
      timeZone: 'Europe/Berlin',
      duration: '15m',
      exceptions: ['2027-10-31'],
    },
  ];

  function openings(schedule: WindowSchedule): number[] {
    const found: number[] = [];
    for (
      let at = nextOpening(schedule, year.from);
      at !== undefined && at < year.to;
      at = nextOpening(schedule, at)
    )
      found.push(at);
    return found;
  }

  test.each(schedules)('$timeZone $cron', async (schedule) => {
    const name = await applied({ schedule });
    await condition(name, 'Scheduled', { status: 'True' });
    const { startTime } = await lab.client.workflowService.listScheduleMatchingTimes({
      namespace: 'default',
      scheduleId: windowWorkflowIdOf(name),
      startTime: msToTs(year.from),
      endTime: msToTs(year.to),
    });
    const fired = startTime.map(({ seconds }) => Number(seconds) * 1_000);
    const again = fired.filter((at) => isRepeatedOpening(schedule, at));
    expect(fired.filter((at) => !again.includes(at))).toEqual(openings(schedule));
    expect(fired.length).toBeGreaterThan(40);
  });
});
