import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../api/core.ts';
import {
  AGENT_COMPONENT,
  AGENT_LEASE_NAMESPACE,
  AGENT_SERVICE_ACCOUNT,
  EVACUATION_NODE_LABEL,
  RebootAnnotation,
  SHUTDOWN_BOOT_ID_ANNOTATION,
  SHUTDOWN_MAINTENANCE_PREFIX,
  SYSTEM_NAMESPACE,
} from '../../api/names.ts';
import { connectKube, type Kube } from '../../kube/client.ts';
import { type KubeEvent, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubeconfigOf } from '../kit/account.ts';
import { nodeToken, withToken } from '../kit/agent.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { remove } from '../kit/reset.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

// The policies agent-*.nodemaintenance.k8s.io: what the token of a node agent may do to its own node, and to others.

let sandbox: Sandbox;
let c: TestCluster;
let dir: string;
/** The agent of `own`, and one whose token is bound to no node. */
let agent: Kube;
let unbound: Kube;
let own: string;
let other: string;

const account = { namespace: SYSTEM_NAMESPACE, name: AGENT_SERVICE_ACCOUNT };
const connected = (kubeconfig: string) => connectKube({ kubeconfig, userAgent: 'attacker', log: silentLog });

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'agent-policies' });
  dir = await mkdtemp(join(tmpdir(), 'nm-agent-'));
  [own, other] = [await c.nodeNamed('own'), await c.nodeNamed('other')];
  const file = join(dir, 'agent');
  await writeFile(file, withToken(sandbox.kubeconfig, await nodeToken(c.admin, own)));
  agent = connected(file);
  unbound = connected(await kubeconfigOf(sandbox, account, dir));
  await eventually('the policies to be known', () =>
    expect(annotated(agent, other, { probe: 'x' })).rejects.toThrow(/may only change its own node/),
  );
});

afterAll(async () => {
  await agent?.close();
  await unbound?.close();
  for (const node of [own, other])
    await remove(c.admin, resources.nodeMaintenances, { name: SHUTDOWN_MAINTENANCE_PREFIX + node });
  await c?.close();
  await rm(dir, { recursive: true, force: true });
  await releaseSandbox(sandbox);
});

const annotated = (kube: Kube, name: string, annotations: Record<string, string | null>) =>
  kube.mergePatch(resources.nodes, { name }, { metadata: { annotations } });

describe('of nodes, an agent', () => {
  const reason = { [RebootAnnotation.Required]: 'kernel 6.12' };

  test('says of its own that it needs a reboot, that one begins, and no more', async () => {
    await annotated(agent, own, reason);
    await annotated(agent, own, { [RebootAnnotation.Required]: null });
    await annotated(agent, own, { [RebootAnnotation.Started]: 'boot' });
    await annotated(agent, own, { [RebootAnnotation.Started]: null });
  });

  test.each<{ what: string; patch: Record<string, unknown> }>([
    { what: 'labels', patch: { metadata: { labels: { tier: 'secure' } } } },
    { what: 'taints', patch: { spec: { taints: [{ key: 'x', effect: 'NoExecute' }] } } },
    { what: 'unschedulable', patch: { spec: { unschedulable: true } } },
    { what: 'finalizers', patch: { metadata: { finalizers: ['example.com/x'] } } },
    { what: 'other annotations', patch: { metadata: { annotations: { 'example.com/x': 'y' } } } },
    {
      what: 'the request for a reboot',
      patch: { metadata: { annotations: { [RebootAnnotation.Requested]: 'boot' } } },
    },
  ])('may not change $what', async ({ patch }) => {
    await expect(agent.mergePatch(resources.nodes, { name: own }, patch)).rejects.toThrow(
      // Of two policies that deny a request, the apiserver names one.
      /may only change the annotations reboot-required and reboot-started|may not delete node/,
    );
  });

  test('may not change the status', async () => {
    const patch = { status: { conditions: [] } };
    await expect(
      agent.mergePatch(resources.nodes, { name: own }, patch, { subresource: 'status' }),
    ).rejects.toThrow(/forbidden/);
  });

  test('may not change another one', async () => {
    await expect(annotated(agent, other, reason)).rejects.toThrow(/may only change its own node/);
  });

  test('may change none with a token that is bound to no node', async () => {
    await expect(annotated(unbound, own, reason)).rejects.toThrow(/must be bound to its node/);
  });
});

