import type { DaemonSet, KubeObject, Pod } from '../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../api/evacuation.ts';
import {
  DAEMONSET_EVACUATOR,
  DAEMONSET_EVACUATOR_ANNOTATION,
  INSTIGATOR_FINALIZER,
  MAINTENANCE_GATE,
} from '../../api/names.ts';
import type { DrainPlanEntry, NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { runDaemonSetEvacuator } from '../../controllers/evacuators/daemonSet.ts';
import { isTrue } from '../../domain/conditions.ts';
import { byGate, type FencedCluster, watchCluster } from '../../kube/cluster.ts';
import { type RawPod, type Resource, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { daemons, pods } from '../kit/builders.ts';
import { asLeader, silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let stop: () => Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'daemons' });
});

beforeEach(() => {
  c.requests.clear();
  stop = started();
});

afterEach(async () => {
  await stop();
  await c.maintenancesDropped();
  // The next evacuator must not act on this test's.
  await eventually('the maintenances to be gone', () =>
    expect(c.cluster.maintenances.list().filter(isOurs)).toEqual([]),
  );
});

const isOurs = ({ metadata }: KubeObject) => metadata.name.startsWith(c.namespace);

afterAll(async () => {
  // Withheld pods have no node, and so nobody ends them but their DaemonSets.
  await c?.close();
  await releaseSandbox(sandbox);
});

/** Starts the evacuator; the function ends it as a crash does: nothing but the objects remains. */
function started(cluster: FencedCluster = c.cluster): () => Promise<void> {
  const running = new AbortController();
  const ended = runDaemonSetEvacuator({ cluster, log: silentLog }, running.signal);
  return async () => {
    running.abort();
    await ended;
  };
}

interface DaemonSetDiffers {
  name?: string;
  labels?: Record<string, string>;
  grace?: number;
  updateStrategy?: DaemonSet['spec']['updateStrategy'];
  minReadySeconds?: number;
  priorityClassName?: string;
}

/** A DaemonSet for the nodes that carry its name as label `for`; another `revision` is another pod template. */
function daemonSet(revision: string, differs: DaemonSetDiffers & { name: string }): KubeObject {
  const { name, labels, grace = 0, updateStrategy, minReadySeconds = 0, priorityClassName } = differs;
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name, namespace: c.namespace },
    spec: {
      selector: { matchLabels: { daemon: name } },
      ...(updateStrategy && { updateStrategy }),
      minReadySeconds,
      template: {
        metadata: { labels: { daemon: name, revision, ...labels } },
        spec: {
          nodeSelector: { for: name },
          tolerations: [{ operator: 'Exists' }],
          terminationGracePeriodSeconds: grace,
          ...(priorityClassName && { priorityClassName }),
          containers: [{ name: 'main', image: 'fake' }],
        },
      },
    },
  } as KubeObject;
}

/** A DaemonSet on nodes of its own, and its pods, all ready. */
async function daemonSetOn(
  count: number,
  differs: DaemonSetDiffers = {},
): Promise<{ name: string; nodes: string[]; pods: Pod[] }> {
  const name = differs.name ?? c.named('ds');
  const nodes = await Promise.all(Array.from({ length: count }, () => c.nodeNamed('n', { for: name })));
  await c.applied(daemonSet('1', { ...differs, name }));
  const running = await Promise.all(nodes.map((node) => eventuallyRunning(name, node)));
  return { name, nodes, pods: running };
}

const podsOf = (name: string, node: string) =>
  c.podsOf(node).filter(({ metadata }) => metadata.labels?.['daemon'] === name);

async function eventuallyRunning(name: string, node: string): Promise<Pod> {
  return eventually(`the pod of ${name} on ${node}`, () => {
    const [found] = podsOf(name, node);
    expect(found?.status).toEqual({ phase: 'Running', ready: true });
    return found as Pod;
  });
}

const withheldOf = (name: string) =>
  c.cluster.pods
    .byIndex(byGate, MAINTENANCE_GATE)
    .filter(({ metadata }) => metadata.labels?.['daemon'] === name);

async function eventuallyWithheld(name: string, node: string, revision = '1'): Promise<Pod> {
  return eventually(`a withheld pod of ${name}`, () => {
    const [found] = withheldOf(name).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    expect(found?.spec.madeForNode).toBe(node);
    expect(found?.metadata.labels?.['revision']).toBe(revision);
    return found as Pod;
  });
}

const all = [pods(2_147_483_647), daemons(2_147_483_647)];

