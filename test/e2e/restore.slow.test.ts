import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../api/core.ts';
import { WindowAnnotation } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { compareNames } from '../../domain/common/names.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { gate, ofPool, readinessPolicy } from '../kit/readiness.ts';
import { remove, replaceNodes } from '../kit/reset.ts';
import { windowWorkflowIdOf, workflowIdOf } from '../kit/temporalNames.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';
import { Windows } from './windows.ts';

/**
 * Objects of node maintenance from a backup, and a Temporal that has nothing of them. The backup is taken in the middle of a drain, while a window
 * is open, as Velero takes it: with labels, annotations and finalizers, and without owners.
 */

const pools = { patched: ['node-4', 'node-5'] } as const;
/** In the order in which they are restored. */
const kinds = [
  resources.nodeReadinessPolicies,
  resources.nodeReadinesses,
  resources.nodeDisruptionBudgets,
  resources.maintenanceWindows,
  resources.nodeMaintenances,
  resources.evacuations,
] as Resource[];

let world: World;
let kubectl: Kubectl;
let worker: WorkerProcess;
let windows: Windows;

beforeEach(async () => {
  world = await createWorld({ nodes: 5, ownServers: true });
  kubectl = kubectlOf(world.sandbox);
  windows = await Windows.in(world, pools);
  worker = startWorker(world.sandbox);
  await worker.ready();
  await inMidWork();
});

afterEach(async () => {
  windows?.close();
  await worker?.kill();
  await world?.close();
});

async function inMidWork(): Promise<void> {
  await world.apply('done', { nodes: ['node-3'], stage: 'Complete' });
  await world.eventually('done', 'it is finished', finished);
  // By a user, after the maintenance of the node.
  await succeeds(kubectl(['cordon', 'node-3']));
  const gates = [gate({ name: 'cni', namespace: 'kube-system' })];
  await succeeds(
    kubectl(['apply', '--server-side', '-f', '-'], readinessPolicy('agents', ofPool('gated'), gates)),
  );
  await world.placePods('node-1', 2, { labels: { app: 'db' } });
  await world.budget('db', { app: 'db' }, { minAvailable: 2 });
  await world.apply('blocked', { nodes: ['node-1'], stage: 'Drain', reason: 'firmware' });
  await world.apply('cordoned', { nodes: ['node-2', 'node-3'], stage: 'Cordon' });
  await windows.setBudget(5);
  await windows.applied('os', { pool: 'patched' });
  await windows.applied('daily', { pool: 'none', schedule: passedSchedule() });
  await windows.inProgress(await windows.open('os'), 'node-4');
  await eventually('node-4 to be drained', async () =>
    expect(drained(await windows.maintenanceOf('os', 'node-4'))).toBe(true),
  );
  await world.eventually(
    'blocked',
    'its pods are being evacuated',
    (one) => one.status?.podsEvacuating === 2,
  );
  for (const node of ['node-1', 'node-2', 'node-4'])
    await eventually(`${node} to be cordoned`, async () => expect(await windows.isCordoned(node)).toBe(true));
}

/** Has opened ten minutes ago, for an hour, and does not open again on the day of the test. */
function passedSchedule(): object {
  const at = new Date(Date.now() - 600_000).toISOString();
  return { timeZone: 'UTC', duration: '1h', calendar: [{ time: at.slice(11, 16) }] };
}

/** Returns the parts of an object that a restore needs. */
function backedUp({ apiVersion, kind, metadata, ...content }: KubeObject): KubeObject {
  const { name, namespace, labels, annotations, finalizers } = metadata;
  const kept = { name, namespace, labels, annotations, finalizers };
  return { apiVersion, kind, metadata: kept, ...content } as KubeObject;
}

async function backup(): Promise<KubeObject[]> {
  const lists = await Promise.all(kinds.map((kind) => world.kube.list(kind)));
  return lists.flatMap(({ items }) => items.map(backedUp));
}

/** Loses every object and everything in Temporal. Nodes and pods stay as they are. */
async function disaster(): Promise<void> {
  await worker.kill();
  for (const kind of kinds) {
    const { items } = await world.kube.list(kind);
    for (const { metadata } of items) await remove(world.kube, kind, metadata);
  }
  await emptyTemporal();
}

async function emptyTemporal(): Promise<void> {
  const temporal = world.sandbox.server('temporal');
  await temporal.kill();
  for (const suffix of ['', '-shm', '-wal']) await rm(`${databaseOf(world)}${suffix}`, { force: true });
  await temporal.start();
}

async function restore(objects: readonly KubeObject[], { status }: { status: boolean }): Promise<void> {
  for (const object of objects) {
    const kind = kinds.find((one) => one.kind === object.kind) as Resource;
    const { status: recorded, ...rest } = object as KubeObject & { status?: object };
    await world.kube.create(kind, rest);
    const { name, namespace } = object.metadata;
    if (status && recorded !== undefined)
      await world.kube.mergePatch(kind, { namespace, name }, { status: recorded }, { subresource: 'status' });
  }
  worker = startWorker(world.sandbox);
  await worker.ready();
}

