import type { DaemonSet, KubeObject, Pod } from '../../../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../../../api/evacuation.ts';
import {
  DAEMONSET_EVACUATOR,
  DAEMONSET_EVACUATOR_ANNOTATION,
  INSTIGATOR_FINALIZER,
  MAINTENANCE_GATE,
} from '../../../../api/names.ts';
import type { DrainPlanEntry, NodeMaintenance } from '../../../../api/nodeMaintenance.ts';
import { runDaemonSetEvacuator } from '../../../../controllers/evacuation/evacuators/daemonSet.ts';
import { isTrue } from '../../../../domain/common/conditions.ts';
import { byGate, type FencedCluster, watchCluster } from '../../../../kube/cluster.ts';
import { type RawPod, resources } from '../../../../kube/resources.ts';
import type { Sandbox } from '../../../../sandbox/sandbox.ts';
import { daemons, pods } from '../../../kit/builders.ts';
import { asLeader, silentLog, testCluster, type TestCluster } from '../../../kit/cluster.ts';
import { eventually, throughout } from '../../../kit/eventually.ts';
import { denyByPolicy } from '../../../kit/rejection.ts';
import { releaseSandbox, testSandbox } from '../../../kit/sandbox.ts';
import { UnreliableApiserver } from '../../../chaos/unreliableApiserver.ts';
import { connect } from '../../../kube/fixtures.ts';

let sandbox: Sandbox;
let c: TestCluster;
let stop: () => Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'daemons' });
});

beforeEach(() => {
  c.requests.clear();
  stop = startEvacuator();
});

afterEach(async () => {
  await stop();
  await c.maintenancesDropped();
  // The evacuator of the next test must not act on the maintenances of this one.
  await eventually('the maintenances to be gone', () =>
    expect(c.cluster.maintenances.list().filter(isOurs)).toEqual([]),
  );
});

const isOurs = ({ metadata }: KubeObject) => metadata.name.startsWith(c.namespace);

afterAll(async () => {
  // Gated pods have no node, so only their DaemonSets delete them.
  await c?.close();
  await releaseSandbox(sandbox);
});

/** Starts the evacuator. The returned function stops it like a crash: only the objects remain. */
function startEvacuator(
  differs: { cluster?: FencedCluster; clock?: () => number } = {},
): () => Promise<void> {
  const running = new AbortController();
  const ended = runDaemonSetEvacuator({ cluster: c.cluster, log: silentLog, ...differs }, running.signal);
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

/** Builds a DaemonSet for the nodes with its name in the label `for`. Another `revision` changes the pod template. */
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

/** Creates a DaemonSet on nodes of its own, and waits until all its pods are ready. */
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
    expect(found?.status).toMatchObject({ phase: 'Running', ready: true });
    return found as Pod;
  });
}

const gatedOf = (name: string) =>
  c.cluster.pods
    .byIndex(byGate, MAINTENANCE_GATE)
    .filter(({ metadata }) => metadata.labels?.['daemon'] === name);

async function eventuallyGated(name: string, node: string, revision = '1'): Promise<Pod> {
  return eventually(`a gated pod of ${name}`, () => {
    const [found] = gatedOf(name).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    expect(found?.spec.madeForNode).toBe(node);
    expect(found?.metadata.labels?.['revision']).toBe(revision);
    return found as Pod;
  });
}

const all = [pods(2_147_483_647), daemons(2_147_483_647)];

/** Creates a maintenance in stage Drain with these drain targets on these nodes. */
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

