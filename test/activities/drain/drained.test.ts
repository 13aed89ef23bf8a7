import type { NodeMaintenanceActivities } from '../../../activities/contract.ts';
import type { Job, KubeObject, Pod, VolumeAttachment } from '../../../api/core.ts';
import { WindowAnnotation, WORK_NAMESPACE } from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { byNode } from '../../../kube/cluster.ts';
import type { Informer } from '../../../kube/informer.ts';
import { type RawPod, type Resource, resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { kubectlOf } from '../../api/kubectl.ts';
import { activitiesOn, performed, refOf, started } from '../../kit/activity.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { remove } from '../../kit/reset.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { attached, claimSpec, createVolume, detached, letControllerAttach } from '../../kit/volumes.ts';

let sandbox: Sandbox;
let c: TestCluster;
let acts: NodeMaintenanceActivities;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'drained' });
  ({ activities: acts } = activitiesOn(c));
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const draining = (nodes: string[]) =>
  c.applied(c.maintenance({ name: c.named('nm'), nodes, stage: 'Drain' }));

const drainedConditionOf = async ({ metadata: { name } }: NodeMaintenance) =>
  (await c.statusOf(name)).conditions.find(({ type }) => type === 'Drained');

const claims = {
  group: '',
  version: 'v1',
  plural: 'persistentvolumeclaims',
  kind: 'PersistentVolumeClaim',
  namespaced: true,
} as Resource;

async function volumeFor(claim: string): Promise<string> {
  const name = c.named('pv');
  await createVolume(c.admin, name, { namespace: c.namespace, name: claim });
  return name;
}

/** Attaches a volume to a node without any pod that uses it, and creates both. */
async function attachmentTo(nodeName: string): Promise<VolumeAttachment> {
  const persistentVolumeName = await volumeFor(c.named('claim'));
  return c.admin.create(resources.volumeAttachments, {
    metadata: { name: c.named('csi') },
    spec: { attacher: 'csi.example.com', nodeName, source: { persistentVolumeName } },
  } as VolumeAttachment);
}

/** Evicts a pod and removes its Evacuation, as the evacuation controller does. */
async function evacuated(pod: Pod): Promise<void> {
  const { metadata } = await c.eventuallyEvacuating(pod);
  await c.podsDeleted([pod]);
  const key = { name: metadata.name, namespace: metadata.namespace };
  await c.admin.mergePatch(resources.evacuations, key, { metadata: { finalizers: [] } });
  await c.admin.delete(resources.evacuations, key, { uid: metadata.uid ?? '' });
}