describe('of Leases, an agent', () => {
  const lease = (name: string) => ({
    metadata: { name, namespace: AGENT_LEASE_NAMESPACE },
    spec: { holderIdentity: 'x' },
  });

  test('writes its own', async () => {
    await agent.create(resources.leases, lease(own));
    await agent.mergePatch(resources.leases, lease(own).metadata, { spec: { holderIdentity: 'y' } });
  });

  test('may not write that of another node', async () => {
    await expect(agent.create(resources.leases, lease(other))).rejects.toThrow(/may only write Lease/);
    await c.admin.create(resources.leases, lease(other));
    const patch = { spec: { holderIdentity: 'y' } };
    await expect(agent.mergePatch(resources.leases, lease(other).metadata, patch)).rejects.toThrow(
      /may only write Lease/,
    );
    await remove(c.admin, resources.leases, lease(other).metadata);
  });

  test('may not write any in another namespace', async () => {
    for (const namespace of ['kube-node-lease', 'kube-node-maintenance', SYSTEM_NAMESPACE])
      await expect(
        agent.create(resources.leases, { ...lease(own), metadata: { name: own, namespace } }),
      ).rejects.toThrow(/forbidden/);
  });

  test('may write none with a token that is bound to no node', async () => {
    await expect(unbound.create(resources.leases, lease('x'))).rejects.toThrow(/must be bound to its node/);
  });
});

describe('of Evacuations, an agent', () => {
  const evacuation = async (
    node: string,
    { label = node, activeEvacuatorClass = 'kubelet.k8s.io', pod = `web-${node}` } = {},
  ) => {
    const uid = crypto.randomUUID();
    const made = c.evacuation({
      metadata: { name: pod, namespace: c.namespace, uid },
      spec: {},
      status: { ready: true },
    });
    const labels = { [EVACUATION_NODE_LABEL]: label };
    const stored = { ...made, metadata: { ...made.metadata, labels } };
    const { metadata } = await c.admin.create(resources.evacuations, stored);
    const key = { namespace: c.namespace, name: metadata.name };
    const status = { activeEvacuatorClass };
    await c.admin.mergePatch(resources.evacuations, key, { status }, { subresource: 'status' });
    return key;
  };
  const reported = (kube: Kube, key: { namespace: string; name: string }, status: object) =>
    kube.mergePatch(resources.evacuations, key, { status }, { subresource: 'status' });
  const progress = {
    activeEvacuatorCompleted: true,
    evacuationProgressTimestamp: '2026-01-01T00:00:00Z',
    expectedEvacuationFinishTime: '2026-01-01T00:00:00Z',
    message: 'web is terminating',
  };

  test('reports on those of static pods of its node', async () => {
    await reported(agent, await evacuation(own), progress);
  });

  test.each<{ what: string; status: object }>([
    { what: 'the active evacuator', status: { activeEvacuatorClass: 'x.example.com' } },
    { what: 'the cancellation policy', status: { evacuationCancellationPolicy: 'Forbid' } },
    { what: 'the counter', status: { failedEvictionCounter: 7 } },
  ])('may not change $what', async ({ status }) => {
    await expect(reported(agent, await evacuation(own), status)).rejects.toThrow(
      /a node agent may only change/,
    );
  });

  test('may not report on those of another node, whatever their label says', async () => {
    await expect(reported(agent, await evacuation(other), progress)).rejects.toThrow(/of its own node/);
    const labelled = await evacuation(other, { label: own });
    await expect(reported(agent, labelled, progress)).rejects.toThrow(/of its own node/);
  });

  test('may not report for another evacuator', async () => {
    const key = await evacuation(own, { activeEvacuatorClass: 'migrate.example.com' });
    await expect(reported(agent, key, progress)).rejects.toThrow(/whose active evacuator is kubelet.k8s.io/);
  });

  test('may neither change, create nor delete one', async () => {
    const key = await evacuation(own);
    const labels = { [EVACUATION_NODE_LABEL]: other };
    await expect(agent.mergePatch(resources.evacuations, key, { metadata: { labels } })).rejects.toThrow(
      /forbidden/,
    );
    await expect(
      agent.create(resources.evacuations, {
        ...(await c.admin.get(resources.evacuations, key)),
        metadata: { ...key, name: 'x' },
      } as never),
    ).rejects.toThrow(/forbidden/);
    await expect(agent.delete(resources.evacuations, key, { uid: 'x' })).rejects.toThrow(/forbidden/);
  });
});