/** A maintenance in Drain that has published these targets on these nodes. */
async function draining(
  nodes: readonly string[],
  targets: DrainPlanEntry[] = all,
  differs: { reason?: string; name?: string } = {},
): Promise<NodeMaintenance> {
  const applied = await c.applied(c.maintenance({ nodes, stage: 'Drain', ...differs }));
  return targeting(applied, nodes, targets);
}

const targeting = (maintenance: NodeMaintenance, nodes: readonly string[], drainTargets: DrainPlanEntry[]) =>
  c.withStatus(
    { ...maintenance, kind: 'NodeMaintenance' },
    { nodeStatuses: nodes.map((name) => ({ nodeRef: { name }, drainTargets })) },
  );

/** An Evacuation whose active evacuator is this one, as the evacuation controller asks. */
async function asked(pod: Pod, activeEvacuatorClass = DAEMONSET_EVACUATOR): Promise<Evacuation> {
  const { labels = {} } = pod.metadata;
  const evacuation = c.evacuation(pod, [INSTIGATOR_FINALIZER]);
  const made = await c.applied({ ...evacuation, metadata: { ...evacuation.metadata, labels } });
  return c.withStatus(
    { ...made, kind: 'Evacuation' },
    {
      activeEvacuatorClass,
      activeEvacuatorCompleted: false,
      evacuationProgressTimestamp: '2024-04-22T21:40:32Z',
      message: 'Waiting.',
    },
  );
}

const informersOf = (cluster: FencedCluster) => ({
  pods: cluster.pods,
  nodes: cluster.nodes,
  evacuations: cluster.evacuations,
  maintenances: cluster.maintenances,
  daemonSets: cluster.daemonSets,
});

const statusOf = async (pod: Pod) => (await c.evacuationOf(pod))?.status as EvacuationStatus;
const deletions = () => c.requests.count('delete pods');
const rawPod = async ({ metadata }: Pod) =>
  c.admin.get(resources.pods, { name: metadata.name, namespace: metadata.namespace ?? '' });