test('a node is drained when the volumes of the pods that have left are detached; those of pods that stay do not count', async () => {
  const node = await c.nodeNamed('n');
  await letControllerAttach(c.admin, node);
  const set = c.named('db');
  const [volume, kept] = [await volumeFor(`data-${set}-0`), await volumeFor('kept')];
  await c.admin.create(claims, {
    metadata: { name: 'kept', namespace: c.namespace },
    spec: claimSpec,
  } as KubeObject);
  const { uid = '' } = (await c.node(node)).metadata;
  await c.admin.create(resources.pods, {
    metadata: {
      name: 'static',
      namespace: c.namespace,
      annotations: { 'kubernetes.io/config.source': 'file', 'kubernetes.io/config.mirror': 'hash' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: node, uid, controller: true }],
    },
    spec: {
      nodeName: node,
      automountServiceAccountToken: false,
      tolerations: [{ operator: 'Exists' }],
      containers: [{ name: 'main', image: 'fake' }],
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'kept' } }],
    },
  } as RawPod);
  await c.admin.create(resources.statefulSets, {
    metadata: { name: set, namespace: c.namespace },
    spec: {
      serviceName: set,
      selector: { matchLabels: { app: set } },
      template: {
        metadata: { labels: { app: set } },
        spec: {
          nodeSelector: { 'kubernetes.io/hostname': node },
          terminationGracePeriodSeconds: 0,
          containers: [{ name: 'main', image: 'fake' }],
        },
      },
      volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: claimSpec }],
    },
  } as KubeObject);
  const pod = await eventually('the pod of the StatefulSet to be ready', () => {
    const found = c.cluster.pods.get(`${c.namespace}/${set}-0`);
    expect(found?.status.ready).toBe(true);
    return found as Pod;
  });
  const [attachment, staying] = [await attached(c.admin, volume, node), await attached(c.admin, kept, node)];
  const listed = () => c.requests.count('list volumeattachments.storage.k8s.io');
  const listedBefore = listed();
  const applied = await draining([node]);
  const drain = started(() => acts.drain(refOf(applied), 0));
  await c.eventuallyEvacuating(pod);
  // Nothing is asked about volumes while pods are left.
  expect(listed()).toBe(listedBefore);
  await evacuated(pod);
  const what = `${volume} (${c.namespace}/data-${set}-0)`;
  await eventually('the drain to wait for the volume', async () =>
    expect(await drainedConditionOf(applied)).toMatchObject({
      status: 'False',
      reason: 'VolumesAttached',
      message: expect.stringContaining(`1 volume is still attached to node ${node}: ${what}.`),
    }),
  );
  const { nodeStatuses } = await c.statusOf(applied.metadata.name);
  expect(nodeStatuses[0]?.drainMessage).toBe(`Waiting for volumes to be detached: ${what}.`);
  await detached(c.admin, attachment);
  expect(await drain.ended).toMatchObject({ kind: 'Drained', nodes: [node] });
  expect(await drainedConditionOf(applied)).toMatchObject({
    status: 'True',
    reason: 'StaticPodsRemain',
    observedGeneration: applied.metadata.generation,
  });
  expect(await c.admin.get(resources.volumeAttachments, staying.metadata)).toBeDefined();

  await remove(c.admin, resources.statefulSets, { name: set, namespace: c.namespace });
  await c.podsDeleted(c.podsOf(node));
  await detached(c.admin, staying);
  for (const name of ['kept', `data-${set}-0`])
    await remove(c.admin, claims, { name, namespace: c.namespace });
  for (const name of [volume, kept]) await remove(c.admin, resources.persistentVolumes as Resource, { name });
});

describe('a volume that is not detached', () => {
  /** Starts the drain of a node to which a volume is attached, and waits until it waits for the volume. */
  async function waitingForVolume() {
    const node = await c.nodeNamed('n');
    const attachment = await attachmentTo(node);
    const applied = await draining([node]);
    await performed(() => acts.startStage(refOf(applied), 'Drain'));
    await c.caughtUpWith(await c.maintenanceNow(applied.metadata.name));
    const drain = started(() => acts.drain(refOf(applied), 0));
    await eventually('the drain to wait for the volume', async () =>
      expect(await drainedConditionOf(applied)).toMatchObject({ status: 'False', reason: 'VolumesAttached' }),
    );
    return { node, attachment, applied, drain };
  }

  const deadlineIn = ({ metadata: { name } }: NodeMaintenance, seconds: number) => {
    const at = new Date(c.cluster.kube.now().getTime() + seconds * 1_000);
    const drainDeadline = { at: at.toISOString().replace(/\.\d+Z$/, 'Z') };
    return c.patched(resources.nodeMaintenances, { name }, { spec: { drainDeadline } });
  };

  const endOf = async (attachment: VolumeAttachment) => {
    const { name, uid = '' } = attachment.metadata;
    await c.admin.delete(resources.volumeAttachments, { name }, { uid });
    const volume = attachment.spec.source.persistentVolumeName ?? '';
    await remove(c.admin, resources.persistentVolumes as Resource, { name: volume });
  };

  test('is waited for until the deadline, which the condition says; without one it is waited for', async () => {
    const [patient, late] = [await waitingForVolume(), await waitingForVolume()];
    await deadlineIn(late.applied, 5);
    expect(await late.drain.ended).toMatchObject({ kind: 'Drained', nodes: [late.node] });
    const volume = late.attachment.spec.source.persistentVolumeName;
    expect(await drainedConditionOf(late.applied)).toMatchObject({
      status: 'True',
      reason: 'VolumesRemain',
      message: expect.stringContaining(
        `The deadline has passed, and 1 volume is still attached: ${volume} (${c.namespace}/`,
      ),
    });
    expect((await c.statusOf(late.applied.metadata.name)).drainDeadline?.drainedAt).toBeDefined();
    expect(await c.admin.get(resources.volumeAttachments, late.attachment.metadata)).toBeDefined();

    expect(await drainedConditionOf(patient.applied)).toMatchObject({
      status: 'False',
      reason: 'VolumesAttached',
    });
    const kept = started(() => acts.keepDrained(refOf(late.applied)));
    for (const { attachment } of [patient, late]) await endOf(attachment);
    await eventually('the condition to name no volume any more', async () =>
      expect(await drainedConditionOf(late.applied)).toMatchObject({
        status: 'True',
        reason: 'AllPodsTerminated',
        message: 'No pod is left on the nodes.',
      }),
    );
    await kept.cancelled();
    expect(await patient.drain.ended).toMatchObject({ kind: 'Drained', nodes: [patient.node] });
    expect(await drainedConditionOf(patient.applied)).toMatchObject({ reason: 'AllPodsTerminated' });
  });
});

