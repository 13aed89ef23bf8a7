import type { KubeObject, Pod } from '../../api/core.ts';
import { DAEMONSET_EVACUATOR_ANNOTATION, MAINTENANCE_GATE, RELEASED_ANNOTATION } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';
import { type RawPod, type Resource, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let node: string;
/** A client with all permissions that deploy/ grants. */
let worker: Kube;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'worker-pods' });
  worker = c.cluster.kube;
  node = await c.nodeNamed('n');
  const probe = await c.podOn(node);
  await eventually('the policy to be known', async () =>
    expect(patched(probe, { metadata: { labels: { probe: crypto.randomUUID() } } })).rejects.toThrow(/label/),
  );
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const keyOf = ({ metadata: { name } }: KubeObject) => ({ namespace: c.namespace, name });
const stored = async (pod: KubeObject) => (await c.admin.get(resources.pods, keyOf(pod))) as RawPod;
const patched = (pod: KubeObject, patch: object, subresource?: string) =>
  worker.mergePatch(resources.pods, keyOf(pod), patch as Record<string, unknown>, {
    ...(subresource !== undefined && { subresource }),
  });

/** A pod that waits for the end of a maintenance, and for something else. */
async function heldPod(): Promise<KubeObject> {
  return c.admin.create<KubeObject>(resources.pods, {
    metadata: { name: c.named('held'), namespace: c.namespace },
    spec: {
      containers: [{ name: 'main', image: 'none' }],
      schedulingGates: [{ name: 'example.com/first' }, { name: MAINTENANCE_GATE }],
    },
  } as KubeObject);
}

const consent = { 'evacuation.coordination.k8s.io/priority_statefulset.apps.k8s.io': '10000/controller' };

/** The pod of a StatefulSet, which no node has. */
async function statefulPod(annotations: Record<string, string> = {}): Promise<KubeObject> {
  const name = c.named('db');
  const labels = { app: name };
  await c.admin.create<KubeObject>(
    resources.statefulSets as Resource,
    {
      metadata: { name, namespace: c.namespace },
      spec: {
        replicas: 1,
        serviceName: name,
        selector: { matchLabels: labels },
        template: {
          metadata: { labels, annotations },
          spec: {
            containers: [{ name: 'main', image: 'none' }],
            schedulingGates: [{ name: 'example.com/first' }],
          },
        },
      },
    } as KubeObject,
  );
  return eventually('its pod', async () => {
    const pod = await stored({ metadata: { name: `${name}-0` } });
    expect(pod).toBeDefined();
    return pod;
  });
}

const ready = { status: { conditions: [{ type: 'Ready', status: 'True' }] } };
const lifted = [{ name: 'example.com/first' }];
const owner = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'd', controller: true };

describe('the worker is denied, with its permissions and beyond its task,', () => {
  test.each([
    {
      what: 'another image',
      patch: { op: 'replace', path: '/spec/containers/0/image', value: 'another' },
      message: /only change the spec of a pod by removing/,
    },
    {
      what: 'another toleration',
      patch: { op: 'add', path: '/spec/tolerations/-', value: { key: 'x', operator: 'Exists' } },
      message: /only change the spec of a pod by removing/,
    },
    {
      what: "another client's annotation",
      patch: { op: 'add', path: '/metadata/annotations', value: { 'example.com/theirs': 'x' } },
      message: /annotations of .*, not example.com\/theirs/,
    },
    {
      what: "another client's label",
      patch: { op: 'add', path: '/metadata/labels', value: { app: 'web', tier: 'x' } },
      message: /pod-template-hash of a pod, not tier/,
    },
    {
      what: 'the end of a label',
      patch: { op: 'remove', path: '/metadata/labels/app' },
      message: /pod-template-hash of a pod, not app/,
    },
    {
      what: 'a finalizer',
      patch: { op: 'add', path: '/metadata/finalizers', value: ['example.com/x'] },
      message: /may not change the owners or the finalizers/,
    },
    {
      what: 'an owner',
      patch: { op: 'add', path: '/metadata/ownerReferences', value: [owner] },
      message: /may not change the owners or the finalizers/,
    },
  ] as const)('$what of a pod', async ({ patch, message }) => {
    const pod = await c.podOn(node, { labels: { app: 'web' } });
    const before = await stored(pod);
    await expect(worker.jsonPatch(resources.pods, keyOf(pod), [patch])).rejects.toThrow(message);
    const { metadata, spec } = await stored(pod);
    expect(spec).toEqual(before.spec);
    expect(metadata.labels).toEqual(before.metadata.labels);
  });

  test('the status of a running pod', async () => {
    await expect(patched(await c.podOn(node), ready, 'status')).rejects.toThrow(
      /only change the status of a pod with the scheduling gate/,
    );
  });

  test('the deletion of a pod of a StatefulSet without the consent of its owner, and to give it itself', async () => {
    const pod = await statefulPod();
    const { uid = '' } = pod.metadata;
    await expect(worker.delete(resources.pods, keyOf(pod), { uid })).rejects.toThrow(
      /and pods of StatefulSets that have the annotation/,
    );
    await expect(patched(pod, { metadata: { annotations: consent } })).rejects.toThrow(
      /annotations of .*, not evacuation.coordination.k8s.io\/priority_statefulset.apps.k8s.io/,
    );
    expect((await stored(pod)).metadata).not.toHaveProperty('deletionTimestamp');
  });

  test.each([
    { what: 'without a grace period', options: {} },
    { what: 'with a grace period of 0', options: { gracePeriodSeconds: 0 } },
  ])('the deletion of a pod that no DaemonSet owns $what', async ({ options }) => {
    const pod = await c.podOn(node);
    const { uid = '' } = pod.metadata;
    await expect(worker.delete(resources.pods, keyOf(pod), { uid, ...options })).rejects.toThrow(
      /may only delete pods of DaemonSets, and at the deadline of a drain/,
    );
    expect((await stored(pod)).metadata.deletionTimestamp).toBeUndefined();
  });

  test.each([
    { what: 'another image', gates: lifted, path: '/spec/containers/0/image', value: 'another' },
    { what: 'another node', gates: lifted, path: '/spec/nodeSelector', value: { disk: 'ssd' } },
    { what: 'the end of the other gate', gates: [{ name: MAINTENANCE_GATE }] },
    { what: 'the end of all its gates', gates: [] },
  ])('$what of a pod that waits behind our gate', async ({ gates, path, value }) => {
    const operations = [
      { op: 'replace', path: '/spec/schedulingGates', value: gates } as const,
      ...(path === undefined ? [] : [{ op: 'add', path, value } as const]),
    ];
    const pod = await heldPod();
    await expect(worker.jsonPatch(resources.pods, keyOf(pod), operations)).rejects.toThrow(
      /the spec of a pod/,
    );
  });
});

