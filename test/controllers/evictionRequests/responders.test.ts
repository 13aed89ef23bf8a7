import type { Deployment, KubeObject, Pod } from '../../../api/core.ts';
import type { EvictionRequest, LifecycleEviction } from '../../../api/lifecycle.ts';
import {
  DAEMONSET_RESPONDER,
  DEPLOYMENT_RESPONDER,
  IMPERATIVE_RESPONDER,
  LIFECYCLE_EVICTION,
  MAINTENANCE_REQUESTER,
  RELEASED_ANNOTATION,
} from '../../../api/names.ts';
import { isTrue } from '../../../domain/common/conditions.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { daemons, evictionRequestFor, pods } from '../../kit/builders.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { evictionRequestControllerOn } from '../../kit/evictionRequests.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let stop: () => Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox({ evictionRequest: true, nodes: 0 });
  c = await testCluster(sandbox, { prefix: 'responder' });
});

beforeEach(() => {
  c.requests.clear();
  stop = evictionRequestControllerOn(c);
});

afterEach(() => stop());

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

function request(pod: Pod): Promise<EvictionRequest> {
  const named = { name: c.named('er'), requester: 'example.com/descheduler' };
  return c.admin.create(resources.evictionRequests, evictionRequestFor(pod, named));
}

async function withdraw({ metadata: { namespace, name } }: EvictionRequest): Promise<void> {
  await c.admin.mergePatch(
    resources.evictionRequests,
    { namespace, name },
    { spec: { intent: 'Withdrawn' } },
  );
}

async function evictionOf(pod: Pod): Promise<LifecycleEviction | undefined> {
  const { items } = await c.admin.list(resources.evictions, { namespace: pod.metadata.namespace });
  return items.find(({ spec }) => spec.target.pod.uid === pod.metadata.uid);
}

const isReleased = ({ metadata }: Pod) => metadata.annotations?.[RELEASED_ANNOTATION] !== undefined;

/** Creates a Deployment with one replica on a node that is then cordoned, and another node for the replacement. */
async function app({ canReplace = true, annotations = {} } = {}): Promise<{ name: string; pod: Pod }> {
  const name = c.named('app');
  const first = await c.nodeNamed('n', { app: name });
  await c.admin.create(resources.deployments, {
    metadata: { name, namespace: c.namespace },
    spec: {
      replicas: 1,
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name }, annotations },
        spec: {
          evictionResponders: [{ name: DEPLOYMENT_RESPONDER, priority: 10_000 }],
          nodeSelector: { app: name },
          terminationGracePeriodSeconds: 0,
          containers: [{ name: 'main', image: 'fake' }],
        },
      },
    },
  } as Deployment);
  const pod = await eventually('the pod to be Ready', () => {
    const [ready] = c.podsOf(first).filter((one) => one.status.ready);
    expect(ready).toBeDefined();
    return ready as Pod;
  });
  await c.cordoned(first);
  if (canReplace) await c.nodeNamed('n', { app: name });
  return { name, pod };
}

describe('A pod of a Deployment that names our responder', () => {
  test('is replaced before it is evicted', async () => {
    const { name, pod } = await app();
    const budget = c.budget({ app: name }, { minAvailable: 1 });
    await c.applied(budget);
    await request(pod);
    await c.eventuallyGone(pod);
    const left = c.cluster.pods.list().filter(({ metadata }) => metadata.labels?.['app'] === name);
    expect(left.map(({ status }) => status.ready)).toEqual([true]);
    await eventually('the end of the Eviction', async () => {
      const { status } = (await evictionOf(pod)) ?? {};
      expect(isTrue(status?.conditions, 'TargetEvicted')).toBe(true);
      expect(status?.targetResponders).toEqual([
        { name: DEPLOYMENT_RESPONDER, priority: 10_000, state: 'Completed' },
        { name: IMPERATIVE_RESPONDER, priority: 100, state: 'Completed' },
      ]);
    });
  });

  test('stays released while its replacement cannot start, across a crash, and returns when the request is withdrawn', async () => {
    const { pod } = await app({ canReplace: false });
    const asked = await request(pod);
    const now = () => c.cluster.pods.get(`${c.namespace}/${pod.metadata.name}`);
    await eventually('the release', () => expect(isReleased(now() as Pod)).toBe(true));
    await stop();
    stop = evictionRequestControllerOn(c);
    // Several questions whether an Eviction still keeps it.
    await throughout('the pod is released', 1_500, () => expect(isReleased(now() as Pod)).toBe(true));
    await withdraw(asked);
    await eventually('the pod to be adopted again', () => {
      expect(isReleased(now() as Pod)).toBe(false);
      expect(now()?.metadata.ownerReferences).toHaveLength(1);
    });
  });
});

