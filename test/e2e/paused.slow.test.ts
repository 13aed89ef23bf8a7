import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { resources } from '../../kube/resources.ts';
import { eventually, eventuallyHolds, throughout } from '../kit/eventually.ts';
import { controllersLease, startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

// What a worker that was stopped (SIGSTOP, a suspended machine) does when it is resumed: ADR 42.

let world: World;
const workers: WorkerProcess[] = [];

beforeAll(async () => {
  world = await createWorld({ nodes: 2 });
});
afterAll(async () => {
  // A process that is stopped can be killed, but does not react to SIGTERM.
  for (const worker of workers) await worker.kill();
  await world?.close();
});

async function start(): Promise<WorkerProcess> {
  const worker = startWorker(world.sandbox);
  workers.push(worker);
  await worker.ready();
  return worker;
}

test('a worker that was stopped while it drained, until another one had completed the maintenance, leaves the node in service', async () => {
  const paused = await start();
  await world.apply('paused', { nodes: ['node-1'], stage: 'Drain' });
  await world.eventually('paused', 'it is drained', drained);
  const leader = async () => (await world.kube.get(resources.leases, controllersLease))?.spec.holderIdentity;
  const before = await leader();
  process.kill(paused.pid, 'SIGSTOP');
  const other = await start();
  await eventually('the other worker to lead', () => expect(other.log()).toContain('Control loops started'));
  await world.patch('paused', { stage: 'Complete' });
  await world.eventually('paused', 'it is finished', finished);
  const names = await world.placePods('node-1', 2);

  process.kill(paused.pid, 'SIGCONT');
  await eventually('the loss of leadership', () => expect(paused.log()).toContain('Leadership was lost'));
  await eventuallyHolds(
    'its loops to end',
    () => paused.log(),
    (log) => log.includes('Control loops stopped'),
  );
  await throughout('the node stays in service', 3_000, async () => {
    expect((await world.node('node-1')).spec.unschedulable ?? false).toBe(false);
    const pods = await world.podsOn('node-1');
    const kept = pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    expect(kept.map(({ metadata }) => metadata.name)).toEqual(expect.arrayContaining(names));
  });
  const { items: evacuations } = await world.kube.list(resources.evacuations, { namespace: 'default' });
  expect(evacuations).toEqual([]);
  expect(await leader()).not.toBe(before);
});

test('it drains again afterwards, when it is the only one', async () => {
  const [paused, other] = workers;
  await other?.stop();
  await world.apply('next', { nodes: ['node-1'], stage: 'Drain' });
  await world.eventually('next', 'it is drained', drained);
  expect(await world.podsOn('node-1')).toEqual([]);
  expect(await paused?.stop()).toBe(0);
});
