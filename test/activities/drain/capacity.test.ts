import type { NodeMaintenanceActivities } from '../../../activities/contract.ts';
import type { KubeObject, PersistentVolumeClaim, Pod } from '../../../api/core.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { waitingReasonOf } from '../../../domain/maintenance/waiting.ts';
import { type Resource, resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { activitiesOn, type InProgress, performed, refOf, started } from '../../kit/activity.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { createDeployment } from '../../kit/deployment.ts';
import { evacuationControllerOn } from '../../kit/evacuationController.ts';
import { eventually } from '../../kit/eventually.ts';
import { deployments } from '../../kit/resources.ts';
import { remove } from '../../kit/reset.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { claimSpec, createVolume } from '../../kit/volumes.ts';

let sandbox: Sandbox;
let c: TestCluster;
let acts: NodeMaintenanceActivities;
let flushEvents: () => Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'capacity' });
  ({ activities: acts, flushEvents } = activitiesOn(c));
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

/** Creates a Deployment of one pod that runs on this node only, and not while the node is cordoned; returns the pod. */
async function pinnedPod(node: string): Promise<Pod> {
  const labels = { app: 'pinned' };
  const spec = {
    nodeSelector: { 'kubernetes.io/hostname': node },
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'main', image: 'fake' }],
  };
  await c.admin.create<KubeObject>(deployments, {
    metadata: { name: c.named('app'), namespace: c.namespace },
    spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  } as KubeObject);
  return eventually(`the pod on node ${node}`, () => {
    const [pod] = c.podsOf(node).filter(({ status }) => status.ready);
    expect(pod).toBeDefined();
    return pod as Pod;
  });
}

test('a pod that fits on no other node waits, a pod that nothing recreates does not, and the field ends the wait', async () => {
  const node = await c.nodeNamed('n');
  const pinned = await pinnedPod(node);
  const bare = await c.podOn(node);
  const wanted = c.maintenance({ nodes: [node], stage: 'Drain' });
  const applied = await c.applied({ ...wanted, spec: { ...wanted.spec, requireCapacity: true } });
  const drain = started(() => acts.drain(refOf(applied), 0));
  const { name } = applied.metadata;
  await c.eventuallyEvacuating(bare);
  const conditionOf = async () =>
    (await c.statusOf(name)).conditions.find(({ type }) => type === 'CapacityAvailable');
  await eventually('the condition to name the pod', async () =>
    expect(await conditionOf()).toMatchObject({
      status: 'False',
      reason: 'PodsDoNotFit',
      message: expect.stringMatching(
        new RegExp(`^1 pod fits on no other node: ${c.namespace}/${pinned.metadata.name} \\(0/\\d+ nodes`),
      ),
    }),
  );
  expect(waitingReasonOf(await c.maintenanceNow(name))).toBe('Capacity');
  expect(await c.evacuationOf(pinned)).toBeUndefined();
  await flushEvents();
  expect(await c.eventsAbout(applied)).toContainEqual(expect.stringMatching(/^CapacityUnavailable: /));
  await c.patched(resources.nodeMaintenances, { name }, { spec: { requireCapacity: false } });
  await c.eventuallyEvacuating(pinned);
  await drain.cancelled();
});

test('a pod whose Evacuation a user deletes is asked again, although its place is reserved', async () => {
  const rack = c.named('rack');
  const node = await c.nodeNamed('n', { rack });
  await createDeployment(c, rack, { nodeSelector: { rack } });
  const pod = await eventually('the pod', () => {
    const [found] = c.podsOf(node).filter(({ status }) => status.ready);
    expect(found).toBeDefined();
    return found as Pod;
  });
  await c.nodeNamed('free', { rack });
  const wanted = c.maintenance({ nodes: [node], stage: 'Drain' });
  const applied = await c.applied({ ...wanted, spec: { ...wanted.spec, requireCapacity: true } });
  const drain = started(() => acts.drain(refOf(applied), 0));
  await c.eventuallyEvacuating(pod);
  const { name = '', uid = '' } = (await c.evacuationOf(pod))?.metadata ?? {};
  await c.admin.delete(resources.evacuations, { namespace: c.namespace, name }, { uid });
  await eventually('another Evacuation', async () => {
    const evacuation = await c.evacuationOf(pod);
    expect(evacuation).toBeDefined();
    expect([uid, undefined]).not.toContain(evacuation?.metadata.uid);
  });
  await drain.cancelled();
  await remove(c.admin, deployments, { name: rack, namespace: c.namespace });
});

