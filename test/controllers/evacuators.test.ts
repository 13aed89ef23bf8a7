import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Pod } from '../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../api/evacuation.ts';
import { INSTIGATOR_FINALIZER } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
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
  c = await testCluster(sandbox, { prefix: 'turns' });
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

const registered = (classes: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(classes).map(([name, value]) => [
      `evacuation.coordination.k8s.io/priority_${name}`,
      value,
    ]),
  );
const podWith = (classes: Record<string, string>, differs: Parameters<TestCluster['podOn']>[1] = {}) =>
  c.podOn(node, { annotations: registered(classes), ...differs });
const two = { 'first.io': '20/controller', 'second.io': '10/helper' };

/** An Evacuation as the drain makes it, less what it resolved. */
const asked = (pod: Pod, differs: { progressDeadlineSeconds?: number; finalizers?: string[] } = {}) => {
  const { finalizers, ...spec } = differs;
  const evacuation = c.evacuation(pod, finalizers);
  return c.admin.create(resources.evacuations, {
    ...evacuation,
    spec: { ...evacuation.spec, ...spec },
  } as Evacuation);
};

/** What an evacuator writes. */
const reports = ({ metadata }: Evacuation, status: Partial<EvacuationStatus>) => {
  const { name, namespace = '' } = metadata;
  const options = { subresource: 'status', fieldManager: 'an-evacuator' } as const;
  return c.admin.mergePatch(resources.evacuations, { name, namespace }, { status }, options);
};

const now = () => c.admin.now().toISOString();
const evictions = () => c.requests.count('evict pods');
const isAlive = ({ metadata }: Pod) =>
  c
    .podsOf(node)
    .some((seen) => seen.metadata.uid === metadata.uid && seen.metadata.deletionTimestamp === undefined);
const statusOf = async (pod: Pod) => (await c.evacuationOf(pod))?.status;

async function eventuallyActive(pod: Pod, activeEvacuatorClass: string): Promise<EvacuationStatus> {
  return eventually(`${activeEvacuatorClass} to be active`, async () => {
    const status = await statusOf(pod);
    expect(status).toMatchObject({ activeEvacuatorClass, activeEvacuatorCompleted: false });
    return status as EvacuationStatus;
  });
}

const eventuallyTold = (about: Parameters<TestCluster['eventsAbout']>[0], event: unknown) =>
  eventually(`the Event ${String(event)}`, async () =>
    expect(await c.eventsAbout(about)).toContainEqual(event),
  );

describe('A pod with evacuators', () => {
  test('has them resolved by the controller when admission did not, sorted, with the labels of the pod', async () => {
    const pod = await podWith({ 'low.io': '1/a', 'high.io': '2147483647/b' }, { labels: { app: 'orders' } });
    await asked(pod);
    const evacuation = await eventually('evacuators', async () => {
      const seen = await c.evacuationOf(pod);
      expect(seen?.spec.evacuators).toEqual([
        { evacuatorClass: 'high.io', priority: 2_147_483_647, role: 'b' },
        { evacuatorClass: 'low.io', priority: 1, role: 'a' },
      ]);
      return seen;
    });
    expect(evacuation?.metadata.labels).toEqual({ app: 'orders' });
  });

  test('is left to the first, then to the second when the first has completed, then is evicted', async () => {
    const pod = await podWith(two);
    const evacuation = await asked(pod);
    const first = await eventuallyActive(pod, 'first.io');
    expect(first.message).toBe('Waiting for first.io to respond; next: second.io, then the eviction API.');
    expect(Math.abs(Date.parse(first.evacuationProgressTimestamp ?? '') - Date.parse(now()))).toBeLessThan(
      10_000,
    );
    await reports(evacuation, { message: 'moving data', expectedEvacuationFinishTime: now() });
    await throughout('the first is left at work', 500, async () =>
      expect(await statusOf(pod)).toMatchObject({ activeEvacuatorClass: 'first.io', message: 'moving data' }),
    );
    await reports(evacuation, { activeEvacuatorCompleted: true });
    const second = await eventuallyActive(pod, 'second.io');
    expect(second.message).toBe('Waiting for second.io to respond; next: the eviction API.');
    expect(second.expectedEvacuationFinishTime).toBeUndefined();
    expect(evictions()).toBe(0);
    await reports(evacuation, { activeEvacuatorCompleted: true });
    await c.eventuallyGone(pod);
    expect(evictions()).toBe(1);
    for (const about of [pod, evacuation]) {
      await eventuallyTold(about, 'EvacuatorCompleted: first.io has completed, and the pod is still there.');
      await eventuallyTold(about, 'EvacuatorCompleted: second.io has completed, and the pod is still there.');
    }
  });

  test('goes to the next evacuator when the first reports no progress for its deadline', async () => {
    const pod = await podWith(two);
    const evacuation = await asked(pod, { progressDeadlineSeconds: 2 });
    await eventuallyActive(pod, 'first.io');
    await eventuallyActive(pod, 'second.io');
    await c.eventuallyGone(pod);
    await eventuallyTold(evacuation, 'EvacuatorMadeNoProgress: second.io has reported no progress for 2 s.');
  });

  test('stays with an evacuator that reports progress, however long it takes', async () => {
    const pod = await podWith(two);
    const evacuation = await asked(pod, { progressDeadlineSeconds: 2 });
    await eventuallyActive(pod, 'first.io');
    await throughout('the first is at work', 4_000, async () => {
      await reports(evacuation, { evacuationProgressTimestamp: now() });
      expect((await statusOf(pod))?.activeEvacuatorClass).toBe('first.io');
    });
  });

  test('is not kept for ever by a time of progress in the future', async () => {
    const pod = await podWith({ 'first.io': '1/x' });
    const evacuation = await asked(pod, { progressDeadlineSeconds: 2 });
    await eventuallyActive(pod, 'first.io');
    await reports(evacuation, { evacuationProgressTimestamp: '2099-01-01T00:00:00Z' });
    await c.eventuallyGone(pod);
  });

  test('that ends it by itself is seen to be gone, and its Evacuation is removed without an eviction', async () => {
    const pod = await podWith(two);
    await asked(pod);
    await eventuallyActive(pod, 'first.io');
    await c.deleted(pod);
    await c.eventuallyGone(pod);
    await eventually('the Evacuation to be gone', async () =>
      expect(await c.evacuationOf(pod)).toBeUndefined(),
    );
    expect(evictions()).toBe(0);
  });

  test('says in its Events who asks, for whom, and who is next', async () => {
    const maintenance = await c.applied(
      c.maintenance({ nodes: [node], stage: 'Drain', reason: 'firmware 2.4' }),
    );
    const pod = await podWith(two);
    const evacuation = await asked(pod);
    const told = `EvacuatorAsked: first.io is asked to evacuate pod ${pod.metadata.name} from node ${node} for node maintenance ${maintenance.metadata.name} (firmware 2.4), and has 1800 s for each step; next: second.io, then the eviction API.`;
    await eventuallyTold(pod, told);
    await eventuallyTold(evacuation, told);
  });
});

