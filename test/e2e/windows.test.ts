import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import type { KubeObject, Pod } from '../../api/core.ts';
import { TurnAnnotation, windowWorkflowIdOf } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { verdictOn } from '../../domain/turnVerdict.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { gate, ofPool, ReadinessPolicies, readinessPolicy } from '../kit/readiness.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { isTainted, pod, Windows, work } from './windows.ts';
import { createWorld, drained, type World } from './world.ts';

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
  worker = startWorker(world.sandbox);
  await worker.ready();
});

afterAll(async () => {
  await worker?.kill();
  windows?.close();
  await world?.close();
});

/** Zone a has three of the nodes, and first those whose names come last. */
const placed = {
  'node-11': { zone: 'a', slot: '1' },
  'node-2': { zone: 'a', slot: '2' },
  'node-1': { zone: 'a', slot: '3' },
  'node-10': { zone: 'b', slot: '0' },
};
const soakSeconds = 4;

/** Of a turn, in milliseconds; the beginning is known to the second. */
interface Times {
  begun: number;
  ended: number;
}

function timesOf(turn: NodeMaintenance): Times {
  return {
    begun: Date.parse(turn.metadata.creationTimestamp ?? ''),
    ended: Date.parse(verdictOn(turn)?.lastTransitionTime ?? ''),
  };
}

/** Before this time no other turn begins. */
function soaked({ ended }: Times): number {
  return ended + (soakSeconds - 1) * 1_000;
}

/** Runs the command of docs/windows.md that begins so, as a person types it. */
async function documented(beginning: string): Promise<void> {
  const document = await readFile(new URL('../../docs/windows.md', import.meta.url), 'utf8');
  const command = document.split('```\n').find((block) => block.startsWith(beginning)) ?? 'false';
  const { env, dir } = world.sandbox;
  await promisify(execFile)('bash', ['-c', command], { env: { ...env, HOME: dir } });
}

describe('a window with a Job', () => {
  test('works on its four nodes one after the other, though its worker dies, and gives each back', async () => {
    await windows.setBudget(3);
    await world.placePods('node-1', 2);
    await windows.applied('os-patch', { pool: 'jobs', work });
    const mostOut = windows.mostOutOf('jobs');
    const run = await windows.open('os-patch');
    await eventually('the first Job', async () => expect(await windows.jobsOf('os-patch')).not.toEqual([]));
    await worker.kill();
    worker = startWorker(world.sandbox);
    await worker.ready();
    expect(await run.result()).toEqual({ name: 'os-patch', nodes: 4, done: 4, failed: [], remaining: 0 });
    expect(mostOut()).toBe(1);
    await windows.schedulable(pools.jobs);
    const worked = (await windows.jobsOf('os-patch')).map(
      ({ metadata }) => metadata.annotations?.[TurnAnnotation.Node],
    );
    expect(new Set(worked)).toEqual(new Set(pools.jobs));
    const { status } = await windows.now('os-patch');
    expect(status).toMatchObject({ progress: { summary: '4/4', done: 4, failed: 0, remaining: 0 } });
    expect(status?.active).toBeUndefined();
  });

  test('that opens again works on none of them, until what is to be done has changed', async () => {
    expect(await windows.triggered(windows.scheduleOf('os-patch'))).toMatchObject({ done: 4, remaining: 0 });
    expect(await windows.jobsOf('os-patch')).toHaveLength(4);
    for (const [node, labels] of Object.entries(placed))
      await world.kube.mergePatch(resources.nodes, { name: node }, { metadata: { labels } });
    const order = { by: 'Label', labelKey: 'slot' };
    const rollout = { maxUnavailable: '50%', topologyKey: 'zone', order, soakSeconds };
    await windows.patched('os-patch', { template: { reason: 'another patch' }, rollout });
    const mostZones = windows.mostOutOf('jobs', ({ metadata }) => metadata.labels?.['zone'] ?? '');
    const mostOut = windows.mostOutOf('jobs');
    await documented('temporal schedule create');
    const byHand = world.temporal.schedule.getHandle('os-patch-extra');
    expect(await windows.triggered(byHand)).toMatchObject({ done: 4, remaining: 0 });
    expect(mostZones()).toBe(1);
    expect(mostOut()).toBeLessThanOrEqual(2);
    const turns = await windows.turnsOf('os-patch');
    expect(turns.map(({ spec }) => spec.reason)).toEqual(Array.from({ length: 4 }, () => 'another patch'));
  });

  test('goes by zone, by label and by percentage, and lets nodes soak that came back', async () => {
    const [four, two, one, three] = (await Promise.all(
      ['node-11', 'node-2', 'node-1', 'node-10'].map(async (node) =>
        timesOf(await windows.turnOf('os-patch', node)),
      ),
    )) as [Times, Times, Times, Times];
    const firstOfZone = [four, two];
    for (const { begun } of firstOfZone) expect(begun).toBeLessThan(one.begun);
    expect(one.begun).toBeGreaterThan(Math.min(...firstOfZone.map(soaked)));
    expect(three.begun).toBeGreaterThan(Math.max(...[...firstOfZone, one].map(soaked)));
  });
});

