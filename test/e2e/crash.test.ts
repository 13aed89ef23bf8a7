import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { History } from '@temporalio/common/lib/proto-utils.js';
import { rowsOf } from '../../cli/historyRows.ts';
import { resources } from '../../kube/resources.ts';
import { eventuallyHolds } from '../kit/holds.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { begun, createWorld, drained, finished, type World } from './world.ts';

let world: World;
let worker: WorkerProcess;

beforeAll(async () => {
  world = await createWorld({ nodes: 4 });
  await world.kube.create(
    {
      group: 'scheduling.k8s.io',
      version: 'v1',
      plural: 'priorityclasses',
      kind: 'PriorityClass',
      namespaced: false,
    },
    {
      metadata: { name: 'important' },
      value: 5000,
    } as never,
  );
  worker = startWorker(world.sandbox);
  await worker.ready();
});
afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

/** SIGKILLs the worker, lets the world go on without one, and starts another. */
async function crash(meanwhile: () => Promise<unknown> = async () => undefined): Promise<void> {
  await worker.kill();
  await meanwhile();
  worker = startWorker(world.sandbox);
}

describe('a worker that is killed', () => {
  let evicted: string[];

  test('in Idle: the next one takes up the stage that was ordered meanwhile', async () => {
    await world.deployment('web', 12);
    await world.deployment('db', 8, { priorityClassName: 'important' });
    await world.placePods('node-1', 3, {
      labels: { 'sandbox.nodemaintenance.k8s.io/slow-exit': 'true' },
      grace: 30,
    });
    await world.apply('crash', {
      nodes: ['node-1', 'node-2'],
      drainPlan: [
        { podType: 'Default', podPriority: 1000 },
        { podType: 'Default', podPriority: 5000 },
      ],
    });
    await world.eventually('crash', 'Idle is begun', (seen) => begun(seen, 'Idle'));
    expect((await world.node('node-1')).spec.unschedulable).toBeUndefined();
    await crash(() => world.patch('crash', { stage: 'Cordon' }));
    await eventuallyHolds(
      'node-1 is cordoned',
      () => world.node('node-1'),
      (node) => node.spec.unschedulable === true,
    );
    await eventuallyHolds(
      'node-2 is cordoned',
      () => world.node('node-2'),
      (node) => node.spec.unschedulable === true,
    );
  });

  test('in Cordon: a node that was uncordoned meanwhile is cordoned again, and the drain goes ahead', async () => {
    evicted = [...(await world.podsOn('node-1')), ...(await world.podsOn('node-2'))].map(
      (pod) => pod.metadata.uid ?? '',
    );
    await crash(async () => {
      await world.kube.mergePatch(resources.nodes, { name: 'node-2' }, { spec: { unschedulable: false } });
      await world.patch('crash', { stage: 'Drain' });
    });
    await eventuallyHolds(
      'Evacuations are made',
      async () => world.record.evacuations.size,
      (made) => made > 0,
    );
    expect((await world.node('node-2')).spec.unschedulable).toBe(true);
  });

  test('in the middle of a tier: the next one finishes it, within 15 s of its own start', async () => {
    await eventuallyHolds(
      'some pods of the tier are gone, not all',
      async () => world.record.gone.length,
      (gone) => gone > 0,
    );
    await crash();
    const begunAt = Date.now();
    await world.eventually('crash', 'the maintenance is drained', drained, 40_000);
    // Not a measurement: it tells a recovery by heartbeat from one by a longer time-out.
    expect(Date.now() - begunAt).toBeLessThan(40_000);
    expect([...(await world.podsOn('node-1')), ...(await world.podsOn('node-2'))]).toEqual([]);
  });

  test('when drained: a pod that appeared meanwhile is evacuated by the next one', async () => {
    await crash(() => world.placePods('node-2', 1));
    await eventuallyHolds(
      'node-2 is empty again',
      () => world.podsOn('node-2'),
      (pods) => pods.length === 0,
      40_000,
    );
    await world.eventually('crash', 'drained again', drained);
  });

  test('in Complete: the nodes are given back, once and for all', async () => {
    await world.patch('crash', { stage: 'Complete' });
    await crash();
    await world.eventually('crash', 'the maintenance is finished', finished, 40_000);
    for (const name of ['node-1', 'node-2'])
      expect((await world.node(name)).spec.unschedulable ?? false).toBe(false);
    // The object is gone as soon as its finalizer is; the run learns of it from its last activity.
    await eventuallyHolds(
      'the run has completed',
      async () => (await world.temporal.workflow.getHandle('node-maintenance-crash').describe()).status.name,
      (status) => status === 'COMPLETED',
      40_000,
    );
  });

  test('and the history names both who were at work', async () => {
    const rows = rowsOf({ events: await world.history('crash') } as History);
    expect(rows.map(({ what }) => what)).toEqual(
      expect.arrayContaining([expect.stringMatching(/^goes on with drain, attempt \d+: /)]),
    );
    const workers = rows.flatMap(({ who, what }) => (/^begins stage|^goes on/.test(what) ? who : []));
    expect(new Set(workers).size).toBeGreaterThan(1);
  });

  test('never made a second Evacuation for a pod, evicted none twice, and left none behind', async () => {
    for (const made of world.record.evacuations.values()) expect(made.size).toBe(1);
    expect(evicted.filter((uid) => !world.record.evacuations.has(uid))).toEqual([]);
    // Fewer when a kill cut off the answer to one that was carried out.
    expect(await acceptedEvictions()).toBeLessThanOrEqual(world.record.evacuations.size);
    await eventuallyHolds(
      'no Evacuation is left',
      async () => (await world.kube.list(resources.evacuations)).items,
      (left) => left.length === 0,
    );
  });
});

/** From the apiserver's own count: every eviction that it accepted, whoever asked. */
async function acceptedEvictions(): Promise<number> {
  const text = await metrics();
  const lines = text
    .split('\n')
    .filter(
      (line) =>
        line.startsWith('apiserver_request_total') &&
        line.includes('subresource="eviction"') &&
        line.includes('code="201"'),
    );
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

async function metrics(): Promise<string> {
  const { execFile } = await import('node:child_process');
  const { promisify } = await import('node:util');
  const { stdout } = await promisify(execFile)(`${world.sandbox.bin}/kubectl`, ['get', '--raw', '/metrics'], {
    env: { ...process.env, ...world.sandbox.env },
    maxBuffer: 64 * 1024 * 1024,
  });
  return stdout;
}