test('Without our controller, a pod is replaced for the Eviction of another one, and no request is answered', async () => {
  await stop();
  stop = evictionRequestControllerOn(c, { runsController: false });
  const unanswered = await request(await c.podOn(await c.nodeNamed('n')));
  const { name: deployment, pod } = await app();
  const { apiVersion, kind } = LIFECYCLE_EVICTION;
  const { name, namespace = '', uid = '' } = pod.metadata;
  const { metadata } = await c.admin.create(resources.evictions, {
    apiVersion,
    kind,
    metadata: { name: c.named('eviction'), namespace, labels: { [DEPLOYMENT_RESPONDER]: 'responder' } },
    spec: { target: { pod: { name, uid } } },
  });
  const status = {
    targetResponders: [
      { name: DEPLOYMENT_RESPONDER, priority: 10_000, state: 'Active' },
      { name: IMPERATIVE_RESPONDER, priority: 100, state: 'Inactive' },
    ],
    responders: [
      { name: DEPLOYMENT_RESPONDER, startTime: c.admin.now().toISOString() },
      { name: IMPERATIVE_RESPONDER },
    ],
  };
  await c.admin.mergePatch(
    resources.evictions,
    { namespace, name: metadata.name },
    { status },
    { subresource: 'status', fieldManager: 'kube-controller-manager' },
  );
  await eventually('the completion of our responder', async () => {
    const [own] = (await evictionOf(pod))?.status?.responders ?? [];
    expect(own?.completionTime).toBeDefined();
  });
  const left = c.cluster.pods.list().filter((one) => one.metadata.labels?.['app'] === deployment);
  expect(left.map((one) => one.status.ready)).toEqual([true, true]);
  const key = { namespace, name: unanswered.metadata.name };
  expect((await c.admin.get(resources.evictionRequests, key))?.status ?? {}).toEqual({});
  expect(c.requests.count('evict pods')).toBe(0);
  // The controller of the next test would serve it.
  await withdraw(unanswered);
});

describe('A pod of a Deployment with an Evacuation and an EvictionRequest', () => {
  const annotations = {
    'evacuation.coordination.k8s.io/priority_deployment.apps.k8s.io': '10000/controller',
  };

  /** Each requests the evacuation, and returns the function that cancels it once its call has reported. */
  const requests = {
    Evacuation: async (pod: Pod) => {
      const { metadata } = await c.admin.create(resources.evacuations, c.evacuation(pod));
      const { namespace, name, uid = '' } = metadata;
      await eventually('the report of the evacuator', async () =>
        expect((await c.evacuationOf(pod))?.status?.message).toBeDefined(),
      );
      return async () => {
        const withoutFinalizers = { metadata: { finalizers: [] } };
        await c.admin.mergePatch(resources.evacuations, { namespace, name }, withoutFinalizers);
        await c.admin.delete(resources.evacuations, { namespace, name }, { uid });
      };
    },
    EvictionRequest: async (pod: Pod) => {
      const asked = await request(pod);
      await eventually('the report of the responder', async () =>
        expect((await evictionOf(pod))?.status?.responders?.[0]?.message).toBeDefined(),
      );
      return () => withdraw(asked);
    },
  };

  const orders = [
    { first: 'Evacuation', second: 'EvictionRequest' },
    { first: 'EvictionRequest', second: 'Evacuation' },
  ] as const;

  test.each(orders)('is replaced, and both end: $first, $second', async ({ first, second }) => {
    const { name, pod } = await app({ canReplace: false, annotations });
    await requests[first](pod);
    await requests[second](pod);
    await c.nodeNamed('n', { app: name });
    await c.eventuallyGone(pod);
    await eventually('the end of the Eviction', async () => {
      const { status } = (await evictionOf(pod)) ?? {};
      expect(isTrue(status?.conditions, 'TargetEvicted')).toBe(true);
      expect(status?.targetResponders?.[0]).toMatchObject({ name: DEPLOYMENT_RESPONDER, state: 'Completed' });
    });
    expect(c.requests.count('evict pods')).toBe(1);
  });

  test.each(orders)('is replaced when one is cancelled: $first, not $second', async ({ first, second }) => {
    const { name, pod } = await app({ canReplace: false, annotations });
    await requests[first](pod);
    const cancel = await requests[second](pod);
    await cancel();
    const now = () => c.cluster.pods.get(`${c.namespace}/${pod.metadata.name}`);
    await throughout('the pod is released', 1_000, () => expect(isReleased(now() as Pod)).toBe(true));
    await c.nodeNamed('n', { app: name });
    await c.eventuallyGone(pod);
  });
});

