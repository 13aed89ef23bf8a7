import type { KubeObject, Pod } from '../../api/core.ts';
import { DAEMONSET_EVACUATOR_ANNOTATION, MAINTENANCE_GATE, RELEASED_ANNOTATION } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';
import { type RawPod, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let node: string;
/** With all the rights that deploy/ gives. */
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

const ready = { status: { conditions: [{ type: 'Ready', status: 'True' }] } };
const lifted = [{ name: 'example.com/first' }];
const owner = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'd', controller: true };

describe('The worker is refused, with its rights and beyond its task,', () => {
  test.each([
    {
      what: 'another image',
      patch: { op: 'replace', path: '/spec/containers/0/image', value: 'another' },
      says: /nothing in the spec of a pod/,
    },
    {
      what: 'another toleration',
      patch: { op: 'add', path: '/spec/tolerations/-', value: { key: 'x', operator: 'Exists' } },
      says: /nothing in the spec of a pod/,
    },
    {
      what: "somebody's annotation",
      patch: { op: 'add', path: '/metadata/annotations', value: { 'example.com/theirs': 'x' } },
      says: /annotations of .*, not example.com\/theirs/,
    },
    {
      what: "somebody's label",
      patch: { op: 'add', path: '/metadata/labels', value: { app: 'web', tier: 'x' } },
      says: /pod-template-hash of a pod, not tier/,
    },
    {
      what: 'the end of a label',
      patch: { op: 'remove', path: '/metadata/labels/app' },
      says: /pod-template-hash of a pod, not app/,
    },
    {
      what: 'a finalizer',
      patch: { op: 'add', path: '/metadata/finalizers', value: ['example.com/x'] },
      says: /neither the owners nor the finalizers/,
    },
    {
      what: 'an owner',
      patch: { op: 'add', path: '/metadata/ownerReferences', value: [owner] },
      says: /neither the owners nor the finalizers/,
    },
  ] as const)('$what of a pod', async ({ patch, says }) => {
    const pod = await c.podOn(node, { labels: { app: 'web' } });
    const before = await stored(pod);
    await expect(worker.jsonPatch(resources.pods, keyOf(pod), [patch])).rejects.toThrow(says);
    const { metadata, spec } = await stored(pod);
    expect(spec).toEqual(before.spec);
    expect(metadata.labels).toEqual(before.metadata.labels);
  });

  test('the status of a pod that runs', async () => {
    await expect(patched(await c.podOn(node), ready, 'status')).rejects.toThrow(/the status of no pod but/);
  });

  test('the deletion of a pod that no DaemonSet made', async () => {
    const pod = await c.podOn(node);
    await expect(worker.delete(resources.pods, keyOf(pod), { uid: pod.metadata.uid ?? '' })).rejects.toThrow(
      /deletes only pods of DaemonSets/,
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
      /in the spec of a pod/,
    );
  });
});

describe('The worker', () => {
  test("names a pod's evacuator, and notes from which ReplicaSet it took the pod", async () => {
    const pod = await c.podOn(node, { annotations: { 'example.com/theirs': 'x' } });
    const annotations = {
      [DAEMONSET_EVACUATOR_ANNOTATION]: '10000/controller',
      [RELEASED_ANNOTATION]: 'web',
    };
    await patched(pod, { metadata: { annotations } });
    expect((await stored(pod)).metadata.annotations).toEqual({ 'example.com/theirs': 'x', ...annotations });
  });

  test("takes a pod's label pod-template-hash, and gives it back", async () => {
    const pod = await c.podOn(node, { labels: { app: 'web', 'pod-template-hash': 'a' } });
    for (const hash of [null, 'a'])
      await patched(pod, { metadata: { labels: { 'pod-template-hash': hash } } });
    expect((await stored(pod)).metadata.labels).toEqual({ app: 'web', 'pod-template-hash': 'a' });
  });

  test('shows a pod behind our gate as ready, and lifts the gate', async () => {
    const pod = await heldPod();
    await patched(pod, ready, 'status');
    await patched(pod, { spec: { schedulingGates: lifted } });
    expect((await stored(pod)).spec.schedulingGates).toEqual(lifted);
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