describe('a window without work of its own', () => {
  test('waits while the cluster can spare no node, and names those that are out', async () => {
    await windows.setBudget(1);
    await world.kube.mergePatch(resources.nodes, { name: 'node-1' }, { spec: { unschedulable: true } });
    await windows.applied('by-hand', { pool: 'other', onWindowEnd: 'CancelCurrent' });
    const run = await windows.open('by-hand');
    await eventually('the window to say why it waits', async () =>
      expect((await windows.now('by-hand')).status?.active?.waiting).toEqual({
        reason: 'NodeBudget',
        message:
          'The NodeBudget of the cluster allows 1 nodes out of service, and there are 1 of them: node-1 (somebody cordoned it).',
      }),
    );
    await throughout('no turn has begun', 1_000, async () =>
      expect(await windows.turnsOf('by-hand')).toEqual([]),
    );
    await world.kube.mergePatch(resources.nodes, { name: 'node-1' }, { spec: { unschedulable: false } });
    await windows.underWay(run, 'node-3');
    await eventually('the first node to be cordoned', async () =>
      expect(await windows.isCordoned('node-3')).toBe(true),
    );
  });

  test('goes on to the next node when somebody advances the turn', async () => {
    const run = world.temporal.workflow.getHandle(windowWorkflowIdOf('by-hand'));
    await expect(run.executeUpdate('advance', { args: [{ node: 'node-4' }] })).rejects.toMatchObject({
      cause: { message: 'node: "node-4" has no turn in window "by-hand" that could be ended' },
    });
    await run.executeUpdate('advance', { args: [{ node: 'node-3' }] });
    expect(await windows.underWay(run, 'node-4')).toMatchObject({ done: 1 });
    await windows.schedulable(['node-3']);
  });

  test('lets another window that opens meanwhile wait, which says for whom, and goes on after it', async () => {
    await windows.applied('beside', { pool: 'beside' });
    const beside = await windows.open('beside');
    await eventually('the other window to say why it waits', async () =>
      expect((await windows.now('beside')).status?.active?.waiting).toEqual({
        reason: 'NodeBudget',
        message:
          'The NodeBudget of the cluster allows 1 nodes out of service, and there are 1 of them: node-4 (it has its turn in window by-hand).',
      }),
    );
    const run = world.temporal.workflow.getHandle(windowWorkflowIdOf('by-hand'));
    await run.executeUpdate('cancel');
    expect(await run.result()).toMatchObject({ done: 1, remaining: 1 });
    await windows.underWay(beside, ...pools.beside);
    await beside.executeUpdate('cancel');
    expect(await beside.result()).toMatchObject({ done: 0, remaining: 1 });
    expect(await windows.turnsOf('beside')).toEqual([]);
  });

  test('that is cancelled gives the node back, which has its turn anew in the next one', async () => {
    await windows.schedulable(pools.other);
    const next = await windows.open('by-hand');
    expect(await windows.underWay(next, 'node-4')).toMatchObject({ done: 1 });
    await eventually('the window to be open', async () =>
      expect((await windows.now('by-hand')).status?.active?.nodes).toEqual(['node-4']),
    );
    const second = await windows.open('by-hand', { id: `${windowWorkflowIdOf('by-hand')}-2` });
    await expect(second.result()).rejects.toMatchObject({
      cause: { message: expect.stringContaining('"by-hand" is open already') },
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

  /** What opens the gate "storage" of a node: a pod without a controller, which a drain takes away for good. */
  async function storageOn(nodeName: string): Promise<void> {
    const metadata = { generateName: 'storage-', namespace: 'default', labels: { app: 'storage' } };
    const spec = { nodeName, tolerations: [{ operator: 'Exists' }], ...pod.spec };
    await world.kube.create(resources.pods as Resource, { metadata, spec } as never);
  }

  /** The pod of the gate "network", which its DaemonSet makes anew. */
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
    await eventually(`the gates of ${name} to be told`, async () =>
      expect((await world.kube.get(resources.nodeReadinesses, { name }))?.status).toMatchObject(want),
    );
  }

  /** Somebody ends the work on a drained node; resolves when it is given back, with all pods but that of "storage". */
  async function workedOn(name: string): Promise<Pod> {
    await eventually(`${name} to be drained`, async () =>
      expect(drained(await windows.turnOf('gated', name))).toBe(true),
    );
    await run.executeUpdate('advance', { args: [{ node: name }] });
    await windows.schedulable([name]);
    const agent = await agentOn(name);
    expect(isTainted(await world.node(name))).toBe(true);
    return agent;
  }

  test('begins as many turns as the cluster can spare nodes', async () => {
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
    const policies = new ReadinessPolicies(world.kube, world.sandbox);
    await policies.stored(readinessPolicy('agents', ofPool('gated'), gates));
    for (const name of pools.gated) await gatesOf(name, { gates: '2/2', blockedBy: '' });
    mostOut = windows.mostOutOf('gated');
    await windows.setBudget(2);
    await windows.applied('gated', { pool: 'gated', rollout: { maxUnavailable: 4, maxFailures: 4 } });
    run = await windows.open('gated');
    await windows.underWay(run, first, second);
  });

  test('waits behind the taint after Complete until they are open, and goes on then', async () => {
    await workedOn(second);
    await throughout('its turn is under way', 2_000, async () => {
      expect(await windows.underWay(run, first, second)).toMatchObject({ done: 0 });
      expect(isTainted(await world.node(second))).toBe(true);
    });
    await storageOn(second);
    expect(await windows.underWay(run, first, third)).toMatchObject({ done: 1 });
    expect(isTainted(await world.node(second))).toBe(false);
  });

  test('reports the gate and the pod of a node that does not come back, and goes on with the others', async () => {
    const agent = await workedOn(first);
    await probed(agent, false);
    await storageOn(first);
    await gatesOf(first, { gates: '1/2', blockedBy: 'network' });
    await windows.patched('gated', { rollout: { readyTimeoutSeconds: 1 } });
    const why = `its readiness gates are not open (gate network: pod is not ready: default/${agent.metadata.name} (Running))`;
    await eventually('the failure to be told', async () => {
      const { progress, active } = (await windows.now('gated')).status ?? {};
      expect(progress).toMatchObject({ done: 1, inProgress: 1, failed: 1, remaining: 1 });
      expect(progress?.failures).toEqual([
        { node: first, reason: 'NodeNotReady', message: expect.stringContaining(why) },
      ]);
      expect(active?.waiting).toEqual({
        reason: 'NodeBudget',
        message: expect.stringContaining(`${first} (its readiness gates are not open)`),
      });
    });
    await windows.told('TurnFailed', `The turn of node ${first} failed: ${why}`);
    await windows.patched('gated', { rollout: { readyTimeoutSeconds: 1800 } });
    for (const name of [third, fourth]) {
      await windows.underWay(run, name);
      await workedOn(name);
      await storageOn(name);
    }
    expect(await windows.underWay(run)).toMatchObject({ done: 3, failed: [{ node: first }], remaining: 0 });
    expect(mostOut()).toBe(2);
    await probed(agent, true);
    await run.executeUpdate('advance', { args: [{ node: first }] });
    expect(await run.result()).toMatchObject({ done: 4, failed: [] });
  });
});