test('a deadline that was met does not end later waits for volumes', async () => {
  const node = await c.nodeNamed('n');
  const at = new Date(c.cluster.kube.now().getTime() + 10_000).toISOString().replace(/\.\d+Z$/, 'Z');
  const wanted = c.maintenance({ nodes: [node], stage: 'Drain' });
  const drainDeadline = { at } as NodeMaintenance['spec']['drainDeadline'];
  const applied = await c.applied({ ...wanted, spec: { ...wanted.spec, drainDeadline } });
  await performed(() => acts.startStage(refOf(applied), 'Drain'));
  expect(await performed(() => acts.drain(refOf(applied), 0))).toMatchObject({ kind: 'Drained' });
  const { drainedAt = '' } = (await c.statusOf(applied.metadata.name)).drainDeadline ?? {};
  expect(Date.parse(drainedAt)).toBeLessThan(Date.parse(at));
  await eventually('the deadline to pass', () =>
    expect(c.cluster.kube.now().getTime()).toBeGreaterThan(Date.parse(at)),
  );
  const kept = started(() => acts.keepDrained(refOf(applied)));
  const late = await c.podOn(node);
  const attachment = await attachmentTo(node);
  await evacuated(late);
  await eventually('the drain to wait for the volume', async () =>
    expect(await drainedConditionOf(applied)).toMatchObject({ status: 'False', reason: 'VolumesAttached' }),
  );
  await remove(c.admin, resources.volumeAttachments as Resource, { name: attachment.metadata.name });
  await eventually('the node to be drained again', async () =>
    expect(await drainedConditionOf(applied)).toMatchObject({ status: 'True', reason: 'AllPodsTerminated' }),
  );
  await kept.cancelled();
  const volume = attachment.spec.source.persistentVolumeName ?? '';
  await remove(c.admin, resources.persistentVolumes as Resource, { name: volume });
});

test('a node is drained again when a worker that was suspended has overwritten the condition', async () => {
  const node = await c.nodeNamed('n');
  const maintenance = await draining([node]);
  await performed(() => acts.startStage(refOf(maintenance), 'Drain'));
  expect(await performed(() => acts.drain(refOf(maintenance), 0))).toMatchObject({ kind: 'Drained' });
  const kept = started(() => acts.keepDrained(refOf(maintenance)));
  // The second time, the activity has verified the nodes itself.
  for (let time = 1; time <= 2; time += 1) {
    const { conditions } = await c.statusOf(maintenance.metadata.name);
    const overwritten = conditions.map((one) =>
      one.type === 'Drained'
        ? { ...one, status: 'False', reason: 'Draining', message: '1 pod left to evacuate.' }
        : one,
    );
    await c.admin.mergePatch(
      resources.nodeMaintenances,
      { name: maintenance.metadata.name },
      { status: { conditions: overwritten } },
      { subresource: 'status' },
    );
    await eventually('the node to be drained again', async () =>
      expect(await drainedConditionOf(maintenance)).toMatchObject({
        status: 'True',
        reason: 'AllPodsTerminated',
      }),
    );
  }
  await kept.cancelled();
});

