import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { KubeObject } from '../../api/core.ts';
import type { EvictionIntent, EvictionRequest, LifecycleEviction } from '../../api/lifecycle.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import { type RawPod, resources } from '../../kube/resources.ts';
import { evictionRequestFor } from '../kit/builders.ts';
import { eventually } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

// A worker with --eviction-request-controller, which has exactly the permissions of deploy/ and deploy/eviction-requests.

const namespace = 'default';
const responderName = 'example.com/nobody';

let world: World;
let worker: WorkerProcess;

beforeAll(async () => {
  world = await createWorld({ nodes: 1, evictionRequest: true });
  worker = startWorker(world.sandbox, { args: ['--eviction-request-controller', 'true'] });
  await worker.ready();
});

afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

function podNamed(name: string, spec: object = {}): Promise<RawPod> {
  return world.kube.create(resources.pods, {
    metadata: { name, namespace },
    spec: {
      terminationGracePeriodSeconds: 0,
      tolerations: [{ operator: 'Exists' }],
      containers: [{ name: 'main', image: 'none' }],
      ...spec,
    },
  } as KubeObject as RawPod);
}

function request(pod: RawPod, requester: string): Promise<EvictionRequest> {
  const name = `${pod.metadata.name}-${requester.replace('/', '.')}`;
  return world.kube.create(resources.evictionRequests, evictionRequestFor(pod, { name, requester }));
}

function intend({ metadata: { name } }: EvictionRequest, intent: EvictionIntent): Promise<EvictionRequest> {
  return world.kube.mergePatch(resources.evictionRequests, { namespace, name }, { spec: { intent } });
}

async function evictionsOf({ metadata }: RawPod): Promise<LifecycleEviction[]> {
  const { items } = await world.kube.list(resources.evictions, { namespace });
  return items.filter(({ spec }) => spec.target.pod.uid === metadata.uid);
}

async function eventuallyEvicted(pod: RawPod): Promise<void> {
  await eventually(`pod ${pod.metadata.name} to be evicted`, async () => {
    const evictions = await evictionsOf(pod);
    expect(evictions.some(({ status }) => isTrue(status?.conditions, 'TargetEvicted'))).toBe(true);
  });
}

test('A worker evicts the pod of an EvictionRequest, and counts it', async () => {
  const pod = await podNamed('plain');
  await request(pod, 'example.com/a');
  await eventuallyEvicted(pod);
  expect(await worker.metrics()).toContain('node_maintenance_lifecycle_evictions_total{outcome="Evicted"} 1');
});

test('A worker joins later requests, cancels, and begins again', async () => {
  const pod = await podNamed('joined', { evictionResponders: [{ name: responderName, priority: 10_000 }] });
  const first = await request(pod, 'example.com/a');
  await eventually('an Eviction', async () => expect(await evictionsOf(pod)).toHaveLength(1));
  const second = await request(pod, 'example.com/b');
  await eventually('two owners', async () => {
    const [eviction] = await evictionsOf(pod);
    expect(eviction?.metadata.ownerReferences).toHaveLength(2);
  });
  await intend(first, 'Withdrawn');
  await intend(second, 'Withdrawn');
  await eventually('the end of the Eviction', async () => {
    const [eviction] = await evictionsOf(pod);
    expect(isTrue(eviction?.status?.conditions, 'Failed')).toBe(true);
  });
  await intend(second, 'Eviction');
  await eventually('another Eviction', async () => expect(await evictionsOf(pod)).toHaveLength(2));
});

test('A worker reports on a responder of its own', async () => {
  const pod = await podNamed('alone', {
    evictionResponders: [{ name: 'node-maintenance.dev/deployment', priority: 10_000 }],
  });
  await request(pod, 'example.com/a');
  await eventuallyEvicted(pod);
  const [eviction] = await evictionsOf(pod);
  expect(eviction?.status?.responders?.[0]).toMatchObject({
    message: 'The pod does not belong to a Deployment, so nothing would replace it.',
  });
});
