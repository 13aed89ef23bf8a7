import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Node } from '../../api/core.ts';
import { AUTOSCALER_ANNOTATIONS, RebootAnnotation } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';
import { connectKube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

// The policy worker-nodes.nodemaintenance.k8s.io: what the token of the worker may do to a node.

let sandbox: Sandbox;
let c: TestCluster;
let worker: Kube;
let name: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'worker-nodes' });
  worker = connectKube({ kubeconfig: sandbox.workerKubeconfig, userAgent: 'attacker', log: silentLog });
  name = await c.nodeNamed('n');
  const annotations = { 'nodemaintenance.k8s.io/uncordoned-by': 'user alice' };
  await c.admin.mergePatch(resources.nodes, { name }, { metadata: { annotations } });
  const status = { nodeInfo: { bootID: 'boot-1' } };
  await c.admin.mergePatch(resources.nodes, { name }, { status }, { subresource: 'status' });
  await eventually('the policy to be known', () =>
    expect(patched({ metadata: { labels: { probe: crypto.randomUUID() } } })).rejects.toThrow(/labels/),
  );
});

afterAll(async () => {
  await worker?.close();
  await c?.close();
  await releaseSandbox(sandbox);
});

const againstAutoscalers = (value: string | null) =>
  Object.fromEntries(AUTOSCALER_ANNOTATIONS.map((key) => [key, value]));

const ready = { key: 'readiness.k8s.io/gates', effect: 'NoSchedule' };
const condition = (type: string) => ({
  type,
  status: 'True',
  reason: 'Tested',
  message: 'x',
  lastTransitionTime: '2026-01-01T00:00:00Z',
});

const patched = (patch: object, subresource?: string): Promise<Node> =>
  worker.mergePatch(resources.nodes, { name }, patch as Record<string, unknown>, { subresource });

const applied = (type: string): Promise<Node> =>
  worker.apply(
    resources.nodes,
    { metadata: { name }, status: { conditions: [condition(type)] } } as unknown as Node,
    { fieldManager: 'test', force: true, subresource: 'status' },
  );

describe('the worker may not', () => {
  test.each<{ what: string; patch: object; subresource?: string }>([
    {
      what: 'label a node',
      patch: { metadata: { labels: { 'node-role.kubernetes.io/control-plane': '' } } },
    },
    {
      what: 'label a node through its status',
      patch: { metadata: { labels: { tier: 'secure' } } },
      subresource: 'status',
    },
    { what: 'remove a label', patch: { metadata: { labels: { 'kubernetes.io/hostname': null } } } },
    { what: 'annotate a node', patch: { metadata: { annotations: { 'example.com/x': 'y' } } } },
    {
      what: 'annotate a node through its status',
      patch: { metadata: { annotations: { 'example.com/x': 'y' } } },
      subresource: 'status',
    },
    {
      what: 'write who uncordoned a node',
      patch: { metadata: { annotations: { 'nodemaintenance.k8s.io/uncordoned-by': 'user bob' } } },
    },
    {
      what: 'remove another annotation',
      patch: { metadata: { annotations: { 'kwok.x-k8s.io/node': null } } },
    },
    {
      what: 'allow what an annotation against autoscalers prevents',
      patch: { metadata: { annotations: { 'karpenter.sh/do-not-disrupt': 'false' } } },
    },
    {
      what: 'set another annotation of an autoscaler',
      patch: { metadata: { annotations: { 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'true' } } },
    },
    {
      what: 'ask for a reboot of another boot than the one that runs',
      patch: { metadata: { annotations: { [RebootAnnotation.Requested]: 'boot-0' } } },
    },
    {
      what: 'ask for a reboot of no boot',
      patch: { metadata: { annotations: { [RebootAnnotation.Requested]: '' } } },
    },
    {
      what: 'say that a node needs a reboot',
      patch: { metadata: { annotations: { [RebootAnnotation.Required]: 'kernel' } } },
    },
    {
      what: 'say that the agent has started a reboot',
      patch: { metadata: { annotations: { [RebootAnnotation.Started]: 'boot-1' } } },
    },
    { what: 'set a finalizer', patch: { metadata: { finalizers: ['example.com/x'] } } },
    {
      what: 'set an owner',
      patch: {
        metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'x', uid: 'x' }] },
      },
    },
    { what: 'add a taint', patch: { spec: { taints: [{ key: 'example.com/x', effect: 'NoExecute' }] } } },
    {
      what: 'add the readiness taint with another effect',
      patch: { spec: { taints: [{ ...ready, effect: 'NoExecute' }] } },
    },
    {
      what: 'add another taint together with the readiness taint',
      patch: { spec: { taints: [ready, { key: 'example.com/x', effect: 'NoSchedule' }] } },
    },
    { what: 'set the providerID', patch: { spec: { providerID: 'evil://x' } } },
    { what: 'set the podCIDR', patch: { spec: { podCIDR: '10.99.0.0/24', podCIDRs: ['10.99.0.0/24'] } } },
    {
      what: 'change the capacity',
      patch: { status: { capacity: { cpu: '1' } } },
      subresource: 'status',
    },
    {
      what: 'change the addresses',
      patch: { status: { addresses: [{ type: 'InternalIP', address: '203.0.113.1' }] } },
      subresource: 'status',
    },
    {
      what: 'change the port of the kubelet',
      patch: { status: { daemonEndpoints: { kubeletEndpoint: { Port: 6666 } } } },
      subresource: 'status',
    },
    {
      what: 'remove the conditions',
      patch: { status: { conditions: null } },
      subresource: 'status',
    },
  ])('$what', async ({ patch, subresource }) => {
    const before = await c.node(name);
    await expect(patched(patch, subresource)).rejects.toMatchObject({
      kind: 'Forbidden',
      message: expect.stringContaining('worker-nodes.nodemaintenance.k8s.io'),
    });
    expect((await c.node(name)).metadata.labels).toEqual(before.metadata.labels);
  });

  test.each(['Ready', 'NetworkUnavailable', 'example.com/Healthy'])('report condition %s', async (type) => {
    await expect(applied(type)).rejects.toMatchObject({
      kind: 'Forbidden',
      message: expect.stringContaining('the worker may only change the conditions MaintenanceInProgress'),
    });
  });

  test('change or remove an annotation against autoscalers that has another value than its own', async () => {
    const key = 'karpenter.sh/do-not-disrupt';
    const valued = (value: string | null) => ({ metadata: { annotations: { [key]: value } } });
    await c.admin.mergePatch(resources.nodes, { name }, valued('30m'));
    try {
      for (const value of ['true', null])
        await expect(patched(valued(value))).rejects.toMatchObject({
          kind: 'Forbidden',
          message: expect.stringContaining(
            'the worker may not change the annotations of a node, except remove nodemaintenance.k8s.io/uncordoned-by, add and remove "true" as cluster-autoscaler.kubernetes.io/scale-down-disabled, karpenter.sh/do-not-disrupt',
          ),
        });
    } finally {
      await c.admin.mergePatch(resources.nodes, { name }, valued(null));
    }
  });

  test('remove the taint of another client', async () => {
    const taints = [{ key: 'example.com/kept', effect: 'NoSchedule' }];
    await c.admin.mergePatch(resources.nodes, { name }, { spec: { taints } });
    try {
      await expect(patched({ spec: { taints: null } })).rejects.toMatchObject({ kind: 'Forbidden' });
      await expect(patched({ spec: { taints: [ready] } })).rejects.toMatchObject({ kind: 'Forbidden' });
      await expect(patched({ spec: { taints: [...taints, ready] } })).resolves.toBeDefined();
    } finally {
      await c.admin.mergePatch(resources.nodes, { name }, { spec: { taints: null } });
    }
  });
});