/** Creates an Evacuation with the DaemonSet evacuator active, as the evacuation controller does. */
async function activated(pod: Pod, activeEvacuatorClass = DAEMONSET_EVACUATOR): Promise<Evacuation> {
  const { labels = {} } = pod.metadata;
  const evacuation = c.evacuation(pod, [INSTIGATOR_FINALIZER]);
  const applied = await c.applied({ ...evacuation, metadata: { ...evacuation.metadata, labels } });
  return c.withStatus(
    { ...applied, kind: 'Evacuation' },
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
/** The informer may show that a pod is gone before the response to its deletion arrives. */
const eventuallyDeleted = (count: number) =>
  eventually(`the responses to ${count} deletions`, () => expect(deletions()).toBe(count));
const rawPod = async ({ metadata }: Pod) =>
  c.admin.get(resources.pods, { name: metadata.name, namespace: metadata.namespace ?? '' });

describe('The evacuator of DaemonSet pods', () => {
  test('reports as in the KEP and deletes the pod, and the next pod is gated', async () => {
    const name = c.named('critical-ds');
    const { nodes, pods: running } = await daemonSetOn(1, { name, grace: 60 });
    const [node, pod] = [nodes[0] as string, running[0] as Pod];
    await draining([node], [pods(2_147_483_647), daemons(5000)], { reason: 'OS upgrade' });
    const before = c.admin.now().getTime();
    await activated(pod);
    await c.eventuallyGone(pod);
    await eventuallyGated(name, node);
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
    await eventuallyDeleted(1);
  });

  test('does not delete a pod beyond the drain targets until they include it', async () => {
    const { nodes, pods: running } = await daemonSetOn(1, { priorityClassName: 'system-node-critical' });
    const pod = running[0] as Pod;
    const maintenance = await draining(nodes, [pods(2_147_483_647), daemons(5000)]);
    const before = (await activated(pod)).status;
    await throughout('its status is unchanged', 1_000, async () =>
      expect(await statusOf(pod)).toEqual(before),
    );
    await targeting(maintenance, nodes, all);
    await c.eventuallyGone(pod);
  });

  test.each([
    { when: 'no maintenance drains its node', drained: false, evacuator: DAEMONSET_EVACUATOR },
    { when: 'another evacuator is active', drained: true, evacuator: 'other.example.com' },
  ])('does not delete a pod when $when', async ({ drained, evacuator }) => {
    const { nodes, pods: running } = await daemonSetOn(1);
    if (drained) await draining(nodes);
    const before = (await activated(running[0] as Pod, evacuator)).status;
    await throughout('its status is unchanged', 1_000, async () =>
      expect(await statusOf(running[0] as Pod)).toEqual(before),
    );
    expect(deletions()).toBe(0);
  });

  test('does not delete pods without a DaemonSet', async () => {
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    await draining([node]);
    const before = (await activated(pod)).status;
    await throughout('its status is unchanged', 1_000, async () =>
      expect(await statusOf(pod)).toEqual(before),
    );
    await c.podsDeleted([pod]);
  });

  test.each(['pods', 'nodes'] as const)(
    'deletes a pod although the informer shows its Evacuation before the %s',
    async (late) => {
      await stop();
      const { nodes, pods: running } = await daemonSetOn(1);
      await draining(nodes);
      await activated(running[0] as Pod);
      const watching = new AbortController();
      const cluster = asLeader(watchCluster({ kube: c.cluster.kube, log: silentLog }));
      const { [late]: lateOne, ...others } = informersOf(cluster);
      for (const informer of Object.values(others)) informer.start(watching.signal);
      await Promise.all(Object.values(others).map((informer) => informer.synced(watching.signal)));
      stop = startEvacuator({ cluster });
      await throughout('nothing is deleted', 500, () => expect(deletions()).toBe(0));
      lateOne.start(watching.signal);
      await c.eventuallyGone(running[0] as Pod);
      watching.abort();
    },
  );

  test('deletes a pod after conflicts that no watch explains', async () => {
    await stop();
    const proxy = await UnreliableApiserver.before(sandbox.workerKubeconfig);
    let conflicts = 0;
    const kube = connect(proxy.kubeconfig, {
      onRequest: ({ resource, status }) => {
        if (resource.startsWith('evacuations') && status === 409) conflicts += 1;
      },
    });
    proxy.apiserver.begin('Answer409');
    stop = startEvacuator({ cluster: { ...c.cluster, kube: kube.guardedBy(() => undefined) } });
    const { nodes, pods: running } = await daemonSetOn(1);
    await draining(nodes);
    await activated(running[0] as Pod);
    await eventually('a conflict', () => expect(conflicts).toBeGreaterThan(0));
    proxy.apiserver.end();
    await c.eventuallyGone(running[0] as Pod);
    await stop();
    await kube.close();
    await proxy.close();
  });

  test('deletes a pod once when the previous evacuator was killed after its report', async () => {
    await stop();
    const { nodes, pods: running } = await daemonSetOn(1);
    const pod = running[0] as Pod;
    await draining(nodes, all, { reason: 'r' });
    const evacuation = await activated(pod);
    const reported = {
      expectedEvacuationFinishTime: '2999-01-01T00:00:00Z',
      message: `${pod.metadata.labels?.['daemon']} is terminating the pod due to node maintenance (r).`,
    };
    await c.withStatus({ ...evacuation, kind: 'Evacuation' }, reported);
    stop = startEvacuator();
    await c.eventuallyGone(pod);
    expect(await statusOf(pod)).toMatchObject(reported);
    await eventuallyDeleted(1);
  });

  test('reports a rejected deletion, and retries it', async () => {
    const { nodes, pods: running } = await daemonSetOn(1, { labels: { guarded: 'yes' } });
    const pod = running[0] as Pod;
    const allow = await deny('DELETE', (guarded) => c.deleted(guarded));
    await draining(nodes);
    await activated(pod);
    const status = await eventually('the report of the rejection', async () => {
      const current = await statusOf(pod);
      expect(isTrue(current.conditions, 'Blocked')).toBe(true);
      return current;
    });
    expect(status.message).toMatch(/^The apiserver rejected the deletion of the pod: .*not now/);
    expect(status.conditions).toMatchObject([{ reason: 'DeletionRejected', message: status.message }]);
    const before = deletions();
    await throughout('it is not retried at once', 1_000, () => expect(deletions()).toBe(before));
    await allow();
    // A restarted evacuator retries at once.
    await stop();
    stop = startEvacuator();
    await c.eventuallyGone(pod);
    await eventually('a status without the rejection', async () =>
      expect(await statusOf(pod)).toMatchObject({
        message: expect.stringMatching(/is terminating the pod due to node maintenance/),
        conditions: [],
      }),
    );
  });

  /** Removes the gate of the next pod, which then runs as if there were no policy. */
  async function eventuallyNext(name: string, node: string): Promise<Pod> {
    const gated = await eventuallyGated(name, node);
    const key = { name: gated.metadata.name, namespace: c.namespace };
    await c.admin.mergePatch(resources.pods, key, { spec: { schedulingGates: [] } });
    return eventuallyRunning(name, node);
  }

  async function eventuallyReportedAsRecreated(pod: Pod): Promise<void> {
    await eventually('the condition Blocked', async () =>
      expect(await statusOf(pod)).toMatchObject({
        conditions: [{ type: 'Blocked', status: 'True', reason: 'PodRecreated' }],
        message: expect.stringContaining('daemonset-gate.nodemaintenance.k8s.io'),
      }),
    );
  }

  test('reports a pod that is recreated at once, and does not delete it again', async () => {
    await stop();
    const at = Date.now();
    stop = startEvacuator({ clock: () => at });
    const { name, nodes, pods: running } = await daemonSetOn(1);
    const [node, pod] = [nodes[0] as string, running[0] as Pod];
    await draining([node]);
    await activated(pod);
    await c.eventuallyGone(pod);
    const next = await eventuallyNext(name, node);
    await activated(next);
    await eventuallyReportedAsRecreated(next);
    await eventuallyDeleted(1);
  });

  test('reports a recreated pod however long the previous one took to terminate', async () => {
    await stop();
    let nowMs = Date.now();
    stop = startEvacuator({ clock: () => nowMs });
    const { name, nodes, pods: running } = await daemonSetOn(1);
    const [node, pod] = [nodes[0] as string, running[0] as Pod];
    const key = { name: pod.metadata.name, namespace: c.namespace };
    await c.admin.mergePatch(resources.pods, key, { metadata: { finalizers: ['example.com/slow'] } });
    await draining([node]);
    await activated(pod);
    await eventuallyDeleted(1);
    nowMs += 60_000;
    expect(podsOf(name, node).map(({ metadata }) => metadata.uid)).toEqual([pod.metadata.uid]);
    await c.admin.mergePatch(resources.pods, key, { metadata: { finalizers: null } });
    const next = await eventuallyNext(name, node);
    await activated(next);
    await eventuallyReportedAsRecreated(next);
    await eventuallyDeleted(1);
  });

  test('deletes both pods of a node during an update with maxSurge, and reports neither as recreated', async () => {
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
    // The resolution of creation timestamps (1 s) plus the tolerated error of the clock of the apiserver (1 s).
    const distinctAtMs = Date.parse(surged.metadata.creationTimestamp ?? '') + 2_000;
    await eventually('the creation of the new pod to be in the past', () =>
      expect(c.cluster.kube.now().getTime()).toBeGreaterThan(distinctAtMs),
    );
    expect(podsOf(name, node)).toHaveLength(2);
    await draining([node]);
    for (const pod of [old, surged]) {
      await activated(pod);
      await c.eventuallyGone(pod);
      expect(await statusOf(pod)).toMatchObject({ conditions: [] });
    }
    await eventuallyDeleted(2);
  });
});

/** Denies deleting pods with the label `guarded`, or updating them against the expression, until the returned function is called. */
async function deny(
  operation: 'DELETE' | 'UPDATE',
  attempt: (guarded: Pod) => Promise<unknown>,
  expression = 'false',
): Promise<() => Promise<void>> {
  const name = `${operation.toLowerCase()}.${c.namespace}.example.com`;
  const resourceRules = [
    { apiGroups: [''], apiVersions: ['v1'], operations: [operation], resources: ['pods'] },
  ];
  const admit = await denyByPolicy(c.admin, name, {
    matchConstraints: { resourceRules, objectSelector: { matchLabels: { guarded: 'yes' } } },
    validations: [{ expression, message: 'not now' }],
  });
  const node = await c.nodeNamed('probe');
  const probe = async () => attempt(await c.podOn(node, { labels: { guarded: 'yes' } }));
  await eventually('the policy to deny', async () => expect(probe()).rejects.toThrow(/not now/));
  return async () => {
    await admit();
    await eventually('the policy to be gone', probe);
    await Promise.all(c.podsOf(node).map((pod) => c.deleted(pod)));
  };
}

const annotate = async (pod: Pod, value: string | null) => {
  const key = { name: pod.metadata.name, namespace: c.namespace };
  const annotations = { [DAEMONSET_EVACUATOR_ANNOTATION]: value };
  await c.admin.mergePatch(resources.pods, key, { metadata: { annotations } });
};

describe('A pod of a DaemonSet', () => {
  const annotationOf = async (pod: Pod) =>
    (await rawPod(pod))?.metadata.annotations?.[DAEMONSET_EVACUATOR_ANNOTATION];

  test('created before the policy is annotated once', async () => {
    await eventually('the pods of earlier tests to be ungated', () =>
      expect(c.cluster.pods.byIndex(byGate, MAINTENANCE_GATE)).toEqual([]),
    );
    await stop();
    const { pods: running } = await daemonSetOn(1);
    const pod = running[0] as Pod;
    await annotate(pod, null);
    await eventually('the informer to show it', () =>
      expect(c.cluster.pods.get(`${c.namespace}/${pod.metadata.name}`)?.metadata.annotations).toBeUndefined(),
    );
    c.requests.clear();
    stop = startEvacuator();
    await eventually('the annotation', async () => expect(await annotationOf(pod)).toBe('10000/controller'));
    await eventually('the response to the only patch', () => expect(c.requests.count('patch pods')).toBe(1));
  });

  test('keeps an existing annotation', async () => {
    const { pods: running } = await daemonSetOn(1);
    await annotate(running[0] as Pod, '7/helper');
    await throughout('it is unchanged', 1_000, async () =>
      expect(await annotationOf(running[0] as Pod)).toBe('7/helper'),
    );
  });
});

/** Creates a DaemonSet on `count` nodes and evacuates its pod from the first one. */
async function evacuated(count: number, differs: DaemonSetDiffers = {}) {
  const { name, nodes, pods: running } = await daemonSetOn(count, differs);
  const [node, pod] = [nodes[0] as string, running[0] as Pod];
  const maintenance = await draining([node]);
  await activated(pod);
  await c.eventuallyGone(pod);
  const gated = await eventuallyGated(name, node);
  return { name, node, others: nodes.slice(1), maintenance, gated };
}

describe('A gated pod', () => {
  test('stays gated throughout the drain, and runs when the maintenance is complete', async () => {
    const { name, node, maintenance, gated } = await evacuated(1);
    await throughout('it stays gated', 1_500, () => {
      expect(gatedOf(name).map(({ metadata }) => metadata.uid)).toEqual([gated.metadata.uid]);
      expect(podsOf(name, node)).toEqual([]);
    });
    await c.staged(maintenance.metadata.name, 'Complete');
    expect((await eventuallyRunning(name, node)).metadata.uid).toBe(gated.metadata.uid);
  });

  test('stays gated until the last maintenance that targets it is complete', async () => {
    const { name, node, maintenance } = await evacuated(1);
    const other = await draining([node]);
    await c.staged(maintenance.metadata.name, 'Complete');
    await throughout('the other maintenance gates it', 1_000, () => expect(podsOf(name, node)).toEqual([]));
    await c.staged(other.metadata.name, 'Complete');
    await eventuallyRunning(name, node);
  });

  test('does not wait for a maintenance that does not target it yet', async () => {
    const { name, node, maintenance } = await evacuated(1);
    await draining([node], [pods(5000)]);
    await c.staged(maintenance.metadata.name, 'Complete');
    await eventuallyRunning(name, node);
  });

  test('runs when the maintenance is deleted', async () => {
    const { name, node, maintenance } = await evacuated(1);
    await c.deleted({ ...maintenance, kind: 'NodeMaintenance' });
    await eventuallyRunning(name, node);
  });

  test('runs when the maintenance no longer selects the node', async () => {
    const { name, node, maintenance } = await evacuated(1);
    await c.applied(c.maintenance({ name: maintenance.metadata.name, nodes: ['nowhere'], stage: 'Drain' }));
    await eventuallyRunning(name, node);
  });

  test('runs when the node loses the labels that the maintenance selects', async () => {
    const { name, node, maintenance } = await evacuated(1);
    const byLabel = c.maintenance({ nodes: { rack: 'r' }, stage: 'Drain' });
    await c.patched(resources.nodes, { name: node }, { metadata: { labels: { rack: 'r' } } });
    await targeting(await c.applied(byLabel), [node], all);
    await c.staged(maintenance.metadata.name, 'Complete');
    await throughout('the other maintenance gates it', 500, () => expect(podsOf(name, node)).toEqual([]));
    await c.patched(resources.nodes, { name: node }, { metadata: { labels: { rack: null } } });
    await eventuallyRunning(name, node);
  });

  test('is ungated by the next evacuator when the previous one was killed', async () => {
    const { name, node, maintenance } = await evacuated(1);
    await stop();
    await c.staged(maintenance.metadata.name, 'Complete');
    await throughout('it stays gated', 500, () => expect(podsOf(name, node)).toEqual([]));
    stop = startEvacuator();
    await eventuallyRunning(name, node);
  });

  test('runs although its DaemonSet has orphaned it', async () => {
    const { name, node, maintenance, gated } = await evacuated(1);
    const key = { name, namespace: c.namespace };
    const { uid = '' } = (await c.admin.get(resources.daemonSets, key))?.metadata ?? {};
    await c.admin.delete(resources.daemonSets, key, { uid, propagationPolicy: 'Orphan' });
    await eventually('it to be orphaned', () =>
      expect(gatedOf(name).map(({ metadata }) => metadata.ownerReferences)).toEqual([undefined]),
    );
    await throughout('it stays gated', 500, () => expect(podsOf(name, node)).toEqual([]));
    await c.staged(maintenance.metadata.name, 'Complete');
    expect((await eventuallyRunning(name, node)).metadata.uid).toBe(gated.metadata.uid);
  });

  test('runs although a policy denies the annotation of its evacuator', async () => {
    const { name, node, maintenance, gated } = await evacuated(1, { labels: { guarded: 'yes' } });
    await stop();
    await annotate(gated, null);
    const allow = await deny(
      'UPDATE',
      (guarded) => annotate(guarded, '1/x'),
      `!('${DAEMONSET_EVACUATOR_ANNOTATION}' in object.metadata.?annotations.orValue({}))`,
    );
    stop = startEvacuator();
    await throughout('it stays gated', 500, () => expect(podsOf(name, node)).toEqual([]));
    await c.staged(maintenance.metadata.name, 'Complete');
    expect((await eventuallyRunning(name, node)).metadata.uid).toBe(gated.metadata.uid);
    await allow();
  });

  test('is deleted with its node', async () => {
    const { name, node } = await evacuated(1);
    const found = await c.node(node);
    await c.deleted({ ...found, kind: 'Node' } as KubeObject);
    await eventually('the pod to be gone', () => expect(gatedOf(name)).toEqual([]));
  });
});

const readyOf = (pod: RawPod | undefined) => pod?.status?.conditions?.find(({ type }) => type === 'Ready');

describe('A rolling update of a DaemonSet during a maintenance', () => {
  const revisionOn = (name: string, node: string) =>
    podsOf(name, node).map(({ metadata }) => metadata.labels?.['revision']);

  test('stalls on the gated pod unless it is marked Ready, which it is until the update is over', async () => {
    const { name, node, others, maintenance } = await evacuated(3);
    await stop();
    await c.applied(daemonSet('2', { name }));
    await eventuallyGated(name, node, '2');
    await throughout('no other node is updated', 1_500, () =>
      expect(others.map((other) => revisionOn(name, other))).toEqual([['1'], ['1']]),
    );
    stop = startEvacuator();
    for (const other of others)
      await eventually(`the update of ${other}`, () => expect(revisionOn(name, other)).toEqual(['2']));
    const gated = await eventually('the gated pod without the condition', async () => {
      const found = await eventuallyGated(name, node, '2');
      expect(readyOf(await rawPod(found))).toBeUndefined();
      return found;
    });
    expect(podsOf(name, node)).toEqual([]);
    await c.staged(maintenance.metadata.name, 'Complete');
    expect((await eventuallyRunning(name, node)).metadata.uid).toBe(gated.metadata.uid);
  });

  test('continues with maxSurge, and the gated pod is not marked Ready', async () => {
    const updateStrategy = { rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
    const { name, node, others } = await evacuated(3, { updateStrategy });
    await c.applied(daemonSet('2', { name, updateStrategy }));
    for (const other of others)
      await eventually(`the update of ${other}`, () => expect(revisionOn(name, other)).toEqual(['2']));
    const gated = await eventuallyGated(name, node, '2');
    expect(readyOf(await rawPod(gated))).toBeUndefined();
  });

  test('leaves no gated pod marked Ready when the maintenance completes during the update', async () => {
    const { name, node, others, maintenance } = await evacuated(2);
    await stop();
    await c.applied(daemonSet('2', { name }));
    const gated = await eventuallyGated(name, node, '2');
    const key = { name: gated.metadata.name, namespace: c.namespace };
    const conditions = [{ type: 'Ready', status: 'True', reason: 'SchedulingGated' }];
    await c.admin.mergePatch(resources.pods, key, { status: { conditions } }, { subresource: 'status' });
    await c.staged(maintenance.metadata.name, 'Complete');
    stop = startEvacuator();
    const running = await eventuallyRunning(name, node);
    expect(readyOf(await rawPod(running))).not.toMatchObject({ reason: 'SchedulingGated' });
    await eventually('the update of the other node', () =>
      expect(others.map((other) => revisionOn(name, other))).toEqual([['2']]),
    );
  });
});
