import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { KubeObject, Pod } from '../../api/core.ts';
import type { EvictionRequest, LifecycleEviction, ResponderStatus } from '../../api/lifecycle.ts';
import { IMPERATIVE_RESPONDER } from '../../api/names.ts';
import { activeResponderOf } from '../../domain/evacuation/evictionRequest.ts';
import { resources } from '../../kube/resources.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually } from '../kit/eventually.ts';
import { recordRequests, type RequestRecord } from '../kit/requestRecord.ts';
import { deathNoticedSoon, startNextWorker, startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

// Drains by EvictionRequests of lifecycle.k8s.io (KEP-4563), which the controller of this project serves.

const byRequests = {
  args: ['--eviction-api', 'lifecycle', '--eviction-request-controller', 'true'],
  env: deathNoticedSoon,
};
const unserved = { args: ['--eviction-api', 'auto', '--eviction-request-response-timeout', '1'] };

let world: World;
let worker: WorkerProcess;
let requests: RequestRecord;
const watching = new AbortController();

beforeAll(async () => {
  world = await createWorld({ nodes: 4, evictionRequest: true });
  requests = await recordRequests(world.kube, watching.signal);
  worker = startWorker(world.sandbox, byRequests);
  await worker.ready();
});
afterAll(async () => {
  watching.abort();
  await worker?.kill();
  await world?.close();
});

const maintenance = (...args: string[]) => succeeds(kubectlOf(world.sandbox)(['maintenance', ...args]));
const guarded = (name: string) => ({ labels: { guarded: name } });

/** Creates a budget that needs all of these pods; the returned function relaxes it. */
async function guard(name: string, pods: readonly string[]): Promise<() => Promise<void>> {
  // Of pods without a controller, the disruption controller counts only a number that must be available.
  await world.budget(name, guarded(name).labels, { minAvailable: pods.length });
  return async () => {
    const spec = { minAvailable: 0 };
    await world.kube.mergePatch(resources.podDisruptionBudgets, { namespace: 'default', name }, { spec });
  };
}

async function podOf(name: string): Promise<Pod> {
  return (await world.kube.get(resources.pods, { namespace: 'default', name })) as unknown as Pod;
}

const uidsOf = async (names: readonly string[]) =>
  Promise.all(names.map(async (name) => (await podOf(name)).metadata.uid ?? ''));

const requestsOf = (uid: string) =>
  requests.current().filter((one) => one.spec.target.pod.uid === uid) as EvictionRequest[];

const eventuallyRequested = (uids: readonly string[]) =>
  eventually('the EvictionRequests of the pods', () => {
    for (const uid of uids) expect(requestsOf(uid)).toHaveLength(1);
  });

async function evictionOf(uid: string): Promise<LifecycleEviction | undefined> {
  const { items } = await world.kube.list(resources.evictions, { namespace: 'default' });
  return items.find(({ spec }) => spec.target.pod.uid === uid);
}

const eventuallyClean = () =>
  eventually('the EvictionRequests and their Evictions to be gone', async () => {
    expect(requests.current()).toEqual([]);
    expect((await world.kube.list(resources.evictions)).items).toEqual([]);
  });

/** Each pod has left once, by one EvictionRequest, and without an Evacuation. */
function expectOneRequestEach(uids: readonly string[]): void {
  for (const uid of uids) {
    expect(requests.created.get(uid)?.size).toBe(1);
    expect(world.record.evacuations.get(uid)).toBeUndefined();
    expect(world.record.gone.filter((one) => one === uid)).toHaveLength(1);
  }
}

describe('a drain by EvictionRequests', () => {
  test('ends, with one request for each pod, and leaves none behind', async () => {
    const uids = await uidsOf(await world.placePods('node-1', 8));
    await world.apply('plain', { nodes: ['node-1'], stage: 'Drain' });
    const { status } = await world.eventually('plain', 'it is drained', drained);
    expect(status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'EvictionRequestsServed', reason: 'ControllerResponds' }),
    );
    expectOneRequestEach(uids);
    await eventuallyClean();
    await world.patch('plain', { stage: 'Complete' });
    await world.eventually('plain', 'it is complete', finished);
  });

  test('names what blocks it, in the status and for kubectl maintenance', async () => {
    const names = await world.placePods('node-2', 1, guarded('shown'));
    const [name = ''] = names;
    const lift = await guard('shown', names);
    await world.apply('shown', { nodes: ['node-2'], stage: 'Drain' });
    await world.eventually('shown', 'its pod is blocked', ({ status }) =>
      Boolean(status?.blockedPods?.some(({ reason }) => reason === 'DisruptionBudgetNeverAllows')),
    );
    const status = await maintenance('status', 'shown');
    expect(status).toContain(`default/${name}`);
    expect(status).toContain('PodDisruptionBudget default/shown');
    const plan = await maintenance('plan', 'nm/shown');
    expect(plan).toContain('--eviction-api lifecycle');
    expect(plan).toContain('PodDisruptionBudget default/shown');
    await lift();
    await world.eventually('shown', 'it is drained', drained);
    await world.patch('shown', { stage: 'Complete' });
    await world.eventually('shown', 'it is complete', finished);
  });

  test('passes by the responders of a pod before it is evicted', async () => {
    const responder = 'example.com/migrate';
    await world.kube.create(resources.pods, {
      metadata: { namespace: 'default', name: 'migrated' },
      spec: {
        nodeName: 'node-2',
        terminationGracePeriodSeconds: 1,
        evictionResponders: [{ name: responder, priority: 2000 }],
        containers: [{ name: 'main', image: 'none' }],
      },
    } as KubeObject as never);
    const [uid = ''] = await uidsOf(['migrated']);
    await eventually('the pod to be Ready', async () =>
      expect((await world.podsOn('node-2')).find(({ metadata }) => metadata.uid === uid)?.status.ready).toBe(
        true,
      ),
    );
    await world.apply('migration', { nodes: ['node-2'], stage: 'Drain' });
    await eventually('the responder to be active', async () =>
      expect(activeResponderOf(await evictionOf(uid))?.name).toBe(responder),
    );
    await reported(uid, { name: responder, message: 'copying the data' });
    await eventually('the message', async () =>
      expect(await maintenance('status', 'migration')).toContain('copying the data'),
    );
    await reported(uid, { name: responder, completionTime: world.kube.now().toISOString() });
    await world.eventually('migration', 'it is drained', drained);
    expectOneRequestEach([uid]);
    await world.patch('migration', { stage: 'Complete' });
    await world.eventually('migration', 'it is complete', finished);
  });

  /** Reports as the responder. */
  async function reported(uid: string, differs: ResponderStatus): Promise<void> {
    await eventually('the report of the responder', async () => {
      const eviction = (await evictionOf(uid)) as LifecycleEviction;
      const { namespace, name, resourceVersion } = eviction.metadata;
      const heartbeatTime = world.kube.now().toISOString();
      const responders = eviction.status?.responders?.map((one) =>
        one.name === differs.name ? { ...one, heartbeatTime, ...differs } : one,
      );
      await world.kube.mergePatch(
        resources.evictions,
        { namespace, name },
        { metadata: { resourceVersion }, status: { responders } },
        { subresource: 'status' },
      );
    });
  }

  test('continues after a crash of the worker: no pod is requested twice', async () => {
    const names = await world.placePods('node-3', 6, guarded('crash'));
    const lift = await guard('crash', names);
    const uids = await uidsOf(names);
    await world.apply('crash', { nodes: ['node-3'], stage: 'Drain' });
    await eventuallyRequested(uids);
    await worker.kill();
    await lift();
    worker = await startNextWorker(world, byRequests);
    await world.eventually('crash', 'it is drained', drained);
    expectOneRequestEach(uids);
    await world.patch('crash', { stage: 'Complete' });
    await world.eventually('crash', 'it is complete', finished);
    await eventuallyClean();
  });

  test('that is cancelled withdraws its requests, and the pods run on', async () => {
    const names = await world.placePods('node-1', 3, guarded('cancelled'));
    await guard('cancelled', names);
    const uids = await uidsOf(names);
    await world.apply('cancelled', { nodes: ['node-1'], stage: 'Drain' });
    await eventuallyRequested(uids);
    await eventually('the eviction API to be next', async () => {
      for (const uid of uids)
        expect(activeResponderOf(await evictionOf(uid))?.name).toBe(IMPERATIVE_RESPONDER);
    });
    await world.patch('cancelled', { stage: 'Complete' });
    await world.eventually('cancelled', 'it is complete', finished);
    await eventuallyClean();
    expect(world.record.gone.filter((uid) => uids.includes(uid))).toEqual([]);
    expect((await world.node('node-1')).spec.unschedulable ?? false).toBe(false);
  });

  test('shares the request of a pod with another maintenance, which continues without it', async () => {
    const names = await world.placePods('node-4', 2, guarded('shared'));
    const lift = await guard('shared', names);
    const uids = await uidsOf(names);
    await world.apply('first', { nodes: ['node-4'], stage: 'Drain' });
    await eventuallyRequested(uids);
    await world.apply('second', { nodes: ['node-4'], stage: 'Drain' });
    await world.eventually('second', 'its pods are evacuating', ({ status }) => status?.podsEvacuating === 2);
    await world.patch('first', { stage: 'Complete' });
    await world.eventually('first', 'it is complete', finished);
    const { uid = '' } = (await world.maintenance('first'))?.metadata ?? {};
    await world.kube.delete(resources.nodeMaintenances, { name: 'first' }, { uid });
    for (const one of uids)
      expect(requestsOf(one)).toMatchObject([
        { spec: { intent: 'Eviction' }, metadata: { ownerReferences: [{ name: 'second' }] } },
      ]);
    await lift();
    await world.eventually('second', 'it is drained', drained);
    expectOneRequestEach(uids);
    await world.patch('second', { stage: 'Complete' });
    await world.eventually('second', 'it is complete', finished);
  });
});

describe('with auto, where no controller runs', () => {
  test('a drain leaves by Evacuations, and says so', async () => {
    await eventuallyClean();
    await worker.kill();
    worker = await startNextWorker(world, unserved);
    await worker.ready();
    const uids = await uidsOf(await world.placePods('node-2', 5));
    await world.apply('unserved', { nodes: ['node-2'], stage: 'Drain' });
    const { status } = await world.eventually('unserved', 'it is drained', drained);
    expect(status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'EvictionRequestsServed', status: 'False', reason: 'NoController' }),
    );
    expect(uids.map((uid) => world.record.gone.filter((one) => one === uid).length)).toEqual(
      uids.map(() => 1),
    );
    expect(uids.flatMap((uid) => [...(requests.created.get(uid) ?? [])])).toHaveLength(1);
    await world.patch('unserved', { stage: 'Complete' });
    await world.eventually('unserved', 'it is complete', finished);
    await eventuallyClean();
  });
});
