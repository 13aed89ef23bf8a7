import type { DrainStep, NodeMaintenanceActivities } from '../../../activities/contract.ts';
import { NodeAgents } from '../../../activities/leases/nodeAgents.ts';
import { defaultResyncMs } from '../../../activities/reconcile.ts';
import type { KubeObject, Pod } from '../../../api/core.ts';
import { AGENT_LEASE_NAMESPACE, AGENT_SERVICE_ACCOUNT, SYSTEM_NAMESPACE } from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { type Resource, resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { activitiesOn, performed, refOf, started } from '../../kit/activity.ts';
import { liveAgent, statics } from '../../kit/builders.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { evacuationControllerOn } from '../../kit/evacuationController.ts';
import { eventually } from '../../kit/eventually.ts';
import { mirrorPodOn, PlayedAgent } from '../../kit/nodeAgent.ts';
import { remove } from '../../kit/reset.ts';
import { roles, serviceAccounts } from '../../kit/resources.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let acts: NodeMaintenanceActivities;
let flushEvents: () => Promise<void>;
let stopController: () => Promise<void>;
const playing = new AbortController();
const agents: Promise<void>[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'static' });
  ({ activities: acts, flushEvents } = activitiesOn(c));
  stopController = evacuationControllerOn(c);
});

afterAll(async () => {
  playing.abort();
  await Promise.all(agents);
  await stopController?.();
  await c?.close();
  await releaseSandbox(sandbox);
});

function plays(agent: PlayedAgent): void {
  agents.push(agent.run(playing.signal));
}

const draining = (nodes: string[]) =>
  c.applied(c.maintenance({ name: c.named('nm'), nodes, stage: 'Drain' }));

/** Drains tier by tier, as the workflow does, and returns the positions of the tiers. */
async function drained(maintenance: NodeMaintenance): Promise<number[]> {
  const positions: number[] = [];
  for (let position = 0; ; ) {
    const step: DrainStep = await performed(() => acts.drain(refOf(maintenance), position));
    if (step.kind !== 'TierDrained') {
      expect(step.kind).toBe('Drained');
      return positions;
    }
    ({ position } = step);
    positions.push(position);
  }
}

const drainedCondition = async ({ metadata }: NodeMaintenance) =>
  (await c.statusOf(metadata.name)).conditions.find(({ type }) => type === 'Drained');

const eventuallyCondition = (maintenance: NodeMaintenance, wanted: object) =>
  eventually(`Drained: ${JSON.stringify(wanted)}`, async () =>
    expect(await drainedCondition(maintenance)).toMatchObject(wanted),
  );

const nodeStatusOf = async ({ metadata }: NodeMaintenance) =>
  (await c.statusOf(metadata.name)).nodeStatuses[0];

const nameOf = ({ metadata }: Pod) => `${metadata.namespace}/${metadata.name}`;

test('static pods are evacuated by the agent of their node after all others, tier by tier; the control plane stays', async () => {
  const node = await c.nodeNamed('n');
  const agent = new PlayedAgent(c, node);
  await agent.reports();
  const app = await c.podOn(node);
  const critical = await mirrorPodOn(c, node, { priorityClassName: 'system-node-critical' });
  const proxy = await mirrorPodOn(c, node);
  const etcd = await mirrorPodOn(c, node, { labels: { component: 'etcd' } });
  const itself = await mirrorPodOn(c, node, {
    labels: { 'app.kubernetes.io/name': 'node-maintenance-agent' },
  });
  // The admission of the apiserver resolves the class of a mirror pod as of any other.
  expect([critical.spec.priority, proxy.spec.priority]).toEqual([2_000_001_000, 0]);
  plays(agent);
  const applied = await draining([node]);
  expect(await drained(applied)).toEqual([8, 10]);
  expect(agent.stopped).toEqual([proxy, critical].map(({ metadata }) => metadata.name));
  await c.eventuallyGone(app);
  expect(
    c
      .podsOf(node)
      .map(({ metadata }) => metadata.name)
      .toSorted(),
  ).toEqual([etcd, itself].map(({ metadata }) => metadata.name).toSorted());
  expect(await c.statusOf(applied.metadata.name)).toMatchObject({
    podsRemaining: 1,
    drainTier: { number: 3, total: 3 },
    nodeStatuses: [
      {
        agentVersion: '1.2.3',
        agentCapabilities: ['reboot', 'static-pods'],
        drainMessage: `Drained, left running: ${nameOf(etcd)}.`,
        podsPeak: 3,
        podsPendingEvacuation: 0,
        podsEvacuating: 0,
      },
    ],
  });
  expect(await drainedCondition(applied)).toMatchObject({
    status: 'True',
    reason: 'StaticPodsRemain',
    message: `Static pods keep running: ${nameOf(etcd)} (part of the control plane, without consent: to stop it, too, set the annotation nodemaintenance.k8s.io/evacuate-control-plane: "true" in its manifest).`,
  });
  await flushEvents();
  expect(await c.eventsAbout(applied)).toEqual(
    expect.arrayContaining([
      'TierDrained: Tier 2 of 3 is drained on 1 node; tier 3 is next.',
      expect.stringMatching(/^StaticPodsRemain: 1 static pod keeps running: .*without consent/),
    ]),
  );
});

