import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { KubeObject, Node, Pod } from '../../api/core.ts';
import { NODE_READINESS, READINESS_CONDITION, READINESS_TAINT } from '../../api/names.ts';
import { TASK_QUEUE, workflowIdOf } from '../kit/temporalNames.ts';
import type { NodeReadiness, ObservedNodeReadiness } from '../../api/nodeReadiness.ts';
import { Informer } from '../../kube/informer.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { type RawPod, type Resource, resources } from '../../kube/resources.ts';
import { trimNode, trimPod, trimNodeReadiness } from '../../kube/transform.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { silentLog as log } from '../kit/cluster.ts';
import { eventually, eventuallyHolds } from '../kit/eventually.ts';
import { gate, ofPool, ReadinessPolicies, readinessPolicy } from '../kit/readiness.ts';
import {
  controllers,
  controllersLease,
  startAdmission,
  startNextWorker,
  startWorker,
  type WorkerProcess,
} from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

let world: World;
let worker: WorkerProcess;
let admission: WorkerProcess;
let policies: ReadinessPolicies;
let nodes: Informer<Node>;
let pods: Informer<Pod, RawPod>;
let readinesses: Informer<ObservedNodeReadiness, NodeReadiness>;
const watching = new AbortController();
const agents = ['network', 'storage', 'devices'];
const pool = 'gated';
/** Nodes that were created with the taint: the first version that the watch delivered has it. */
const createdTainted = new Set<string>();

beforeAll(async () => {
  world = await createWorld({ nodes: 1 });
  worker = start();
  admission = startAdmission(world.sandbox);
  await Promise.all([worker.ready(), admission.ready()]);
  const { kube } = world;
  policies = new ReadinessPolicies(kube);
  nodes = new Informer({ kube, resource: resources.nodes, transform: trimNode, log });
  pods = new Informer({ kube, resource: resources.pods, transform: trimPod, log });
  readinesses = new Informer({
    kube,
    resource: resources.nodeReadinesses,
    transform: trimNodeReadiness,
    log,
  });
  nodes.subscribe(({ type, object: { metadata } }) => {
    if (type === 'Added' && isTainted(metadata.name)) createdTainted.add(metadata.name);
  });
  for (const informer of [nodes, pods, readinesses]) {
    informer.start(watching.signal);
    await informer.synced();
  }
});

afterAll(async () => {
  watching.abort();
  await worker?.kill();
  await admission?.kill();
  await world?.close();
});

const env = { READINESS_GRACE: '5' };
const start = () => startWorker(world.sandbox, { ...controllers, env });
const startNext = () => startNextWorker(world, { ...controllers, env });

/** Kills the worker as soon as a watch shows that a condition is met. */
async function killedWhen(isMet: () => boolean): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const check = () => {
    if (isMet()) resolve(worker.kill());
  };
  const unsubscribe = [nodes, pods, readinesses].map((informer) => informer.subscribe(check));
  await promise;
  for (const stop of unsubscribe) stop();
}

function isTainted(node: string): boolean {
  return nodes.get(node)?.spec.taints?.some(({ key }) => key === READINESS_TAINT.key) === true;
}

function podOf(app: string, node: string): Pod | undefined {
  return pods.list().find(({ metadata, spec }) => metadata.labels?.['app'] === app && spec.nodeName === node);
}

const runs = (app: string, node: string) => podOf(app, node)?.status.ready === true;

/** Returns what kubectl and autoscalers see of a node. */
function reported(node: string): unknown {
  const { readinessGates = [] } = readinesses.get(node)?.spec ?? {};
  const { gates, conditions = [] } = readinesses.get(node)?.status ?? {};
  const condition = nodes.get(node)?.status?.conditions?.find(({ type }) => type === READINESS_CONDITION);
  return { written: readinessGates.length, gates, reasons: [conditions[0]?.reason, condition?.reason] };
}

const allReady = { written: 3, gates: '3/3', reasons: ['GatesReady', 'GatesReady'] };

const eventuallyReported = (node: string, expected: object) =>
  eventually(`the report on ${node}`, () => expect(reported(node)).toEqual(expected));

const eventuallyTainted = (node: string, want: boolean) =>
  eventually(`node ${node} ${want ? 'to have' : 'to lose'} the taint`, () =>
    expect(isTainted(node)).toBe(want),
  );

const eventuallyRuns = (app: string, node: string) =>
  eventuallyHolds(`${app} runs on ${node}`, () => runs(app, node), Boolean);

