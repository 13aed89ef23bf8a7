import type { NodeMaintenanceActivities } from '../../../activities/contract.ts';
import type { KubeObject, Pod } from '../../../api/core.ts';
import type { Evacuation } from '../../../api/evacuation.ts';
import { INSTIGATOR_FINALIZER } from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { podTypeOf } from '../../../domain/common/pod.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import type { Informer } from '../../../kube/informer.ts';
import { type Resource, resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { activitiesOn, performed, refOf, started } from '../../kit/activity.ts';
import { labelled, pods } from '../../kit/builders.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let acts: NodeMaintenanceActivities;
let flushEvents: () => Promise<void>;
/** For a drain that takes ten seconds while the other tests run, which count the requests of theirs. */
let beside: TestCluster;
let blocked: ReturnType<typeof blockedDrain>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'drain' });
  ({ activities: acts, flushEvents } = activitiesOn(c));
  beside = await testCluster(sandbox, { prefix: 'blocked' });
  blocked = blockedDrain(beside);
  // Awaited only later: until then a failure must not be unhandled.
  blocked.catch(() => undefined);
});

afterAll(async () => {
  await beside?.close();
  await c?.close();
  await releaseSandbox(sandbox);
});

const draining = async (nodes: string[], drainPlan = [pods(1000), pods(5000)], what = 'nm') =>
  c.applied(c.maintenance({ name: c.named(what), nodes, stage: 'Drain', drainPlan }));

/** An informer that is behind: it shows an earlier state of the maintenance. */
const showing = (maintenance: NodeMaintenance) =>
  ({
    get: () => maintenance,
    list: () => [maintenance],
    subscribe: (handler: never) => c.cluster.maintenances.subscribe(handler),
  }) as unknown as Informer<NodeMaintenance>;

/** Marks the maintenance as one that has reached this position in its plan. */
const reached = (maintenance: NodeMaintenance, drainPosition: number) =>
  c.withStatus(maintenance, { ...emptyStatus, drainPosition });

const created = () => c.requests.count('create evacuations.evacuation.coordination.k8s.io');

/** Reads the status of the node in the maintenance. */
async function nodeStatus({ metadata }: NodeMaintenance, node: string) {
  const { nodeStatuses } = await c.statusOf(metadata.name);
  return nodeStatuses.find(({ nodeRef }) => nodeRef.name === node);
}

/** Deletes a pod and its Evacuation, as the evacuation controller does. */
async function evacuated(pod: Pod): Promise<void> {
  await c.podsDeleted([pod]);
  const evacuation = await c.evacuationOf(pod);
  if (evacuation === undefined) return;
  const { name, namespace = '' } = evacuation.metadata;
  await c.admin.mergePatch(resources.evacuations, { name, namespace }, { metadata: { finalizers: [] } });
  await c.deleted(evacuation);
}

const policies = (kind: string): Resource => ({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: kind === 'ValidatingAdmissionPolicy' ? 'validatingadmissionpolicies' : `${kind.toLowerCase()}s`,
  kind,
  namespaced: false,
});

/** Installs an admission policy that denies every Evacuation in a namespace. */
async function evacuationsRejectedIn(namespace: string): Promise<{ dropped(): Promise<void> }> {
  const metadata = { name: `${namespace}.example.com` };
  const rule = { apiGroups: ['evacuation.coordination.k8s.io'], apiVersions: ['*'], resources: ['*'] };
  const spec = {
    matchConstraints: {
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
      resourceRules: [{ ...rule, operations: ['CREATE'] }],
    },
    validations: [{ expression: 'false', message: 'ask the tenant first' }],
  };
  const binding = { policyName: metadata.name, validationActions: ['Deny'] };
  const [policy, bound] = [
    policies('ValidatingAdmissionPolicy'),
    policies('ValidatingAdmissionPolicyBinding'),
  ] as const;
  await c.admin.create(policy, { metadata, spec } as KubeObject);
  await c.admin.create(bound, { metadata, spec: binding } as KubeObject);
  return {
    dropped: async () => {
      for (const resource of [bound, policy]) {
        const uid = (await c.admin.get(resource, metadata))?.metadata.uid ?? '';
        await c.admin.delete(resource, metadata, { uid });
      }
    },
  };
}

