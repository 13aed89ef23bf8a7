import type { Condition, Pod } from '../../../api/core.ts';
import type { Evacuation } from '../../../api/evacuation.ts';
import { INSTIGATOR_FINALIZER, MAINTENANCE_FINALIZER } from '../../../api/names.ts';
import { keyOf } from '../../../kube/store.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { createDeployment } from '../../kit/deployment.ts';
import { evacuationControllerOn } from '../../kit/evacuationController.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { rejectCreations } from '../../kit/rejection.ts';
import { remove } from '../../kit/reset.ts';
import { deployments } from '../../kit/resources.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { withMembers } from '../../kit/withMembers.ts';

let sandbox: Sandbox;
let c: TestCluster;
let node: string;
let stop: () => Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'evict' });
  node = await c.nodeNamed('n');
});

beforeEach(() => {
  c.requests.clear();
  stop = startController();
});

afterEach(() => stop());

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const startController = () => evacuationControllerOn(c);

/** Creates an Evacuation without waiting for the informer, because it may be gone by then. */
const requestEvacuation = (pod: Pod, finalizers?: string[]) =>
  c.admin.create(resources.evacuations, c.evacuation(pod, finalizers));
const evictions = () => c.requests.count('evict pods');
/** The informer may show that the pod is gone before the response to the eviction arrives. */
const eventuallyEvictedOnce = () =>
  eventually('the response to the only eviction', () => expect(evictions()).toBe(1));

async function eventuallyRemoved(evacuation: Evacuation): Promise<void> {
  const { name, namespace = '' } = evacuation.metadata;
  await eventually(`Evacuation ${name} to be gone`, async () =>
    expect(await c.admin.get(resources.evacuations, { name, namespace })).toBeUndefined(),
  );
}

async function eventuallyMessage(pod: Pod, message: string | RegExp): Promise<void> {
  const hasMessage = async () =>
    expect((await c.evacuationOf(pod))?.status?.message).toEqual(
      typeof message === 'string' ? message : expect.stringMatching(message),
    );
  await eventually(`the message of the Evacuation of ${pod.metadata.name}`, hasMessage);
}

/** The watch may report that an Evacuation is gone before the response to the request that deleted it arrives. */
async function eventuallyDeletedTogether() {
  await eventually('the response to the only deletion', () =>
    expect(c.requests.count('deletecollection evacuations.evacuation.coordination.k8s.io')).toBe(1),
  );
  expect(c.requests.count('delete evacuations.evacuation.coordination.k8s.io')).toBe(0);
}

/** Creates a budget and waits until its status is computed. */
async function computedBudget(
  labels: Record<string, string>,
  spec: { minAvailable?: number; maxUnavailable?: number },
  expectedPods: number,
) {
  const { metadata } = await c.applied(c.budget(labels, spec));
  const key = { namespace: c.namespace, name: metadata.name };
  await eventually(`budget ${key.name} to be computed`, () =>
    expect(c.cluster.budgets.get(`${key.namespace}/${key.name}`)?.status).toMatchObject({
      expectedPods,
      currentHealthy: expectedPods,
    }),
  );
  return key;
}

test('an eviction that a policy rejects is repeated with a back-off', async () => {
  const namespace = await c.namespaceNamed(c.named('stubborn'));
  const admit = await rejectCreations(c.admin, namespace, {
    apiGroup: '',
    apiVersion: 'v1',
    resource: 'pods/eviction',
    expression: `object.metadata.namespace != '${namespace}'`,
    message: 'ask the data team first',
  });
  await eventually('evictions to be rejected', async () => {
    const { metadata } = await c.podOn(node, { namespace });
    const { name, uid = '' } = metadata;
    await expect(c.admin.evict({ namespace, name, uid })).rejects.toThrow('ask the data team first');
  });
  const pod = await c.podOn(node, { namespace });
  const evacuation = await requestEvacuation(pod);
  await eventuallyMessage(pod, /ask the data team first/);
  await throughout('at most the first repetitions', 3_000, () => expect(evictions()).toBeLessThanOrEqual(3));
  await admit();
  await eventuallyRemoved(evacuation);
  await c.podsDeleted(c.podsOf(node));
});