describe('The evacuator of DaemonSet pods', () => {
  test('reports as in the KEP, deletes the pod, and the next one is withheld from the node', async () => {
    const name = c.named('critical-ds');
    const { nodes, pods: running } = await daemonSetOn(1, { name, grace: 60 });
    const [node, pod] = [nodes[0] as string, running[0] as Pod];
    await draining([node], [pods(2_147_483_647), daemons(5000)], { reason: 'OS upgrade' });
    const before = c.admin.now().getTime();
    await asked(pod);
    await c.eventuallyGone(pod);
    await eventuallyWithheld(name, node);
    const status = await statusOf(pod);
    expect(status).toEqual({
      activeEvacuatorClass: 'daemonset.apps.k8s.io',
      activeEvacuatorCompleted: false,
      evacuationProgressTimestamp: expect.any(String),
      expectedEvacuationFinishTime: expect.any(String),
      failedEvictionCounter: 0,
      message: `${name} is terminating the pod due to node maintenance (OS upgrade).`,
      conditions: [],
    });
    const progress = Date.parse(status.evacuationProgressTimestamp ?? '');
    expect(progress).toBeGreaterThanOrEqual(before - 1_000);
    expect(Date.parse(status.expectedEvacuationFinishTime ?? '') - progress).toBe(60_000);
    expect(deletions()).toBe(1);
  });

  test('leaves a pod alone whose priority is beyond the drain targets, until they include it', async () => {
    const { nodes, pods: running } = await daemonSetOn(1, { priorityClassName: 'system-node-critical' });
    const pod = running[0] as Pod;
    const maintenance = await draining(nodes, [pods(2_147_483_647), daemons(5000)]);
    const before = (await asked(pod)).status;
    await throughout('it is left alone', 1_000, async () => expect(await statusOf(pod)).toEqual(before));
    await targeting(maintenance, nodes, all);
    await c.eventuallyGone(pod);
  });

  test.each([
    { when: 'no maintenance drains its node', drained: false, evacuator: DAEMONSET_EVACUATOR },
    { when: "it is another evacuator's turn", drained: true, evacuator: 'other.example.com' },
  ])('leaves a pod alone when $when', async ({ drained, evacuator }) => {
    const { nodes, pods: running } = await daemonSetOn(1);
    if (drained) await draining(nodes);
    const before = (await asked(running[0] as Pod, evacuator)).status;
    await throughout('it is left alone', 1_000, async () =>
      expect(await statusOf(running[0] as Pod)).toEqual(before),
    );
    expect(deletions()).toBe(0);
  });

  test('leaves pods alone that no DaemonSet made', async () => {
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    await draining([node]);
    const before = (await asked(pod)).status;
    await throughout('it is left alone', 1_000, async () => expect(await statusOf(pod)).toEqual(before));
    await c.podsDeleted([pod]);
  });

  test.each(['pods', 'nodes'] as const)(
    'deletes a pod though its Evacuation is seen before the %s',
    async (late) => {
      await stop();
      const { nodes, pods: running } = await daemonSetOn(1);
      await draining(nodes);
      await asked(running[0] as Pod);
      const watching = new AbortController();
      const cluster = asLeader(watchCluster({ kube: c.cluster.kube, log: silentLog }));
      const { [late]: lateOne, ...others } = informersOf(cluster);
      for (const informer of Object.values(others)) informer.start(watching.signal);
      await Promise.all(Object.values(others).map((informer) => informer.synced(watching.signal)));
      stop = started(cluster);
      await throughout('nothing is deleted', 500, () => expect(deletions()).toBe(0));
      lateOne.start(watching.signal);
      await c.eventuallyGone(running[0] as Pod);
      watching.abort();
    },
  );

  test('ends a pod whose evacuator was killed after it had reported, and deletes none twice', async () => {
    await stop();
    const { nodes, pods: running } = await daemonSetOn(1);
    const pod = running[0] as Pod;
    await draining(nodes, all, { reason: 'r' });
    const evacuation = await asked(pod);
    const reported = {
      expectedEvacuationFinishTime: '2999-01-01T00:00:00Z',
      message: `${pod.metadata.labels?.['daemon']} is terminating the pod due to node maintenance (r).`,
    };
    await c.withStatus({ ...evacuation, kind: 'Evacuation' }, reported);
    stop = started();
    await c.eventuallyGone(pod);
    expect(await statusOf(pod)).toMatchObject(reported);
    expect(deletions()).toBe(1);
  });

  test('reports a deletion that is refused, and does it when it no longer is', async () => {
    const { nodes, pods: running } = await daemonSetOn(1, { labels: { guarded: 'yes' } });
    const pod = running[0] as Pod;
    const lift = await refused('DELETE', (guarded) => c.deleted(guarded));
    await draining(nodes);
    await asked(pod);
    const status = await eventually('the refusal', async () => {
      const seen = await statusOf(pod);
      expect(isTrue(seen.conditions, 'Blocked')).toBe(true);
      return seen;
    });
    expect(status.message).toMatch(/^The deletion is refused: .*not now/);
    expect(status.conditions).toMatchObject([{ reason: 'DeletionRefused', message: status.message }]);
    const tried = deletions();
    await throughout('it is not tried again and again', 1_000, () => expect(deletions()).toBe(tried));
    await lift();
    // As after a restart: what was refused is tried again at once.
    await stop();
    stop = started();
    await c.eventuallyGone(pod);
    await eventually('the end of the refusal in the status', async () =>
      expect(await statusOf(pod)).toMatchObject({
        message: expect.stringMatching(/is terminating the pod due to node maintenance/),
        conditions: [],
      }),
    );
  });

  /** The pod that comes next runs at once, as if there were no policy: its gate is lifted by hand. */
  async function eventuallyNext(name: string, node: string): Promise<Pod> {
    const held = await eventuallyWithheld(name, node);
    const key = { name: held.metadata.name, namespace: c.namespace };
    await c.admin.mergePatch(resources.pods, key, { spec: { schedulingGates: [] } });
    return eventuallyRunning(name, node);
  }

  async function eventuallySaidToHaveComeBack(pod: Pod): Promise<void> {
    await eventually('what is missing', async () =>
      expect(await statusOf(pod)).toMatchObject({
        conditions: [{ type: 'Blocked', status: 'True', reason: 'CameBack' }],
        message: expect.stringContaining('daemonset-gate.nodemaintenance.k8s.io'),
      }),
    );
  }

  test('names what is missing when the next pod is there at once, and does not delete it again and again', async () => {
    const { name, nodes, pods: running } = await daemonSetOn(1);
    const [node, pod] = [nodes[0] as string, running[0] as Pod];
    await draining([node]);
    await asked(pod);
    await c.eventuallyGone(pod);
    const next = await eventuallyNext(name, node);
    await asked(next);
    await eventuallySaidToHaveComeBack(next);
    expect(deletions()).toBe(1);
  });

  test('names what is missing however long the last pod took to end', async () => {
    const { name, nodes, pods: running } = await daemonSetOn(1);
    const [node, pod] = [nodes[0] as string, running[0] as Pod];
    const key = { name: pod.metadata.name, namespace: c.namespace };
    await c.admin.mergePatch(resources.pods, key, { metadata: { finalizers: ['example.com/slow'] } });
    await draining([node]);
    await asked(pod);
    await throughout('it is there', 10_500, () =>
      expect(podsOf(name, node).map(({ metadata }) => metadata.uid)).toEqual([pod.metadata.uid]),
    );
    await c.admin.mergePatch(resources.pods, key, { metadata: { finalizers: null } });
    const next = await eventuallyNext(name, node);
    await asked(next);
    await eventuallySaidToHaveComeBack(next);
    expect(deletions()).toBe(1);
  });

  test('deletes both pods of a node that is being updated with maxSurge, and calls neither of them back', async () => {
    const differs = {
      updateStrategy: { rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
      minReadySeconds: 300,
    };
    const { name, nodes, pods: running } = await daemonSetOn(1, differs);
    const [node, old] = [nodes[0] as string, running[0] as Pod];
    await c.applied(daemonSet('2', { ...differs, name }));
    const surged = await eventually('the new pod beside the old one', () => {
      const found = podsOf(name, node).find(({ metadata }) => metadata.labels?.['revision'] === '2');
      expect(found?.status.ready).toBe(true);
      return found as Pod;
    });
    // Longer than the second that creation timestamps are rounded to, and the one that the server's clock may be off by.
    await throughout('both are there', 2_500, () => expect(podsOf(name, node)).toHaveLength(2));
    await draining([node]);
    for (const pod of [old, surged]) {
      await asked(pod);
      await c.eventuallyGone(pod);
      expect(await statusOf(pod)).toMatchObject({ conditions: [] });
    }
    expect(deletions()).toBe(2);
  });
});

const policies = (kind: string, plural: string): Resource => ({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural,
  kind,
  namespaced: false,
});

/** Pods with the label `guarded` cannot be deleted, or changed so that the expression fails, until the returned function is called. */
async function refused(
  operation: 'DELETE' | 'UPDATE',
  attempt: (guarded: Pod) => Promise<unknown>,
  expression = 'false',
): Promise<() => Promise<void>> {
  const name = `${operation.toLowerCase()}.${c.namespace}.example.com`;
  const policy = policies('ValidatingAdmissionPolicy', 'validatingadmissionpolicies');
  const binding = policies('ValidatingAdmissionPolicyBinding', 'validatingadmissionpolicybindings');
  const resourceRules = [
    { apiGroups: [''], apiVersions: ['v1'], operations: [operation], resources: ['pods'] },
  ];
  const made = await c.admin.create(policy, {
    metadata: { name },
    spec: {
      matchConstraints: { resourceRules, objectSelector: { matchLabels: { guarded: 'yes' } } },
      validations: [{ expression, message: 'not now' }],
    },
  } as KubeObject);
  const bound = await c.admin.create(binding, {
    metadata: { name },
    spec: { policyName: name, validationActions: ['Deny'] },
  } as KubeObject);
  const node = await c.nodeNamed('probe');
  const probe = async () => attempt(await c.podOn(node, { labels: { guarded: 'yes' } }));
  await eventually('the policy to refuse', async () => expect(probe()).rejects.toThrow(/not now/));
  return async () => {
    await c.admin.delete(binding, { name }, { uid: bound.metadata.uid ?? '' });
    await c.admin.delete(policy, { name }, { uid: made.metadata.uid ?? '' });
    await eventually('the policy to be gone', probe);
    await Promise.all(c.podsOf(node).map((pod) => c.deleted(pod)));
  };
}

const annotated = async (pod: Pod, value: string | null) => {
  const key = { name: pod.metadata.name, namespace: c.namespace };
  const annotations = { [DAEMONSET_EVACUATOR_ANNOTATION]: value };
  await c.admin.mergePatch(resources.pods, key, { metadata: { annotations } });
};

describe('A pod of a DaemonSet', () => {
  const annotationOf = async (pod: Pod) =>
    (await rawPod(pod))?.metadata.annotations?.[DAEMONSET_EVACUATOR_ANNOTATION];

  test('that was there before the policy is annotated, once', async () => {
    await stop();
    const { pods: running } = await daemonSetOn(1);
    const pod = running[0] as Pod;
    await annotated(pod, null);
    await eventually('the informer to see it', () =>
      expect(c.cluster.pods.get(`${c.namespace}/${pod.metadata.name}`)?.metadata.annotations).toBeUndefined(),
    );
    c.requests.clear();
    stop = started();
    await eventually('the annotation', async () => expect(await annotationOf(pod)).toBe('10000/controller'));
    expect(c.requests.count('patch pods')).toBe(1);
  });

  test('keeps what its author said about its evacuator', async () => {
    const { pods: running } = await daemonSetOn(1);
    await annotated(running[0] as Pod, '7/helper');
    await throughout('it is kept', 1_000, async () =>
      expect(await annotationOf(running[0] as Pod)).toBe('7/helper'),
    );
  });
});

/** A DaemonSet on so many nodes, of which the first is in maintenance and emptied. */
async function emptied(count: number, differs: DaemonSetDiffers = {}) {
  const { name, nodes, pods: running } = await daemonSetOn(count, differs);
  const [node, pod] = [nodes[0] as string, running[0] as Pod];
  const maintenance = await draining([node]);
  await asked(pod);
  await c.eventuallyGone(pod);
  const withheld = await eventuallyWithheld(name, node);
  return { name, node, others: nodes.slice(1), maintenance, withheld };
}

describe('A pod that is withheld from its node', () => {
  test('stays so throughout the drain, and runs when the maintenance is complete', async () => {
    const { name, node, maintenance, withheld } = await emptied(1);
    await throughout('it waits', 1_500, () => {
      expect(withheldOf(name).map(({ metadata }) => metadata.uid)).toEqual([withheld.metadata.uid]);
      expect(podsOf(name, node)).toEqual([]);
    });
    await c.staged(maintenance.metadata.name, 'Complete');
    expect((await eventuallyRunning(name, node)).metadata.uid).toBe(withheld.metadata.uid);
  });

  test('waits for the last of the maintenances that target it', async () => {
    const { name, node, maintenance } = await emptied(1);
    const other = await draining([node]);
    await c.staged(maintenance.metadata.name, 'Complete');
    await throughout('it waits for the other', 1_000, () => expect(podsOf(name, node)).toEqual([]));
    await c.staged(other.metadata.name, 'Complete');
    await eventuallyRunning(name, node);
  });

  test('does not wait for a maintenance that has not come so far', async () => {
    const { name, node, maintenance } = await emptied(1);
    await draining([node], [pods(5000)]);
    await c.staged(maintenance.metadata.name, 'Complete');
    await eventuallyRunning(name, node);
  });

  test('runs when the maintenance is gone, whoever removed it and however', async () => {
    const { name, node, maintenance } = await emptied(1);
    await c.deleted({ ...maintenance, kind: 'NodeMaintenance' });
    await eventuallyRunning(name, node);
  });

  test('runs when the maintenance ceases to select the node', async () => {
    const { name, node, maintenance } = await emptied(1);
    await c.applied(c.maintenance({ name: maintenance.metadata.name, nodes: ['nowhere'], stage: 'Drain' }));
    await eventuallyRunning(name, node);
  });

  test('runs when the node loses the labels by which it was selected', async () => {
    const { name, node, maintenance } = await emptied(1);
    const byLabel = c.maintenance({ nodes: { rack: 'r' }, stage: 'Drain' });
    await c.patched(resources.nodes, { name: node }, { metadata: { labels: { rack: 'r' } } });
    await targeting(await c.applied(byLabel), [node], all);
    await c.staged(maintenance.metadata.name, 'Complete');
    await throughout('it waits for the other', 500, () => expect(podsOf(name, node)).toEqual([]));
    await c.patched(resources.nodes, { name: node }, { metadata: { labels: { rack: null } } });
    await eventuallyRunning(name, node);
  });

  test('is let go by the next evacuator when the last one was killed before', async () => {
    const { name, node, maintenance } = await emptied(1);
    await stop();
    await c.staged(maintenance.metadata.name, 'Complete');
    await throughout('nobody lets it go', 500, () => expect(podsOf(name, node)).toEqual([]));
    stop = started();
    await eventuallyRunning(name, node);
  });

  test('runs though its DaemonSet disowned it', async () => {
    const { name, node, maintenance, withheld } = await emptied(1);
    const key = { name, namespace: c.namespace };
    const { uid = '' } = (await c.admin.get(resources.daemonSets, key))?.metadata ?? {};
    await c.admin.delete(resources.daemonSets, key, { uid, propagationPolicy: 'Orphan' });
    await eventually('it to be an orphan', () =>
      expect(withheldOf(name).map(({ metadata }) => metadata.ownerReferences)).toEqual([undefined]),
    );
    await throughout('it waits', 500, () => expect(podsOf(name, node)).toEqual([]));
    await c.staged(maintenance.metadata.name, 'Complete');
    expect((await eventuallyRunning(name, node)).metadata.uid).toBe(withheld.metadata.uid);
  });

  test('runs though somebody does not let it name its evacuator', async () => {
    const { name, node, maintenance, withheld } = await emptied(1, { labels: { guarded: 'yes' } });
    await stop();
    await annotated(withheld, null);
    const lift = await refused(
      'UPDATE',
      (guarded) => annotated(guarded, '1/x'),
      `!('${DAEMONSET_EVACUATOR_ANNOTATION}' in object.metadata.?annotations.orValue({}))`,
    );
    stop = started();
    await throughout('it waits', 500, () => expect(podsOf(name, node)).toEqual([]));
    await c.staged(maintenance.metadata.name, 'Complete');
    expect((await eventuallyRunning(name, node)).metadata.uid).toBe(withheld.metadata.uid);
    await lift();
  });

  test('goes with its node', async () => {
    const { name, node } = await emptied(1);
    const found = await c.node(node);
    await c.deleted({ ...found, kind: 'Node' } as KubeObject);
    await eventually('the pod to be gone', () => expect(withheldOf(name)).toEqual([]));
  });
});

const readyOf = (pod: RawPod | undefined) => pod?.status?.conditions?.find(({ type }) => type === 'Ready');

describe('A rolling update of a DaemonSet during a maintenance', () => {
  const revisionOn = (name: string, node: string) =>
    podsOf(name, node).map(({ metadata }) => metadata.labels?.['revision']);

  test('stalls on the withheld pod unless that is shown as ready, which it is until the update is over', async () => {
    const { name, node, others, maintenance } = await emptied(3);
    await stop();
    await c.applied(daemonSet('2', { name }));
    await eventuallyWithheld(name, node, '2');
    await throughout('no other node is updated', 1_500, () =>
      expect(others.map((other) => revisionOn(name, other))).toEqual([['1'], ['1']]),
    );
    stop = started();
    for (const other of others)
      await eventually(`the update of ${other}`, () => expect(revisionOn(name, other)).toEqual(['2']));
    const withheld = await eventually('the withheld pod as it is', async () => {
      const found = await eventuallyWithheld(name, node, '2');
      expect(readyOf(await rawPod(found))).toBeUndefined();
      return found;
    });
    expect(podsOf(name, node)).toEqual([]);
    await c.staged(maintenance.metadata.name, 'Complete');
    expect((await eventuallyRunning(name, node)).metadata.uid).toBe(withheld.metadata.uid);
  });

  test('goes on with maxSurge, and nothing is shown as ready that is not', async () => {
    const updateStrategy = { rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
    const { name, node, others } = await emptied(3, { updateStrategy });
    await c.applied(daemonSet('2', { name, updateStrategy }));
    for (const other of others)
      await eventually(`the update of ${other}`, () => expect(revisionOn(name, other)).toEqual(['2']));
    const withheld = await eventuallyWithheld(name, node, '2');
    expect(readyOf(await rawPod(withheld))).toBeUndefined();
  });

  test('leaves no withheld pod ready when the maintenance is complete in mid-update', async () => {
    const { name, node, others, maintenance } = await emptied(2);
    await stop();
    await c.applied(daemonSet('2', { name }));
    const withheld = await eventuallyWithheld(name, node, '2');
    const key = { name: withheld.metadata.name, namespace: c.namespace };
    const conditions = [{ type: 'Ready', status: 'True', reason: 'WithheldForNodeMaintenance' }];
    await c.admin.mergePatch(resources.pods, key, { status: { conditions } }, { subresource: 'status' });
    await c.staged(maintenance.metadata.name, 'Complete');
    stop = started();
    const running = await eventuallyRunning(name, node);
    expect(readyOf(await rawPod(running))).not.toMatchObject({ reason: 'WithheldForNodeMaintenance' });
    await eventually('the update of the other node', () =>
      expect(others.map((other) => revisionOn(name, other))).toEqual([['2']]),
    );
  });
});
