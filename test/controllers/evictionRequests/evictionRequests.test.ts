import type { Pod } from '../../../api/core.ts';
import type { EvictionIntent, EvictionRequest, LifecycleEviction } from '../../../api/lifecycle.ts';
import {
  DAEMONSET_RESPONDER,
  EVICTION_REQUEST,
  IMPERATIVE_RESPONDER,
  LIFECYCLE_EVICTION,
} from '../../../api/names.ts';
import { isTrue } from '../../../domain/common/conditions.ts';
import type { EvictionEnd } from '../../../domain/evictionRequests/conditions.ts';
import { timeText } from '../../../domain/evictionRequests/times.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { evictionRequestFor } from '../../kit/builders.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { evictionRequestControllerOn } from '../../kit/evictionRequests.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

const requester = 'example.com/descheduler';

let sandbox: Sandbox;
let c: TestCluster;
let node: string;
let stop: () => Promise<void>;
const ends: EvictionEnd[] = [];

beforeAll(async () => {
  sandbox = await testSandbox({ evictionRequest: true, nodes: 0 });
  c = await testCluster(sandbox, { prefix: 'request' });
  node = await c.nodeNamed('n');
});

beforeEach(() => {
  c.requests.clear();
  ends.length = 0;
  stop = start();
});

afterEach(() => stop());

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const start = () => evictionRequestControllerOn(c, { onEnd: (end) => ends.push(end) });
const evictCount = () => c.requests.count('evict pods');

const request = (pod: Pod, by = requester) =>
  c.admin.create(resources.evictionRequests, evictionRequestFor(pod, { name: c.named('er'), requester: by }));

async function intend({ metadata }: EvictionRequest, intent: EvictionIntent): Promise<void> {
  const { namespace, name } = metadata;
  await c.admin.mergePatch(resources.evictionRequests, { namespace, name }, { spec: { intent } });
}

async function evictionsOf(pod: Pod): Promise<LifecycleEviction[]> {
  const { items } = await c.admin.list(resources.evictions, { namespace: pod.metadata.namespace });
  return items.filter(({ spec }) => spec.target.pod.uid === pod.metadata.uid);
}

async function livePod({ metadata }: Pod): Promise<Pod | undefined> {
  const { namespace, name, uid } = metadata;
  const found = await c.admin.get(resources.pods, { namespace, name });
  return found?.metadata.uid === uid ? c.cluster.pods.get(`${namespace}/${name}`) : undefined;
}

async function eventuallySucceeded(pod: Pod): Promise<void> {
  await eventually(`the Eviction of ${pod.metadata.name} to succeed`, async () => {
    const [eviction, ...others] = await evictionsOf(pod);
    expect(others).toEqual([]);
    expect(isTrue(eviction?.status?.conditions, 'TargetEvicted')).toBe(true);
  });
}

describe('An EvictionRequest', () => {
  test('evicts its pod once, and is counted', async () => {
    const pod = await c.podOn(node);
    await request(pod);
    await c.eventuallyGone(pod);
    await eventuallySucceeded(pod);
    expect(evictCount()).toBe(1);
    const [eviction] = await evictionsOf(pod);
    expect(eviction?.status?.targetResponders).toEqual([
      { name: IMPERATIVE_RESPONDER, priority: 100, state: 'Completed' },
    ]);
    await eventually('the count', () => expect(ends).toEqual(['Evicted']));
  });

  test('survives a crash of the controller at any time', async () => {
    const pods = await c.podsOn(node, 12);
    for (const pod of pods) await request(pod);
    await stop();
    stop = start();
    for (const pod of pods) await c.eventuallyGone(pod);
    for (const pod of pods) await eventuallySucceeded(pod);
  });

  test('whose intent returns evicts the pod by another Eviction', async () => {
    const labels = { app: c.named('app') };
    const pod = await c.podOn(node, { labels });
    const budget = await c.applied(c.budget(labels, { minAvailable: 1 }));
    const asked = await request(pod);
    await eventually('a first Eviction', async () => expect(await evictionsOf(pod)).toHaveLength(1));
    await intend(asked, 'Withdrawn');
    await eventually('the end of the first Eviction', async () => {
      const [eviction] = await evictionsOf(pod);
      expect(isTrue(eviction?.status?.conditions, 'Failed')).toBe(true);
    });
    await c.deleted(budget);
    await throughout('the pod stays', 1_000, async () => expect(await livePod(pod)).toBeDefined());
    await intend(asked, 'Eviction');
    await c.eventuallyGone(pod);
    expect(evictCount()).toBe(1);
  });
});

describe('A pod with an Evacuation and an EvictionRequest', () => {
  test('is evicted once', async () => {
    await stop();
    const pod = await c.podOn(node);
    await c.admin.create(resources.evacuations, c.evacuation(pod));
    const { metadata } = await request(pod);
    stop = start();
    await c.eventuallyGone(pod);
    // The pod may be gone before the request is observed, which is invalid then.
    await eventually('the end of the request', async () => {
      const key = { namespace: metadata.namespace, name: metadata.name };
      const conditions = (await c.admin.get(resources.evictionRequests, key))?.status?.conditions;
      expect(isTrue(conditions, 'TargetEvicted') || isTrue(conditions, 'Failed')).toBe(true);
    });
    expect(evictCount()).toBe(1);
  });
});

