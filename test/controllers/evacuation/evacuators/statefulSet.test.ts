import type { Pod, StatefulSet } from '../../../../api/core.ts';
import { EvacuationController } from '../../../../controllers/evacuation/evacuation.ts';
import { runStatefulSetEvacuator } from '../../../../controllers/evacuation/evacuators/statefulSet.ts';
import { EventRecorder } from '../../../../kube/events.ts';
import { resources } from '../../../../kube/resources.ts';
import type { Sandbox } from '../../../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../../../kit/cluster.ts';
import { eventually, throughout } from '../../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../../kit/sandbox.ts';

const annotation = 'evacuation.coordination.k8s.io/priority_statefulset.apps.k8s.io';

let sandbox: Sandbox;
let c: TestCluster;
let stop: () => Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'stateful' });
  stop = startEvacuator();
});

afterAll(async () => {
  await stop?.();
  await c?.close();
  await releaseSandbox(sandbox);
});

function startEvacuator(): () => Promise<void> {
  const running = new AbortController();
  const events = new EventRecorder({ kube: c.cluster.kube, component: 'test', log: silentLog });
  const deps = { cluster: c.cluster, events, log: silentLog };
  const ended = Promise.all([
    new EvacuationController(deps).run(running.signal),
    runStatefulSetEvacuator(deps, running.signal),
  ]);
  return async () => {
    running.abort();
    await ended;
    await events.flush();
  };
}

interface App {
  name: string;
  /** The first has all pods, and is cordoned; the second is free. */
  nodes: readonly [string, string];
  pods: readonly Pod[];
}

const podsOf = (name: string) =>
  c.cluster.pods.list().filter(({ metadata }) => metadata.labels?.['app'] === name);

/** Creates a StatefulSet with a budget that can never allow a disruption. */
async function app({ replicas = 1, isAnnotated = true } = {}): Promise<App> {
  const name = c.named('db');
  const nodes = [await c.nodeNamed('n', { app: name }), await c.nodeNamed('n', { app: name })] as const;
  await c.cordoned(nodes[1]);
  await c.admin.create(resources.statefulSets, {
    metadata: { name, namespace: c.namespace },
    spec: {
      replicas,
      serviceName: name,
      podManagementPolicy: 'Parallel',
      selector: { matchLabels: { app: name } },
      template: {
        metadata: {
          labels: { app: name },
          ...(isAnnotated && { annotations: { [annotation]: '10000/controller' } }),
        },
        spec: {
          nodeSelector: { app: name },
          terminationGracePeriodSeconds: 0,
          containers: [{ name: 'main', image: 'fake' }],
        },
      },
    },
  } as StatefulSet);
  const pods = await eventuallyReady(name, replicas, nodes[0]);
  await c.applied(c.budget({ app: name }, { minAvailable: replicas }, name));
  await eventually('the budget to be computed', () =>
    expect(c.cluster.budgets.get(`${c.namespace}/${name}`)?.status).toMatchObject({
      expectedPods: replicas,
      disruptionsAllowed: 0,
    }),
  );
  await c.cordoned(nodes[0]);
  return { name, nodes, pods };
}

const eventuallyReady = (name: string, replicas: number, node: string): Promise<readonly Pod[]> =>
  eventually(`${replicas} Ready pods of ${name} on ${node}`, () => {
    const ready = podsOf(name).filter(({ status, spec }) => status.ready && spec.nodeName === node);
    expect(ready).toHaveLength(replicas);
    return ready;
  });

const requestEvacuation = (pod: Pod) => c.admin.create(resources.evacuations, c.evacuation(pod));