describe('A pod of a DaemonSet that names our responder', () => {
  test('is deleted once a maintenance has reached it', async () => {
    const name = c.named('ds');
    const node = await c.nodeNamed('n', { for: name });
    await c.applied({
      apiVersion: 'apps/v1',
      kind: 'DaemonSet',
      metadata: { name, namespace: c.namespace },
      spec: {
        selector: { matchLabels: { daemon: name } },
        template: {
          metadata: { labels: { daemon: name } },
          spec: {
            evictionResponders: [{ name: DAEMONSET_RESPONDER, priority: 10_000 }],
            nodeSelector: { for: name },
            tolerations: [{ operator: 'Exists' }],
            terminationGracePeriodSeconds: 0,
            containers: [{ name: 'main', image: 'fake' }],
          },
        },
      },
    } as KubeObject);
    const pod = await eventually('the pod to be Ready', () => {
      const [ready] = c.podsOf(node).filter((one) => one.status.ready);
      expect(ready).toBeDefined();
      return ready as Pod;
    });
    await request(pod);
    await eventually('the report of the responder', async () => {
      const { status } = (await evictionOf(pod)) ?? {};
      expect(status?.responders?.[0]?.message).toBe(
        `No maintenance drains the pods of DaemonSet ${name} on the node yet.`,
      );
    });
    const maintenance = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    const drainTargets = [pods(2_147_483_647), daemons(2_147_483_647)];
    await c.withStatus(
      { ...maintenance, kind: 'NodeMaintenance' },
      { nodeStatuses: [{ nodeRef: { name: node }, drainTargets }] },
    );
    await c.eventuallyGone(pod);
    await eventually('the end of the Eviction', async () =>
      expect(isTrue((await evictionOf(pod))?.status?.conditions, 'TargetEvicted')).toBe(true),
    );
    expect(c.requests.count('evict pods')).toBe(0);
    await c.maintenancesDropped();
  });
});

describe('A pod of a cancelled maintenance, whose request is not withdrawn yet,', () => {
  const evacuators = { 'evacuation.coordination.k8s.io/priority_mover.example.com': '5000/mover' };
  const requestOfMaintenance = (pod: Pod) =>
    c.admin.create(
      resources.evictionRequests,
      evictionRequestFor(pod, { name: c.named('er'), requester: MAINTENANCE_REQUESTER }),
    );
  const complete = (name: string) =>
    c.patched(resources.nodeMaintenances, { name }, { spec: { stage: 'Complete' } });

  afterEach(() => c.maintenancesDropped());

  test('is not evicted, unless another maintenance drains the node', async () => {
    const node = await c.nodeNamed('cancelled');
    const labels = { app: c.named('app') };
    const pod = await c.podOn(node, { labels });
    const budget = c.budget(labels, { minAvailable: 1 });
    await c.applied(budget);
    const { metadata } = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    await requestOfMaintenance(pod);
    await eventually('the message of the budget', async () =>
      expect((await evictionOf(pod))?.status?.responders?.[0]?.message).toMatch(/PodDisruptionBudget/),
    );
    await complete(metadata.name);
    const named = { namespace: c.namespace, name: budget.metadata.name };
    await c.patched(resources.podDisruptionBudgets, named, { spec: { minAvailable: 0 } });
    await throughout('the pod stays', 2_000, () => expect(c.requests.count('evict pods')).toBe(0));
    await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    await c.eventuallyGone(pod);
  });

  test('is not moved by its evacuators any more', async () => {
    const node = await c.nodeNamed('cancelled');
    const pod = await c.podOn(node, { annotations: evacuators });
    const { metadata } = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    await requestOfMaintenance(pod);
    await eventually('its evacuator to be active', async () =>
      expect((await c.evacuationOf(pod))?.status?.activeEvacuatorClass).toBe('mover.example.com'),
    );
    await complete(metadata.name);
    await eventually('the Evacuation to be gone', async () =>
      expect(await c.evacuationOf(pod)).toBeUndefined(),
    );
    await throughout('none follows', 1_000, async () => expect(await c.evacuationOf(pod)).toBeUndefined());
    await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    await eventually('another one', async () => expect(await c.evacuationOf(pod)).toBeDefined());
  });
});

