import type { KubeObject, Pod } from '../../../api/core.ts';
import type { EvictionRequest } from '../../../api/lifecycle.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { type EvictionApi, evictionApis } from '../../../domain/common/evictionApi.ts';
import { EvictionRequests } from '../../../activities/drain/evictionRequests.ts';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { type Resource, resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { activitiesOn, performed, performedTwice, refOf, started } from '../../kit/activity.ts';
import { daemons, evictionRequestFor, pods } from '../../kit/builders.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { evictionRequestControllerOn } from '../../kit/evictionRequests.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { rejectCreations } from '../../kit/rejection.ts';
import { evictionRequestFlags, releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;

beforeAll(async () => {
  sandbox = await testSandbox({ evictionRequest: true, nodes: 0 });
  c = await testCluster(sandbox, { prefix: 'requests' });
});

/** Objects of one test would show the next one that a controller answers, or that none does. */
afterEach(async () => {
  await c.maintenancesDropped();
  const { items } = await c.admin.list(resources.evictionRequests, { namespace: c.namespace });
  for (const { metadata } of items) {
    const { namespace, name, uid = '' } = metadata;
    await c.admin.delete(resources.evictionRequests, { namespace, name }, { uid });
  }
  await eventually('no EvictionRequest in the informer', () =>
    expect(c.cluster.lifecycle.requests.list()).toEqual([]),
  );
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

/** The activities of a process of its own. */
const activitiesBy = (api: EvictionApi, responseSeconds = 2) =>
  activitiesOn(c, { evictionApi: { api, responseSeconds } });

const draining = async (nodes: string[], drainPlan = [pods(1000), pods(5000)]) =>
  c.applied(c.maintenance({ name: c.named('nm'), nodes, stage: 'Drain', drainPlan }));

async function requestsOf(pod: Pod): Promise<EvictionRequest[]> {
  const { namespace, uid } = pod.metadata;
  const { items } = await c.admin.list(resources.evictionRequests, { namespace });
  return items.filter(({ spec }) => spec.target.pod.uid === uid);
}

const eventuallyRequested = (pod: Pod) =>
  eventually(`the EvictionRequest of ${pod.metadata.name}`, async () => {
    const [request, ...others] = await requestsOf(pod);
    expect(request).toBeDefined();
    expect(others).toEqual([]);
    return request as EvictionRequest;
  });

const created = (kind: 'evictionrequests.lifecycle.k8s.io' | 'evacuations.evacuation.coordination.k8s.io') =>
  c.requests.count(`create ${kind}`);

const conditionOf = async ({ metadata }: NodeMaintenance, type = 'EvictionRequestsServed') =>
  (await c.statusOf(metadata.name)).conditions.find((one) => one.type === type);

/** Returns a budget that never allows a disruption, for pods with these labels. */
async function guarded(): Promise<{ labels: Record<string, string>; lifted(): Promise<void> }> {
  const labels = { app: c.named('app') };
  const budget = await c.applied(c.budget(labels, { minAvailable: 1 }));
  return { labels, lifted: () => c.deleted(budget) };
}

describe('with EvictionRequests', () => {
  test('the pods of a tier get one each, and no others do', async () => {
    const { activities } = activitiesBy('lifecycle', 600);
    const node = await c.nodeNamed('n');
    const [low, high] = [await c.podOn(node, { priority: 1000 }), await c.podOn(node, { priority: 1001 })];
    const applied = await draining([node]);
    const drain = started(() => activities.drain(refOf(applied), 0));
    const { metadata, spec } = await eventuallyRequested(low);
    expect(metadata.name).toBe(`nodemaintenance-${low.metadata.uid}-${low.metadata.name}`);
    expect(metadata.ownerReferences).toMatchObject([{ kind: 'NodeMaintenance', uid: applied.metadata.uid }]);
    expect(spec).toEqual({
      target: { pod: { name: low.metadata.name, uid: low.metadata.uid } },
      requester: 'node-maintenance.dev/nodemaintenance',
      intent: 'Eviction',
    });
    await c.eventuallyStatus(applied.metadata.name, 'one pod is evacuating', (status) =>
      expect(status).toMatchObject({
        podsEvacuating: 1,
        podsPendingEvacuation: 1,
        drainTier: { number: 1, total: 2 },
      }),
    );
    await drain.cancelled();
    expect(await requestsOf(high)).toEqual([]);
    expect(await c.evacuationOf(low)).toBeUndefined();
    expect(await conditionOf(applied)).toMatchObject({ status: 'Unknown', reason: 'AwaitingController' });
  });

  test('a drain ends as with Evacuations, by the controller and its responder', async () => {
    const stop = evictionRequestControllerOn(c);
    try {
      const { activities } = activitiesBy('lifecycle', 600);
      const node = await c.nodeNamed('n');
      const own = await c.podsOn(node, 5, { priority: 1000 });
      const applied = await draining([node], [pods(1000)]);
      const drain = started(() => activities.drain(refOf(applied), 0));
      expect(await drain.ended).toMatchObject({ kind: 'Drained', nodes: [node] });
      for (const pod of own) await c.eventuallyGone(pod);
      expect(await conditionOf(applied)).toMatchObject({ status: 'True', reason: 'ControllerResponds' });
    } finally {
      await stop();
    }
  });

  test('what names the UID of a pod in another namespace counts for nothing', async () => {
    const { activities } = activitiesBy('lifecycle', 600);
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    const namespace = await c.namespaceNamed(c.named('tenant'));
    const { name, uid = '' } = pod.metadata;
    const { metadata } = await c.admin.create(resources.evictionRequests, {
      metadata: { name: c.named('forged'), namespace },
      spec: {
        target: { pod: { name, uid } },
        requester: 'node-maintenance.dev/nodemaintenance',
        intent: 'Withdrawn',
      },
    } as EvictionRequest & KubeObject);
    await eventually('it is in the informer', () =>
      expect(c.cluster.lifecycle.requests.get(`${namespace}/${metadata.name}`)).toBeDefined(),
    );
    const applied = await draining([node], [pods(1000)]);
    const drain = started(() => activities.drain(refOf(applied), 0));
    await eventuallyRequested(pod);
    await drain.cancelled();
    const key = { namespace, name: metadata.name };
    await c.admin.delete(resources.evictionRequests, key, { uid: metadata.uid ?? '' });
  });

  test('nothing is requested twice after a crash', async () => {
    const node = await c.nodeNamed('n');
    const some = await c.podsOn(node, 5, { priority: 1000 });
    const applied = await draining([node]);
    const before = created('evictionrequests.lifecycle.k8s.io');
    for (let i = 0; i < 2; i += 1) {
      const { activities } = activitiesBy('lifecycle', 600);
      const drain = started(() => activities.drain(refOf(applied), 0));
      for (const pod of some) await eventuallyRequested(pod);
      await c.eventuallyStatus(applied.metadata.name, 'all are evacuating', (status) =>
        expect(status.podsEvacuating).toBe(5),
      );
      await drain.cancelled();
    }
    expect(created('evictionrequests.lifecycle.k8s.io') - before).toBe(5);
  });

  test('pods of DaemonSets, and those that have evacuators but no responders, get Evacuations', async () => {
    const { activities } = activitiesBy('lifecycle', 600);
    const node = await c.nodeNamed('n');
    const annotations = { 'evacuation.coordination.k8s.io/priority_example.com': '1/app' };
    const own = [await c.daemonPodOn(node), await c.podOn(node, { annotations })];
    const plan = [pods(5000), daemons(5000)];
    const last = completeDrainPlan(plan).length - 1;
    const made = await draining([node], plan);
    const applied = await c.withStatus(made, { ...emptyStatus, drainPosition: last });
    const drain = started(() => activities.drain(refOf(applied), last));
    for (const pod of own) await c.eventuallyEvacuating(pod);
    await drain.cancelled();
    for (const pod of own) expect(await requestsOf(pod)).toEqual([]);
  });

  test('a pod with an Evacuation keeps it', async () => {
    const { activities } = activitiesBy('lifecycle', 600);
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    await c.applied(c.evacuation(pod));
    const applied = await draining([node], [pods(1000)]);
    const drain = started(() => activities.drain(refOf(applied), 0));
    await c.eventuallyStatus(applied.metadata.name, 'it is evacuating', (status) =>
      expect(status.podsEvacuating).toBe(1),
    );
    await drain.cancelled();
    expect(await requestsOf(pod)).toEqual([]);
  });

  test('a pod that nobody answers is blocked, and waits', async () => {
    const { activities, flushEvents } = activitiesBy('lifecycle', 1);
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    const applied = await draining([node], [pods(1000)]);
    const drain = started(() => activities.drain(refOf(applied), 0));
    await c.eventuallyStatus(applied.metadata.name, 'it is blocked', ({ blockedPods }) =>
      expect(blockedPods).toMatchObject([{ name: pod.metadata.name, reason: 'EvictionRequestUnanswered' }]),
    );
    await drain.cancelled();
    expect(await conditionOf(applied)).toMatchObject({ status: 'False', reason: 'NoController' });
    expect(await c.evacuationOf(pod)).toBeUndefined();
    expect(await requestsOf(pod)).toHaveLength(1);
    await flushEvents();
    expect(await c.eventsAbout(applied)).toContainEqual(
      expect.stringContaining('EvictionRequestsNotServed: '),
    );
  });

  test('a pod whose budget allows no disruption is blocked by name, until it does', async () => {
    const stop = evictionRequestControllerOn(c);
    try {
      const { activities } = activitiesBy('lifecycle', 600);
      const node = await c.nodeNamed('n');
      const { labels, lifted } = await guarded();
      const pod = await c.podOn(node, { labels });
      const applied = await draining([node], [pods(1000)]);
      const drain = started(() => activities.drain(refOf(applied), 0));
      await c.eventuallyStatus(applied.metadata.name, 'it is blocked', ({ blockedPods }) =>
        expect(blockedPods).toMatchObject([
          { name: pod.metadata.name, reason: expect.stringContaining('DisruptionBudget') },
        ]),
      );
      await lifted();
      expect(await drain.ended).toMatchObject({ kind: 'Drained' });
    } finally {
      await stop();
    }
  });
});

test('a request that was deleted and is kept by finalizers is replaced, and so is its replacement', async () => {
  const { activities } = activitiesBy('lifecycle', 600);
  const node = await c.nodeNamed('n');
  const pod = await c.podOn(node);
  const applied = await draining([node], [pods(1000)]);
  const drain = started(() => activities.drain(refOf(applied), 0));
  const isKept = ({ metadata }: EvictionRequest) => metadata.deletionTimestamp !== undefined;
  const finalized = ({ metadata: { name } }: EvictionRequest, finalizers: string[]) =>
    c.admin.mergePatch(
      resources.evictionRequests,
      { namespace: c.namespace, name },
      { metadata: { finalizers } },
    );
  for (const kept of [0, 1, 2]) {
    const current = await eventually('a live request beside those that are kept', async () => {
      const all = await requestsOf(pod);
      expect(all.filter(isKept)).toHaveLength(kept);
      expect(all).toHaveLength(kept + 1);
      return all.find((one) => !isKept(one)) as EvictionRequest;
    });
    await finalized(current, ['example.com/audit']);
    const { namespace, name, uid = '' } = current.metadata;
    await c.admin.delete(resources.evictionRequests, { namespace, name }, { uid });
    await c.eventuallyStatus(applied.metadata.name, 'it is blocked', ({ blockedPods }) =>
      expect(blockedPods).toMatchObject([{ name: pod.metadata.name, reason: 'EvictionRequestDeleted' }]),
    );
  }
  await drain.cancelled();
  for (const one of await requestsOf(pod)) await finalized(one, []);
});

test('a request that the apiserver does not find a place for does not count as created', async () => {
  const pod = await c.podOn(await c.nodeNamed('n'));
  const lost = { ...pod, metadata: { ...pod.metadata, namespace: c.named('absent') } };
  const requests = new EvictionRequests(c.cluster);
  await requests.create(lost, await c.applied(c.maintenance({ nodes: ['absent'] })));
  expect(requests.isCreated(lost)).toBe(false);
  expect(requests.isDue(lost)).toBe(false);
  expect(requests.rejectionOf(lost)).toMatchObject({ reason: 'EvictionRequestRejected' });
});

describe('with auto, and no controller', () => {
  test('one pod is tried, and then all leave by Evacuations, also for the next process', async () => {
    const { activities, flushEvents } = activitiesBy('auto', 2);
    const node = await c.nodeNamed('n');
    const some = await c.podsOn(node, 4, { priority: 1000 });
    const applied = await draining([node]);
    const before = created('evictionrequests.lifecycle.k8s.io');
    const drain = started(() => activities.drain(refOf(applied), 0));
    for (const pod of some) await c.eventuallyEvacuating(pod);
    await c.eventuallyStatus(applied.metadata.name, 'all are evacuating', (status) =>
      expect(status.podsEvacuating).toBe(4),
    );
    await drain.cancelled();
    const left = (await Promise.all(some.map(requestsOf))).flat();
    expect(left.map(({ spec }) => spec.intent)).toEqual(['Withdrawn']);
    expect(await conditionOf(applied)).toMatchObject({ status: 'False', reason: 'NoController' });
    await flushEvents();
    expect(await c.eventsAbout(applied)).toContainEqual(expect.stringContaining('pods leave by Evacuations'));

    const another = activitiesBy('auto', 2).activities;
    const late = await c.podOn(node, { priority: 1000 });
    const next = started(() => another.drain(refOf(applied), 0));
    await c.eventuallyEvacuating(late);
    await next.cancelled();
    expect(created('evictionrequests.lifecycle.k8s.io') - before).toBe(1);
  });
});

describe('with auto, a pod that cannot be asked', () => {
  test('because the apiserver rejects its request does not keep the others from being asked', async () => {
    const { activities } = activitiesBy('auto', 2);
    const node = await c.nodeNamed('n');
    const some = await c.podsOn(node, 3, { priority: 1000 });
    const [first] = c.podsOf(node);
    const admit = await rejectCreations(c.admin, c.named('reject'), {
      apiGroup: 'lifecycle.k8s.io',
      apiVersion: '*',
      resource: 'evictionrequests',
      expression: `object.spec.target.pod.name != '${first?.metadata.name}'`,
      message: 'not this one',
    });
    const applied = await draining([node]);
    const drain = started(() => activities.drain(refOf(applied), 0));
    for (const pod of some) await c.eventuallyEvacuating(pod);
    await drain.cancelled();
    await admit();
  });
});

describe('when another API is chosen during a drain', () => {
  /** Whether the pod has an Evacuation and a live EvictionRequest. */
  async function hasBoth(pod: Pod): Promise<boolean> {
    const [requests, evacuation] = await Promise.all([requestsOf(pod), c.evacuationOf(pod)]);
    const isLive = requests.some(
      ({ metadata, spec }) => spec.intent === 'Eviction' && metadata.deletionTimestamp === undefined,
    );
    return isLive && evacuation !== undefined;
  }

  test.each(evictionApis.filter((api) => api !== 'evacuation'))(
    'from %s to evacuation, requests are withdrawn before pods get Evacuations',
    async (api) => {
      const stop = evictionRequestControllerOn(c);
      try {
        const node = await c.nodeNamed('n');
        const { labels, lifted } = await guarded();
        const pod = await c.podOn(node, { labels });
        const applied = await draining([node], [pods(1000)]);
        const first = activitiesBy(api, 600).activities;
        const before = started(() => first.drain(refOf(applied), 0));
        await eventuallyRequested(pod);
        await eventually('the answer of the controller', async () =>
          expect(await conditionOf(applied)).toMatchObject({ status: 'True' }),
        );
        await before.cancelled();
        const second = activitiesBy('evacuation').activities;
        const drain = started(() => second.drain(refOf(applied), 0));
        await eventually('its Evacuation', async () => {
          expect(await hasBoth(pod)).toBe(false);
          expect(await c.evacuationOf(pod)).toBeDefined();
        });
        const evictions = c.requests.count('evict pods');
        await lifted();
        expect(await drain.ended).toMatchObject({ kind: 'Drained' });
        expect(c.requests.count('evict pods') - evictions).toBe(1);
      } finally {
        await stop();
      }
    },
  );

  test('from evacuation to lifecycle, Evacuations in progress continue, and other pods get requests', async () => {
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    const applied = await draining([node], [pods(1000)]);
    const first = activitiesBy('evacuation').activities;
    const before = started(() => first.drain(refOf(applied), 0));
    await c.eventuallyEvacuating(pod);
    await before.cancelled();
    const late = await c.podOn(node);
    const second = activitiesBy('lifecycle', 600).activities;
    const drain = started(() => second.drain(refOf(applied), 0));
    await eventuallyRequested(late);
    await throughout('the Evacuation stays alone', 500, async () => expect(await hasBoth(pod)).toBe(false));
    await drain.cancelled();
    expect(await requestsOf(pod)).toEqual([]);
  });
});

describe('Complete', () => {
  const withCondition = (applied: NodeMaintenance, node: string) =>
    c.withStatus(applied, {
      ...emptyStatus,
      nodeStatuses: [
        {
          nodeRef: { name: node },
          drainTargets: [],
          drainMessage: '',
          podsPendingEvacuation: 0,
          podsEvacuating: 0,
        },
      ],
      conditions: [
        {
          type: 'EvictionRequestsServed',
          status: 'Unknown',
          reason: 'AwaitingController',
          message: '',
          lastTransitionTime: new Date().toISOString(),
        },
      ],
    });

  /** Returns a request as a drain creates it. */
  async function requested(pod: Pod, owner: NodeMaintenance): Promise<EvictionRequest> {
    const { name, namespace = '', uid = '' } = pod.metadata;
    const { metadata } = owner;
    return c.admin.create(resources.evictionRequests, {
      metadata: {
        name: `nodemaintenance-${uid}-${name}`,
        namespace,
        ownerReferences: [
          {
            apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
            kind: 'NodeMaintenance',
            name: metadata.name,
            uid: metadata.uid ?? '',
          },
        ],
      },
      spec: {
        target: { pod: { name, uid } },
        requester: 'node-maintenance.dev/nodemaintenance',
        intent: 'Eviction',
      },
    });
  }

  test.each(evictionApis)('withdraws the requests, whatever is chosen by then: %s', async (api) => {
    const { activities } = activitiesBy(api);
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    const applied = await withCondition(
      await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' })),
      node,
    );
    await requested(pod, applied);
    await performedTwice(c, () => activities.removeEvacuations(refOf(applied)));
    expect((await eventuallyRequested(pod)).spec.intent).toBe('Withdrawn');
  });

  test('leaves a request to the maintenance that still needs it, as its owner', async () => {
    const { activities } = activitiesBy('lifecycle');
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node, { priority: 1000 });
    const other = await draining([node]);
    const applied = await withCondition(
      await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' })),
      node,
    );
    await requested(pod, applied);
    await performedTwice(c, () => activities.removeEvacuations(refOf(applied)));
    const { metadata, spec } = await eventuallyRequested(pod);
    expect(spec.intent).toBe('Eviction');
    expect(metadata.ownerReferences?.map(({ uid }) => uid)).toEqual([other.metadata.uid]);
  });

  test('leaves requests of others, and those of other nodes', async () => {
    const { activities } = activitiesBy('lifecycle');
    const [node, elsewhere] = [await c.nodeNamed('n'), await c.nodeNamed('other')];
    const [pod, far] = [await c.podOn(node), await c.podOn(elsewhere)];
    const applied = await withCondition(
      await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' })),
      node,
    );
    const theirs = { name: c.named('theirs'), requester: 'example.com/descheduler' };
    await c.admin.create(resources.evictionRequests, evictionRequestFor(pod, theirs));
    await requested(far, applied);
    await performed(() => activities.removeEvacuations(refOf(applied)));
    for (const one of [pod, far]) expect((await eventuallyRequested(one)).spec.intent).toBe('Eviction');
  });
});

// The last one, because it restarts the apiserver.
describe('with lifecycle, where the apiserver does not serve the API', () => {
  async function restarted(isServed: boolean): Promise<void> {
    const server = sandbox.server('kube-apiserver');
    await server.kill();
    await (isServed ? server.start() : server.startWithout(evictionRequestFlags));
    await eventually(`the API to be served: ${isServed}`, () =>
      expect(c.cluster.lifecycle.isServed).toBe(isServed),
    );
    // It serves these a moment after it is ready.
    for (const kind of [resources.nodeMaintenances, resources.evacuations] as Resource[])
      await eventually(`${kind.plural} to be served`, async () => void (await c.admin.list(kind)));
  }

  test('pods are blocked and wait, and get their requests when it does', async () => {
    const { activities } = activitiesBy('lifecycle', 600);
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    const applied = await draining([node], [pods(1000)]);
    await restarted(false);
    const before = created('evictionrequests.lifecycle.k8s.io');
    const drain = started(() => activities.drain(refOf(applied), 0));
    await c.eventuallyStatus(applied.metadata.name, 'it is blocked', (status) => {
      expect(status.blockedPods).toMatchObject([
        { name: pod.metadata.name, reason: 'EvictionRequestUnanswered' },
      ]);
      expect(status).toMatchObject({ podsPendingEvacuation: 1, podsEvacuating: 0 });
    });
    expect(created('evictionrequests.lifecycle.k8s.io') - before).toBe(0);
    expect(await conditionOf(applied)).toMatchObject({ status: 'False', reason: 'ApiNotServed' });
    await drain.cancelled();
    await restarted(true);
    // Temporal starts an activity again that the restart has ended.
    const next = started(() => activities.drain(refOf(applied), 0));
    await eventuallyRequested(pod);
    await next.cancelled();
  });
});