describe('a pod of a StatefulSet whose budget can never allow a disruption', () => {
  test('moves with the consent of its owner, by one deletion and no eviction', async () => {
    const { name, nodes, pods } = await app();
    const [pod] = pods as [Pod];
    c.requests.clear();
    await c.uncordoned(nodes[1]);
    await requestEvacuation(pod);
    await c.eventuallyGone(pod);
    await eventuallyReady(name, 1, nodes[1]);
    await eventually('the response to the deletion', () => expect(c.requests.count('delete pods')).toBe(1));
    expect(c.requests.count('evict pods')).toBe(0);
    await eventually('the Event', async () =>
      expect(await c.eventsAbout(pod)).toContainEqual(expect.stringMatching(/^DeletedByEvacuator: /)),
    );
  });

  test('stays without it, and the Evacuation names the budget', async () => {
    const { name, pods } = await app({ isAnnotated: false });
    const [pod] = pods as [Pod];
    await requestEvacuation(pod);
    await eventually('the blocker', async () =>
      expect((await c.evacuationOf(pod))?.status?.conditions).toMatchObject([
        { type: 'Blocked', status: 'True', reason: 'DisruptionBudgetNeverAllows' },
      ]),
    );
    expect(podsOf(name).map(({ metadata }) => metadata.uid)).toEqual([pod.metadata.uid]);
  });

  test('moves alone: the others wait until it is available again', async () => {
    const { name, nodes, pods } = await app({ replicas: 3 });
    for (const pod of pods) await requestEvacuation(pod);
    const isGone = ({ metadata }: Pod) => !podsOf(name).some((one) => one.metadata.uid === metadata.uid);
    const gone = () => pods.filter(isGone).length;
    await eventually('one pod to be gone', () => expect(gone()).toBe(1));
    await eventually('the others to say what they wait for', async () => {
      const messages = await Promise.all(
        pods.map(async (pod) => (isGone(pod) ? undefined : (await c.evacuationOf(pod))?.status?.message)),
      );
      const waiting = messages.filter((message) => message !== undefined).toSorted();
      const reason = expect.stringMatching(
        /^Waiting for the other pods of StatefulSet .*, 1 of 2 are available: .* is not Ready\.$/,
      );
      expect(waiting).toEqual([reason, reason]);
    });
    await throughout('no other leaves while it is not scheduled', 2_000, () => expect(gone()).toBe(1));
    await c.uncordoned(nodes[1]);
    await eventuallyReady(name, 3, nodes[1]);
    expect(gone()).toBe(3);
  });
});

test('a pod that waits for one that cannot run on its node lets that one leave first', async () => {
  const { name, nodes, pods } = await app({ replicas: 2 });
  const [healthy, broken] = pods as [Pod, Pod];
  const conditions = [{ type: 'Ready', status: 'False', reason: 'CrashLoopBackOff' }];
  const { name: pod, namespace = '' } = broken.metadata;
  const options = { subresource: 'status' };
  await c.admin.mergePatch(resources.pods, { name: pod, namespace }, { status: { conditions } }, options);
  await eventually('the pod not to be Ready', () =>
    expect(podsOf(name).filter(({ status }) => status.ready)).toHaveLength(1),
  );
  await requestEvacuation(healthy);
  await eventually('the healthy pod to wait', async () =>
    expect((await c.evacuationOf(healthy))?.status?.message).toContain('is not Ready'),
  );
  await c.uncordoned(nodes[1]);
  await requestEvacuation(broken);
  await eventuallyReady(name, 2, nodes[1]);
});

test('a pod that no StatefulSet controls, or whose budget can allow a disruption, is evicted at once', async () => {
  const node = await c.nodeNamed('n');
  const annotations = { [annotation]: '10000/controller' };
  const bare = await c.podOn(node, { annotations });
  await requestEvacuation(bare);
  await c.eventuallyGone(bare);
  const { name, nodes, pods } = await app();
  const [pod] = pods as [Pod];
  await c.applied(c.budget({ app: name }, { minAvailable: 0 }, name));
  await c.uncordoned(nodes[1]);
  c.requests.clear();
  await requestEvacuation(pod);
  await c.eventuallyGone(pod);
  await eventually('the response to the eviction', () => expect(c.requests.count('evict pods')).toBe(1));
  expect(c.requests.count('delete pods')).toBe(0);
});
