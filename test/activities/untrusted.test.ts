import type { Activities, WindowRequests } from '../../activities/contract.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { MAINTENANCE_FINALIZER, WINDOW_LABEL, WindowAnnotation } from '../../api/names.ts';
import { windowWorkflowIdOf, workflowIdOf } from '../kit/temporalNames.ts';
import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import { emptyStatus } from '../../domain/maintenance/status.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { activitiesOn, performed, refOf, scheduledBy, started, testRunId } from '../kit/activity.ts';
import { pods } from '../kit/builders.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

/** A client that runs its own worker in the Temporal namespace can schedule every activity, with any argument. */
let sandbox: Sandbox;
let c: TestCluster;
let acts: Activities;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'forged' });
  ({ activities: acts } = activitiesOn(c));
});

afterAll(async () => {
  for (const { metadata } of (await c.admin.list(resources.maintenanceWindows)).items)
    if (metadata.name.startsWith(c.namespace))
      await c.admin.delete(resources.maintenanceWindows, metadata, { uid: metadata.uid ?? '' });
  await c?.close();
  await releaseSandbox(sandbox);
});

const huge = Number.MAX_SAFE_INTEGER;
const refused = (message = '') => ({
  type: 'InvalidInput',
  nonRetryable: true,
  message: expect.stringContaining(message),
});

/** A maintenance in this stage, on a node of its own. */
async function maintenanceIn(stage: NodeMaintenanceStage) {
  const node = await c.nodeNamed('n');
  const maintenance = c.maintenance({ nodes: [node], stage, drainPlan: [pods(1000), pods(5000)] });
  if (stage !== 'Idle') maintenance.metadata.finalizers = [MAINTENANCE_FINALIZER];
  const applied = await c.applied(maintenance);
  return { node, applied, ref: refOf(applied) };
}

const isCordoned = async (node: string) => (await c.node(node)).spec.unschedulable === true;

describe('a forged reference', () => {
  test.each([
    { when: 'nothing', ref: undefined },
    { when: 'a string', ref: 'rack-7' },
    { when: 'a name of 1 MiB', ref: { name: 'x'.repeat(1_048_576), uid: 'u', generation: 1 } },
    { when: 'a negative generation', ref: { name: 'a', uid: 'u', generation: -1 } },
    { when: 'a generation that is no number', ref: { name: 'a', uid: 'u', generation: '1' } },
    { when: 'a generation of null', ref: { name: 'a', uid: 'u', generation: null } },
    { when: 'an empty UID', ref: { name: 'a', uid: '', generation: 1 } },
  ])('is rejected by every activity of a maintenance: $when', async ({ ref }) => {
    const forged = ref as never;
    for (const act of [
      () => acts.requestStage(forged, 'Complete', 'Message'),
      () => acts.recordPause(forged, false),
      () => acts.startStage(forged, 'Drain'),
      () => acts.keepCordoned(forged, 'Cordon'),
      () => acts.drain(forged, 0),
      () => acts.keepDrained(forged),
      () => acts.removeEvacuations(forged),
      () => acts.uncordonNodes(forged),
      () => acts.finish(forged),
    ])
      await expect(performed<unknown>(act)).rejects.toMatchObject(refused('name, uid and generation'));
  });

  test('of another workflow is rejected', async () => {
    const { ref } = await maintenanceIn('Cordon');
    const workflowId = 'a-workflow-of-mallory';
    const forged = () => scheduledBy({ workflowId }, () => acts.drain(ref, 0));
    await expect(performed(forged)).rejects.toMatchObject(refused('workflow id: expected'));
  });

  test('with a generation that does not exist does not block the activity', async () => {
    const { ref, node } = await maintenanceIn('Cordon');
    const cordon = started(() => acts.keepCordoned({ ...ref, generation: huge }, 'Cordon'));
    await eventually('the cordon', async () => expect(await isCordoned(node)).toBe(true));
    await c.staged(ref.name, 'Complete');
    // The run takes it for the newest, so that it accepts the stage.
    expect(await cordon.ended).toEqual({ kind: 'StageChanged', stage: 'Complete', generation: huge });
  });
});