test('the control plane is evacuated by consent', async () => {
  const node = await c.nodeNamed('n');
  const agent = new PlayedAgent(c, node);
  await agent.reports();
  const etcd = await mirrorPodOn(c, node, {
    labels: { component: 'etcd' },
    annotations: { 'nodemaintenance.k8s.io/evacuate-control-plane': 'true' },
  });
  plays(agent);
  const applied = await draining([node]);
  await drained(applied);
  expect(agent.stopped).toEqual([etcd.metadata.name]);
  expect(await drainedCondition(applied)).toMatchObject({ status: 'True', reason: 'AllPodsTerminated' });
});

test('an Evacuation names the agent and its node, and is removed when the pod has gone', async () => {
  const node = await c.nodeNamed('n');
  const agent = new PlayedAgent(c, node);
  await agent.reports();
  const proxy = await mirrorPodOn(c, node, { labels: { app: 'proxy' } });
  const applied = await draining([node]);
  const { position } = (await performed(() => acts.drain(refOf(applied), 0))) as { position: number };
  const drain = started(() => acts.drain(refOf(applied), position));
  const evacuation = await c.eventuallyEvacuating(proxy);
  expect(evacuation.metadata.labels).toEqual({ app: 'proxy', 'nodemaintenance.k8s.io/node': node });
  expect(evacuation.spec.evacuators).toEqual([
    { evacuatorClass: 'kubelet.k8s.io', priority: 10_000, role: 'controller' },
  ]);
  await c.eventuallyStatus(applied.metadata.name, 'the static pod is evacuating', (status) =>
    expect(status.nodeStatuses[0]).toMatchObject({
      podsEvacuating: 1,
      drainTargets: expect.arrayContaining([statics(1_000_000_000)]),
    }),
  );
  plays(agent);
  expect(await drain.ended).toMatchObject({ kind: 'Drained' });
  await eventually('the Evacuation to be gone', async () =>
    expect(await c.evacuationOf(proxy)).toBeUndefined(),
  );
});

test('a drain does not wait for an agent that does not find the folder of static pods', async () => {
  const node = await c.nodeNamed('n');
  await new PlayedAgent(c, node, 'reboot').reports();
  const proxy = await mirrorPodOn(c, node);
  const applied = await draining([node]);
  await drained(applied);
  expect(await drainedCondition(applied)).toMatchObject({
    status: 'True',
    reason: 'StaticPodsRemain',
    message: `Static pods keep running: ${nameOf(proxy)} (the node agent of node ${node} cannot stop static pods, because it does not find their folder: set its --static-pod-path (STATIC_POD_PATH) to the staticPodPath of the kubelet).`,
  });
  expect(await nodeStatusOf(applied)).toMatchObject({ agentVersion: '1.2.3', agentCapabilities: ['reboot'] });
  expect(await c.evacuationOf(proxy)).toBeUndefined();
});

