import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { CLUSTER_UID_MEMO, NODE_DISRUPTION_BUDGET_NAME, temporalNames } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import { kubectlOf } from '../api/kubectl.ts';
import { eventually } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';
import { Windows } from './windows.ts';

/** Two clusters share a Temporal namespace, with the same names of nodes, maintenances and windows. */
const names = { hamburg: temporalNames(undefined), berlin: temporalNames('berlin-1') };
let hamburg: World;
let berlin: World;
let workers: WorkerProcess[];
let windows: Windows[];

/** The environment of a worker or a command of the second cluster, which uses the Temporal of the first. */
const sharedTemporal = () => {
  const { TEMPORAL_ADDRESS = '', TEMPORAL_NAMESPACE = '' } = hamburg.sandbox.env;
  return { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE };
};

beforeAll(async () => {
  [hamburg, berlin] = await Promise.all([
    createWorld({ nodes: 3 }),
    createWorld({ nodes: 3, ownServers: true }),
  ]);
  workers = [
    startWorker(hamburg.sandbox),
    startWorker(berlin.sandbox, { env: sharedTemporal(), args: ['--cluster', 'berlin-1'] }),
  ];
  await Promise.all(workers.map((worker) => worker.ready()));
  windows = await Promise.all([hamburg, berlin].map((world) => Windows.in(world, { all: ['node-3'] })));
});

afterAll(async () => {
  for (const one of windows ?? []) one.close();
  await Promise.all((workers ?? []).map((worker) => worker.kill()));
  await berlin?.close();
  await hamburg?.close();
});

const maintenanceIn = (world: World, ...args: string[]) =>
  kubectlOf({ ...world.sandbox, env: { ...world.sandbox.env, ...sharedTemporal() } })([
    'maintenance',
    ...args,
  ]);

const clusterUid = async ({ kube }: World) =>
  (await kube.get(resources.namespaces, { name: 'kube-system' }))?.metadata.uid ?? '';

const unschedulable = async (world: World, name: string) =>
  (await world.node(name)).spec.unschedulable ?? false;

/** Returns the ids of the open runs that match, in order. */
async function openRuns(query: string): Promise<string[]> {
  const ids: string[] = [];
  for await (const { workflowId } of hamburg.temporal.workflow.list({
    query: `ExecutionStatus = "Running" AND ${query}`,
  }))
    ids.push(workflowId);
  return ids.toSorted();
}

async function scheduleIds(): Promise<string[]> {
  const ids: string[] = [];
  for await (const { scheduleId } of hamburg.temporal.schedule.list()) ids.push(scheduleId);
  return ids.toSorted();
}

test('each cluster drains its own nodes, and what one completes stays in the other', async () => {
  for (const world of [hamburg, berlin]) await world.placePods('node-1', 2);
  await hamburg.apply('rack', { nodes: ['node-1'], stage: 'Drain' });
  await berlin.apply('rack', { nodes: ['node-1', 'node-2'], stage: 'Drain' });
  await Promise.all([hamburg, berlin].map((world) => world.eventually('rack', 'it is drained', drained)));
  expect(await unschedulable(hamburg, 'node-2')).toBe(false);
  expect(await unschedulable(berlin, 'node-2')).toBe(true);
  await eventually('the runs to be listed by cluster', async () => {
    const uid = await clusterUid(hamburg);
    const running = 'WorkflowType = "nodeMaintenance"';
    expect(await openRuns(running)).toEqual(['berlin-1.node-maintenance-rack', 'node-maintenance-rack']);
    expect(await openRuns(`${running} AND KubernetesCluster = "berlin-1"`)).toEqual([
      'berlin-1.node-maintenance-rack',
    ]);
    expect(await openRuns(`${running} AND KubernetesCluster = "${uid.split('-')[0]}"`)).toEqual([
      'node-maintenance-rack',
    ]);
  });

  expect(await maintenanceIn(berlin, 'cancel', 'rack', '--wait', '--timeout', '2m')).toMatchObject({
    code: 0,
  });
  await berlin.eventually('rack', 'it is finished', finished);
  expect(await unschedulable(berlin, 'node-1')).toBe(false);
  const other = await hamburg.maintenance('rack');
  expect(other?.spec.stage).toBe('Drain');
  expect(other && drained(other)).toBe(true);
  expect(await unschedulable(hamburg, 'node-1')).toBe(true);
});