/** Creates the Evacuation of a pod that does not exist, and returns why it is rejected. */
async function whyRejected({ metadata: { namespace = '' } }: Pod): Promise<string> {
  const probe = { name: 'probe', namespace };
  const spec = { podRef: { name: 'probe', uid: 'probe' }, progressDeadlineSeconds: 1800 };
  try {
    const { metadata } = await c.admin.create(resources.evacuations, { metadata: probe, spec } as Evacuation);
    await c.admin.delete(resources.evacuations, probe, { uid: metadata.uid ?? '' });
    return 'nothing';
  } catch (error) {
    return String(error);
  }
}

/** Starts the drain of a node with two pods whose Evacuations are blocked, and one that does not terminate. */
async function blockedDrain(cluster: TestCluster) {
  const { activities, flushEvents: eventsWritten } = activitiesOn(cluster);
  const node = await cluster.nodeNamed('n');
  const stuck = await cluster.podOn(node, { finalizers: ['example.com/held'] });
  const held = await cluster.podsOn(node, 2, { labels: { app: 'held' } });
  const applied = await cluster.applied(
    cluster.maintenance({ nodes: [node], stage: 'Drain', drainPlan: [pods(1000), pods(5000)] }),
  );
  const drain = started(() => activities.drain(refOf(applied), 0));
  for (const pod of held) {
    const evacuation = await cluster.eventuallyEvacuating(pod);
    const why = { reason: 'MultipleDisruptionBudgets', message: 'Two budgets.' };
    const condition = { type: 'Blocked', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z', ...why };
    await cluster.withStatus(evacuation, { conditions: [condition] });
  }
  await cluster.deleted(stuck);
  return { applied, drain, pods: [...held, stuck], eventsWritten };
}

describe('drain', () => {
  test('requests the evacuation of the pods of its tier, and of no others', async () => {
    const node = await c.nodeNamed('n');
    const other = await c.nodeNamed('other');
    const [low, high] = [await c.podOn(node, { priority: 1000 }), await c.podOn(node, { priority: 1001 })];
    const elsewhere = await c.podOn(other, { priority: 1000 });
    const applied = await draining([node]);
    const drain = started(() => acts.drain(refOf(applied), 0));
    const { metadata, spec } = await c.eventuallyEvacuating(low);
    expect(metadata.name).toBe(`${low.metadata.uid}-${low.metadata.name}`);
    expect(metadata.finalizers).toEqual([INSTIGATOR_FINALIZER]);
    expect(spec).toEqual({
      podRef: { name: low.metadata.name, uid: low.metadata.uid },
      progressDeadlineSeconds: 1800,
    });
    await c.eventuallyStatus(applied.metadata.name, 'one pod is evacuating', (status) =>
      expect(status).toMatchObject({
        podsEvacuating: 1,
        podsPendingEvacuation: 1,
        drainPosition: 0,
        drainTier: { number: 1, total: 2 },
      }),
    );
    expect(await nodeStatus(applied, node)).toEqual({
      nodeRef: { name: node },
      drainTargets: [pods(1000)],
      drainMessage: 'Evacuating',
      podsEvacuating: 1,
      podsPeak: 2,
      podsPendingEvacuation: 1,
      unschedulableBefore: false,
      autoscalerAnnotationsBefore: [],
    });
    await c.eventuallyCordoned(node);
    await drain.cancelled();
    expect(await c.evacuationOf(high)).toBeUndefined();
    expect(await c.evacuationOf(elsewhere)).toBeUndefined();
  });

  test('ends a tier when its pods are gone from every node, at the next entry that has pods', async () => {
    const [n1, n2] = [await c.nodeNamed('n'), await c.nodeNamed('n')];
    const [first, second] = [await c.podOn(n1, { priority: 1000 }), await c.podOn(n2, { priority: 900 })];
    await c.podOn(n1, { priority: 5000 });
    const applied = await draining([n1, n2], [pods(1000), pods(3000), pods(5000)]);
    const drain = started(() => acts.drain(refOf(applied), 0));
    await Promise.all([first, second].map((pod) => c.eventuallyEvacuating(pod)));
    await evacuated(first);
    await eventually('the first node to wait for the second', async () =>
      expect(await nodeStatus(applied, n1)).toMatchObject({ drainMessage: `Waiting for node ${n2}.` }),
    );
    await evacuated(second);
    expect(await drain.ended).toMatchObject({
      kind: 'TierDrained',
      position: 2,
      drained: { number: 1, total: 2, pods: 'Default pods with priority up to 1000' },
      nodes: expect.arrayContaining([n1, n2]),
      details: { stage: 'Drain', podsToEvacuate: 1, podsEvacuated: 2 },
    });
    const status = await c.statusOf(applied.metadata.name);
    expect(status).toMatchObject({ drainPosition: 2, drainTier: { number: 2, total: 2 } });
    await flushEvents();
    expect(await c.eventsAbout(applied)).toContain(
      'TierDrained: Tier 1 of 2 is drained on 2 nodes; tier 2 is next.',
    );
  });

  test('cordons at once, and evicts when a maintenance that was created together with it has recorded its nodes', async () => {
    const [n1, n2] = [await c.nodeNamed('n'), await c.nodeNamed('n')];
    const pod = await c.podOn(n1);
    const [applied, other] = [await draining([n1]), await draining([n2])];
    const drain = started(() => acts.drain(refOf(applied), 0));
    await c.eventuallyCordoned(n1);
    await c.eventuallyStatus(applied.metadata.name, 'the maintenance waits', ({ conditions }) =>
      expect(conditions[0]?.message).toMatch(
        /^1 pod left to evacuate\. Evictions wait until maintenances .* have cordoned their nodes/,
      ),
    );
    expect(await c.evacuationOf(pod)).toBeUndefined();
    const otherDrain = started(() => acts.drain(refOf(other), 0));
    await c.eventuallyEvacuating(pod);
    await otherDrain.ended;
    await c.eventuallyStatus(applied.metadata.name, 'the maintenance evicts', ({ conditions }) =>
      expect(conditions[0]?.message).toBe('1 pod left to evacuate.'),
    );
    await drain.cancelled();
  });

  test('ends with Drained, on the object too, when no pod is left', async () => {
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node, { priority: 5000 });
    const applied = await reached(await draining([node]), 1);
    const drain = started(() => acts.drain(refOf(applied), 1));
    await c.eventuallyEvacuating(pod);
    await evacuated(pod);
    expect(await drain.ended).toMatchObject({ kind: 'Drained', nodes: [node] });
    const { conditions } = await c.eventuallyDrained(applied.metadata.name);
    expect(conditions).toMatchObject([
      {
        type: 'Drained',
        status: 'True',
        reason: 'AllPodsTerminated',
        message: 'No pod is left on the nodes.',
      },
    ]);
  });

  test('requests nothing twice after a crash', async () => {
    const node = await c.nodeNamed('n');
    const some = await c.podsOn(node, 5, { priority: 1000 });
    const applied = await draining([node]);
    const crashed = started(() => acts.drain(refOf(applied), 0));
    await Promise.all(some.map((pod) => c.eventuallyEvacuating(pod)));
    const { name } = applied.metadata;
    await c.eventuallyStatus(name, '5 pods are evacuating', ({ podsEvacuating }) =>
      expect(podsEvacuating).toBe(5),
    );
    await crashed.cancelled();
    await c.caughtUpWith(await c.maintenanceNow(name));
    await c.caughtUpWith({ ...(await c.node(node)), kind: 'Node' });
    const written = await c.requests.writesOf(async () => {
      const again = started(() => acts.drain(refOf(applied), 0));
      await c.staged(name, 'Complete');
      expect(await again.ended).toMatchObject({ kind: 'StageChanged', stage: 'Complete' });
    });
    expect(written).toEqual([]);
  });

  test('evacuates a pod that appears at an earlier entry of the plan', async () => {
    const node = await c.nodeNamed('n');
    await c.podOn(node, { priority: 5000 });
    const applied = await reached(await draining([node]), 1);
    const drain = started(() => acts.drain(refOf(applied), 1));
    const late = await c.podOn(node, { priority: 10 });
    await c.eventuallyEvacuating(late);
    await drain.cancelled();
  });

  test('evacuates by label where the plan says so', async () => {
    const node = await c.nodeNamed('n');
    const [web, db] = await Promise.all(
      ['web', 'db'].map((app) => c.podOn(node, { priority: 1000, labels: { app } })),
    );
    const applied = await draining([node], [labelled(pods(1000), { app: 'web' }), pods(1000)]);
    const drain = started(() => acts.drain(refOf(applied), 0));
    await c.eventuallyEvacuating(web as Pod);
    await evacuated(web as Pod);
    expect(await drain.ended).toMatchObject({ kind: 'TierDrained', position: 1 });
    expect(await c.evacuationOf(db as Pod)).toBeUndefined();
  });

  test('evacuates DaemonSet pods after all others, and leaves static pods running on a node without an agent', async () => {
    const node = await c.nodeNamed('n');
    const app = await c.podOn(node, { priority: 1000 });
    const daemon = await c.daemonPodOn(node);
    const mirror = await c.podOn(node, { annotations: { 'kubernetes.io/config.mirror': 'hash' } });
    const applied = await draining([node]);
    const first = started(() => acts.drain(refOf(applied), 0));
    await c.eventuallyEvacuating(app);
    expect(await c.evacuationOf(daemon)).toBeUndefined();
    await evacuated(app);
    const daemonTier = (await first.ended) as { position: number };
    const second = started(() => acts.drain(refOf(applied), daemonTier.position));
    const evacuation = await c.eventuallyEvacuating(daemon);
    expect(evacuation.spec.evacuators).toEqual([
      { evacuatorClass: 'daemonset.apps.k8s.io', priority: 10_000, role: 'controller' },
    ]);
    await c.eventuallyStatus(applied.metadata.name, 'DaemonSet pods are targeted', ({ nodeStatuses }) =>
      expect(nodeStatuses[0]?.drainTargets).toContainEqual(expect.objectContaining({ podType: 'DaemonSet' })),
    );
    // The apiserver may learn of that a moment later than we do, and let one more pod come.
    await eventually('the node without DaemonSet pods', async () => {
      const daemons = c.podsOf(node).filter((pod) => podTypeOf(pod) === 'DaemonSet');
      for (const pod of daemons) await evacuated(pod);
      expect(daemons).toEqual([]);
    });
    expect(await second.ended).toMatchObject({ kind: 'Drained', nodes: [node] });
    expect(await c.evacuationOf(mirror)).toBeUndefined();
    expect(await c.statusOf(applied.metadata.name)).toMatchObject({
      podsRemaining: 1,
      conditions: [
        {
          type: 'Drained',
          status: 'True',
          reason: 'StaticPodsRemain',
          message: `Static pods keep running: ${mirror.metadata.namespace}/${mirror.metadata.name} (no node agent reports from node ${node}: install it there, or remove the manifests from the folder of the kubelet).`,
        },
      ],
    });
  });

  test('joins the Evacuation of another instigator', async () => {
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node, { priority: 1000 });
    const theirs = await c.applied(c.evacuation(pod, ['example.com/instigator']));
    const applied = await draining([node]);
    const before = created();
    const drain = started(() => acts.drain(refOf(applied), 0));
    await eventually('our finalizer beside theirs', async () => {
      const { metadata } = (await c.evacuationOf(pod)) ?? { metadata: {} as never };
      expect(metadata.uid).toBe(theirs.metadata.uid);
      expect(metadata.finalizers).toEqual(['example.com/instigator', INSTIGATOR_FINALIZER]);
    });
    await drain.cancelled();
    expect(created()).toBe(before);
  });

  test('waits for a pod in a namespace that is being deleted, and does not retry its Evacuation', async () => {
    const node = await c.nodeNamed('n');
    const namespace = await c.namespaceNamed(c.named('ending'));
    const pod = await c.podOn(node, { namespace, finalizers: ['example.com/held'] });
    const found = await c.admin.get(resources.namespaces, { name: namespace });
    await c.deleted({ ...found, kind: 'Namespace' } as never);
    // As Kubernetes does some seconds later.
    await c.deleted(pod);
    await eventually('the pod to be terminating', () =>
      expect(c.podsOf(node)[0]?.metadata.deletionTimestamp).toBeDefined(),
    );
    const applied = await draining([node]);
    const before = created();
    const drain = started(() => acts.drain(refOf(applied), 0));
    await throughout('an Evacuation was tried once at most', 2_000, () =>
      expect(created() - before).toBeLessThanOrEqual(1),
    );
    const key = { namespace, name: pod.metadata.name };
    await c.admin.mergePatch(resources.pods, key, { metadata: { finalizers: [] } });
    expect(await drain.ended).toMatchObject({ kind: 'Drained', nodes: [node] });
  });

  test('waits for another maintenance that targets fewer pods of the node, and names it', async () => {
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node, { priority: 5000 });
    const lesser = await draining([node], [pods(1000)]);
    const applied = await draining([node], [pods(5000)]);
    const drain = started(() => acts.drain(refOf(applied), 0));
    await eventually('the message', async () =>
      expect(await nodeStatus(applied, node)).toMatchObject({
        drainMessage: `Evacuating (limited by ${lesser.metadata.name})`,
        drainTargets: [pods(1000)],
      }),
    );
    expect(await c.evacuationOf(pod)).toBeUndefined();
    await c.staged(lesser.metadata.name, 'Complete');
    await c.eventuallyEvacuating(pod);
    await drain.cancelled();
  });

  test('is fast-forwarded by an older maintenance that has progressed further, and records one Event', async () => {
    const [node, other] = [await c.nodeNamed('n'), await c.nodeNamed('other')];
    const pod = await c.podOn(node, { priority: 5000 });
    await c.podOn(other, { priority: 10 });
    const older = await draining([node], [pods(5000)]);
    await c.withStatus(older, { nodeStatuses: [{ nodeRef: { name: node }, drainTargets: [pods(5000)] }] });
    const applied = await draining([node, other], [pods(1000)]);
    const drain = started(() => acts.drain(refOf(applied), 0));
    await c.eventuallyEvacuating(pod);
    await eventually('the message', async () =>
      expect(await nodeStatus(applied, node)).toMatchObject({
        drainMessage: expect.stringMatching(/^Evacuating \(fast-forwarded by (older )?/),
        drainTargets: [pods(5000)],
      }),
    );
    await drain.cancelled();
    await flushEvents();
    const events = (await c.eventsAbout(applied)).filter((event) => event.startsWith('FastForwarded'));
    expect(events).toEqual([expect.stringContaining(`Node ${node} is fast-forwarded by`)]);
  });

  test('of two plans with opposite orders the older proceeds, and both objects get an Event', async () => {
    const node = await c.nodeNamed('n');
    const [x, y] = [{ app: 'x' }, { app: 'y' }];
    const [first, second] = [await c.podOn(node, { labels: x }), await c.podOn(node, { labels: y })];
    const older = await draining([node], [labelled(pods(10), x), pods(50)], 'a');
    const younger = await draining([node], [labelled(pods(10), y), pods(50)], 'b');
    const drains = [older, younger].map((one) => started(() => acts.drain(refOf(one), 0)));
    await c.eventuallyEvacuating(first);
    await evacuated(first);
    expect(await drains[0]?.ended).toMatchObject({ kind: 'TierDrained' });
    await c.eventuallyEvacuating(second);
    await drains[1]?.cancelled();
    await flushEvents();
    for (const one of [older, younger]) {
      const events = await c.eventsAbout(one);
      expect(events).toContainEqual(
        expect.stringMatching(
          new RegExp(`^DrainPlansConflict: .*the oldest, ${older.metadata.name}, proceeds`),
        ),
      );
    }
  });

  test('withdraws the Evacuations of a node that no longer matches, and drops the record of a node that is gone', async () => {
    const rack = c.named('rack');
    const [leaving, vanishing] = [
      await c.nodeNamed('leaving', { rack }),
      await c.nodeNamed('vanishing', { rack }),
    ];
    await c.nodeNamed('staying', { rack });
    const pod = await c.podOn(leaving);
    const applied = await c.applied(c.maintenance({ nodes: { rack }, stage: 'Drain' }));
    const drain = started(() => acts.drain(refOf(applied), 0));
    await c.eventuallyEvacuating(pod);
    await c.patched(resources.nodes, { name: leaving }, { metadata: { labels: { rack: null } } });
    await eventually('the Evacuation to be withdrawn', async () =>
      expect(await c.evacuationOf(pod)).toBeUndefined(),
    );
    expect((await c.node(leaving)).spec.unschedulable).toBe(true);
    expect(await drain.ended).toMatchObject({ kind: 'Drained' });
    const kept = started(() => acts.keepDrained(refOf(applied)));
    await c.deleted({ ...(await c.node(vanishing)), kind: 'Node' });
    await c.eventuallyStatus(applied.metadata.name, 'the node is forgotten', ({ nodes, nodeStatuses }) => {
      expect(nodes).toBe(1);
      expect(nodeStatuses.map(({ nodeRef }) => nodeRef.name)).not.toContain(vanishing);
    });
    expect(await nodeStatus(applied, leaving)).toMatchObject({
      drainMessage:
        'No longer selected: stays unschedulable until the maintenance is complete, or someone uncordons it.',
      unschedulableBefore: false,
    });
    await kept.cancelled();
  });

  test('names the pods that cannot leave, each cause by one Event', async () => {
    const { applied, drain, pods: left, eventsWritten } = await blocked;
    const names = left.map(({ metadata }) => metadata.name).toSorted();
    // A pod is late after ten seconds. Without the evacuation controller, it is checked every ten seconds.
    const status = await eventually('all three are named', async () => {
      const current = await beside.statusOf(applied.metadata.name);
      expect(current.podsBlocked).toBe(3);
      expect(current.blockedPods?.map((one) => one.name)).toEqual(names);
      expect(current.conditions).toMatchObject([{ type: 'Drained', status: 'False', reason: 'Blocked' }]);
      return current;
    });
    expect(status.conditions[0]?.message).toMatch(/^3 pods left to evacuate, of which 3 cannot leave: /);
    await drain.cancelled();
    await eventsWritten();
    const reasons = (await beside.eventsAbout(applied)).map((event) => event.split(':')[0]);
    expect(reasons.filter((reason) => reason === 'MultipleDisruptionBudgets')).toHaveLength(1);
    expect(reasons.filter((reason) => reason === 'StuckTerminating')).toHaveLength(1);
  });

  test('continues with the other pods when the Evacuation of a pod is rejected, and reports the reason', async () => {
    const node = await c.nodeNamed('n');
    const strict = await c.namespaceNamed(`${c.namespace}-strict`);
    const rejecting = await evacuationsRejectedIn(strict);
    const [kept, free] = [await c.podOn(node, { namespace: strict }), await c.podOn(node)];
    await eventually('the policy to be in force', async () =>
      expect(await whyRejected(kept)).toMatch('ask the tenant first'),
    );
    const applied = await draining([node]);
    const drain = started(() => acts.drain(refOf(applied), 0));
    await c.eventuallyEvacuating(free);
    await c.eventuallyStatus(applied.metadata.name, 'the rejection is named', ({ blockedPods }) =>
      expect(blockedPods).toEqual([
        expect.objectContaining({
          reason: 'EvacuationRejected',
          message: expect.stringMatching(/^The apiserver rejected its Evacuation: .*ask the tenant first/),
        }),
      ]),
    );
    await drain.cancelled();
    // A rejected pod does not keep the drain active.
    const impatient = activitiesOn(c, { stalledAfterMs: 300 }).activities;
    const active = started(() => impatient.drain(refOf(applied), 0, 'Active'));
    expect(await active.ended).toMatchObject({ kind: 'Waiting' });
    await rejecting.dropped();
  });

  test('requests the evacuation of a pod again after a user deleted its Evacuation', async () => {
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    const applied = await draining([node]);
    const drain = started(() => acts.drain(refOf(applied), 0));
    const first = await c.eventuallyEvacuating(pod);
    await c.deleted(first);
    await eventually('another Evacuation', async () => {
      const second = await c.evacuationOf(pod);
      expect(second).toBeDefined();
      expect(second?.metadata.uid).not.toBe(first.metadata.uid);
    });
    await drain.cancelled();
  });

  test('while paused, requests nothing, keeps its position, and updates the status', async () => {
    const node = await c.nodeNamed('n');
    const applied = await draining([node]);
    const { name } = applied.metadata;
    await performed(() => acts.recordPause(refOf(applied), true));
    const paused = started(() => acts.keepCordoned(refOf(applied), 'Drain'));
    await c.eventuallyStatus(name, 'nothing is left', ({ conditions, drainPosition }) => {
      expect(conditions).toMatchObject([{ type: 'Paused' }, { type: 'Drained', status: 'True' }]);
      expect(drainPosition).toBe(0);
    });
    const before = created();
    await c.podOn(node, { priority: 10 });
    await c.eventuallyStatus(name, 'a pod is left', (status) => {
      expect(status.podsPendingEvacuation).toBe(1);
      expect(status.conditions).toMatchObject([{ type: 'Paused' }, { type: 'Drained', status: 'False' }]);
    });
    expect(created()).toBe(before);
    await paused.cancelled();
  });

  test('ends when the object is paused, and its pause ends when the object is resumed', async () => {
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    const applied = await draining([node]);
    const drain = started(() => acts.drain(refOf(applied), 0));
    await c.eventuallyEvacuating(pod);
    await performed(() => acts.recordPause(refOf(applied), true));
    expect(await drain.ended).toEqual({ kind: 'PauseChanged', paused: true });
    const drained = () => acts.keepDrained(refOf(applied));
    expect(await performed(drained)).toEqual({ kind: 'PauseChanged', paused: true });
    const paused = started(() => acts.keepCordoned(refOf(applied), 'Drain'));
    await c.labelled(node, { some: 'change' });
    await performed(() => acts.recordPause(refOf(applied), false));
    expect(await paused.ended).toEqual({ kind: 'PauseChanged', paused: false });
  });

  test('asks the apiserver before it says that the object was paused or resumed: an informer may be behind', async () => {
    const node = await c.nodeNamed('n');
    await c.podOn(node);
    const applied = await draining([node]);
    const behind = activitiesOn({ cluster: { ...c.cluster, maintenances: showing(applied) } });
    await performed(() => acts.recordPause(refOf(applied), true));
    const paused = started(() => behind.activities.keepCordoned(refOf(applied), 'Drain'));
    let isOver = false;
    const over = () => (isOver = true);
    paused.ended.then(over, over);
    await c.labelled(node, { some: 'change' });
    await throughout('it stays paused', 500, () => expect(isOver).toBe(false));
    await paused.cancelled();
  });

  test('says that it waits when no pod has left for a while, only if it is active, and continues', async () => {
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node, { finalizers: ['example.com/held'] });
    const applied = await draining([node]);
    const impatient = activitiesOn(c, { stalledAfterMs: 300 }).activities;
    const active = started(() => impatient.drain(refOf(applied), 0, 'Active'));
    expect(await active.ended).toMatchObject({ kind: 'Waiting', nodes: [node], details: { stage: 'Drain' } });
    expect(await c.evacuationOf(pod)).toBeDefined();
    const waiting = started(() => impatient.drain(refOf(applied), 0, 'Waiting'));
    await c.labelled(node, { some: 'change' });
    await performed(() => acts.recordPause(refOf(applied), true));
    expect(await waiting.ended).toEqual({ kind: 'PauseChanged', paused: true });
  });

  test('waits for a node that matches', async () => {
    const rack = c.named('rack');
    const applied = await c.applied(c.maintenance({ nodes: { rack }, stage: 'Drain' }));
    const drain = started(() => acts.drain(refOf(applied), 0));
    await c.eventuallyStatus(applied.metadata.name, 'no node matches', ({ conditions }) =>
      expect(conditions).toMatchObject([{ type: 'Drained', status: 'False', reason: 'NoNodeMatches' }]),
    );
    const node = await c.nodeNamed('n', { rack });
    expect(await drain.ended).toMatchObject({ kind: 'Drained', nodes: [node] });
  });

  test('ends when the object is deleted', async () => {
    const node = await c.nodeNamed('n');
    await c.podOn(node);
    const applied = await draining([node]);
    const drain = started(() => acts.drain(refOf(applied), 0));
    await c.deleted(applied);
    expect(await drain.ended).toEqual({ kind: 'Gone' });
  });
});

