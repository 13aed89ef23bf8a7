import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { resources } from '../../kube/resources.ts';
import { eventually } from '../kit/eventually.ts';
import { recordRequests, type RequestRecord } from '../kit/requestRecord.ts';
import { evictionRequestFlags } from '../kit/sandbox.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

// The gate EvictionRequestAPI is switched off and on while maintenances drain.

const args = ['--eviction-api', 'auto', '--eviction-request-controller', 'true'];

let world: World;
let worker: WorkerProcess;
let requests: RequestRecord;
const watching = new AbortController();

beforeAll(async () => {
  world = await createWorld({ nodes: 2, evictionRequest: true });
  requests = await recordRequests(world.kube, watching.signal);
  worker = startWorker(world.sandbox, { args });
  await worker.ready();
});
afterAll(async () => {
  watching.abort();
  await worker?.kill();
  await world?.close();
});

async function restartApiserver(isServed: boolean): Promise<void> {
  const server = world.sandbox.server('kube-apiserver');
  await server.kill();
  await (isServed ? server.start() : server.startWithout(evictionRequestFlags));
}

test('no pod is lost or evicted twice when the API disappears during a drain, and when it returns', async () => {
  const labels = { app: 'guarded' };
  const names = await world.placePods('node-1', 4, { labels });
  await world.budget('guarded', labels, { minAvailable: names.length });
  const uids = (await world.podsOn('node-1')).map(({ metadata }) => metadata.uid ?? '');
  expect(uids).toHaveLength(names.length);
  await world.apply('gate', { nodes: ['node-1'], stage: 'Drain' });
  await eventually('the EvictionRequests of the pods', () => {
    for (const uid of uids) expect(requests.created.get(uid)?.size).toBe(1);
  });

  await restartApiserver(false);
  await eventually('Evacuations of the pods', () => {
    for (const uid of uids) expect(world.record.evacuations.get(uid)?.size).toBe(1);
  });
  await world.eventually('gate', 'the condition', ({ status }) =>
    Boolean(status?.conditions.some(({ reason }) => reason === 'ApiNotServed')),
  );

  await restartApiserver(true);
  await eventually('the requests that were left to be withdrawn', async () => {
    const { items } = await world.kube.list(resources.evictionRequests);
    expect(items).toEqual([]);
  });
  const spec = { minAvailable: 0 };
  const key = { namespace: 'default', name: 'guarded' };
  await eventually('the budget to be relaxed', () =>
    world.kube.mergePatch(resources.podDisruptionBudgets, key, { spec }),
  );
  await world.eventually('gate', 'it is drained', drained);
  for (const uid of uids) {
    expect(world.record.gone.filter((one) => one === uid)).toHaveLength(1);
    expect(world.record.evacuations.get(uid)?.size).toBe(1);
    expect(requests.created.get(uid)?.size).toBe(1);
  }
  await world.patch('gate', { stage: 'Complete' });
  await world.eventually('gate', 'it is complete', finished);
});
