import type { Condition, Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { INSTIGATOR_FINALIZER } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { evacuationControllerOn } from '../kit/evacuationController.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

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
  stop = started();
});

afterEach(() => stop());

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const started = () => evacuationControllerOn(c);

/** Not awaited in the informer: it may be gone before one looks. */
const asked = (pod: Pod, finalizers?: string[]) =>
  c.admin.create(resources.evacuations, c.evacuation(pod, finalizers));
const evictions = () => c.requests.count('evict pods');
/** The pod may be seen to go before the eviction is answered. */
const eventuallyEvictedOnce = () =>
  eventually('the answer to the only eviction', () => expect(evictions()).toBe(1));

async function eventuallyRemoved(evacuation: Evacuation): Promise<void> {
  const { name, namespace = '' } = evacuation.metadata;
  await eventually(`Evacuation ${name} to be gone`, async () =>
    expect(await c.admin.get(resources.evacuations, { name, namespace })).toBeUndefined(),
  );
}

async function eventuallySays(pod: Pod, message: string | RegExp): Promise<void> {
  const says = async () =>
    expect((await c.evacuationOf(pod))?.status?.message).toEqual(
      typeof message === 'string' ? message : expect.stringMatching(message),
    );
  // A pod that takes its time is spoken of after half a minute.
  await eventually(`the message of the Evacuation of ${pod.metadata.name}`, says, { within: 50_000 });
}