test('a node is not drained while the Job of another maintenance works on it', async () => {
  const node = await c.nodeNamed('n');
  const other = await c.applied(c.maintenance({ name: c.named('other'), nodes: [node] }));
  const { apiVersion = '', kind = '', metadata } = other;
  const key = { namespace: WORK_NAMESPACE, name: c.named('work') };
  const job = await c.admin.create(resources.jobs, {
    metadata: {
      ...key,
      annotations: { [WindowAnnotation.Node]: node },
      ownerReferences: [{ apiVersion, kind, name: metadata.name, uid: metadata.uid ?? '' }],
    },
    // It has no pod yet.
    spec: {
      suspend: true,
      template: { spec: { restartPolicy: 'Never', containers: [{ name: 'w', image: 'none' }] } },
    },
  } as Job);
  const applied = await draining([node]);
  const drain = started(() => acts.drain(refOf(applied), 0));
  const work = `${WORK_NAMESPACE}/${key.name} of NodeMaintenance ${metadata.name}`;
  await eventually('the drain to wait for the Job', async () =>
    expect(await drainedConditionOf(applied)).toMatchObject({
      status: 'False',
      reason: 'WorkInProgress',
      message: `No pod is left to evacuate, but a Job works on node ${node}: ${work}.`,
    }),
  );
  const { nodeStatuses } = await c.statusOf(applied.metadata.name);
  expect(nodeStatuses[0]?.drainMessage).toBe(`Waiting for Job ${work}.`);
  const { uid = '' } = job.metadata;
  await c.admin.delete(resources.jobs, key, { uid, propagationPolicy: 'Background' });
  expect(await drain.ended).toMatchObject({ kind: 'Drained' });
});

test('Drained does not become True while informers that are behind hide a pod, a node or a newer selector', async () => {
  const pool = c.named('pool');
  const [node, late] = [await c.nodeNamed('n', { pool }), await c.nodeNamed('n')];
  const pod = await c.podOn(node);
  const hidden = new Set([node]);
  const wake: (() => void)[] = [];
  /** An informer of pods that does not show those of some nodes. */
  const pods = {
    size: 0,
    get: (key: string) => c.cluster.pods.get(key),
    list: () => c.cluster.pods.list().filter(({ spec }) => !hidden.has(spec.nodeName ?? '')),
    byIndex: (index: string, value: string) =>
      index === byNode && hidden.has(value) ? [] : c.cluster.pods.byIndex(index, value),
    subscribe: (handler: (change: object) => void) => {
      wake.push(() => handler({ type: 'Updated', object: pod, previous: pod }));
      return c.cluster.pods.subscribe(handler as never);
    },
  } as unknown as Informer<Pod, RawPod>;
  const { activities } = activitiesOn({ cluster: { ...c.cluster, pods } });
  const applied = await c.applied(c.maintenance({ name: c.named('nm'), nodes: { pool }, stage: 'Drain' }));
  const { name } = applied.metadata;
  const drain = started(() => activities.drain(refOf(applied), 0));
  const lists = () => c.requests.count('list pods');
  const before = lists();
  await eventually('the apiserver to contradict twice', () => expect(lists()).toBeGreaterThan(before + 1));
  expect(await drainedConditionOf(applied)).toMatchObject({ status: 'False', reason: 'Draining' });
  hidden.clear();
  for (const changed of wake) changed();
  await evacuated(pod);
  expect(await drain.ended).toMatchObject({ kind: 'Drained', nodes: [node] });
  const wait = ['wait', '--for=condition=Drained', '--timeout=1s', `nodemaintenance/${name}`];
  expect(await kubectlOf(sandbox)(wait)).toMatchObject({ code: 0 });
  // No worker has seen the new selector: the condition of the old one does not count.
  const nodeSelectorTerms = [node, late].map((value) => ({
    matchFields: [{ key: 'metadata.name', operator: 'In', values: [value] }],
  }));
  await c.admin.mergePatch(
    resources.nodeMaintenances,
    { name },
    { spec: { nodeSelector: { nodeSelectorTerms } } },
  );
  expect(await kubectlOf(sandbox)(wait)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/timed out/),
  });
});