describe('of NodeMaintenances, an agent', () => {
  const shutdown = (
    differs: { name?: string; nodes?: string[]; annotations?: Record<string, string> } = {},
  ) => {
    const { name = SHUTDOWN_MAINTENANCE_PREFIX + own, nodes = [own] } = differs;
    const made = c.maintenance({ name, nodes, stage: 'Idle', reason: 'shutdown' });
    const annotations = differs.annotations ?? { [SHUTDOWN_BOOT_ID_ANNOTATION]: 'boot-1' };
    return { ...made, metadata: { ...made.metadata, annotations } };
  };
  const created = (object: KubeObject) =>
    agent.create(resources.nodeMaintenances, object as never, { dryRun: true });

  test('may not create one of another name', async () => {
    for (const name of ['rack-7', SHUTDOWN_MAINTENANCE_PREFIX + other])
      await expect(created(shutdown({ name }))).rejects.toThrow(
        /may only create and change NodeMaintenance shutdown-/,
      );
  });

  test('may not select other nodes', async () => {
    for (const nodes of [[other], [own, other]])
      await expect(created(shutdown({ nodes }))).rejects.toThrow(/may only maintain its own node/);
    const byLabel = shutdown();
    const terms = [{ matchExpressions: [{ key: 'kubernetes.io/os', operator: 'Exists' as const }] }];
    await expect(
      created({
        ...byLabel,
        spec: { ...byLabel.spec, nodeSelector: { nodeSelectorTerms: terms } },
      } as KubeObject),
    ).rejects.toThrow(/may only maintain its own node/);
  });

  test('may not create one without the ID of the boot', async () => {
    await expect(created(shutdown({ annotations: {} }))).rejects.toThrow(/shutdown-boot-id/);
  });

  test('may not change those of users, even of its name', async () => {
    const name = SHUTDOWN_MAINTENANCE_PREFIX + own;
    const foreign = c.maintenance({ name, nodes: [own, other] });
    await c.admin.create(resources.nodeMaintenances, foreign);
    const patch = { spec: { stage: 'Cordon' } };
    await expect(agent.mergePatch(resources.nodeMaintenances, { name }, patch)).rejects.toThrow(
      /may only maintain its own node/,
    );
    await remove(c.admin, resources.nodeMaintenances, { name });
    const rack = (await c.applied(c.maintenance({ nodes: [own] }))).metadata;
    await expect(agent.mergePatch(resources.nodeMaintenances, rack, patch)).rejects.toThrow(
      /may only create and change NodeMaintenance shutdown-/,
    );
  });

  test('may not delete one', async () => {
    const { metadata } = await c.applied(c.maintenance({ nodes: [own] }));
    await expect(
      agent.delete(resources.nodeMaintenances, metadata, { uid: metadata.uid ?? '' }),
    ).rejects.toThrow(/forbidden/);
  });
});

describe('of tokens, an agent', () => {
  const about = (name: string, kind = 'Node') => ({ apiVersion: 'v1', kind, name });

  test('renews its own', async () => {
    const token = await agent.requestNodeToken(account, { node: about(own), expirationSeconds: 3_600 });
    expect(token).toMatch(/^ey/);
  });

  test('may not request one for another node', async () => {
    await expect(
      agent.requestNodeToken(account, { node: about(other), expirationSeconds: 3_600 }),
    ).rejects.toThrow(/may only request tokens that are bound to its own node/);
  });

  test('may not request one for longer than 30 days', async () => {
    await expect(
      agent.requestNodeToken(account, { node: about(own), expirationSeconds: 2_592_001 }),
    ).rejects.toThrow(/at most 30 days/);
  });

  test('may not request one of another account', async () => {
    const worker = { ...account, name: 'node-maintenance-worker' };
    await expect(
      agent.requestNodeToken(worker, { node: about(own), expirationSeconds: 3_600 }),
    ).rejects.toThrow(/forbidden/);
  });

  test('may request none with a token that is bound to no node', async () => {
    await expect(
      unbound.requestNodeToken(account, { node: about(own), expirationSeconds: 3_600 }),
    ).rejects.toThrow(/must be bound to its node/);
  });
});