test('a pod waits until all of its claims are read, however many there are: the last volume is bound to its node', async () => {
  const [node, name] = [await c.nodeNamed('n'), c.named('claims')];
  const claims = Array.from({ length: 300 }, (_, index) => `claim-${1_000 + index}`);
  const [last = ''] = claims.toReversed();
  const hostname = { key: 'kubernetes.io/hostname', operator: 'In', values: [node] };
  await createVolume(
    c.admin,
    name,
    { namespace: c.namespace, name: last },
    { nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [hostname] }] } } },
  );
  await c.admin.create(resources.persistentVolumeClaims, {
    metadata: { name: last, namespace: c.namespace },
    spec: { ...claimSpec, volumeName: name },
  } as PersistentVolumeClaim);
  const labels = { app: name };
  const spec = {
    // The scheduler would wait for the claims that do not exist.
    nodeName: node,
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'main', image: 'fake' }],
    volumes: claims.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } })),
  };
  await c.admin.create<KubeObject>(deployments, {
    metadata: { name, namespace: c.namespace },
    spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  } as KubeObject);
  const pod = await eventually('the pod with 300 claims', () => {
    const [found] = c.podsOf(node);
    expect(found?.spec.claims).toHaveLength(300);
    return found as Pod;
  });
  const wanted = c.maintenance({ nodes: [node], stage: 'Drain' });
  const applied = await c.applied({ ...wanted, spec: { ...wanted.spec, requireCapacity: true } });
  const drain = started(() => acts.drain(refOf(applied), 0));
  const reasons = new Set<string | undefined>();
  await eventually('the pod to fit nowhere', async () => {
    const { conditions } = await c.statusOf(applied.metadata.name);
    const reason = conditions.find(({ type }) => type === 'CapacityAvailable')?.reason;
    reasons.add(reason);
    expect(reason).toBe('PodsDoNotFit');
  });
  expect(reasons).not.toContain('PodsFit');
  expect(await c.evacuationOf(pod)).toBeUndefined();
  await drain.cancelled();
  await remove(c.admin, deployments, { name, namespace: c.namespace });
  await c.podsDeleted(c.podsOf(node));
  await remove(c.admin, resources.persistentVolumeClaims as Resource, { name: last, namespace: c.namespace });
  await remove(c.admin, resources.persistentVolumes as Resource, { name });
});

test('without requireCapacity a pod that fits on no other node is reported, and evacuated nevertheless', async () => {
  const node = await c.nodeNamed('n');
  const pinned = await pinnedPod(node);
  const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
  const drain = started(() => acts.drain(refOf(applied), 0));
  const name = `${c.namespace}/${pinned.metadata.name}`;
  await eventually('the condition to name the pod', async () => {
    const { conditions } = await c.statusOf(applied.metadata.name);
    expect(conditions.find(({ type }) => type === 'CapacityAvailable')).toMatchObject({
      status: 'False',
      reason: 'PodsDoNotFit',
      message: expect.stringMatching(
        new RegExp(`^1 pod fits on no other node: ${name} .*They are evicted nevertheless`),
      ),
    });
  });
  await c.eventuallyEvacuating(pinned);
  await drain.cancelled();
});