describe('kubectl', () => {
  test('tells of an Evacuation who asked, who is acting and since when, what it does, and who comes next', async () => {
    const own = await c.nodeNamed('told');
    const maintenance = await c.applied(
      c.maintenance({ nodes: [own], stage: 'Drain', reason: 'firmware 2.4' }),
    );
    const pod = await c.podOn(own, { annotations: registered(two), labels: { app: 'orders' } });
    const evacuation = await asked(pod);
    await eventuallyActive(pod, 'first.io');
    await reports(evacuation, { message: '40 of 100 GiB moved' });
    await eventuallyTold(evacuation, expect.stringContaining('EvacuatorAsked: first.io'));
    const kubectl = kubectlOf(sandbox);
    const listed = await succeeds(kubectl(['get', 'evac', '-A', '-o', 'wide']));
    const [header = '', ...rows] = listed.split('\n');
    expect(header.trim().split(/\s{2,}/)).toEqual([
      'NAMESPACE',
      'NAME',
      'POD',
      'ACTIVE EVACUATOR',
      'SINCE',
      'BLOCKED',
      'PROGRESS AGE',
      'MESSAGE',
    ]);
    const row = rows.find((line) => line.includes(`${pod.metadata.name} `));
    expect(row).toMatch(/first\.io\s+\d+s\s+\d+s\s+40 of 100 GiB moved$/);
    const told = await succeeds(kubectl(['describe', 'evac', '-n', c.namespace, evacuation.metadata.name]));
    for (const fact of [
      'evacuation.coordination.k8s.io/instigator_nodemaintenance.k8s.io',
      /Evacuator Class:\s+second\.io/,
      /Active Evacuator Class:\s+first\.io/,
      'Active Evacuator Since:',
      '40 of 100 GiB moved',
      `for node maintenance ${maintenance.metadata.name} (firmware 2.4)`,
      'next: second.io, then the eviction API',
    ])
      expect(told).toMatch(fact);
    const { metadata } = pod;
    expect(await succeeds(kubectl(['describe', 'pod', '-n', c.namespace, metadata.name]))).toContain(
      `for node maintenance ${maintenance.metadata.name} (firmware 2.4)`,
    );
  });
});