describe('of Events, an agent', () => {
  const event = (name: string, differs: Partial<KubeEvent> = {}): KubeEvent => ({
    metadata: { name: `${own}.${crypto.randomUUID()}`, namespace: 'default' },
    involvedObject: { apiVersion: 'v1', kind: 'Node', name },
    type: 'Normal',
    reason: 'StaticPodHeld',
    message: 'x',
    count: 1,
    firstTimestamp: '2026-01-01T00:00:00Z',
    lastTimestamp: '2026-01-01T00:00:00Z',
    source: { component: AGENT_COMPONENT },
    reportingComponent: AGENT_COMPONENT,
    reportingInstance: AGENT_COMPONENT,
    ...differs,
  });

  test('writes those about its node', async () => {
    await agent.create(resources.events, event(own));
  });

  test.each<{ what: string; made: () => KubeEvent; want: RegExp }>([
    { what: 'about another node', made: () => event(other), want: /about its own node and its shutdown/ },
    {
      what: 'about another object',
      made: () => event(own, { involvedObject: { apiVersion: 'v1', kind: 'Pod', name: own } }),
      want: /about its own node and its shutdown/,
    },
    {
      what: 'as another component',
      made: () => event(own, { reportingComponent: 'kubelet' }),
      want: /may only write Events as node-maintenance-agent/,
    },
  ])('may not write one $what', async ({ made, want }) => {
    await expect(agent.create(resources.events, made())).rejects.toThrow(want);
  });

  test('counts those that it has written', async () => {
    const { metadata } = await agent.create(resources.events, event(own));
    const key = { namespace: 'default', name: metadata.name };
    const counted = await agent.mergePatch(resources.events, key, { count: 2 });
    expect(counted.count).toBe(2);
  });

  test.each([
    { what: 'of a kubelet', reportingComponent: 'kubelet' },
    { what: 'that names no reporter', reportingComponent: '' },
  ])('may not overwrite one about its node $what', async ({ reportingComponent }) => {
    const foreign = event(own, {
      reason: 'NodeNotReady',
      source: { component: 'kubelet' },
      reportingComponent,
    });
    const { metadata } = await c.admin.create(resources.events, foreign);
    const key = { namespace: 'default', name: metadata.name };
    for (const forged of [
      { message: 'forged' },
      { message: 'forged', reportingComponent: AGENT_COMPONENT, source: { component: AGENT_COMPONENT } },
    ])
      await expect(agent.mergePatch(resources.events, key, forged)).rejects.toThrow(
        /may only write Events as node-maintenance-agent, and change no others/,
      );
    expect(await c.admin.get(resources.events, key)).toMatchObject({ message: 'x', reportingComponent });
  });
});

describe('an agent reads', () => {
  test.each([resources.pods, resources.jobs, resources.maintenanceWindows])(
    'no $plural',
    async (resource) => {
      await expect(agent.list(resource as never)).rejects.toThrow(/forbidden/);
    },
  );
});

test('the token ends with its node', async () => {
  const node = await c.nodeNamed('gone');
  const file = join(dir, 'gone');
  await writeFile(file, withToken(sandbox.kubeconfig, await nodeToken(c.admin, node)));
  const kube = connected(file);
  try {
    expect(await kube.get(resources.nodes, { name: node })).toBeDefined();
    await remove(c.admin, resources.nodes as never, { name: node });
    await eventually('the token to be rejected', () =>
      expect(kube.list(resources.nodes)).rejects.toMatchObject({ kind: 'Unauthorized' }),
    );
  } finally {
    await kube.close();
  }
});