test('a pod that its controller puts back on the node is reported, and not evicted in a loop', async () => {
  const [own, name] = [await c.nodeNamed('put-back'), c.named('app')];
  // The scheduler would not bring it back to a cordoned node.
  await createDeployment(c, name, { nodeName: own, terminationGracePeriodSeconds: 1 });
  const podOtherThan = (uid: string | undefined) =>
    eventually('the pod', () => {
      const found = c.podsOf(own).find(({ metadata }) => metadata.uid !== uid);
      expect(found).toBeDefined();
      expect(found?.metadata.deletionTimestamp).toBeUndefined();
      return found as Pod;
    });
  const first = await podOtherThan(undefined);
  await requestEvacuation(first);
  const next = await podOtherThan(first.metadata.uid);
  await requestEvacuation(next);
  await eventuallyMessage(next, new RegExp(`^ReplicaSet ${name}-.* recreated this pod on node ${own} `));
  expect(evictions()).toBe(1);
  await remove(c.admin, deployments, { name, namespace: c.namespace });
  await eventuallyNoneLeft();
});

describe('An Evacuation', () => {
  test('evicts its pod, then is deleted, then loses our finalizer', async () => {
    const pod = await c.podOn(node);
    const evacuation = await requestEvacuation(pod);
    await c.eventuallyGone(pod);
    await eventuallyRemoved(evacuation);
    // In the order of their responses, which may differ.
    await eventually('the responses to all writes', () =>
      expect(c.requests.writes().toSorted()).toEqual([
        'delete evacuations.evacuation.coordination.k8s.io',
        'evict pods',
        'patch evacuations.evacuation.coordination.k8s.io',
      ]),
    );
  });

  test('that is left with others in its namespace is deleted together with them', async () => {
    await stop();
    const pods = await c.podsOn(node, 20);
    for (const pod of pods) await requestEvacuation(pod);
    stop = startController();
    for (const pod of pods) await c.eventuallyGone(pod);
    await eventuallyNoneLeft();
    await eventuallyDeletedTogether();
    const patches = () => c.requests.count('patch evacuations.evacuation.coordination.k8s.io');
    await eventually('the responses to all patches', () => expect(patches()).toBeGreaterThanOrEqual(20));
    // One each. A few are repeated if the informer is late.
    expect(patches()).toBeLessThan(25);
  });

  test('is deleted together with those whose pods go later, one after the other', async () => {
    await stop();
    const held = await c.podsOn(node, 3, { finalizers: ['example.com/held'] });
    const pods = [...(await c.podsOn(node, 3)), ...held];
    for (const pod of pods) await requestEvacuation(pod);
    stop = evacuationControllerOn(c, { cleanup: { quietPeriodMs: 60_000 } });
    for (const pod of pods.slice(0, 3)) await c.eventuallyGone(pod);
    for (const { metadata } of held) {
      await eventually('the pod to be terminating', () =>
        expect(c.cluster.pods.get(keyOf({ metadata }))?.metadata.deletionTimestamp).toBeDefined(),
      );
      // Longer than it takes until Evacuations that are due are deleted.
      await throughout('no Evacuation to be deleted', 800, () => expect(left()).toHaveLength(6));
      const { name, namespace = '' } = metadata;
      await c.admin.mergePatch(resources.pods, { name, namespace }, { metadata: { finalizers: [] } });
    }
    await eventuallyNoneLeft();
    await eventuallyDeletedTogether();
  });

  test('is deleted alone while a pod with an Evacuation is left in its namespace', async () => {
    const app = c.named('app');
    const protectedPod = await c.podOn(node, { labels: { app } });
    const budget = await computedBudget({ app }, { minAvailable: 1 }, 1);
    const kept = await requestEvacuation(protectedPod);
    const pods = await c.podsOn(node, 3);
    for (const pod of pods) await requestEvacuation(pod);
    for (const pod of pods) await c.eventuallyGone(pod);
    await eventually('one Evacuation to be left', () => expect(left()).toEqual([kept.metadata.name]));
    expect(c.requests.count('deletecollection evacuations.evacuation.coordination.k8s.io')).toBe(0);
    const { name, namespace = '' } = kept.metadata;
    const { metadata } = (await c.admin.get(resources.evacuations, { name, namespace })) as Evacuation;
    expect(metadata.deletionTimestamp).toBeUndefined();
    await c.patched(resources.podDisruptionBudgets, budget, { spec: { minAvailable: 0 } });
    await eventuallyNoneLeft();
  });

  test('that exists before the controller starts is reconciled', async () => {
    await stop();
    const pod = await c.podOn(node);
    const evacuation = await requestEvacuation(pod);
    stop = startController();
    await c.eventuallyGone(pod);
    await eventuallyRemoved(evacuation);
  });

  test('whose pod was deleted while no controller ran is deleted', async () => {
    const pod = await c.podOn(node, { finalizers: ['example.com/held'] });
    const evacuation = await requestEvacuation(pod);
    await eventually('the pod to be terminating', () =>
      expect(c.podsOf(node)[0]?.metadata.deletionTimestamp).toBeDefined(),
    );
    await stop();
    const { name, namespace = '' } = pod.metadata;
    await c.admin.mergePatch(resources.pods, { name, namespace }, { metadata: { finalizers: [] } });
    await c.eventuallyGone(pod);
    stop = startController();
    await eventuallyRemoved(evacuation);
    await eventuallyEvictedOnce();
  });

  test('of a previous pod is deleted, and the new pod of the same name stays', async () => {
    const current = await c.podOn(node);
    const previous = { ...current, metadata: { ...current.metadata, uid: crypto.randomUUID() } };
    await eventuallyRemoved(await requestEvacuation(previous));
    expect(c.podsOf(node).map(({ metadata }) => metadata.uid)).toContain(current.metadata.uid);
    expect(evictions()).toBe(0);
    await c.podsDeleted([current]);
  });

  test('of several instigators keeps the finalizers of the others', async () => {
    const pod = await c.podOn(node);
    await requestEvacuation(pod, [INSTIGATOR_FINALIZER, 'example.com/instigator']);
    await eventuallyReleased(pod);
  });

  test('of another instigator alone evicts its pod', async () => {
    const pod = await c.podOn(node);
    await requestEvacuation(pod, ['example.com/instigator']);
    await c.eventuallyGone(pod);
  });

  test('of a cancelled maintenance evicts no pod, although it is not withdrawn yet, unless another maintenance drains the node', async () => {
    const drained = await c.nodeNamed('cancelled');
    const app = c.named('app');
    const pod = await c.podOn(drained, { labels: { app } });
    const budget = await computedBudget({ app }, { minAvailable: 1 }, 1);
    const { metadata } = await c.applied(c.maintenance({ nodes: [drained], stage: 'Drain' }));
    await requestEvacuation(pod);
    await eventuallyMessage(pod, /It can never allow a disruption/);
    await c.patched(resources.nodeMaintenances, { name: metadata.name }, { spec: { stage: 'Complete' } });
    await c.patched(resources.podDisruptionBudgets, budget, { spec: { minAvailable: 0 } });
    await throughout('the pod stays', 1_000, () => expect(evictions()).toBe(0));
    await c.applied(c.maintenance({ nodes: [drained], stage: 'Drain' }));
    await c.eventuallyGone(pod);
    await c.maintenancesDropped();
  });

  test('of a cancelled maintenance that is removed before it is completed is withdrawn, and evicts no pod', async () => {
    const drained = await c.nodeNamed('removed');
    const app = c.named('app');
    const pod = await c.podOn(drained, { labels: { app } });
    const budget = await computedBudget({ app }, { minAvailable: 1 }, 1);
    const applied = await c.applied(c.maintenance({ nodes: [drained], stage: 'Drain' }));
    const key = { name: applied.metadata.name };
    await c.patched(resources.nodeMaintenances, key, { metadata: { finalizers: [MAINTENANCE_FINALIZER] } });
    await requestEvacuation(pod);
    await eventuallyMessage(pod, /It can never allow a disruption/);
    await c.patched(resources.nodeMaintenances, key, { spec: { stage: 'Complete' } });
    await c.patched(resources.podDisruptionBudgets, budget, { spec: { minAvailable: 0 } });
    await throughout('the pod stays', 500, () => expect(evictions()).toBe(0));
    await c.maintenancesDropped();
    await eventually('the Evacuation to be gone', async () =>
      expect(await c.evacuationOf(pod)).toBeUndefined(),
    );
    expect(evictions()).toBe(0);
    await c.podsDeleted([pod]);
  });

  test('that no drain needs is withdrawn after a time, in a new process, too, and evicts no pod', async () => {
    await stop();
    const drained = await c.nodeNamed('forced');
    const app = c.named('app');
    const pods = await c.podsOn(drained, 2, { labels: { app } });
    const [needed, deleted] = pods as [Pod, Pod];
    const budget = await computedBudget({ app }, { minAvailable: 2 }, 2);
    await c.applied(c.maintenance({ nodes: [drained], stage: 'Drain' }));
    for (const pod of pods) await requestEvacuation(pod);
    stop = evacuationControllerOn(c, { unneededAfterMs: 1_000 });
    for (const pod of pods) await eventuallyMessage(pod, /^Blocked by PodDisruptionBudget/);
    await throughout('the drain needs them', 2_000, async () =>
      expect(await c.evacuationOf(needed)).toBeDefined(),
    );
    await c.maintenancesDropped();
    await stop();
    await c.deleted((await c.evacuationOf(deleted)) as Evacuation);
    stop = evacuationControllerOn(c, { unneededAfterMs: 1_000 });
    for (const pod of pods)
      await eventually('the Evacuation to be gone', async () =>
        expect(await c.evacuationOf(pod)).toBeUndefined(),
      );
    await c.patched(resources.podDisruptionBudgets, budget, { spec: { minAvailable: 0 } });
    await throughout('the pods stay', 500, () => expect(evictions()).toBe(0));
    await c.podsDeleted(pods);
  });

  test('that is cancelled does not evict its pod', async () => {
    const app = c.named('app');
    const [first] = await c.podsOn(node, 2, { labels: { app } });
    const pod = first as Pod;
    const budget = await computedBudget({ app }, { minAvailable: 2 }, 2);
    const evacuation = await requestEvacuation(pod, [INSTIGATOR_FINALIZER, 'example.com/instigator']);
    await eventuallyMessage(pod, /^Blocked by PodDisruptionBudget/);
    await c.deleted(evacuation);
    await c.patched(resources.podDisruptionBudgets, budget, { spec: { minAvailable: 0 } });
    // Once a later Evacuation is done, the first would be done too.
    const later = await c.podOn(node, { labels: { app } });
    await requestEvacuation(later);
    await c.eventuallyGone(later);
    expect(c.podsOf(node).map(({ metadata }) => metadata.uid)).toContain(pod.metadata.uid);
    await eventuallyEvictedOnce();
    await c.podsDeleted(c.podsOf(node));
    await eventuallyReleased(pod);
  });
});