describe('a stage that the object does not have', () => {
  test.each(['Idle', 'Complete', 'Paint', undefined, { stage: 'Idle' }])(
    'cordons nothing: %j',
    async (stage) => {
      const { ref, node } = await maintenanceIn('Idle');
      const result = await performed(() => acts.keepCordoned(ref, stage as never));
      expect(result).toEqual({ kind: 'StageChanged', stage: 'Idle', generation: 1 });
      expect(await isCordoned(node)).toBe(false);
    },
  );

  test.each(['Cordon', 'Drain', 'Complete', 'Paint'])('is not started: %s', async (stage) => {
    const { ref, applied } = await maintenanceIn('Idle');
    const written = await c.requests.writesOf(async () => {
      const { observed } = await performed(() => acts.startStage(ref, stage as never));
      expect(observed).toEqual({ kind: 'StageChanged', stage: 'Idle', generation: 1 });
    });
    expect(written).toEqual([]);
    expect((await c.maintenanceNow(applied.metadata.name)).metadata.finalizers).toBeUndefined();
  });

  test('is not requested by a claim that the object has it', async () => {
    const { ref } = await maintenanceIn('Cordon');
    const observed = await performed(() => acts.requestStage(ref, 'Complete', 'Observation'));
    expect(observed).toEqual({ kind: 'StageChanged', stage: 'Cordon', generation: 1 });
  });

  test.each([undefined, null, 'Worker', { by: 'Observation' }])(
    'is not requested without the permission to maintain the nodes, regardless of who asks: %j',
    async (by) => {
      const { ref, node } = await maintenanceIn('Cordon');
      await c.temporalMayDelete(['another-node']);
      try {
        await eventually('the rejection', () =>
          expect(performed(() => acts.requestStage(ref, 'Drain', by as never))).rejects.toMatchObject(
            refused(`may not delete node "${node}"`),
          ),
        );
      } finally {
        await c.temporalMayDelete();
      }
    },
  );

  test.each(['Cordon', 'Drain'] as const)(
    'ends nothing: in %s no node is uncordoned, no Evacuation removed, and the finalizer stays',
    async (stage) => {
      const { ref, node } = await maintenanceIn(stage);
      const pod = await c.podOn(node, { priority: 1000 });
      await c.applied(c.evacuation(pod));
      await c.cordoned(node);
      const written = await c.requests.writesOf(async () => {
        for (const act of [acts.removeEvacuations, acts.uncordonNodes, acts.finish])
          await expect(performed<unknown>(() => act(ref))).rejects.toMatchObject(
            refused(`is in stage ${stage}`),
          );
      });
      expect(written).toEqual([]);
    },
  );
});

describe('a maintenance that is complete', () => {
  test('is not run again: a node that was cordoned afterwards stays cordoned', async () => {
    const { ref, node, applied } = await maintenanceIn('Complete');
    await performed(() => acts.startStage(ref, 'Complete'));
    await performed(() => acts.finish(ref));
    await c.cordoned(node);
    const written = await c.requests.writesOf(async () => {
      await performed(() => acts.startStage(ref, 'Complete'));
      await performed(() => acts.removeEvacuations(ref));
      await performed(() => acts.uncordonNodes(ref));
      await performed(() => acts.finish(ref));
    });
    expect(written).toEqual([]);
    expect(await isCordoned(node)).toBe(true);
    expect((await c.maintenanceNow(applied.metadata.name)).metadata.finalizers).toBeUndefined();
  });

  test('is not finished before its nodes are uncordoned', async () => {
    const { ref, node, applied } = await maintenanceIn('Cordon');
    const cordon = started(() => acts.keepCordoned(ref, 'Cordon'));
    await eventually('the cordon', async () => expect(await isCordoned(node)).toBe(true));
    await c.staged(ref.name, 'Complete');
    await cordon.ended;
    await c.caughtUpWith({ ...(await c.node(node)), kind: 'Node' });
    await performed(() => acts.finish(ref));
    expect(await isCordoned(node)).toBe(false);
    expect((await c.maintenanceNow(applied.metadata.name)).metadata.finalizers).toBeUndefined();
  });
});