/** Lets the drain finish, and completes everything: the nodes end up as they were before. */
async function completed(): Promise<void> {
  await world.kube.mergePatch(
    resources.podDisruptionBudgets,
    { namespace: 'default', name: 'db' },
    { spec: { minAvailable: 0 } },
  );
  await world.eventually('blocked', 'it is drained', drained);
  expect(await world.podsOn('node-1')).toEqual([]);
  for (const name of ['blocked', 'cordoned']) {
    await world.patch(name, { stage: 'Complete' });
    await world.eventually(name, 'it is finished', finished);
  }
  await windows.schedulable(['node-1', 'node-2']);
  // The completed maintenance of this node is not carried out again.
  expect(await windows.isCordoned('node-3')).toBe(true);
  expect(await world.temporal.workflow.count(`WorkflowId = "${workflowIdOf('done')}"`)).toMatchObject({
    count: 0,
  });
}

const workDone = async (node: string) => {
  const { metadata } = await windows.maintenanceOf('os', node);
  const body = { metadata: { annotations: { [WindowAnnotation.WorkDone]: 'true' } } };
  await world.kube.mergePatch(resources.nodeMaintenances, { name: metadata.name }, body);
};

async function scheduleIds(): Promise<string[]> {
  const ids: string[] = [];
  for await (const { scheduleId } of world.temporal.schedule.list()) ids.push(scheduleId);
  return ids.toSorted();
}

/** The Schedules are there again, and open no window for a time that has passed. */
async function schedulesAreBack(): Promise<void> {
  await eventually('the Schedules', async () =>
    expect(await scheduleIds()).toEqual(['maintenance-window-daily', 'maintenance-window-os']),
  );
  await throughout('no missed opening is caught up with', 5_000, async () => {
    const { info } = await windows.scheduleOf('daily').describe();
    expect([info.recentActions, info.runningActions]).toEqual([[], []]);
  });
}

const nodesOf = (all: readonly NodeMaintenance[]) =>
  all.map(({ metadata }) => metadata.annotations?.[WindowAnnotation.Node] ?? '').toSorted(compareNames);

/** The open window maintains both nodes of the pool, in this order. */
async function windowContinues(...nodes: string[]): Promise<void> {
  const handle = world.temporal.workflow.getHandle(windowWorkflowIdOf('os'));
  for (const node of nodes) {
    await windows.inProgress(handle, node);
    await eventually(`${node} to be drained`, async () =>
      expect(drained(await windows.maintenanceOf('os', node))).toBe(true),
    );
    await workDone(node);
  }
  expect(await handle.result()).toMatchObject({ done: 2, failed: [], remaining: 0 });
  expect(nodesOf(await windows.maintenancesOf('os'))).toEqual(['node-4', 'node-5']);
  await windows.schedulable(pools.patched);
}

function databaseOf({ sandbox }: World): string {
  return join(sandbox.dir, 'data', 'temporal.db');
}

describe('restored with their status', () => {
  test('maintenances continue where they were, and the window opens again until its end', async () => {
    const objects = await backup();
    await disaster();
    await restore(objects, { status: true });
    await schedulesAreBack();
    await windowContinues('node-4', 'node-5');
    await completed();
  });
});

describe('restored without their status, as Velero does by default', () => {
  test('maintenances start again, and take their own cordons for what they are', async () => {
    await workDone('node-4');
    await windows.inProgress(world.temporal.workflow.getHandle(windowWorkflowIdOf('os')), 'node-5');
    const objects = await backup();
    await disaster();
    await restore(objects, { status: false });
    await schedulesAreBack();
    await world.eventually(
      'blocked',
      'its pods are being evacuated',
      (one) => one.status?.podsEvacuating === 2,
    );
    // The window is closed: its node waits for the next opening.
    expect(await windows.isCordoned('node-5')).toBe(true);
    await windows.open('os');
    // Nobody knows any more whether the work on the first node has succeeded.
    await windowContinues('node-5', 'node-4');
    await completed();
  });

  test('in a cluster with new nodes, the drains begin again', async () => {
    const objects = (await backup()).filter(({ kind }) => kind !== 'NodeReadiness' && kind !== 'Evacuation');
    await disaster();
    const names = ['node-1', 'node-2', 'node-3', 'node-4', 'node-5'];
    await succeeds(kubectl(['delete', 'pods', '--all', '--force']));
    await replaceNodes(world.sandbox, world.kube, []);
    await world.sandbox.addNodes(names.slice(0, 3));
    await world.sandbox.addNodes(names.slice(3), { pool: 'patched' });
    await succeeds(kubectl(['cordon', 'node-3']));
    await restore(objects, { status: false });
    await schedulesAreBack();
    await world.eventually('blocked', 'it is drained', drained);
    for (const node of ['node-1', 'node-2'])
      await eventually(`${node} to be cordoned`, async () =>
        expect(await windows.isCordoned(node)).toBe(true),
      );
    await completed();
  });
});