const left = () =>
  c.cluster.evacuations
    .list()
    .filter(({ metadata }) => metadata.namespace === c.namespace)
    .map(({ metadata }) => metadata.name);
const eventuallyNoneLeft = () => eventually('no Evacuation to be left', () => expect(left()).toEqual([]));

/** Waits until only the finalizer of the other instigator remains. */
async function eventuallyReleased(pod: Pod): Promise<void> {
  await eventually('our finalizer to be gone', async () => {
    const { metadata } = (await c.evacuationOf(pod)) as Evacuation;
    expect(metadata.finalizers).toEqual(['example.com/instigator']);
  });
}

describe('A budget', () => {
  test('that allows no disruption blocks 20 evictions without a request, and its numbers are reported', async () => {
    const app = c.named('app');
    const pods = await c.deploymentOn(node, 20, { app });
    const budget = await computedBudget({ app }, { maxUnavailable: 0 }, 20);
    await Promise.all(pods.map((pod) => requestEvacuation(pod)));
    await eventuallyMessage(
      pods[0] as Pod,
      `Blocked by PodDisruptionBudget ${budget.namespace}/${budget.name} (disruptionsAllowed 0, currentHealthy 20, desiredHealthy 20, expectedPods 20). It can never allow a disruption: add a replica or relax the budget.`,
    );
    await eventually('every Evacuation to have a message', () =>
      expect(c.requests.count('patch evacuations.evacuation.coordination.k8s.io')).toBeGreaterThanOrEqual(20),
    );
    const before = c.requests.writes().length;
    await throughout('no eviction is requested', 1_000, () => expect(evictions()).toBe(0));
    // A message written while the numbers of the budget changed may be written again, but not all messages.
    expect(c.requests.writes().length).toBeLessThan(before + 10);

    await c.patched(resources.podDisruptionBudgets, budget, { spec: { maxUnavailable: 20 } });
    for (const pod of pods) await c.eventuallyGone(pod);
    expect(evictions()).toBeLessThanOrEqual(24);
    await deleteWorkloads();
  });

  test('that allows one disruption evicts pods one after the other, with few rejections', async () => {
    const app = c.named('app');
    const pods = await c.deploymentOn(node, 6, { app });
    await computedBudget({ app }, { maxUnavailable: 1 }, 6);
    const evacuations = await Promise.all(pods.map((pod) => requestEvacuation(pod)));
    for (const evacuation of evacuations) await eventuallyRemoved(evacuation);
    expect(evictions()).toBeLessThanOrEqual(9);
    await deleteWorkloads();
  });

  test('that allows five disruptions evicts 30 pods with few rejections and few status updates', async () => {
    const app = c.named('app');
    const pods = await c.deploymentOn(node, 30, { app });
    await computedBudget({ app }, { maxUnavailable: 5 }, 30);
    const requestedAt = Date.now();
    const evacuations = await Promise.all(pods.map((pod) => requestEvacuation(pod)));
    for (const evacuation of evacuations) await eventuallyRemoved(evacuation);
    expect(evictions()).toBeLessThanOrEqual(33);
    // A message is written every 200 ms and cleared when that pod terminates; our finalizer is removed from each Evacuation.
    const maxMessages = 1 + (Date.now() - requestedAt) / 200;
    expect(c.requests.count('patch evacuations.evacuation.coordination.k8s.io')).toBeLessThanOrEqual(
      30 + 2 * maxMessages,
    );
    await deleteWorkloads();
  });

  test('that is deleted while a pod waits no longer blocks it', async () => {
    const app = c.named('app');
    const pod = await c.podOn(node, { labels: { app } });
    const { name } = await computedBudget({ app }, { minAvailable: 1 }, 1);
    await requestEvacuation(pod);
    await eventuallyMessage(pod, /It can never allow a disruption/);
    await c.deleted({ ...c.budget({ app }, {}, name), metadata: await metadataOf(name) });
    await c.eventuallyGone(pod);
  });

  test('used up by an interrupted eviction is reported with its pod and the expected delay', async () => {
    const app = c.named('app');
    const [interrupted, pod, third] = (await c.podsOn(node, 3, { labels: { app } })) as [Pod, Pod, Pod];
    const { name } = await computedBudget({ app }, { minAvailable: 2 }, 3);
    const disruptedPods = { [interrupted.metadata.name]: new Date().toISOString() };
    // The eviction API writes this before it deletes the pod.
    await c.withStatus({ ...c.budget({ app }, {}, name) }, { disruptionsAllowed: 0, disruptedPods });
    await requestEvacuation(pod);
    const wait = `Waiting for ${interrupted.metadata.name} to terminate; an interrupted eviction stops counting after two minutes.`;
    await eventuallyMessage(pod, new RegExp(`disruptionsAllowed 0, .* ${wait}$`));
    expect(evictions()).toBe(0);
    await c.podsDeleted([interrupted, pod, third]);
  });

  test('of an unhealthy application blocks unready pods too, until it is changed to AlwaysAllow', async () => {
    const { budget, unready } = await unhealthyApplication();
    await requestEvacuation(unready);
    await eventuallyMessage(
      unready,
      /disruptionsAllowed 0, currentHealthy 1, desiredHealthy 2, expectedPods 3/,
    );
    await c.patched(resources.podDisruptionBudgets, budget, {
      spec: { unhealthyPodEvictionPolicy: 'AlwaysAllow' },
    });
    await c.eventuallyGone(unready);
    await eventuallyEvictedOnce();
  });

  test('of an unhealthy application blocks unready pods too, until the application is healthy without them', async () => {
    const { other, unready } = await unhealthyApplication();
    await requestEvacuation(unready);
    await eventuallyMessage(
      unready,
      /disruptionsAllowed 0, currentHealthy 1, desiredHealthy 2, expectedPods 3/,
    );
    await c.withStatus({ ...other, kind: 'Pod' }, readiness('True'));
    await c.eventuallyGone(unready);
    await eventuallyEvictedOnce();
  });

  test('beside another one is reported with it, and the pod is evicted when one of them is deleted', async () => {
    const app = c.named('app');
    const pod = await c.podOn(node, { labels: { app } });
    const first = await computedBudget({ app }, { minAvailable: 0 }, 1);
    const second = await c.applied(c.budget({ app }, { minAvailable: 0 }));
    await requestEvacuation(pod);
    const names = [first.name, second.metadata.name].toSorted().map((name) => `${c.namespace}/${name}`);
    await eventuallyMessage(
      pod,
      `Blocked by more than one PodDisruptionBudget (${names.join(', ')}): the eviction API supports only one; make their selectors disjoint.`,
    );
    expect(evictions()).toBe(0);
    await c.deleted(second);
    await c.eventuallyGone(pod);
  });

  test('that the informer does not show yet rejects evictions, which are counted', async () => {
    const app = c.named('app');
    const pods = await c.podsOn(node, 2, { labels: { app } });
    await c.applied(c.budget({ app }, { minAvailable: 2 }));
    const [pod] = pods as [Pod];
    await requestEvacuation(pod);
    await eventuallyMessage(pod, /PodDisruptionBudget|disruption budget/);
    await throughout('the eviction is not retried at once', 1_000, () =>
      expect(evictions()).toBeLessThanOrEqual(2),
    );
    expect((await c.evacuationOf(pod))?.status?.failedEvictionCounter ?? 0).toBe(evictions());
    await c.podsDeleted(pods);
  });

  test('that rejects an eviction after its Evacuation was deleted does not wait for that one', async () => {
    const app = c.named('app');
    const pods = await c.podsOn(node, 2, { labels: { app } });
    const [first, second] = pods as [Pod, Pod];
    let budget: { namespace: string; name: string } | undefined;
    let isAnswered = false;
    const { kube } = c.cluster;
    /** The first eviction reaches the apiserver after the budget exists, and its answer arrives after the Evacuation is gone. */
    const evict: typeof kube.evict = async (...request) => {
      if (budget !== undefined) return kube.evict(...request);
      budget = await computedBudget({ app }, { minAvailable: 2 }, 2);
      const answer = await kube.evict(...request);
      const { name, namespace = '', uid = '' } = (await c.evacuationOf(first))?.metadata ?? first.metadata;
      const key = { namespace, name };
      await c.admin.mergePatch(resources.evacuations, key, { metadata: { finalizers: [] } });
      await c.admin.delete(resources.evacuations, key, { uid });
      await eventually('the Evacuation to be gone', () => expect(left()).not.toContain(name));
      isAnswered = true;
      return answer;
    };
    await stop();
    stop = evacuationControllerOn({ cluster: { ...c.cluster, kube: withMembers(kube, { evict }) } });
    await requestEvacuation(first);
    await eventually('the eviction to be answered', () => expect(isAnswered).toBe(true));
    await requestEvacuation(second);
    await eventuallyMessage(second, /PodDisruptionBudget/);
    await c.patched(resources.podDisruptionBudgets, budget ?? first.metadata, { spec: { minAvailable: 1 } });
    await c.eventuallyGone(second);
    await c.podsDeleted([first]);
  });
});