test('without requireCapacity each of two drains that start within a second reports its pods', async () => {
  const nodes = [await c.nodeNamed('n'), await c.nodeNamed('n')];
  const reports: { drain: InProgress<unknown>; name: string; pod: Pod }[] = [];
  const pods = await Promise.all(nodes.map(pinnedPod));
  for (const [index, pod] of pods.entries()) {
    const node = nodes[index] ?? '';
    const maintenance = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    const drain = started(() => acts.drain(refOf(maintenance), 0));
    reports.push({ drain, name: maintenance.metadata.name, pod });
    await c.eventuallyEvacuating(pod);
  }
  for (const { drain, name, pod } of reports) {
    await eventually(`the condition of ${name} to name its pod`, async () => {
      const { conditions } = await c.statusOf(name);
      const message = conditions.find(({ type }) => type === 'CapacityAvailable')?.message;
      expect(message).toContain(`1 pod fits on no other node: ${c.namespace}/${pod.metadata.name}`);
    });
    await drain.cancelled();
  }
});

/** Creates nodes on each of which one pod of a Deployment runs, and which have no room for another one; returns the pods. */
async function onePodPerNode(count: number, labels: { app: string }): Promise<Pod[]> {
  const pool = { pool: labels.app };
  for (let index = 0; index < count; index += 1) await c.nodeNamed('n', pool);
  const podAntiAffinity = {
    requiredDuringSchedulingIgnoredDuringExecution: [
      { labelSelector: { matchLabels: labels }, topologyKey: 'kubernetes.io/hostname' },
    ],
  };
  const spec = {
    nodeSelector: pool,
    affinity: { podAntiAffinity },
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'main', image: 'fake' }],
  };
  await c.admin.create<KubeObject>(deployments, {
    metadata: { name: labels.app, namespace: c.namespace },
    spec: { replicas: count, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  } as KubeObject);
  return eventually(`${count} pods of ${labels.app}`, () => {
    const ready = c.cluster.pods
      .list()
      .filter(({ metadata, status }) => metadata.labels?.['app'] === labels.app && status.ready);
    expect(ready).toHaveLength(count);
    return [...ready];
  });
}

test('a deadlock of two maintenances and a budget is named with the node to uncordon', async () => {
  const labels = { app: c.named('apart') };
  const pods = await onePodPerNode(2, labels);
  await c.applied(c.budget(labels, { minAvailable: 1 }));
  const stop = evacuationControllerOn(c);
  const maintenances = await Promise.all(
    pods.map(({ spec: { nodeName = '' } }) =>
      c.applied(c.maintenance({ nodes: [nodeName], stage: 'Drain' })),
    ),
  );
  const drains = maintenances.map((one) => started(() => acts.drain(refOf(one), 0)));
  const [survivor, released] = await eventually('one of the pods to be gone', () => {
    const left = pods.filter((pod) => c.podsOf(pod.spec.nodeName ?? '').length > 0);
    expect(left).toHaveLength(1);
    return [left[0] as Pod, pods.findIndex((pod) => pod !== left[0])] as const;
  });
  const node = pods[released]?.spec.nodeName;
  const holder = maintenances[released] as NodeMaintenance;
  expect(await drains[released]?.ended).toMatchObject({ kind: 'Drained' });
  const kept = started(() => acts.keepDrained(refOf(holder)));
  for (const { metadata } of maintenances)
    await c.eventuallyStatus(metadata.name, 'the deadlock to be named', ({ conditions }) =>
      expect(conditions).toContainEqual(
        expect.objectContaining({
          type: 'CapacityAvailable',
          status: 'False',
          reason: 'Deadlock',
          message: expect.stringContaining(
            `To resolve it, uncordon node ${node}: complete NodeMaintenance ${holder.metadata.name},`,
          ),
        }),
      ),
    );
  await flushEvents();
  for (const one of maintenances)
    expect(await c.eventsAbout(one)).toContainEqual(
      expect.stringMatching(`^CapacityDeadlock: Deadlock: .* uncordon node ${node}:`),
    );

  const completed = await c.staged(holder.metadata.name, 'Complete');
  expect(await kept.ended).toMatchObject({ kind: 'StageChanged', stage: 'Complete' });
  await performed(() => acts.uncordonNodes(refOf(completed)));
  await c.eventuallyGone(survivor);
  for (const drain of drains) await drain.cancelled();
  await stop();
});