describe('A controller that is killed', () => {
  test('between two turns goes on where the object says', async () => {
    const pod = await podWith(two);
    const evacuation = await asked(pod);
    await eventuallyActive(pod, 'first.io');
    await stop();
    await reports(evacuation, { activeEvacuatorCompleted: true });
    stop = started();
    await eventuallyActive(pod, 'second.io');
    await stop();
    stop = started();
    await throughout('the second is at work', 500, async () =>
      expect((await statusOf(pod))?.activeEvacuatorClass).toBe('second.io'),
    );
  });

  test('after the last turn evicts, and asks nobody again', async () => {
    const pod = await podWith(
      { 'first.io': '1/x' },
      { finalizers: ['example.com/held'], labels: { app: 'held' } },
    );
    await c.applied(c.budget({ app: 'held' }, { minAvailable: 1 }));
    const evacuation = await asked(pod);
    await eventuallyActive(pod, 'first.io');
    await reports(evacuation, { activeEvacuatorCompleted: true });
    const exhausted = { type: 'EvacuatorsExhausted', status: 'True', reason: 'EvacuatorCompleted' };
    const evicting = async () =>
      expect((await statusOf(pod))?.conditions).toContainEqual(expect.objectContaining(exhausted));
    await eventually('the last resort', evicting);
    await stop();
    stop = started();
    await throughout('nobody is asked again', 500, async () => {
      await evicting();
      expect((await statusOf(pod))?.activeEvacuatorClass).toBeUndefined();
    });
  });
});

describe('An Evacuation', () => {
  test('whose pod has a malformed annotation goes by the other evacuators, and says which one is left out', async () => {
    const pod = await podWith({ 'bad.io': 'soon', 'good.io': '1/x' });
    const evacuation = await asked(pod);
    await eventuallyActive(pod, 'good.io');
    const told =
      'MalformedEvacuator: Without this evacuator the pod is evacuated by the others, or evicted: metadata.annotations[evacuation.coordination.k8s.io/priority_bad.io]: expected "<priority>/<role>", such as "10000/controller" (got "soon").';
    await eventuallyTold(pod, told);
    await eventuallyTold(evacuation, told);
  });

  test('whose pod has nothing but malformed annotations evicts it', async () => {
    const pod = await podWith({ 'bad.io': 'soon' });
    await asked(pod);
    await c.eventuallyGone(pod);
    expect(evictions()).toBe(1);
  });

  test('is withdrawn in mid-turn: nobody else is asked, and nothing is evicted', async () => {
    const pod = await podWith(two);
    const evacuation = await asked(pod, { finalizers: ['example.com/evacuator-cleans-up'] });
    await eventuallyActive(pod, 'first.io');
    const { name, namespace = '', uid = '' } = evacuation.metadata;
    await c.admin.delete(resources.evacuations, { name, namespace }, { uid });
    await reports(evacuation, { activeEvacuatorCompleted: true });
    await throughout('the pod is left alone', 1_000, async () =>
      expect((await statusOf(pod))?.activeEvacuatorClass).toBe('first.io'),
    );
    expect(isAlive(pod)).toBe(true);
  });

  test('that others made, without any instigator, is taken up all the same', async () => {
    const pod = await podWith({ 'first.io': '1/x' });
    const evacuation = await asked(pod, { finalizers: [] });
    await eventuallyActive(pod, 'first.io');
    await eventuallyTold(
      pod,
      `EvacuatorAsked: first.io is asked to evacuate pod ${pod.metadata.name} from node ${node} for Evacuation ${evacuation.metadata.name}, and has 1800 s for each step; next: the eviction API.`,
    );
  });

  test('of several instigators names them all', async () => {
    const other = 'evacuation.coordination.k8s.io/instigator_descheduler.example.com';
    const maintenance = await c.applied(
      c.maintenance({ nodes: [node], stage: 'Drain', name: c.named('rack') }),
    );
    const pod = await c.podOn(node);
    await asked(pod, { finalizers: [other, INSTIGATOR_FINALIZER] });
    const seen = await eventually('the Event Evicted', async () => {
      const [evicted] = (await c.eventsAbout(pod)).filter((one) => one.startsWith('Evicted: '));
      expect(evicted).toBeDefined();
      return evicted;
    });
    expect(seen).toContain(maintenance.metadata.name);
    expect(seen).toMatch(/ and descheduler\.example\.com\.$/);
  });

  test('of a static pod without an evacuator says that nobody evicts it', async () => {
    const pod = await c.podOn(node, { annotations: { 'kubernetes.io/config.mirror': 'by-hand' } });
    await asked(pod);
    await eventually('the message', async () =>
      expect((await statusOf(pod))?.message).toBe(
        'Pods of type Static are not evicted, and this one has no evacuator.',
      ),
    );
    expect(isAlive(pod)).toBe(true);
  });

  test('keeps its evacuators once they are resolved', async () => {
    const pod = await podWith(two);
    const { metadata } = await asked(pod);
    await eventuallyActive(pod, 'first.io');
    const key = { name: metadata.name, namespace: metadata.namespace ?? '' };
    await expect(
      c.admin.mergePatch(resources.evacuations, key, { spec: { evacuators: null } }),
    ).rejects.toThrow("evacuators are resolved once from the pod's annotations and immutable then");
  });
});
