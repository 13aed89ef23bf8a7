import { COMPLETED_LABEL, MAINTENANCE_FINALIZER, TEMPORAL_USER } from '../../../api/names.ts';
import type { NodeMaintenanceActivities } from '../../../activities/contract.ts';
import { reviewNodeDeletion } from '../../../kube/authorization.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { activitiesOn, performed, performedTwice, refOf } from '../../kit/activity.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let acts: NodeMaintenanceActivities;
let flushEvents: () => Promise<void>;
let node: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'stage' });
  ({ activities: acts, flushEvents } = activitiesOn(c));
  node = await c.nodeNamed('n');
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const missing = { name: 'missing', uid: 'missing', generation: 1 };

describe('requestStage', () => {
  test('writes the stage and returns its generation, and changes nothing the second time', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node] }));
    const request = () => acts.requestStage(refOf(applied), 'Cordon', 'Message');
    const first = await performed(request);
    expect(first).toEqual({ kind: 'StageChanged', stage: 'Cordon', generation: 2 });
    const written = await c.maintenanceNow(applied.metadata.name);
    expect(await performed(request)).toEqual(first);
    expect(await c.maintenanceNow(applied.metadata.name)).toEqual(written);
  });

  // "When a deletion of the NodeMaintenance object is detected, its .spec.stage is set to Complete." (KEP-4212 > Finalizers)
  test('sets the stage of an object that is being deleted to Complete, and keeps its finalizers', async () => {
    const maintenance = c.maintenance({ nodes: [node], stage: 'Drain' });
    maintenance.metadata.finalizers = [MAINTENANCE_FINALIZER];
    const applied = await c.applied(maintenance);
    await c.deleted(applied);
    const detected = () => acts.requestStage(refOf(applied), 'Complete', 'Observation');
    expect(await performedTwice(c, detected)).toMatchObject({ kind: 'StageChanged', stage: 'Complete' });
    const { metadata, spec } = await c.maintenanceNow(applied.metadata.name);
    expect(spec.stage).toBe('Complete');
    expect(metadata.finalizers).toEqual([MAINTENANCE_FINALIZER]);
  });

  test('returns Gone if the object is gone, or another object has its name', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node] }));
    expect(await performed(() => acts.requestStage(missing, 'Complete', 'Message'))).toEqual({
      kind: 'Gone',
    });
    const previous = { ...refOf(applied), uid: 'previous' };
    expect(await performed(() => acts.requestStage(previous, 'Complete', 'Message'))).toEqual({
      kind: 'Gone',
    });
    expect((await c.maintenanceNow(applied.metadata.name)).spec.stage).toBe('Idle');
  });

  test("fails without retry, with the apiserver's message, if the stage would go back", async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    await expect(
      performed(() => acts.requestStage(refOf(applied), 'Cordon', 'Message')),
    ).rejects.toMatchObject({
      type: 'Invalid',
      nonRetryable: true,
      message: expect.stringContaining('stage cannot go from Drain back to Cordon'),
    });
  });
});

describe('requestStage by a message from Temporal', () => {
  test('is rejected without the permission to delete the nodes; nothing changes, and the run continues', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    await c.temporalMayDelete(['another-node']);
    try {
      const { kube } = c.cluster;
      await eventually('the right to be gone', async () =>
        expect(await reviewNodeDeletion(kube, { username: TEMPORAL_USER }, [node])).toMatchObject({
          kind: 'Denied',
        }),
      );
      await expect(
        performed(() => acts.requestStage(refOf(applied), 'Complete', 'Message')),
      ).rejects.toMatchObject({
        type: 'InvalidInput',
        nonRetryable: true,
        message: expect.stringContaining(`may not delete node "${node}"`),
      });
      expect((await c.maintenanceNow(applied.metadata.name)).spec.stage).toBe('Cordon');
      expect(await performed(() => acts.requestStage(refOf(applied), 'Cordon', 'Message'))).toMatchObject({
        kind: 'StageChanged',
      });
      const observed = await performed(() => acts.requestStage(refOf(applied), 'Complete', 'Observation'));
      expect(observed).toMatchObject({ kind: 'StageChanged', stage: 'Cordon' });
    } finally {
      await c.temporalMayDelete();
    }
  });
});

test('requestStage by a message is rejected without the permission to delete a node that is still held', async () => {
  const held = await c.nodeNamed('held');
  const applied = await c.withStatus(await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' })), {
    nodeStatuses: [{ nodeRef: { name: held }, unschedulableBefore: false }],
    nodes: 1,
  });
  await c.temporalMayDelete([node]);
  try {
    await eventually('the permission to be gone', () =>
      expect(performed(() => acts.requestStage(refOf(applied), 'Complete', 'Message'))).rejects.toMatchObject(
        { message: expect.stringContaining(`may not delete node "${held}"`) },
      ),
    );
    expect((await c.maintenanceNow(applied.metadata.name)).spec.stage).toBe('Cordon');
  } finally {
    await c.temporalMayDelete();
  }
});

describe('recordPause', () => {
  test('is written to a condition, once', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    const { name } = applied.metadata;
    await performedTwice(c, () => acts.recordPause(refOf(applied), true));
    expect((await c.statusOf(name)).conditions).toMatchObject([
      { type: 'Paused', status: 'True', reason: 'PauseRequested' },
    ]);
    await performedTwice(c, () => acts.recordPause(refOf(applied), false));
    expect((await c.statusOf(name)).conditions).toMatchObject([
      { type: 'Paused', status: 'False', reason: 'Resumed' },
    ]);
  });

  test('says that no generation is observed that does not exist, whichever the run names', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    const generation = Number.MAX_SAFE_INTEGER;
    await performed(() => acts.recordPause({ ...refOf(applied), generation }, true));
    expect((await c.statusOf(applied.metadata.name)).observedGeneration).toBe(1);
  });

  test('does nothing for an object that is gone', async () => {
    await performedTwice(c, () => acts.recordPause(missing, true));
  });
});