test('of two maintenances the older one is served first, but not while it is paused', async () => {
  const labels = { app: c.named('apart') };
  const pods = await onePodPerNode(2, labels);
  await c.nodeNamed('free', { pool: labels.app });
  const [first, second] = pods.map(({ spec: { nodeName = '' } }, index) => {
    // Of two that were created in the same second, the first by name is the older one.
    const wanted = c.maintenance({ name: c.named(`nm-${index}`), nodes: [nodeName], stage: 'Drain' });
    return { ...wanted, spec: { ...wanted.spec, requireCapacity: true } };
  }) as [NodeMaintenance, NodeMaintenance];
  const older = await c.applied(first);
  const younger = await c.applied(second);
  const drain = started(() => acts.drain(refOf(younger), 0));
  await c.eventuallyStatus(younger.metadata.name, 'the pod to wait for the older maintenance', (status) =>
    expect(status.conditions).toContainEqual(
      expect.objectContaining({
        type: 'CapacityAvailable',
        status: 'False',
        reason: 'WaitingForMaintenance',
        message: expect.stringContaining(
          `1 pod waits because free capacity is allocated to NodeMaintenance ${older.metadata.name} first: ${c.namespace}/${pods[1]?.metadata.name}.`,
        ),
      }),
    ),
  );
  expect(await c.evacuationOf(pods[1] as Pod)).toBeUndefined();
  const lastTransitionTime = new Date().toISOString();
  const paused = { type: 'Paused', status: 'True', reason: 'Requested', message: '', lastTransitionTime };
  await c.withStatus(older, { conditions: [paused] });
  await c.eventuallyEvacuating(pods[1] as Pod);
  await drain.cancelled();
});

describe('a pod that fits on no other node', () => {
  /** Starts a drain that holds the pod back, and gives it a deadline. */
  async function withDeadline(onDeadline: 'Report' | 'Delete') {
    const node = await c.nodeNamed('n');
    const pinned = await pinnedPod(node);
    const wanted = c.maintenance({ nodes: [node], stage: 'Drain' });
    const applied = await c.applied({ ...wanted, spec: { ...wanted.spec, requireCapacity: true } });
    await performed(() => acts.startStage(refOf(applied), 'Drain'));
    const { name } = applied.metadata;
    await c.caughtUpWith(await c.maintenanceNow(name));
    const drain = started(() => acts.drain(refOf(applied), 0));
    await c.eventuallyStatus(name, 'the pod to be held back', ({ conditions }) =>
      expect(conditions).toContainEqual(
        expect.objectContaining({ type: 'CapacityAvailable', status: 'False', reason: 'PodsDoNotFit' }),
      ),
    );
    expect(await c.evacuationOf(pinned)).toBeUndefined();
    const inFiveSeconds = new Date(c.cluster.kube.now().getTime() + 5_000);
    const at = inFiveSeconds.toISOString().replace(/\.\d+Z$/, 'Z');
    await c.patched(resources.nodeMaintenances, { name }, { spec: { drainDeadline: { at, onDeadline } } });
    return { applied, pinned, drain, at: Date.parse(at) };
  }

  test('is evacuated at the deadline', async () => {
    const { pinned, drain, at } = await withDeadline('Report');
    await c.eventuallyEvacuating(pinned);
    expect(c.cluster.kube.now().getTime()).toBeGreaterThanOrEqual(at);
    await drain.cancelled();
  });

  test('is deleted by a deadline that deletes what is left', async () => {
    const { applied, pinned, drain } = await withDeadline('Delete');
    await c.eventuallyGone(pinned);
    await drain.cancelled();
    await flushEvents();
    expect(await c.eventsAbout(applied)).toContainEqual(expect.stringMatching(/^DeletedAtDeadline: 1 pod /));
  });
});
