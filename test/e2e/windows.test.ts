import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import type { KubeObject, Pod } from '../../api/core.ts';
import { READINESS_CONDITION, WindowAnnotation } from '../../api/names.ts';
import { windowWorkflowIdOf } from '../kit/temporalNames.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { nodeResultOf } from '../../domain/windows/nodeResult.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { gate, ofPool, ReadinessPolicies, readinessPolicy } from '../kit/readiness.ts';
import { deathNoticedSoon, startNextWorker, startWorker, type WorkerProcess } from '../kit/worker.ts';
import { isTainted, pod, Windows, work } from './windows.ts';
import { createWorld, drained, type World } from '../kit/world.ts';

let world: World;
let worker: WorkerProcess;
let windows: Windows;

const pools = {
  jobs: ['node-1', 'node-2', 'node-10', 'node-11'],
  other: ['node-3', 'node-4'],
  beside: ['node-5'],
  gated: ['node-6', 'node-7', 'node-8', 'node-9'],
} as const;

beforeAll(async () => {
  world = await createWorld({ nodes: Object.values(pools).flat().length });
  windows = await Windows.in(world, pools);
  windows.sendHeartbeats();
  worker = startWorker(world.sandbox, { env: deathNoticedSoon });
  await worker.ready();
});

afterAll(async () => {
  await worker?.kill();
  windows?.close();
  await world?.close();
});

/** Zone a has three of the nodes; the label order starts with the last names. */
const placed = {
  'node-11': { zone: 'a', slot: '1' },
  'node-2': { zone: 'a', slot: '2' },
  'node-1': { zone: 'a', slot: '3' },
  'node-10': { zone: 'b', slot: '0' },
};
const soakSeconds = 2;

/** Start and end of a node's maintenance. The start is known to the second. */
interface Times {
  startedMs: number;
  endedMs: number;
}

function timesOf(maintenance: NodeMaintenance): Times {
  return {
    startedMs: Date.parse(maintenance.metadata.creationTimestamp ?? ''),
    endedMs: Date.parse(nodeResultOf(maintenance)?.lastTransitionTime ?? ''),
  };
}

/** Returns the time before which no other node may start. */
function soakedAtMs({ endedMs }: Times): number {
  return endedMs + (soakSeconds - 1) * 1_000;
}

/** Runs the command of docs/concepts/maintenance-windows.md that starts with `prefix`, as a user types it. */
async function runDocumented(prefix: string): Promise<void> {
  const document = await readFile(
    new URL('../../docs/concepts/maintenance-windows.md', import.meta.url),
    'utf8',
  );
  const command = document.split('```\n').find((block) => block.startsWith(prefix)) ?? 'false';
  const { env, dir } = world.sandbox;
  await promisify(execFile)('bash', ['-c', command], { env: { ...env, HOME: dir } });
}

describe('a window with a Job', () => {
  test('maintains its four nodes one after the other, although its worker is killed, and uncordons each', async () => {
    await windows.setBudget(3);
    await world.placePods('node-1', 2);
    await windows.applied('os-patch', { pool: 'jobs', work });
    const mostOut = windows.mostOutOf('jobs');
    const run = await windows.open('os-patch');
    await eventually('the first Job', async () => expect(await windows.jobsOf('os-patch')).not.toEqual([]));
    await worker.kill();
    worker = await startNextWorker(world, { env: deathNoticedSoon });
    await worker.ready();
    expect(await run.result()).toEqual({ name: 'os-patch', nodes: 4, done: 4, failed: [], remaining: 0 });
    expect(mostOut()).toBe(1);
    await windows.schedulable(pools.jobs);
    const worked = (await windows.jobsOf('os-patch')).map(
      ({ metadata }) => metadata.annotations?.[WindowAnnotation.Node],
    );
    expect(new Set(worked)).toEqual(new Set(pools.jobs));
    const { status } = await windows.now('os-patch');
    expect(status).toMatchObject({ progress: { summary: '4/4', done: 4, failed: 0, remaining: 0 } });
    expect(status?.active).toBeUndefined();
  });

  test('maintains none of them when it opens again, until its template changes', async () => {
    expect(await windows.triggered(windows.scheduleOf('os-patch'))).toMatchObject({ done: 4, remaining: 0 });
    expect(await windows.jobsOf('os-patch')).toHaveLength(4);
    for (const [node, labels] of Object.entries(placed))
      await world.kube.mergePatch(resources.nodes, { name: node }, { metadata: { labels } });
    const order = { by: 'Label', labelKey: 'slot' };
    const rollout = { maxUnavailable: '50%', topologyKey: 'zone', order, soakSeconds };
    await windows.patched('os-patch', { template: { reason: 'another patch' }, rollout });
    const mostZones = windows.mostOutOf('jobs', ({ metadata }) => metadata.labels?.['zone'] ?? '');
    const mostOut = windows.mostOutOf('jobs');
    await runDocumented('temporal schedule create');
    const byHand = world.temporal.schedule.getHandle('os-patch-extra');
    expect(await windows.triggered(byHand)).toMatchObject({ done: 4, remaining: 0 });
    expect(mostZones()).toBe(1);
    expect(mostOut()).toBeLessThanOrEqual(2);
    const maintenances = await windows.maintenancesOf('os-patch');
    expect(maintenances.map(({ spec }) => spec.reason)).toEqual(
      Array.from({ length: 4 }, () => 'another patch'),
    );
  });

  test('respects zones, the order of a label, a percentage and the soak time', async () => {
    const [four, two, one, three] = (await Promise.all(
      ['node-11', 'node-2', 'node-1', 'node-10'].map(async (node) =>
        timesOf(await windows.maintenanceOf('os-patch', node)),
      ),
    )) as [Times, Times, Times, Times];
    const firstOfZone = [four, two];
    for (const { startedMs } of firstOfZone) expect(startedMs).toBeLessThan(one.startedMs);
    expect(one.startedMs).toBeGreaterThan(Math.min(...firstOfZone.map(soakedAtMs)));
    expect(three.startedMs).toBeGreaterThan(Math.max(...[...firstOfZone, one].map(soakedAtMs)));
  });
});