test('the command line sends to the run of the cluster of its context', async () => {
  const paused = (world: World) => async () =>
    (await world.maintenance('shared'))?.status?.conditions?.find(({ type }) => type === 'Paused')?.status;
  for (const world of [hamburg, berlin]) {
    await world.apply('shared', { nodes: ['node-2'], stage: 'Cordon' });
    await world.eventually('shared', 'it has a run', ({ status }) => status !== undefined);
  }
  expect(await maintenanceIn(berlin, 'pause', 'shared')).toMatchObject({ code: 0 });
  expect(await paused(berlin)()).toBe('True');
  expect(await paused(hamburg)()).not.toBe('True');
  const history = await maintenanceIn(berlin, 'history', 'shared');
  expect(history.stdout).toContain('update pause');
  expect((await maintenanceIn(hamburg, 'history', 'shared')).stdout).not.toContain('update pause');
});

test('the command line refuses a Temporal that this cluster does not use', async () => {
  // Its own: no worker has ever used it.
  const { code, stderr } = await kubectlOf(berlin.sandbox)(['maintenance', 'pause', 'shared']);
  expect(code).toBe(1);
  expect(stderr).toContain(
    `no worker of this cluster (UID ${await clusterUid(berlin)}) uses Temporal namespace default at ${berlin.sandbox.temporalAddress}: check TEMPORAL_ADDRESS`,
  );
});

describe('windows of the same name', () => {
  test('have Schedules and runs of their own', async () => {
    const spec = { maxUnavailable: 3 };
    for (const { kube } of [hamburg, berlin])
      await kube.mergePatch(resources.nodeDisruptionBudgets, { name: NODE_DISRUPTION_BUDGET_NAME }, { spec });
    for (const one of windows) await one.applied('os', { pool: 'all' });
    await eventually('both Schedules', async () =>
      expect(await scheduleIds()).toEqual(['berlin-1.maintenance-window-os', 'maintenance-window-os']),
    );
    const [, inBerlin] = windows;
    await inBerlin?.deleted('os');
    await inBerlin?.gone('os');
    await eventually('the other Schedule alone to be listed', async () =>
      expect(await scheduleIds()).toEqual(['maintenance-window-os']),
    );
    const { taskQueue, windowId } = names.hamburg;
    await hamburg.temporal.workflow.start('maintenanceWindow', {
      workflowId: windowId('os'),
      taskQueue,
      args: [{ name: 'os' }],
    });
    await eventually('the node of the open window to be cordoned', async () =>
      expect(await unschedulable(hamburg, 'node-3')).toBe(true),
    );
    expect(await unschedulable(berlin, 'node-3')).toBe(false);
    await eventually('the run to be listed', async () =>
      expect(await openRuns('WorkflowType = "maintenanceWindow"')).toEqual(['maintenance-window-os']),
    );
  });
});

describe('a third cluster with the settings of the first', () => {
  test('is refused with one line, and changes nothing', async () => {
    const before = await scheduleIds();
    const run = await hamburg.temporal.workflow.getHandle(names.hamburg.maintenanceId('rack')).describe();
    const misconfigured = startWorker(berlin.sandbox, { env: sharedTemporal() });
    expect(await misconfigured.exited()).toBe(1);
    const lines = misconfigured
      .log()
      .split('\n')
      .filter((line) => line.includes('belongs to cluster'));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(
      `task queue node-maintenance in Temporal namespace default belongs to cluster ${(await clusterUid(hamburg)).split('-')[0]}`,
    );
    expect(lines[0]).toContain('choose another --cluster or TEMPORAL_NAMESPACE');
    expect(await scheduleIds()).toEqual(before);
    const now = await hamburg.temporal.workflow.getHandle(names.hamburg.maintenanceId('rack')).describe();
    expect(now).toMatchObject({ runId: run.runId, status: { name: 'RUNNING' } });
    expect((await hamburg.maintenance('rack'))?.spec.stage).toBe('Drain');
  });

  test('touches no run of the other, even if nothing stops its worker', async () => {
    // The memo says whose run it is: the worker that polls its task queue is of another cluster.
    const { taskQueue, maintenanceId } = names.berlin;
    await hamburg.temporal.workflow.start('nodeMaintenance', {
      workflowId: maintenanceId('foreign'),
      taskQueue,
      args: [{ name: 'foreign', nodes: ['node-1'], stage: 'Drain' }],
      memo: { [CLUSTER_UID_MEMO]: await clusterUid(hamburg) },
    });
    await eventually('the run to wait for a worker of its cluster', async () => {
      const { raw } = await hamburg.temporal.workflow.getHandle(maintenanceId('foreign')).describe();
      const [pending] = raw.pendingActivities ?? [];
      expect(pending?.lastFailure?.message).toMatch(/^this run belongs to cluster .*another --cluster$/);
    });
    expect(await berlin.maintenance('foreign')).toBeUndefined();
    await hamburg.temporal.workflow.getHandle(maintenanceId('foreign')).terminate();
  });
});