describe('the worker', () => {
  test('deletes a pod of a node by its UID, with a grace period, as at the deadline of a drain', async () => {
    const pod = await c.podOn(await c.silentNodeNamed('silent'), { grace: 60 });
    const { uid = '' } = pod.metadata;
    await worker.delete(resources.pods, keyOf(pod), { uid, gracePeriodSeconds: 1 });
    expect((await stored(pod)).metadata.deletionGracePeriodSeconds).toBe(1);
  });

  test("sets a pod's evacuator annotation and its released-from annotation", async () => {
    const pod = await c.podOn(node, { annotations: { 'example.com/theirs': 'x' } });
    const annotations = {
      [DAEMONSET_EVACUATOR_ANNOTATION]: '10000/controller',
      [RELEASED_ANNOTATION]: 'web',
    };
    await patched(pod, { metadata: { annotations } });
    expect((await stored(pod)).metadata.annotations).toEqual({ 'example.com/theirs': 'x', ...annotations });
  });

  test("removes a pod's label pod-template-hash, and restores it", async () => {
    const pod = await c.podOn(node, { labels: { app: 'web', 'pod-template-hash': 'a' } });
    for (const hash of [null, 'a'])
      await patched(pod, { metadata: { labels: { 'pod-template-hash': hash } } });
    expect((await stored(pod)).metadata.labels).toEqual({ app: 'web', 'pod-template-hash': 'a' });
  });

  test('reports a pod with our gate as ready, and removes the gate', async () => {
    const pod = await heldPod();
    await patched(pod, ready, 'status');
    await patched(pod, { spec: { schedulingGates: lifted } });
    expect((await stored(pod)).spec.schedulingGates).toEqual(lifted);
  });

  test('deletes a pod of a StatefulSet with the consent of its owner', async () => {
    const pod = await statefulPod(consent);
    const { uid = '' } = pod.metadata;
    await worker.delete(resources.pods, keyOf(pod), { uid });
    await eventually('it to be gone', async () => expect((await stored(pod))?.metadata.uid).not.toBe(uid));
  });

  test('deletes a pod of a DaemonSet', async () => {
    const pod = await c.daemonPodOn(node);
    await worker.delete(resources.pods, keyOf(pod), { uid: pod.metadata.uid ?? '' });
    await c.eventuallyGone(pod);
  });

  test.each([
    { what: 'that runs', made: () => c.podOn(node) },
    { what: 'that no node has yet', made: () => heldPod() as Promise<Pod> },
  ])('evicts a pod $what, which it may not delete', async ({ made }) => {
    const pod = await made();
    const { uid = '' } = pod.metadata;
    expect(await worker.evict({ ...keyOf(pod), uid })).toMatchObject({ kind: 'Evicted' });
    await eventually('it to be gone', async () => expect(await stored(pod)).toBeUndefined());
  });
});