describe('a drain', () => {
  test.each([1, 11, huge, -1, 0.5, Number.NaN, '5', null, [1], { position: 1 }])(
    'is not moved ahead in its plan by the position %j',
    async (position) => {
      const { ref, node } = await maintenanceIn('Drain');
      const first = await c.podOn(node, { priority: 1000 });
      const second = await c.podOn(node, { priority: 5000 });
      const drain = started(() => acts.drain(ref, position as never));
      await c.eventuallyEvacuating(first);
      expect(await c.evacuationOf(second)).toBeUndefined();
      await drain.cancelled();
    },
  );

  test('that is not done is not treated as drained', async () => {
    const { ref, node } = await maintenanceIn('Drain');
    const first = await c.podOn(node, { priority: 1000 });
    const second = await c.podOn(node, { priority: 5000 });
    const drain = started(() => acts.keepDrained(ref));
    await c.eventuallyEvacuating(first);
    expect(await c.evacuationOf(second)).toBeUndefined();
    await drain.cancelled();
  });

  test('that is paused on the object requests nothing until it is resumed', async () => {
    const { ref, node } = await maintenanceIn('Drain');
    const pod = await c.podOn(node, { priority: 1000 });
    await performed(() => acts.recordPause(ref, true));
    await c.caughtUpWith(await c.maintenanceNow(ref.name));
    expect(await performed(() => acts.drain(ref, 0))).toEqual({ kind: 'PauseChanged', paused: true });
    expect(await c.evacuationOf(pod)).toBeUndefined();
    await performed(() => acts.recordPause(ref, false));
    const drain = started(() => acts.drain(ref, 0));
    await c.eventuallyEvacuating(pod);
    await drain.cancelled();
  });
});

/** A window over these nodes, whose status has this opening. */
async function windowOf(nodes: string[], active: object | null, differs: object = {}) {
  const name = c.named('window');
  const named = (node: string) => ({ key: 'metadata.name', operator: 'In' as const, values: [node] });
  const { metadata } = await c.admin.create(resources.maintenanceWindows, {
    metadata: { name },
    spec: {
      schedule: { cron: '0 2 * * 6', timeZone: 'UTC', duration: '4h' },
      nodeSelector: { nodeSelectorTerms: nodes.map((node) => ({ matchFields: [named(node)] })) },
      ...differs,
    } as MaintenanceWindow['spec'],
  });
  const options = { subresource: 'status' };
  const whole = active && { ...opening(name), ...active };
  await c.admin.mergePatch(resources.maintenanceWindows, { name }, { status: { active: whole } }, options);
  await eventually('the window in the informer', () =>
    expect(c.cluster.windows.get(name)?.status?.active).toEqual(whole ?? undefined),
  );
  return { name, uid: metadata.uid ?? '' };
}

const opening = (name: string) => ({
  workflowId: windowWorkflowIdOf(name),
  runId: testRunId,
  start: '2026-01-01T00:00:00.000Z',
  end: '2099-01-01T00:00:00.000Z',
  nodes: [],
});

/** Requests of a workflow with forged state. */
const everything: WindowRequests = {
  end: '2099-12-31T00:00:00.000Z',
  ended: false,
  cancelled: false,
  paused: false,
  approved: true,
  approvedNodes: ['all'],
};