describe('startStage', () => {
  test('adds no finalizer in Idle: the object can be deleted at once', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node] }));
    const start = async () => (await acts.startStage(refOf(applied), 'Idle')).nodes;
    expect(await performedTwice(c, start)).toEqual([node]);
    const { metadata, status } = await c.maintenanceNow(applied.metadata.name);
    expect(metadata.finalizers).toBeUndefined();
    expect(status).toMatchObject({ stageStatuses: [{ name: 'Idle' }], nodes: 1, observedGeneration: 1 });
  });

  test.each(['Cordon', 'Drain', 'Complete'] as const)(
    'adds the finalizer in %s, keeps other finalizers, and records one Event',
    async (stage) => {
      const maintenance = c.maintenance({ nodes: [node], stage });
      maintenance.metadata.finalizers = ['example.com/theirs'];
      const applied = await c.applied(maintenance);
      await performedTwice(c, async () => (await acts.startStage(refOf(applied), stage)).nodes);
      const { metadata, status } = await c.maintenanceNow(applied.metadata.name);
      expect(metadata.finalizers).toEqual(['example.com/theirs', MAINTENANCE_FINALIZER]);
      expect(status?.stageStatuses.map(({ name }) => name)).toEqual([stage]);
      await flushEvents();
      expect(await c.eventsAbout(applied)).toEqual([
        `StageStarted: Stage ${stage} started; 1 node selected.`,
      ]);
    },
  );

  test('removes the label of a completed maintenance from a copy, and keeps other labels', async () => {
    const maintenance = c.maintenance({ nodes: [node], stage: 'Drain' });
    maintenance.metadata.finalizers = [MAINTENANCE_FINALIZER];
    maintenance.metadata.labels = { team: 'shop' };
    const applied = await c.applied(maintenance);
    // As before the policy is installed that rejects it.
    const labels = { [COMPLETED_LABEL]: 'true' };
    const { name } = applied.metadata;
    await c.cluster.kube.mergePatch(resources.nodeMaintenances, { name }, { metadata: { labels } });
    await performedTwice(c, async () => (await acts.startStage(refOf(applied), 'Cordon')).nodes);
    const { metadata } = await c.maintenanceNow(applied.metadata.name);
    expect(metadata.labels).toEqual({ team: 'shop' });
  });

  test('keeps the time of the first start of each stage', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    await performed(() => acts.startStage(refOf(applied), 'Cordon'));
    const before = await c.statusOf(applied.metadata.name);
    await performed(() => acts.startStage(refOf(applied), 'Drain'));
    const { stageStatuses } = await c.statusOf(applied.metadata.name);
    expect(stageStatuses).toEqual([...before.stageStatuses, expect.objectContaining({ name: 'Drain' })]);
  });

  test('adds no finalizer to an object that is being deleted, because the apiserver would reject it', async () => {
    const maintenance = c.maintenance({ nodes: [node], stage: 'Cordon' });
    maintenance.metadata.finalizers = ['example.com/theirs'];
    const applied = await c.applied(maintenance);
    await c.deleted(applied);
    await performedTwice(c, async () => (await acts.startStage(refOf(applied), 'Complete')).nodes);
    const { metadata } = await c.maintenanceNow(applied.metadata.name);
    expect(metadata.finalizers).toEqual(['example.com/theirs']);
  });

  test('selects no node for an object that is gone', async () => {
    expect(await performedTwice(c, () => acts.startStage(missing, 'Cordon'))).toEqual({
      nodes: [],
      observed: { kind: 'Gone' },
    });
  });
});

describe('finish', () => {
  test('removes our finalizer, labels the object as complete, and records one Event', async () => {
    const maintenance = c.maintenance({ nodes: [node], stage: 'Complete' });
    maintenance.metadata.finalizers = [MAINTENANCE_FINALIZER, 'example.com/theirs'];
    const applied = await c.applied(maintenance);
    await performedTwice(c, () => acts.finish(refOf(applied)));
    const { metadata } = await c.maintenanceNow(applied.metadata.name);
    expect(metadata.finalizers).toEqual(['example.com/theirs']);
    expect(metadata.labels).toEqual({ [COMPLETED_LABEL]: 'true' });
    const { items } = await c.admin.list(resources.events, {
      namespace: 'default',
      fieldSelector: `involvedObject.uid=${metadata.uid}`,
    });
    expect(items.map(({ reason, count }) => ({ reason, count }))).toEqual([
      { reason: 'Completed', count: 1 },
    ]);
  });

  test('ends an object that was deleted', async () => {
    const maintenance = c.maintenance({ nodes: [node], stage: 'Complete' });
    maintenance.metadata.finalizers = [MAINTENANCE_FINALIZER];
    const applied = await c.applied(maintenance);
    await c.deleted(applied);
    await performedTwice(c, () => acts.finish(refOf(applied)));
    await eventually('the object to be gone', async () => {
      const { name } = applied.metadata;
      expect(await c.admin.get(resources.nodeMaintenances, { name })).toBeUndefined();
    });
  });
});