describe('Evacuations and EvictionRequests of one budget', () => {
  test('share its queue: no eviction is rejected', async () => {
    const labels = { app: c.named('app') };
    const pods = await c.podsOn(node, 8, { labels });
    const { metadata } = await c.applied(c.budget(labels, { minAvailable: 7 }));
    await eventually('the budget to be computed', () =>
      expect(c.cluster.budgets.get(`${c.namespace}/${metadata.name}`)?.status?.expectedPods).toBe(8),
    );
    for (const [i, pod] of pods.entries())
      await (i % 2 === 0 ? request(pod) : c.admin.create(resources.evacuations, c.evacuation(pod)));
    // Nothing replaces the pods, so that the budget allows one.
    await eventually('one pod to be gone', async () => {
      const left = await Promise.all(pods.map((pod) => livePod(pod)));
      expect(left.filter((pod) => pod !== undefined)).toHaveLength(7);
    });
    await throughout('no other eviction is sent', 2_000, () => expect(evictCount()).toBe(1));
  });
});

describe('Another controller', () => {
  const by = { fieldManager: 'kube-controller-manager' };

  /** Writes as kube-controller-manager would. */
  async function writtenByOther(pod: Pod, status: object): Promise<LifecycleEviction> {
    const asked = await request(pod);
    const { apiVersion, kind } = EVICTION_REQUEST;
    const owner = { apiVersion, kind, name: asked.metadata.name, uid: asked.metadata.uid ?? '' };
    const { namespace = '', name, uid = '' } = pod.metadata;
    const { metadata } = await c.admin.create(
      resources.evictions,
      {
        apiVersion: LIFECYCLE_EVICTION.apiVersion,
        kind: LIFECYCLE_EVICTION.kind,
        metadata: { name: c.named('other'), namespace, ownerReferences: [owner] },
        spec: { target: { pod: { name, uid } } },
      },
      by,
    );
    const key = { namespace, name: metadata.name };
    return c.admin.mergePatch(resources.evictions, key, { status }, { subresource: 'status', ...by });
  }

  test('that writes Evictions makes this one yield, with an Event, and our responders serve it', async () => {
    await stop();
    const startTime = timeText(c.admin.now());
    const eviction = await writtenByOther(await c.podOn(node), {
      targetResponders: [
        { name: DAEMONSET_RESPONDER, priority: 10_000, state: 'Active' },
        { name: IMPERATIVE_RESPONDER, priority: 100, state: 'Inactive' },
      ],
      responders: [{ name: DAEMONSET_RESPONDER, startTime }, { name: IMPERATIVE_RESPONDER }],
    });
    stop = start();
    await eventually('the Event', async () => {
      const [event, ...others] = await c.eventsAbout(eviction);
      expect(others).toEqual([]);
      expect(event).toContain('EvictionControllerYielded');
    });
    await eventually('the completion of our responder', async () => {
      const key = { namespace: c.namespace, name: eviction.metadata.name };
      const { status } = (await c.admin.get(resources.evictions, key)) ?? {};
      expect(status?.responders?.[0]).toMatchObject({
        completionTime: expect.any(String),
        message: 'No DaemonSet controls the pod.',
      });
    });
    const pod = await c.podOn(node);
    await request(pod);
    await throughout('the request is left to the other controller', 2_000, async () =>
      expect(await evictionsOf(pod)).toEqual([]),
    );
    // The controllers of later tests must not find it.
    const { namespace, name, uid = '' } = eviction.metadata;
    await c.admin.delete(resources.evictions, { namespace, name }, { uid });
  });

  test('that was switched off does not: its last Eviction is final', async () => {
    await stop();
    const condition = {
      type: 'Failed',
      status: 'True',
      reason: 'NoFurtherResponder',
      message: '',
      lastTransitionTime: new Date().toISOString(),
    };
    await writtenByOther(await c.podOn(node), { conditions: [condition] });
    // The apiserver stores the time of a write in whole seconds.
    const writtenAtMs = c.admin.now().getTime();
    await eventually('the time to pass', () =>
      expect(c.cluster.kube.now().getTime()).toBeGreaterThan(writtenAtMs + 2_000),
    );
    stop = start();
    const pod = await c.podOn(node);
    await request(pod);
    await c.eventuallyGone(pod);
  });

  test('is not a user who created an Eviction, also when the same pod is requested afterwards', async () => {
    const target = await c.podOn(node);
    const { namespace = '', name, uid = '' } = target.metadata;
    const created = await c.admin.create(
      resources.evictions,
      {
        apiVersion: LIFECYCLE_EVICTION.apiVersion,
        kind: LIFECYCLE_EVICTION.kind,
        metadata: { name: c.named('by-hand'), namespace },
        spec: { target: { pod: { name, uid } } },
      },
      { fieldManager: 'kubectl-create' },
    );
    const pod = await c.podOn(node);
    await request(pod);
    await c.eventuallyGone(pod);
    const key = { namespace, name: created.metadata.name };
    const current = await c.admin.get(resources.evictions, key);
    expect(current?.status?.conditions).toBeUndefined();
    await request(target);
    await c.eventuallyGone(target);
    await eventuallySucceeded(target);
    const later = await c.podOn(node);
    await request(later);
    await c.eventuallyGone(later);
  });
});