test('a drain continues without an agent that dies, and back when it returns', async () => {
  const node = await c.nodeNamed('n');
  const agent = new PlayedAgent(c, node);
  await agent.reports();
  const proxy = await mirrorPodOn(c, node);
  const applied = await draining([node]);
  const { position } = (await performed(() => acts.drain(refOf(applied), 0))) as { position: number };
  const drain = started(() => acts.drain(refOf(applied), position));
  await c.eventuallyEvacuating(proxy);
  await eventuallyCondition(applied, { status: 'False', reason: 'Draining' });
  expect((await nodeStatusOf(applied))?.agentVersion).toBe('1.2.3');
  const since = await agent.dies();
  expect(await drain.ended).toMatchObject({ kind: 'Drained' });
  expect(await drainedCondition(applied)).toMatchObject({
    status: 'True',
    reason: 'StaticPodsRemain',
    message: `Static pods keep running: ${nameOf(proxy)} (the node agent has not reported from node ${node} since ${since}: check that it runs there).`,
  });
  expect(await nodeStatusOf(applied)).not.toHaveProperty('agentVersion');
  const kept = started(() => acts.keepDrained(refOf(applied)));
  await agent.reports();
  // Until it responds to the Evacuation, which is older than its return, it may be named as what blocks the pod.
  await eventuallyCondition(applied, { status: 'False' });
  expect((await nodeStatusOf(applied))?.agentVersion).toBe('1.2.3');
  plays(agent);
  await eventuallyCondition(applied, { status: 'True', reason: 'AllPodsTerminated' });
  expect(agent.stopped).toEqual([proxy.metadata.name]);
  await kept.cancelled();
});

test('a drain leaves the node agent running, which is a DaemonSet pod of the installation', async () => {
  const node = await c.nodeNamed('n');
  const key = { namespace: SYSTEM_NAMESPACE, name: AGENT_SERVICE_ACCOUNT };
  const isInstalled = (await c.admin.get(serviceAccounts, key)) !== undefined;
  if (!isInstalled) await c.admin.create(serviceAccounts, { metadata: key });
  const pod = { namespace: SYSTEM_NAMESPACE, name: c.named('agent') };
  const spec = {
    nodeName: node,
    serviceAccountName: AGENT_SERVICE_ACCOUNT,
    containers: [{ name: 'main', image: 'fake' }],
  };
  try {
    await c.admin.create(resources.pods as Resource, { metadata: pod, spec } as KubeObject);
    await eventually('the agent in the informer', () => expect(c.podsOf(node)).toHaveLength(1));
    const applied = await draining([node]);
    expect(await drained(applied)).toEqual([]);
    expect(await drainedCondition(applied)).toMatchObject({ status: 'True', reason: 'AllPodsTerminated' });
    expect(c.podsOf(node)[0]?.metadata.deletionTimestamp).toBeUndefined();
  } finally {
    await remove(c.admin, resources.pods as Resource, pod);
    if (!isInstalled) await remove(c.admin, serviceAccounts, key);
  }
});

test('a drain that may not read the Leases of agents continues without them, and says so', async () => {
  const key = { namespace: AGENT_LEASE_NAMESPACE, name: 'node-maintenance-worker' };
  const allow = (...verbs: string[]) =>
    c.admin.mergePatch(roles, key, {
      rules: [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs }],
    });
  const node = await c.nodeNamed('n');
  await new PlayedAgent(c, node).reports();
  const proxy = await mirrorPodOn(c, node);
  const agentLeases = { namespace: AGENT_LEASE_NAMESPACE, name: node };
  await allow('list');
  try {
    await eventually('the right to be gone', () =>
      expect(c.cluster.kube.get(resources.leases, agentLeases)).rejects.toThrow('forbidden'),
    );
    const applied = await draining([node]);
    await drained(applied);
    const { message } = (await drainedCondition(applied)) ?? {};
    expect(message).toContain(`${nameOf(proxy)} (the worker may not read the Lease of the node agent`);
    expect(message).toContain('apply deploy/rbac again');
    expect(await c.evacuationOf(proxy)).toBeUndefined();
  } finally {
    await allow('get', 'list');
  }
});

test('the Lease of a node is read every ten seconds at most, however often it is asked for', async () => {
  const node = await c.nodeNamed('n');
  await new PlayedAgent(c, node).reports();
  const known = new NodeAgents(c.cluster.kube, defaultResyncMs);
  const startedAt = performance.now();
  c.requests.clear();
  for (let pass = 0; pass < 50; pass++) {
    await Promise.all(
      [true, false].map((hasStaticPods) =>
        known.refresh([
          { name: node, hasStaticPods },
          { name: `${node}.${'n'.repeat(64)}`, hasStaticPods },
        ]),
      ),
    );
    expect(known.of(node)).toEqual(liveAgent);
  }
  const reads = c.requests.count('get leases.coordination.k8s.io');
  expect(reads).toBeLessThanOrEqual(1 + (performance.now() - startedAt) / defaultResyncMs);
  known.forget(node);
  expect(known.of(node)).toEqual({ kind: 'None' });
});