describe('a window without a Job', () => {
  test('waits while the budget allows no node, and names the nodes that are out of service', async () => {
    await windows.setBudget(1);
    await world.kube.mergePatch(resources.nodes, { name: 'node-1' }, { spec: { unschedulable: true } });
    await windows.applied('by-hand', { pool: 'other', onWindowEnd: 'CancelCurrent' });
    const run = await windows.open('by-hand');
    await eventually('the window to report why it waits', async () =>
      expect((await windows.now('by-hand')).status?.active?.waiting).toEqual({
        reason: 'NodeDisruptionBudget',
        message:
          'NodeDisruptionBudget cluster allows 1 of 11 nodes to be out of service, and 1 node is out of service: node-1 (cordoned).',
      }),
    );
    await throughout('no node is started', 1_000, async () =>
      expect(await windows.maintenancesOf('by-hand')).toEqual([]),
    );
    await world.kube.mergePatch(resources.nodes, { name: 'node-1' }, { spec: { unschedulable: false } });
    await windows.inProgress(run, 'node-3');
    await eventually('the first node to be cordoned', async () =>
      expect(await windows.isCordoned('node-3')).toBe(true),
    );
  });

  test('continues with the next node when a user advances one', async () => {
    const run = world.temporal.workflow.getHandle(windowWorkflowIdOf('by-hand'));
    await expect(run.executeUpdate('advance', { args: [{ node: 'node-4' }] })).rejects.toMatchObject({
      cause: { message: 'node: MaintenanceWindow "by-hand" does not maintain node "node-4" now' },
    });
    await run.executeUpdate('advance', { args: [{ node: 'node-3' }] });
    expect(await windows.inProgress(run, 'node-4')).toMatchObject({ done: 1 });
    await windows.schedulable(['node-3']);
  });

  test('makes another open window wait, which reports the node, and continues afterwards', async () => {
    await windows.applied('beside', { pool: 'beside' });
    const beside = await windows.open('beside');
    await eventually('the other window to report why it waits', async () =>
      expect((await windows.now('beside')).status?.active?.waiting).toEqual({
        reason: 'NodeDisruptionBudget',
        message:
          'NodeDisruptionBudget cluster allows 1 of 11 nodes to be out of service, and 1 node is out of service: node-4 (in maintenance by window by-hand).',
      }),
    );
    const run = world.temporal.workflow.getHandle(windowWorkflowIdOf('by-hand'));
    await run.executeUpdate('cancel');
    expect(await run.result()).toMatchObject({ done: 1, remaining: 1 });
    await windows.inProgress(beside, ...pools.beside);
    await beside.executeUpdate('cancel');
    expect(await beside.result()).toMatchObject({ done: 0, remaining: 1 });
    expect(await windows.maintenancesOf('beside')).toEqual([]);
  });

  test('uncordons the node when it is cancelled, and maintains it when it opens again', async () => {
    await windows.schedulable(pools.other);
    const next = await windows.open('by-hand');
    expect(await windows.inProgress(next, 'node-4')).toMatchObject({ done: 1 });
    await eventually('the window to be open', async () =>
      expect((await windows.now('by-hand')).status?.active?.nodes).toEqual(['node-4']),
    );
    const second = await windows.open('by-hand', { id: `${windowWorkflowIdOf('by-hand')}-2` });
    await expect(second.result()).rejects.toMatchObject({
      cause: { message: expect.stringContaining('"by-hand" has been open since') },
    });
    await next.executeUpdate('cancel');
    await next.result();
    await windows.schedulable(pools.other);
  });
});