describe('A pod with evacuators by its annotations', () => {
  const annotations = { 'evacuation.coordination.k8s.io/priority_mover.example.com': '5000/mover' };

  test('is evacuated by them, until nobody requests it any more', async () => {
    const pod = await c.podOn(await c.nodeNamed('n'), { annotations });
    const asked = await request(pod);
    await eventually('its evacuator to be active', async () =>
      expect((await c.evacuationOf(pod))?.status?.activeEvacuatorClass).toBe('mover.example.com'),
    );
    await eventually('the report about it', async () => {
      const { status } = (await evictionOf(pod)) ?? {};
      expect(status?.responders?.[0]?.heartbeatTime).toBeDefined();
    });
    await withdraw(asked);
    await eventually('the Evacuation to be gone', async () =>
      expect(await c.evacuationOf(pod)).toBeUndefined(),
    );
    await throughout('the pod stays', 1_000, async () => {
      const { namespace, name } = pod.metadata;
      expect((await c.admin.get(resources.pods, { namespace, name }))?.metadata.uid).toBe(pod.metadata.uid);
    });
  });

  test('is evacuated although finalizers of others keep a cancelled Evacuation of it', async () => {
    const pod = await c.podOn(await c.nodeNamed('n'), { annotations });
    await stop();
    const kept = await c.applied(c.evacuation(pod, ['example.com/audit']));
    const { namespace, name, uid = '' } = kept.metadata;
    await c.admin.delete(resources.evacuations, { namespace, name }, { uid });
    stop = evictionRequestControllerOn(c);
    await request(pod);
    const ofPod = () =>
      c.cluster.evacuations.list().filter(({ spec }) => spec.podRef.uid === pod.metadata.uid);
    const replacement = await eventually('another Evacuation', () => {
      const found = ofPod().find(({ metadata, status }) => {
        return metadata.uid !== uid && status?.activeEvacuatorClass === 'mover.example.com';
      });
      expect(found).toBeDefined();
      return found;
    });
    if (replacement === undefined) throw new Error('unreachable');
    await c.withStatus({ ...replacement, kind: 'Evacuation' }, { activeEvacuatorCompleted: true });
    await c.eventuallyGone(pod);
    await c.admin.mergePatch(
      resources.evacuations,
      { namespace, name },
      { metadata: { uid, finalizers: [] } },
    );
  });

  test('is evicted once when they have completed', async () => {
    const pod = await c.podOn(await c.nodeNamed('n'), { annotations });
    c.requests.clear();
    await request(pod);
    const evacuation = await eventually('its evacuator to be active', async () => {
      const found = await c.evacuationOf(pod);
      expect(found?.status?.activeEvacuatorClass).toBe('mover.example.com');
      return found;
    });
    if (evacuation === undefined) throw new Error('unreachable');
    await c.withStatus({ ...evacuation, kind: 'Evacuation' }, { activeEvacuatorCompleted: true });
    await c.eventuallyGone(pod);
    await eventually('the end of the Eviction', async () =>
      expect(isTrue((await evictionOf(pod))?.status?.conditions, 'TargetEvicted')).toBe(true),
    );
    expect(c.requests.count('evict pods')).toBe(1);
  });
});
