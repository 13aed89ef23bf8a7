import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { Informer } from '../../kube/informer.ts';
import { resources } from '../../kube/resources.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { silentLog } from '../kit/cluster.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, type World } from './world.ts';

// 1,000 pods on 50 nodes: the status is right at every moment, and written at most once a second.

const nodes = Array.from({ length: 50 }, (_, i) => `big-${i}`);
const podsPerNode = 20;

let world: World;
let worker: WorkerProcess;
const stop = new AbortController();
const versions: NodeMaintenance[] = [];

beforeAll(async () => {
  world = await createWorld({ nodes: 1 });
  await world.sandbox.addNodes(nodes);
  worker = startWorker(world.sandbox);
  await forEachBounded(8, nodes, async (node) => void (await world.placePods(node, podsPerNode)));
  await worker.ready();
  const watched = new Informer<NodeMaintenance>({
    kube: world.kube,
    resource: resources.nodeMaintenances,
    log: silentLog,
  });
  watched.subscribe(({ object }) => versions.push(object));
  watched.start(stop.signal);
  await watched.synced(stop.signal);
}, 240_000);
afterAll(async () => {
  stop.abort();
  await worker?.kill();
  await world?.close();
});

test('a drain of 1,000 pods ends, and its status never says a wrong number', async () => {
  await world.apply('big', { nodes, stage: 'Drain' });
  await world.eventually('big', 'it is drained', drained, 240_000);
  const statuses = versions.flatMap(({ status }) => (status === undefined ? [] : [status]));
  const left = statuses
    .filter(({ nodes: selected }) => selected === nodes.length)
    .map(({ nodeStatuses, podsPendingEvacuation, podsEvacuating }) => {
      const sum = nodeStatuses.reduce((all, one) => all + one.podsPendingEvacuation + one.podsEvacuating, 0);
      expect(podsPendingEvacuation + podsEvacuating).toBe(sum);
      return sum;
    })
    .filter((sum) => sum > 0);
  expect(left[0]).toBeLessThanOrEqual(nodes.length * podsPerNode);
  expect(left).toEqual(left.toSorted((a, b) => b - a));
  expect(statuses.at(-1)).toMatchObject({ podsPendingEvacuation: 0, podsEvacuating: 0, nodes: nodes.length });
}, 300_000);

test('the status was written at most once a second, but for the beginnings and ends of stages', () => {
  const times = versions.flatMap(
    ({ status }) => status?.stageStatuses.map((stage) => stage.startTimestamp) ?? [],
  );
  const began = Math.min(...times.map((time) => Date.parse(time)));
  const ended = Date.parse(
    versions.at(-1)?.status?.conditions.find(({ type }) => type === 'Drained')?.lastTransitionTime ?? '',
  );
  const seconds = (ended - began) / 1_000;
  // Idle, Cordon, Drain, the record of the nodes, and the end of each tier are written at once.
  expect(versions.length).toBeLessThanOrEqual(seconds + 8);
});

test('no pod had two Evacuations', () => {
  expect(world.record.evacuations.size).toBe(nodes.length * podsPerNode);
  expect([...world.record.evacuations.values()].every((uids) => uids.size === 1)).toBe(true);
});