describe('a window', () => {
  const startedNodes = async ({ name }: { name: string }) =>
    (await c.admin.list(resources.nodeMaintenances, { labelSelector: `${WINDOW_LABEL}=${name}` })).items
      .length;

  test('that needs approval starts no node that only its workflow calls approved', async () => {
    const window = await windowOf([await c.nodeNamed('n')], {}, { approval: 'PerWindow' });
    const step = await performed(() => acts.rollOut(window, everything, undefined));
    expect(step).toMatchObject({ state: { waiting: { reason: 'ApprovalNeeded' }, inProgress: [] } });
    expect(await startedNodes(window)).toBe(0);
  });

  test.each([
    { when: 'has ended', active: { end: '2026-01-01T04:00:00.000Z' }, waits: 'WindowEnded' },
    { when: 'is paused', active: { requests: { paused: true } }, waits: 'Paused' },
    { when: 'is cancelled', active: { requests: { cancelled: true } }, waits: 'WindowEnded' },
  ])('that $when on its object starts no node, whatever its workflow says', async ({ active, waits }) => {
    const window = await windowOf([await c.nodeNamed('n')], active);
    const step = await performed(() => acts.rollOut(window, everything, undefined));
    expect(step).toMatchObject({ state: { waiting: { reason: waits }, inProgress: [] } });
    expect(await startedNodes(window)).toBe(0);
  });

  test.each([
    { when: 'is closed', active: null },
    { when: 'is open in another workflow', active: { workflowId: 'maintenance-window-another' } },
  ])('that $when is not maintained, approved or closed', async ({ active }) => {
    const window = await windowOf([await c.nodeNamed('n')], active);
    const notOpen = refused('is not open in workflow');
    await expect(performed(() => acts.rollOut(window, everything, undefined))).rejects.toMatchObject(notOpen);
    await expect(performed(() => acts.authorizeRequest(window, { approved: true }))).rejects.toMatchObject(
      notOpen,
    );
    await performed(() => acts.closeWindow(window, testRunId));
    const found = await c.admin.get(resources.maintenanceWindows, { name: window.name });
    expect(found?.status?.active).toEqual(active === null ? undefined : expect.objectContaining(active));
    expect(await startedNodes(window)).toBe(0);
  });

  test.each([
    undefined,
    null,
    'approve',
    [],
    { approved: 'yes' },
    { approvedNodes: 'all' },
    { approvedNodes: [7] },
    { end: '2099' },
  ])('records no request of another form: %j', async (request) => {
    const window = await windowOf([await c.nodeNamed('n')], {}, { approval: 'PerWindow' });
    await expect(performed(() => acts.authorizeRequest(window, request as never))).rejects.toMatchObject(
      refused('expected approved, approvedNodes, paused or cancelled'),
    );
  });

  test('is not closed before its end while nodes remain', async () => {
    const window = await windowOf([await c.nodeNamed('n')], {}, { approval: 'PerWindow' });
    await performed(() => acts.rollOut(window, everything, undefined));
    await expect(performed(() => acts.closeWindow(window, testRunId))).rejects.toMatchObject(
      refused('is open until 2099-01-01T00:00:00.000Z'),
    );
  });

  test.each([undefined, null, 'x', [], { sentSignals: 'all' }, { sentSignals: [null, { signal: 'kill' }] }])(
    'ignores requests and a previous state of any form: %j',
    async (forged) => {
      const window = await windowOf([await c.nodeNamed('n')], {}, { approval: 'PerWindow' });
      const step = await performed(() => acts.rollOut(window, forged as never, forged as never));
      expect(step).toMatchObject({ kind: 'Progressed', state: { remaining: 1 } });
    },
  );

  test('alone resumes the drains that it holds, unless the Temporal user may maintain the nodes', async () => {
    const node = await c.nodeNamed('n');
    const window = await windowOf([node], null);
    const maintenance = c.maintenance({ nodes: [node], stage: 'Drain' });
    maintenance.metadata.labels = { [WINDOW_LABEL]: window.name };
    maintenance.metadata.annotations = { [WindowAnnotation.PausedByWindow]: 'true' };
    const held = await c.applied(maintenance);
    const conditions = [
      {
        type: 'Paused',
        status: 'True',
        reason: 'P',
        message: '',
        lastTransitionTime: '2026-01-01T00:00:00Z',
      },
    ];
    await c.withStatus(held, { ...emptyStatus, conditions });
    const resume = () =>
      performed(() =>
        scheduledBy({ workflowId: workflowIdOf(held.metadata.name) }, () =>
          acts.recordPause(refOf(held), false),
        ),
      );
    await c.temporalMayDelete(['another-node']);
    try {
      await eventually('the rejection', () =>
        expect(resume()).rejects.toMatchObject(refused(`may not delete node "${node}"`)),
      );
      const active = opening(window.name);
      const options = { subresource: 'status' };
      await c.admin.mergePatch(resources.maintenanceWindows, window, { status: { active } }, options);
      await resume();
      const { status } = await c.maintenanceNow(held.metadata.name);
      expect(isTrue(status?.conditions, 'Paused')).toBe(false);
    } finally {
      await c.temporalMayDelete();
    }
  });
});
