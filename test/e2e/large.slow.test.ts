import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { Informer } from '../../kube/informer.ts';
import { resources } from '../../kube/resources.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { silentLog } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, type World } from '../kit/world.ts';

// 1,000 pods on 50 nodes: every version of the status is right, and there is at most one a second.

const nodes = Array.from({ length: 50 }, (_, i) => `big-${i}`);
const podsPerNode = 20;

let world: World;
let worker: WorkerProcess;
const stop = new AbortController();
const versions: NodeMaintenance[] = [];
const seenAtMs = new Map<NodeMaintenance, number>();

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
  watched.subscribe(({ object }) => {
    versions.push(object);
    seenAtMs.set(object, performance.now());
  });
  watched.start(stop.signal);
  await watched.synced(stop.signal);
});
afterAll(async () => {
  stop.abort();
  await worker?.kill();
  await world?.close();
});

test('a drain of 1,000 pods ends, and its status never shows a wrong number', async () => {
  await world.apply('big', { nodes, stage: 'Drain' });
  await world.eventually('big', 'it is drained', drained);
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
  // The watch may lag behind the object.
  await eventually('the last status', () =>
    expect(versions.at(-1)?.status).toMatchObject({
      podsPendingEvacuation: 0,
      podsEvacuating: 0,
      nodes: nodes.length,
      conditions: [{ type: 'Drained', status: 'True' }],
    }),
  );
});

test('its numbers were written at most once a second', () => {
  // Changes of stage and tier are written at once; only changes of the numbers in between are merged.
  const numbers = ({ status }: NodeMaintenance) =>
    [status?.podsPendingEvacuation, status?.podsEvacuating].join();
  const changes = versions.filter(
    (version, i) => i === 0 || numbers(version) !== numbers(versions[i - 1] as NodeMaintenance),
  );
  const [first, last] = [changes.at(0), changes.at(-1)].map(
    (version) => seenAtMs.get(version as NodeMaintenance) ?? 0,
  );
  const seconds = ((last ?? 0) - (first ?? 0)) / 1_000;
  // The list of nodes, the first numbers, and the last of each tier are written at once.
  expect(changes.length).toBeLessThanOrEqual(Math.floor(seconds) + 4);
});

test('no pod had two Evacuations', () => {
  expect(world.record.evacuations.size).toBe(nodes.length * podsPerNode);
  expect([...world.record.evacuations.values()].every((uids) => uids.size === 1)).toBe(true);
});