describe('the worker may', () => {
  test.each<{ what: string; patch: object }>([
    {
      what: 'cordon a node, and remove who uncordoned it',
      patch: {
        metadata: { annotations: { 'nodemaintenance.k8s.io/uncordoned-by': null } },
        spec: { unschedulable: true },
      },
    },
    { what: 'uncordon a node', patch: { spec: { unschedulable: false } } },
    {
      what: 'add the annotations against autoscalers',
      patch: { metadata: { annotations: againstAutoscalers('true') } },
    },
    { what: 'remove them', patch: { metadata: { annotations: againstAutoscalers(null) } } },
  ])('$what', async ({ patch }) => {
    expect(await patched(patch)).toMatchObject({ metadata: { name } });
  });

  test('ask for the reboot of the boot that runs, and remove what the reboot has fulfilled', async () => {
    const valued = (value: string | null) =>
      Object.fromEntries([RebootAnnotation.Required, RebootAnnotation.Started].map((key) => [key, value]));
    await c.admin.mergePatch(resources.nodes, { name }, { metadata: { annotations: valued('boot-1') } });
    const requested = { [RebootAnnotation.Requested]: 'boot-1' };
    expect(await patched({ metadata: { annotations: requested } })).toMatchObject({
      metadata: { annotations: requested },
    });
    const removed = { ...valued(null), [RebootAnnotation.Requested]: null };
    const { metadata } = await patched({ metadata: { annotations: removed } });
    expect(metadata.annotations).not.toHaveProperty([RebootAnnotation.Requested]);
    expect(metadata.annotations).not.toHaveProperty([RebootAnnotation.Required]);
  });

  test('add and remove the readiness taint', async () => {
    const others = async () =>
      ((await c.node(name)).spec.taints ?? []).filter(({ key }) => key !== ready.key);
    // The taint of an uncordoned node is removed a moment later, by another controller.
    const { spec } = await eventually('the taint to be added', async () =>
      patched({ spec: { taints: [...(await others()), ready] } }),
    );
    expect(spec.taints).toContainEqual(expect.objectContaining(ready));
    await eventually('the taint to be removed', async () => patched({ spec: { taints: await others() } }));
  });

  test.each(['MaintenanceInProgress', 'DrainInProgress', 'Drained', 'readiness.k8s.io/GatesReady'])(
    'report condition %s',
    async (type) => {
      const { status } = await applied(type);
      expect(status?.conditions?.map((one) => one.type)).toContain(type);
    },
  );
});

test('a node of nearly the maximum size can be cordoned: the policy stays within its budget', async () => {
  const large = await c.nodeNamed('large');
  const text = 'x'.repeat(200);
  const images = Array.from({ length: 500 }, (_, i) => ({
    names: Array.from({ length: 5 }, (_name, j) => `registry.example.com/${text}/${i}-${j}`),
    sizeBytes: 1,
  }));
  const annotations = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`example.com/${i}`, text]));
  const patch = { metadata: { annotations }, status: { images } };
  await c.admin.mergePatch(resources.nodes, { name: large }, patch, { subresource: 'status' });
  const cordon = { spec: { unschedulable: true } };
  expect(await worker.mergePatch(resources.nodes, { name: large }, cordon)).toMatchObject(cordon);
});

test('other clients are not restricted', async () => {
  const labels = { 'example.com/rack': 'r1' };
  const { metadata } = await c.admin.mergePatch(resources.nodes, { name }, { metadata: { labels } });
  expect(metadata.labels).toMatchObject(labels);
});
