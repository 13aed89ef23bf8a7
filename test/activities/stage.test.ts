import { MAINTENANCE_FINALIZER, TEMPORAL_USER } from '../../api/names.ts';
import type { NodeMaintenanceActivities } from '../../activities/contract.ts';
import { mayDeleteNodes } from '../../kube/authorization.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { activitiesOn, performed, performedTwice, refOf } from '../kit/activity.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let acts: NodeMaintenanceActivities;
let told: () => Promise<void>;
let node: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'stage' });
  ({ activities: acts, told } = activitiesOn(c));
  node = await c.nodeNamed('n');
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const nobody = { name: 'nobody', uid: 'of-nobody', generation: 1 };

describe('requestStage', () => {
  test('writes the stage and answers with the generation that has it; again it changes nothing', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node] }));
    const request = () => acts.requestStage(refOf(applied), 'Cordon');
    const first = await performed(request);
    expect(first).toEqual({ kind: 'StageChanged', stage: 'Cordon', generation: 2 });
    const written = await c.maintenanceNow(applied.metadata.name);
    expect(await performed(request)).toEqual(first);
    expect(await c.maintenanceNow(applied.metadata.name)).toEqual(written);
  });

  test('answers Gone when the object is gone, and when a namesake has its place', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node] }));
    expect(await performed(() => acts.requestStage(nobody, 'Complete'))).toEqual({ kind: 'Gone' });
    const former = { ...refOf(applied), uid: 'of-the-former' };
    expect(await performed(() => acts.requestStage(former, 'Complete'))).toEqual({ kind: 'Gone' });
    expect((await c.maintenanceNow(applied.metadata.name)).spec.stage).toBe('Idle');
  });

  test("fails for good, in the apiserver's words, when the stage would go back", async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    await expect(performed(() => acts.requestStage(refOf(applied), 'Cordon'))).rejects.toMatchObject({
      type: 'Invalid',
      nonRetryable: true,
      message: expect.stringContaining('stage cannot go from Drain back to Cordon'),
    });
  });
});

describe('requestStage by a message from Temporal', () => {
  test('is refused to those who may not delete the nodes; nothing changes, and the run itself goes on', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    await c.temporalMayDelete(['another-node']);
    try {
      const { kube } = c.cluster;
      await eventually('the right to be gone', async () =>
        expect(await mayDeleteNodes(kube, { username: TEMPORAL_USER }, [node])).toMatchObject({
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
      const byTheRun = await performed(() => acts.requestStage(refOf(applied), 'Complete'));
      expect(byTheRun).toMatchObject({ kind: 'StageChanged', stage: 'Complete' });
    } finally {
      await c.temporalMayDelete();
    }
  });
});

describe('recordPause', () => {
  test('is a condition that people see, and is written once', async () => {
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

  test('of an object that is gone does nothing', async () => {
    await performedTwice(c, () => acts.recordPause(nobody, true));
  });
});

describe('beginStage', () => {
  test('in Idle places no finalizer: the object can be deleted at once', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node] }));
    const begun = async () => (await acts.beginStage(refOf(applied), 'Idle')).nodes;
    expect(await performedTwice(c, begun)).toEqual([node]);
    const { metadata, status } = await c.maintenanceNow(applied.metadata.name);
    expect(metadata.finalizers).toBeUndefined();
    expect(status).toMatchObject({ stageStatuses: [{ name: 'Idle' }], nodes: 1, observedGeneration: 1 });
  });

  test.each(['Cordon', 'Drain', 'Complete'] as const)(
    'places the finalizer in %s, beside those of others, and tells of the stage once',
    async (stage) => {
      const maintenance = c.maintenance({ nodes: [node], stage });
      maintenance.metadata.finalizers = ['example.com/theirs'];
      const applied = await c.applied(maintenance);
      await performedTwice(c, async () => (await acts.beginStage(refOf(applied), stage)).nodes);
      const { metadata, status } = await c.maintenanceNow(applied.metadata.name);
      expect(metadata.finalizers).toEqual(['example.com/theirs', MAINTENANCE_FINALIZER]);
      expect(status?.stageStatuses.map(({ name }) => name)).toEqual([stage]);
      await told();
      expect(await c.eventsAbout(applied)).toEqual([
        `StageStarted: Stage ${stage} started; 1 nodes are selected.`,
      ]);
    },
  );

  test('keeps the time at which each stage first began', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    await performed(() => acts.beginStage(refOf(applied), 'Cordon'));
    const before = await c.statusOf(applied.metadata.name);
    await performed(() => acts.beginStage(refOf(applied), 'Drain'));
    const { stageStatuses } = await c.statusOf(applied.metadata.name);
    expect(stageStatuses).toEqual([...before.stageStatuses, expect.objectContaining({ name: 'Drain' })]);
  });

  test('of an object that is being deleted places no finalizer, which the apiserver would refuse', async () => {
    const maintenance = c.maintenance({ nodes: [node], stage: 'Cordon' });
    maintenance.metadata.finalizers = ['example.com/theirs'];
    const applied = await c.applied(maintenance);
    await c.deleted(applied);
    await performedTwice(c, async () => (await acts.beginStage(refOf(applied), 'Complete')).nodes);
    const { metadata } = await c.maintenanceNow(applied.metadata.name);
    expect(metadata.finalizers).toEqual(['example.com/theirs']);
  });

  test('of an object that is gone selects no node', async () => {
    expect(await performedTwice(c, () => acts.beginStage(nobody, 'Cordon'))).toEqual({ nodes: [] });
  });
});

describe('finish', () => {
  test('lets the object go: our finalizer is removed, and nobody is told twice', async () => {
    const maintenance = c.maintenance({ nodes: [node], stage: 'Complete' });
    maintenance.metadata.finalizers = [MAINTENANCE_FINALIZER, 'example.com/theirs'];
    const applied = await c.applied(maintenance);
    await performedTwice(c, () => acts.finish(refOf(applied)));
    const { metadata } = await c.maintenanceNow(applied.metadata.name);
    expect(metadata.finalizers).toEqual(['example.com/theirs']);
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