const readiness = (status: 'True' | 'False') => ({ conditions: [{ type: 'Ready', status }] });

/** Creates three pods and a budget that wants two healthy pods while one is healthy. */
async function unhealthyApplication() {
  const app = c.named('app');
  const pods = await c.podsOn(await c.silentNodeNamed('unready'), 3, { labels: { app } });
  const budget = await computedBudget({ app }, { minAvailable: 2 }, 3);
  const [unready, other] = pods as [Pod, Pod];
  for (const pod of [unready, other]) await c.withStatus({ ...pod, kind: 'Pod' }, readiness('False'));
  await eventually('the budget to count one healthy pod', () =>
    expect(c.cluster.budgets.get(`${budget.namespace}/${budget.name}`)?.status?.currentHealthy).toBe(1),
  );
  return { budget, unready, other };
}

async function metadataOf(name: string) {
  const found = await c.admin.get(resources.podDisruptionBudgets, { namespace: c.namespace, name });
  return found?.metadata ?? { name };
}

describe('A terminating pod', () => {
  beforeEach(async () => {
    await stop();
    stop = evacuationControllerOn(c, { termination: { reportAfterMs: 200, stuckAfterMs: 500 } });
  });

  test('with a long grace period is reported as terminating, and evicted once', async () => {
    const pod = await c.podOn(await c.silentNodeNamed('silent'), { grace: 600 });
    await requestEvacuation(pod);
    await eventuallyMessage(pod, /^The pod is terminating; its grace period of 600 s ends at \S+\.$/);
    await eventuallyEvictedOnce();
    expect(await blocked(pod)).toBeUndefined();
  });

  // KEP-4212 > Pod Selection, skipDeletedFilter
  test('that was terminating before its Evacuation is reported, and not evicted', async () => {
    const pod = await c.podOn(await c.silentNodeNamed('silent'), { grace: 600 });
    const { namespace = '', name, uid = '' } = pod.metadata;
    await c.admin.delete(resources.pods, { namespace, name }, { uid });
    await requestEvacuation(pod);
    await eventuallyMessage(pod, /^The pod is terminating; its grace period .*ends at \S+$/);
    expect(await blocked(pod)).toBeUndefined();
    expect(evictions()).toBe(0);
  });

  test('that was deleted before its evacuation was requested is described at once, with its grace and finalizers', async () => {
    await stop();
    stop = evacuationControllerOn(c);
    const pod = await c.podOn(await c.silentNodeNamed('silent'), {
      grace: 600,
      finalizers: ['example.com/held'],
    });
    await c.deleted(pod);
    const { metadata } = await eventually('the pod to terminate', () => {
      const found = c.cluster.pods.get(`${pod.metadata.namespace}/${pod.metadata.name}`);
      expect(found?.metadata.deletionTimestamp).toBeDefined();
      return found as Pod;
    });
    const deletedAtMs = Date.parse(metadata.deletionTimestamp ?? '') - 600_000;
    await eventually('the next second', () =>
      expect(c.cluster.kube.now().getTime()).toBeGreaterThan(deletedAtMs + 1_500),
    );
    await requestEvacuation(pod);
    await eventuallyMessage(
      pod,
      /^The pod is terminating; its grace period of 600 s ends at \S+; finalizer example.com\/held\.$/,
    );
    expect(await blocked(pod)).toBeUndefined();
  });

  test('that exceeds its grace period is reported as stuck, with its finalizers', async () => {
    const pod = await c.podOn(node, { finalizers: ['example.com/held'] });
    await requestEvacuation(pod);
    await eventuallyMessage(
      pod,
      /^The pod is still terminating although its grace period ended at \S+: finalizers example.com\/held are still set/,
    );
    expect(await blocked(pod)).toMatchObject({ status: 'True', reason: 'StuckTerminating' });
  });

  test('is reported as terminating even if a budget blocked it a moment ago', async () => {
    const app = c.named('app');
    const pod = await c.podOn(node, { labels: { app }, finalizers: ['example.com/held'] });
    const budget = await computedBudget({ app }, { minAvailable: 1 }, 1);
    await requestEvacuation(pod);
    await eventuallyMessage(pod, /^Blocked by PodDisruptionBudget/);
    await c.patched(resources.podDisruptionBudgets, budget, { spec: { minAvailable: 0 } });
    await eventuallyMessage(pod, /^The pod is still terminating/);
  });
});

async function blocked(pod: Pod): Promise<Condition | undefined> {
  return (await c.evacuationOf(pod))?.status?.conditions.find(({ type }) => type === 'Blocked');
}

/** Deletes the Deployments of a test, so that the node is free for the next one. */
async function deleteWorkloads(): Promise<void> {
  const { items } = await c.admin.list(deployments, { namespace: c.namespace });
  for (const { metadata } of items) {
    const key = { namespace: c.namespace, name: metadata.name };
    await c.admin.delete(deployments, key, { uid: metadata.uid ?? '', propagationPolicy: 'Foreground' });
  }
  await eventually('the pods of the Deployments to be gone', () => expect(c.podsOf(node)).toEqual([]));
}