describe('keepDrained', () => {
  test('evacuates pods that appear on a drained node: Drained is False until they are gone', async () => {
    const node = await c.nodeNamed('n');
    const applied = await draining([node]);
    const { name } = applied.metadata;
    const kept = started(() => acts.keepDrained(refOf(applied)));
    const { conditions } = await c.eventuallyDrained(name);
    const late = await c.podOn(node, { priority: 1_000_000_000 });
    await c.eventuallyEvacuating(late);
    await c.eventuallyStatus(name, 'Drained is False', (status) =>
      expect(status.conditions).toMatchObject([
        { type: 'Drained', status: 'False', message: '1 pod left to evacuate.' },
      ]),
    );
    await evacuated(late);
    const again = await c.eventuallyDrained(name);
    expect(again.conditions[0]?.lastTransitionTime).not.toBe(conditions[0]?.lastTransitionTime);
    await kept.cancelled();
  });

  test('writes nothing after a crash, and ends when the stage changes', async () => {
    const node = await c.nodeNamed('n');
    const applied = await draining([node]);
    const { name } = applied.metadata;
    const crashed = started(() => acts.keepDrained(refOf(applied)));
    await c.eventuallyDrained(name);
    await crashed.cancelled();
    await c.caughtUpWith(await c.maintenanceNow(name));
    await c.caughtUpWith({ ...(await c.node(node)), kind: 'Node' });
    const written = await c.requests.writesOf(async () => {
      const again = started(() => acts.keepDrained(refOf(applied)));
      await c.staged(name, 'Complete');
      expect(await again.ended).toMatchObject({ kind: 'StageChanged', stage: 'Complete' });
    });
    expect(written).toEqual([]);
  });

  test('never decreases the position', async () => {
    const node = await c.nodeNamed('n');
    const applied = await draining([node]);
    const { name } = applied.metadata;
    const kept = started(() => acts.keepDrained(refOf(applied)));
    const { drainPosition } = await c.eventuallyDrained(name);
    const late = await c.podOn(node, { priority: 10 });
    await c.eventuallyEvacuating(late);
    await c.eventuallyStatus(name, 'Drained is False', (status) =>
      expect(status.conditions).toMatchObject([{ status: 'False' }]),
    );
    expect((await c.statusOf(name)).drainPosition).toBe(drainPosition);
    await kept.cancelled();
  });
});