/** Sets a pod's readiness as a kubelet does when a probe fails or passes again. */
async function probed(app: string, node: string, ready: boolean): Promise<void> {
  const { namespace = '', name = '' } = podOf(app, node)?.metadata ?? {};
  const status = { conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] };
  await world.kube.mergePatch(resources.pods, { namespace, name }, { status }, { subresource: 'status' });
}

function workload(name: string, tolerations: object[]): object {
  const template = {
    metadata: { labels: { app: name } },
    spec: { nodeSelector: { pool }, tolerations, containers: [{ name: 'main', image: 'none' }] },
  };
  return {
    metadata: { name, namespace: 'default' },
    spec: { selector: { matchLabels: { app: name } }, template },
  };
}

describe('With the worker as a process of its own', () => {
  const first = Array.from({ length: 5 }, (_, i) => `gated-${i}`);

  test('nodes are created with the taint, and accept pods when their agents run', async () => {
    const gates = agents.map((name) => gate({ name, namespace: 'default' }));
    await policies.applied(readinessPolicy('gated', ofPool(pool), gates), { pool });
    await world.sandbox.addNodes(first, { pool });
    await eventually('the nodes in the watch', () => expect([...createdTainted].toSorted()).toEqual(first));
    const web = workload('web', []);
    await world.kube.create(resources.daemonSets as Resource, web as KubeObject);
    for (const name of agents) {
      expect(pods.list().filter(({ spec }) => runs('web', spec.nodeName ?? ''))).toEqual([]);
      const agent = workload(name, [{ operator: 'Exists' }]);
      await world.kube.create(resources.daemonSets as Resource, agent as KubeObject);
    }
    for (const node of first) await eventuallyRuns('web', node);
    for (const node of first) await eventuallyReported(node, allReady);
  });
});

describe('A worker that is killed', () => {
  test('before it creates the NodeReadiness of a node: the next one does, and removes the taint', async () => {
    await worker.kill();
    await world.sandbox.addNodes(['late'], { pool });
    for (const app of agents) await eventuallyRuns(app, 'late');
    expect(createdTainted.has('late')).toBe(true);
    expect([isTainted('late'), runs('web', 'late'), readinesses.get('late')]).toEqual([
      true,
      false,
      undefined,
    ]);
    worker = await startNext();
    await eventuallyRuns('web', 'late');
    await eventuallyReported('late', allReady);
  });

  test.each([
    {
      when: 'when the NodeReadiness exists',
      node: 'made',
      isSo: (node: string) => readinesses.get(node) !== undefined,
    },
    {
      when: 'when the gates are written',
      node: 'written',
      isSo: (node: string) => readinesses.get(node)?.spec.readinessGates.length === agents.length,
    },
    {
      when: 'when the agents are Ready',
      node: 'ready',
      isSo: (node: string) => agents.every((app) => runs(app, node)),
    },
    {
      when: 'when the taint is gone, before that is reported',
      node: 'gone',
      isSo: (node: string) => nodes.get(node) !== undefined && !isTainted(node),
    },
  ])('$when: the next one finishes it', async ({ node, isSo }) => {
    const killed = killedWhen(() => isSo(node));
    await world.sandbox.addNodes([node], { pool });
    await killed;
    expect(createdTainted.has(node)).toBe(true);
    for (const app of agents) await eventuallyRuns(app, node);
    worker = await startNext();
    await eventuallyRuns('web', node);
    await eventuallyReported(node, allReady);
  });

  test('between the loss of a gate and the taint: the next one adds the taint after the grace period', async () => {
    await policies.applied(readinessPolicy('absent', ofPool('old'), [absent]), { pool: 'old' });
    const isLost = () =>
      readinesses.get('node-1')?.status?.conditions.some(({ reason }) => reason === 'GatesLost') === true;
    const killed = killedWhen(isLost);
    await world.kube.mergePatch(
      resources.nodes,
      { name: 'node-1' },
      { metadata: { labels: { pool: 'old' } } },
    );
    await killed;
    expect(isTainted('node-1')).toBe(false);
    worker = await startNext();
    await eventuallyTainted('node-1', true);
    await policies.dropped('absent');
    await eventuallyTainted('node-1', false);
  });
});

const absent = gate({ name: 'absent', namespace: 'default' });

