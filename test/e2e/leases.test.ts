import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Lease } from '../../api/core.ts';
import { leaseHolderOf, NODE_LEASE_NAMESPACE, SYSTEM_NAMESPACE } from '../../api/names.ts';
import { CLOCK_DRIFT_MS, isHeldBy } from '../../domain/leases/lease.ts';
import { Informer } from '../../kube/informer.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { resources } from '../../kube/resources.ts';
import { NodeLeases } from '../../node-lease/nodeLeases.ts';
import { silentLog } from '../kit/cluster.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import {
  controllers,
  deathNoticedSoon,
  startAdmission,
  startWorker,
  type WorkerProcess,
} from '../kit/worker.ts';
import { createWorld, finished, type World } from '../kit/world.ts';

/** Long enough for a worker to start on a machine that is several times slower. */
const durationSeconds = 30;
const holder = leaseHolderOf(SYSTEM_NAMESPACE);
const node = 'node-1';

let world: World;
let admission: WorkerProcess;
let workers: WorkerProcess[] = [];
let leases: Informer<Lease>;
/** Every version of the node's Lease, oldest first. */
const versions: Lease['spec'][] = [];
const watching = new AbortController();

const start = () =>
  startWorker(world.sandbox, {
    ...controllers,
    env: { ...deathNoticedSoon, NODE_LEASE_DURATION: String(durationSeconds) },
  });
const killAll = () => Promise.all(workers.splice(0).map((worker) => worker.kill()));

beforeAll(async () => {
  world = await createWorld({ nodes: 2 });
  const { kube } = world;
  leases = new Informer({
    kube,
    resource: resources.leases,
    namespace: NODE_LEASE_NAMESPACE,
    log: silentLog,
  });
  leases.subscribe(({ object }) => {
    if (object.metadata.name === node) versions.push(object.spec);
  });
  leases.start(watching.signal);
  workers = [start(), start()];
  admission = startAdmission(world.sandbox);
  await Promise.all([admission, ...workers].map((worker) => worker.ready()));
});

afterAll(async () => {
  await killAll();
  await admission?.kill();
  watching.abort();
  await world?.close();
});

const leaseNow = () => leases.get(`${NODE_LEASE_NAMESPACE}/${node}`);
const isOurs = () => isHeldBy(leaseNow(), holder, world.kube.now().getTime());
const renewedAt = () => Date.parse(leaseNow()?.spec.renewTime ?? '');

/** Waits for a renewal that is later than the last one. */
async function nextRenewal(): Promise<void> {
  const before = renewedAt();
  await eventually('the next renewal', () => expect(renewedAt()).toBeGreaterThan(before));
}

const evacuated = async (pod: string) => {
  const { items } = await world.kube.list(resources.evacuations, { namespace: 'default' });
  return items.some(({ spec }) => spec.podRef.name === pod);
};

describe('the Lease of a node under maintenance', () => {
  const guarded = { guarded: 'yes' };

  test('never lapses while workers are killed, if one is back within its duration', async () => {
    const [pod = ''] = await world.placePods(node, 1, { labels: guarded });
    await world.budget('guard', guarded, { minAvailable: 1 });
    await world.apply('leased', { nodes: [node], stage: 'Drain' });
    await eventually('the Lease to be ours', () => expect(isOurs()).toBe(true));
    await eventually('the Evacuation', async () => expect(await evacuated(pod)).toBe(true));
    await nextRenewal();
    await killAll();
    workers = [start()];
    await nextRenewal();
    const times = versions
      .filter(({ holderIdentity }) => holderIdentity === holder)
      .map(({ renewTime = '' }) => Date.parse(renewTime));
    const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0));
    expect(gaps.length).toBeGreaterThan(1);
    expect(Math.max(...gaps)).toBeLessThan(durationSeconds * 1_000);
    expect(new Set(versions.map(({ acquireTime }) => acquireTime).filter(Boolean)).size).toBe(1);
  });

  test('expires when they are away for longer: then, and not before, another client may acquire it', async () => {
    await killAll();
    const snapshots = new NodeLeases({ kube: world.kube, holder: 'snapshots', leaseDurationSeconds: 600 });
    expect(await snapshots.acquire(node)).toMatchObject({ kind: 'HeldByAnother', holder });
    // As if most of the duration had passed.
    const last = world.kube.now().getTime() - (durationSeconds - 2) * 1_000;
    const key = { namespace: NODE_LEASE_NAMESPACE, name: node };
    await world.kube.mergePatch(resources.leases, key, { spec: { renewTime: microTime(new Date(last)) } });
    const taken = await eventually('the Lease to expire', async () => {
      const acquisition = await snapshots.acquire(node);
      expect(acquisition.kind).toBe('Held');
      return acquisition;
    });
    const { acquireTime = '', leaseTransitions } = (taken as { lease: Lease }).lease.spec;
    expect(Date.parse(acquireTime)).toBeGreaterThan(last + durationSeconds * 1_000 + CLOCK_DRIFT_MS);
    expect(leaseTransitions).toBe(1);
  });

  test('is not taken back by the maintenance, which reports the holder that it waits for', async () => {
    workers = [start()];
    await world.eventually('leased', 'it waits for the other holder', ({ status }) =>
      (status?.nodeStatuses ?? []).some(
        ({ drainMessage }) =>
          drainMessage === 'Waiting for the maintenance Lease of the node: held by snapshots.',
      ),
    );
    const [late = ''] = await world.placePods(node, 1);
    await world.kube.mergePatch(resources.nodes, { name: node }, { spec: { unschedulable: false } });
    await throughout('the node is left to the other holder', 2_000, async () => {
      expect(leaseNow()?.spec.holderIdentity).toBe('snapshots');
      expect((await world.node(node)).spec.unschedulable ?? false).toBe(false);
      expect(await evacuated(late)).toBe(false);
    });
    const snapshots = new NodeLeases({ kube: world.kube, holder: 'snapshots', leaseDurationSeconds: 600 });
    expect(await snapshots.release(node)).toBe('Released');
    await eventually('the Lease to be ours again', () => expect(isOurs()).toBe(true));
    await eventually('the node to be cordoned again', async () =>
      expect((await world.node(node)).spec.unschedulable).toBe(true),
    );
    await eventually('the late pod to have left', async () =>
      expect((await world.podsOn(node)).map(({ metadata }) => metadata.name)).not.toContain(late),
    );
  });

  test('is released when the node is uncordoned', async () => {
    await world.patch('leased', { stage: 'Complete' });
    await world.eventually('leased', 'it is finished', finished);
    expect((await world.node(node)).spec.unschedulable ?? false).toBe(false);
    await eventually('the Lease to be free', () =>
      expect(leaseNow()?.spec).toMatchObject({ holderIdentity: '', leaseTransitions: 2 }),
    );
    expect(leaseNow()?.spec.leaseDurationSeconds).toBeUndefined();
  });
});