/** A budget whose numbers its controller has computed. */
async function computed(
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

describe('An Evacuation', () => {
  test('has its pod evicted, then loses our finalizer, then is removed', async () => {
    const pod = await c.podOn(node);
    const evacuation = await asked(pod);
    await c.eventuallyGone(pod);
    await eventuallyRemoved(evacuation);
    expect(c.requests.writes()).toEqual([
      'evict pods',
      'patch evacuations.evacuation.coordination.k8s.io',
      'delete evacuations.evacuation.coordination.k8s.io',
    ]);
  });

  test('that was there before the controller is taken up', async () => {
    await stop();
    const pod = await c.podOn(node);
    const evacuation = await asked(pod);
    stop = started();
    await c.eventuallyGone(pod);
    await eventuallyRemoved(evacuation);
  });

  test('whose pod went while no controller ran is removed', async () => {
    const pod = await c.podOn(node, { finalizers: ['example.com/held'] });
    const evacuation = await asked(pod);
    await eventually('the pod to be terminating', () =>
      expect(c.podsOf(node)[0]?.metadata.deletionTimestamp).toBeDefined(),
    );
    await stop();
    const { name, namespace = '' } = pod.metadata;
    await c.admin.mergePatch(resources.pods, { name, namespace }, { metadata: { finalizers: [] } });
    await c.eventuallyGone(pod);
    stop = started();
    await eventuallyRemoved(evacuation);
    await eventuallyEvictedOnce();
  });

  test('of a former pod is removed, and the namesake of the pod stays', async () => {
    const namesake = await c.podOn(node);
    const former = { ...namesake, metadata: { ...namesake.metadata, uid: crypto.randomUUID() } };
    await eventuallyRemoved(await asked(former));
    expect(c.podsOf(node).map(({ metadata }) => metadata.uid)).toContain(namesake.metadata.uid);
    expect(evictions()).toBe(0);
    await c.podsDeleted([namesake]);
  });

  test('that others have asked for too keeps their finalizers', async () => {
    const pod = await c.podOn(node);
    await asked(pod, [INSTIGATOR_FINALIZER, 'example.com/instigator']);
    await eventuallyReleased(pod);
  });

  test('that only others have asked for has its pod evicted all the same', async () => {
    const pod = await c.podOn(node);
    await asked(pod, ['example.com/instigator']);
    await c.eventuallyGone(pod);
  });

  test('that is withdrawn evicts nothing more', async () => {
    const app = c.named('app');
    const [kept] = await c.podsOn(node, 2, { labels: { app } });
    const pod = kept as Pod;
    const budget = await computed({ app }, { minAvailable: 2 }, 2);
    const evacuation = await asked(pod, [INSTIGATOR_FINALIZER, 'example.com/instigator']);
    await eventuallySays(pod, /^Blocked by PodDisruptionBudget/);
    await c.deleted(evacuation);
    await c.patched(resources.podDisruptionBudgets, budget, { spec: { minAvailable: 0 } });
    // What is asked for later and done marks the moment by which the first would have been done too.
    const later = await c.podOn(node, { labels: { app } });
    await asked(later);
    await c.eventuallyGone(later);
    expect(c.podsOf(node).map(({ metadata }) => metadata.uid)).toContain(pod.metadata.uid);
    await eventuallyEvictedOnce();
    await c.podsDeleted(c.podsOf(node));
    await eventuallyReleased(pod);
  });
});

/** We no longer ask for the evacuation of the pod; another instigator does. */
async function eventuallyReleased(pod: Pod): Promise<void> {
  await eventually('our finalizer to be gone', async () => {
    const { metadata } = (await c.evacuationOf(pod)) as Evacuation;
    expect(metadata.finalizers).toEqual(['example.com/instigator']);
  });
}

describe('A budget', () => {
  test('that allows nothing holds 50 evictions up without a single try, and is named with its numbers', async () => {
    const app = c.named('app');
    const pods = await c.deploymentOn(node, 50, { app });
    const budget = await computed({ app }, { maxUnavailable: 0 }, 50);
    await Promise.all(pods.map((pod) => asked(pod)));
    await eventuallySays(
      pods[0] as Pod,
      `Blocked by PodDisruptionBudget ${budget.namespace}/${budget.name} (disruptionsAllowed 0, currentHealthy 50, desiredHealthy 50, expectedPods 50). It can never allow a disruption: add a replica or relax the budget.`,
    );
    await eventually('every Evacuation to have its message', () =>
      expect(c.requests.count('patch evacuations.evacuation.coordination.k8s.io')).toBeGreaterThanOrEqual(50),
    );
    const before = c.requests.writes().length;
    await throughout('nothing is tried', 3_000, () => expect(evictions()).toBe(0));
    // One that was written on the way to the budget's numbers may be written again, all of them may not.
    expect(c.requests.writes().length).toBeLessThan(before + 10);

    await c.patched(resources.podDisruptionBudgets, budget, { spec: { maxUnavailable: 50 } });
    for (const pod of pods) await c.eventuallyGone(pod);
    expect(evictions()).toBeLessThanOrEqual(60);
    await dropWorkloads();
  });

  test('that allows one at a time lets them go one after another, with hardly a refusal', async () => {
    const app = c.named('app');
    const pods = await c.deploymentOn(node, 6, { app });
    await computed({ app }, { maxUnavailable: 1 }, 6);
    const evacuations = await Promise.all(pods.map((pod) => asked(pod)));
    for (const evacuation of evacuations) await eventuallyRemoved(evacuation);
    expect(evictions()).toBeLessThanOrEqual(9);
    await dropWorkloads();
  });

  test('that allows five lets 60 pods go, with hardly a refusal, and they are told to wait at a leisurely pace', async () => {
    const app = c.named('app');
    const pods = await c.deploymentOn(node, 60, { app });
    await computed({ app }, { maxUnavailable: 5 }, 60);
    const askedAt = Date.now();
    const evacuations = await Promise.all(pods.map((pod) => asked(pod)));
    for (const evacuation of evacuations) await eventuallyRemoved(evacuation);
    expect(evictions()).toBeLessThanOrEqual(63);
    // One is told in 200 ms, and it is taken back when that pod is on its way; our finalizer is dropped from each.
    const toldAtMost = 1 + (Date.now() - askedAt) / 200;
    expect(c.requests.count('patch evacuations.evacuation.coordination.k8s.io')).toBeLessThanOrEqual(
      60 + 2 * toldAtMost,
    );
    await dropWorkloads();
  });

  test('that is removed while a pod waits lets it go', async () => {
    const app = c.named('app');
    const pod = await c.podOn(node, { labels: { app } });
    const { name } = await computed({ app }, { minAvailable: 1 }, 1);
    await asked(pod);
    await eventuallySays(pod, /It can never allow a disruption/);
    await c.deleted({ ...c.budget({ app }, {}, name), metadata: await metadataOf(name) });
    await c.eventuallyGone(pod);
  });

  test('used up by an eviction that was cut off names its pod, and how long that may take', async () => {
    const app = c.named('app');
    const [cutOff, pod, third] = (await c.podsOn(node, 3, { labels: { app } })) as [Pod, Pod, Pod];
    const { name } = await computed({ app }, { minAvailable: 2 }, 3);
    const disruptedPods = { [cutOff.metadata.name]: new Date().toISOString() };
    // As the eviction API does before it deletes the pod.
    await c.withStatus({ ...c.budget({ app }, {}, name) }, { disruptionsAllowed: 0, disruptedPods });
    await asked(pod);
    const wait = `It waits for ${cutOff.metadata.name} to go, or two minutes for each whose eviction was cut off.`;
    await eventuallySays(pod, new RegExp(`disruptionsAllowed 0, .* ${wait}$`));
    expect(evictions()).toBe(0);
    await c.podsDeleted([cutOff, pod, third]);
  });

  test('whose application is not healthy holds unready pods too, until it is to let them go always', async () => {
    const { budget, sick } = await sickApplication();
    await asked(sick);
    await eventuallySays(sick, /disruptionsAllowed 0, currentHealthy 1, desiredHealthy 2, expectedPods 3/);
    await c.patched(resources.podDisruptionBudgets, budget, {
      spec: { unhealthyPodEvictionPolicy: 'AlwaysAllow' },
    });
    await c.eventuallyGone(sick);
    await eventuallyEvictedOnce();
  });

  test('whose application is not healthy holds unready pods too, until it is healthy without them', async () => {
    const { other, sick } = await sickApplication();
    await asked(sick);
    await eventuallySays(sick, /disruptionsAllowed 0, currentHealthy 1, desiredHealthy 2, expectedPods 3/);
    await c.withStatus({ ...other, kind: 'Pod' }, readiness('True'));
    await c.eventuallyGone(sick);
    await eventuallyEvictedOnce();
  });

  test('too many is named with the other one; the pod goes when one of them is removed', async () => {
    const app = c.named('app');
    const pod = await c.podOn(node, { labels: { app } });
    const first = await computed({ app }, { minAvailable: 0 }, 1);
    const second = await c.applied(c.budget({ app }, { minAvailable: 0 }));
    await asked(pod);
    const names = [first.name, second.metadata.name].toSorted().map((name) => `${c.namespace}/${name}`);
    await eventuallySays(
      pod,
      `Blocked by more than one PodDisruptionBudget (${names.join(', ')}): the eviction API allows one; make their selectors disjoint.`,
    );
    expect(evictions()).toBe(0);
    await c.deleted(second);
    await c.eventuallyGone(pod);
  });

  test('of which the controller does not know yet refuses in the apiserver; that is counted', async () => {
    const app = c.named('app');
    const pods = await c.podsOn(node, 2, { labels: { app } });
    await c.applied(c.budget({ app }, { minAvailable: 2 }));
    const [pod] = pods as [Pod];
    await asked(pod);
    await eventuallySays(pod, /PodDisruptionBudget|disruption budget/);
    await throughout('it is not tried again and again', 1_000, () =>
      expect(evictions()).toBeLessThanOrEqual(2),
    );
    expect((await c.evacuationOf(pod))?.status?.failedEvictionCounter ?? 0).toBe(evictions());
    await c.podsDeleted(pods);
  });
});

const readiness = (status: 'True' | 'False') => ({ conditions: [{ type: 'Ready', status }] });

/** Three pods of which two should be healthy, and one is. */
async function sickApplication() {
  const app = c.named('app');
  const pods = await c.podsOn(await c.silentNodeNamed('sick'), 3, { labels: { app } });
  const budget = await computed({ app }, { minAvailable: 2 }, 3);
  const [sick, other] = pods as [Pod, Pod];
  for (const pod of [sick, other]) await c.withStatus({ ...pod, kind: 'Pod' }, readiness('False'));
  await eventually('the budget to see it', () =>
    expect(c.cluster.budgets.get(`${budget.namespace}/${budget.name}`)?.status?.currentHealthy).toBe(1),
  );
  return { budget, sick, other };
}

async function metadataOf(name: string) {
  const found = await c.admin.get(resources.podDisruptionBudgets, { namespace: c.namespace, name });
  return found?.metadata ?? { name };
}

describe('A pod that takes its time', () => {
  test('is reported as terminating after some seconds, and evicted once', async () => {
    const pod = await c.podOn(await c.silentNodeNamed('silent'), { grace: 600 });
    await asked(pod);
    await eventuallySays(pod, /^The pod is terminating, until \S+ at the latest by its grace period\.$/);
    await eventuallyEvictedOnce();
    expect(await blocked(pod)).toBeUndefined();
  });

  test('for longer than it may is reported as stuck, with what holds it', async () => {
    const pod = await c.podOn(node, { finalizers: ['example.com/held'] });
    await asked(pod);
    await eventuallySays(pod, /^It should have ended at \S+, but its finalizers example.com\/held hold it: /);
    expect(await blocked(pod)).toMatchObject({ status: 'True', reason: 'StuckTerminating' });
  });

  test('is reported as terminating also when a budget had held it up a moment before', async () => {
    const app = c.named('app');
    const pod = await c.podOn(node, { labels: { app }, finalizers: ['example.com/held'] });
    const budget = await computed({ app }, { minAvailable: 1 }, 1);
    await asked(pod);
    await eventuallySays(pod, /^Blocked by PodDisruptionBudget/);
    await c.patched(resources.podDisruptionBudgets, budget, { spec: { minAvailable: 0 } });
    await eventuallySays(pod, /^It should have ended/);
  });
});

async function blocked(pod: Pod): Promise<Condition | undefined> {
  return (await c.evacuationOf(pod))?.status?.conditions.find(({ type }) => type === 'Blocked');
}

/** Removes the Deployments of a test, so that the next one has the node to itself. */
async function dropWorkloads(): Promise<void> {
  const deployments = {
    group: 'apps',
    version: 'v1',
    plural: 'deployments',
    kind: 'Deployment',
    namespaced: true,
  };
  const { items } = await c.admin.list(deployments, { namespace: c.namespace });
  for (const { metadata } of items) {
    const key = { namespace: c.namespace, name: metadata.name };
    await c.admin.delete(deployments, key, { uid: metadata.uid ?? '', propagationPolicy: 'Foreground' });
  }
  await eventually('the pods of the Deployments to be gone', () => expect(c.podsOf(node)).toEqual([]));
}