test('a node that completes while the leader is dead is uncordoned behind its taint', async () => {
  const node = 'gated-1';
  await worker.kill();
  // The Lease of a leader that has just died; the next one respects it for this long.
  const renewTime = microTime(world.kube.now());
  const spec = { holderIdentity: 'dead', leaseDurationSeconds: 600, renewTime };
  await world.kube.mergePatch(resources.leases, controllersLease, { spec });
  worker = start();
  await worker.ready();
  const input = { name: 'leaderless', nodes: [node], stage: 'Cordon' };
  const run = await world.temporal.workflow.start('nodeMaintenance', {
    taskQueue: TASK_QUEUE,
    workflowId: workflowIdOf('leaderless'),
    args: [input],
  });
  await eventuallyHolds('the cordon', () => nodes.get(node)?.spec.unschedulable === true, Boolean);
  await probed('network', node, false);
  const observed = nodeVersions(node);
  await run.signal('cancel');
  await eventuallyHolds('the node to be uncordoned', observed.isSchedulable, Boolean);
  expect(observed.wasInService()).toBe(false);
  const { uid = '' } = (await world.kube.get(resources.leases, controllersLease))?.metadata ?? {};
  await world.kube.delete(resources.leases, controllersLease, { uid });
  await eventuallyReported(node, { written: 3, gates: '2/3', reasons: ['GatesNotReady', 'GatesNotReady'] });
  expect(readinesses.get(node)?.status?.losses).toBe(0);
  await probed('network', node, true);
  await eventuallyTainted(node, false);
});

/** Follows a node in the watch. */
function nodeVersions(node: string) {
  let wasInService = false;
  const isSchedulable = () => nodes.get(node)?.spec.unschedulable !== true;
  nodes.subscribe(({ object }) => {
    if (object.metadata.name === node) wasInService ||= isSchedulable() && !isTainted(node);
  });
  return { isSchedulable, wasInService: () => wasInService };
}

test('the taint is added and removed across a restart of the apiserver', async () => {
  const node = 'gated-0';
  const server = world.sandbox.server('kube-apiserver');
  await probed('network', node, false);
  await eventually('the loss to be reported', () =>
    expect(reported(node)).toMatchObject({ gates: '2/3', reasons: ['GatesLost', 'GatesLost'] }),
  );
  await server.kill();
  await server.start();
  await eventuallyTainted(node, true);
  await server.kill();
  await server.start();
  await eventually('the pod to be patched', () => probed('network', node, true));
  await eventuallyTainted(node, false);
  await eventuallyReported(node, allReady);
});

test('the documented examples: a policy, and a gate that a user adds and removes', async () => {
  const node = 'worker-8';
  const kubectl = (args: string[], object?: object) =>
    succeeds(kubectlOf(world.sandbox)(['apply', '-f', ...args], object));
  const example = (name: string) => fileURLToPath(new URL(`../../docs/examples/${name}`, import.meta.url));
  const eventuallyOwned = (want: object) =>
    eventually('the owners of the gates', () => {
      const owners = [...(readinesses.get(node)?.gateOwners ?? [])];
      expect(Object.fromEntries(owners.map(([name, by]) => [name, [...by.keys()]]))).toEqual(want);
    });
  // An apiserver that has just started answers 503 until it has read the schemas.
  await eventually('the policy to be applied', () => kubectl([example('readiness-policy.yaml')]));
  await policies.inEffect({ 'example.com/pool': 'workers' });
  await world.sandbox.addNodes([node], { 'example.com/pool': 'workers' });
  const ofPolicy = ['node-readiness-policy/agents'];
  const own = { network: ofPolicy, storage: ofPolicy, logs: ofPolicy };
  await eventuallyOwned(own);
  const asJane = ['--server-side', '--field-manager=jane'];
  await kubectl([example('own-gate.yaml'), ...asJane]);
  await eventuallyOwned({ ...own, 'jane/burn-in': ['jane'] });
  const { apiVersion, kind } = NODE_READINESS;
  const nothing = { apiVersion, kind, metadata: { name: node }, spec: { readinessGates: [] } };
  await kubectl(['-', ...asJane], nothing);
  await eventuallyOwned(own);
  expect(isTainted(node)).toBe(true);
  await policies.dropped('agents');
  await eventuallyOwned({});
  await eventuallyTainted(node, false);
});

test('with gates switched off, the worker ignores them, and warns of the nodes that wait for them', async () => {
  await worker.stop();
  worker = startWorker(world.sandbox, { ...controllers, env: { ...env, READINESS_GATES: 'false' } });
  await eventuallyHolds(
    'the warning',
    () => worker.log(),
    (text) => text.includes('Readiness gates are disabled'),
  );
  await policies.inEffect({ pool });
  await world.sandbox.addNodes(['ignored'], { pool });
  for (const app of agents) await eventuallyRuns(app, 'ignored');
  await eventuallyTainted('ignored', true);
  expect(readinesses.get('ignored')).toBeUndefined();
});