describe('a window whose nodes have readiness gates', () => {
  const [first, second, third, fourth] = pools.gated;
  let run: WorkflowHandle;
  let mostOut: () => number;

  /** Opens the gate "storage" of a node, with a pod without a controller, which a drain removes for good. */
  async function storageOn(nodeName: string): Promise<void> {
    const metadata = { generateName: 'storage-', namespace: 'default', labels: { app: 'storage' } };
    const spec = { nodeName, tolerations: [{ operator: 'Exists' }], ...pod.spec };
    await world.kube.create(resources.pods as Resource, { metadata, spec } as never);
  }

  /** Returns the pod of the gate "network", which its DaemonSet recreates. */
  function agentOn(node: string): Promise<Pod> {
    return eventually(`the agent of ${node}`, async () => {
      const found = (await world.podsOn(node)).find(({ metadata }) => metadata.labels?.['app'] === 'network');
      expect(found?.status.ready).toBe(true);
      return found as Pod;
    });
  }

  async function probed({ metadata: { namespace = '', name } }: Pod, ready: boolean): Promise<void> {
    const status = { conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] };
    await world.kube.mergePatch(resources.pods, { namespace, name }, { status }, { subresource: 'status' });
  }

  async function gatesOf(name: string, want: { gates: string; blockedBy: string }): Promise<void> {
    await eventually(`the gates of ${name} to be reported`, async () =>
      expect((await world.kube.get(resources.nodeReadinesses, { name }))?.status).toMatchObject(want),
    );
  }

  /** Advances a drained node, and waits until it is uncordoned, with all pods but that of "storage". */
  async function completeNode(name: string): Promise<Pod> {
    await eventually(`${name} to be drained`, async () =>
      expect(drained(await windows.maintenanceOf('gated', name))).toBe(true),
    );
    await run.executeUpdate('advance', { args: [{ node: name }] });
    await windows.schedulable([name]);
    const agent = await agentOn(name);
    expect(isTainted(await world.node(name))).toBe(true);
    return agent;
  }

  test('starts as many nodes as the budget allows', async () => {
    const labels = { app: 'network' };
    const spec = { nodeSelector: { pool: 'gated' }, tolerations: [{ operator: 'Exists' }], ...pod.spec };
    await world.kube.create(
      resources.daemonSets as Resource,
      {
        metadata: { name: 'network', namespace: 'default' },
        spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
      } as KubeObject,
    );
    for (const name of pools.gated) {
      await storageOn(name);
      await agentOn(name);
    }
    const gates = ['network', 'storage'].map((name) => gate({ name, namespace: 'default' }));
    const policies = new ReadinessPolicies(world.kube);
    await policies.stored(readinessPolicy('agents', ofPool('gated'), gates));
    for (const name of pools.gated) await gatesOf(name, { gates: '2/2', blockedBy: '' });
    mostOut = windows.mostOutOf('gated');
    await windows.setBudget(2);
    await windows.applied('gated', { pool: 'gated', rollout: { maxUnavailable: 4, maxFailures: 4 } });
    run = await windows.open('gated');
    await windows.inProgress(run, first, second);
  });

  test('waits behind the taint after Complete until they are open', async () => {
    await completeNode(second);
    await throughout('the node is in progress', 2_000, async () => {
      expect(await windows.inProgress(run, first, second)).toMatchObject({ done: 0 });
      expect(isTainted(await world.node(second))).toBe(true);
    });
    await storageOn(second);
    expect(await windows.inProgress(run, first, third)).toMatchObject({ done: 1 });
    expect(isTainted(await world.node(second))).toBe(false);
  });

  test('reports the gate and the pod of a node that does not come back, and continues with the others', async () => {
    const agent = await completeNode(first);
    await probed(agent, false);
    await storageOn(first);
    await gatesOf(first, { gates: '1/2', blockedBy: 'network' });
    const gates = `gate network: pod is not ready: default/${agent.metadata.name} (Running)`;
    // The condition of the Node, which the failure quotes, is written after that.
    await eventually('the condition of the node', async () => {
      const { conditions = [] } = (await world.node(first)).status ?? {};
      const condition = conditions.find(({ type }) => type === READINESS_CONDITION);
      expect(condition?.message).toContain(gates);
    });
    await windows.patched('gated', { rollout: { readyTimeoutSeconds: 1 } });
    const why = `readiness gates are not ready (${gates})`;
    await eventually('the failure to be reported', async () => {
      const { progress, active } = (await windows.now('gated')).status ?? {};
      expect(progress).toMatchObject({ done: 1, inProgress: 1, failed: 1, remaining: 1 });
      expect(progress?.failures).toEqual([
        { node: first, reason: 'NodeNotReady', message: expect.stringContaining(why) },
      ]);
      expect(active?.waiting).toEqual({
        reason: 'NodeDisruptionBudget',
        message: expect.stringContaining(`${first} (readiness gates are not ready)`),
      });
    });
    await windows.emitted('NodeFailed', `Maintenance of node ${first} failed: ${why}`);
    await windows.patched('gated', { rollout: { readyTimeoutSeconds: 1800 } });
    for (const name of [third, fourth]) {
      await windows.inProgress(run, name);
      await completeNode(name);
      await storageOn(name);
    }
    expect(await windows.inProgress(run)).toMatchObject({ done: 3, failed: [{ node: first }], remaining: 0 });
    expect(mostOut()).toBe(2);
    await probed(agent, true);
    await run.executeUpdate('advance', { args: [{ node: first }] });
    expect(await run.result()).toMatchObject({ done: 4, failed: [] });
  });
});
