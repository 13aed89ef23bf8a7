import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { KubeObject, Node, Pod } from '../../api/core.ts';
import {
  NODE_READINESS,
  READINESS_CONDITION,
  READINESS_TAINT,
  SYSTEM_NAMESPACE,
  TASK_QUEUE,
  workflowIdOf,
} from '../../api/names.ts';
import type { NodeReadiness, SeenReadiness } from '../../api/nodeReadiness.ts';
import { Informer } from '../../kube/informer.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { type RawPod, type Resource, resources } from '../../kube/resources.ts';
import { slimNode, slimPod, slimReadiness } from '../../kube/slim.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { silentLog as log } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { eventuallyHolds } from '../kit/holds.ts';
import { gate, ofPool, ReadinessPolicies, readinessPolicy } from '../kit/readiness.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from './world.ts';

let world: World;
let worker: WorkerProcess;
let policies: ReadinessPolicies;
let nodes: Informer<Node>;
let pods: Informer<Pod, RawPod>;
let readinesses: Informer<SeenReadiness, NodeReadiness>;
const watching = new AbortController();
const agents = ['network', 'storage', 'devices'];
const pool = 'gated';
/** Nodes that had the taint in the first version that a watch saw. */
const bornTainted = new Set<string>();

beforeAll(async () => {
  world = await createWorld({ nodes: 1 });
  worker = start();
  await worker.ready();
  const { kube } = world;
  policies = new ReadinessPolicies(kube, world.sandbox);
  nodes = new Informer({ kube, resource: resources.nodes, transform: slimNode, log });
  pods = new Informer({ kube, resource: resources.pods, transform: slimPod, log });
  readinesses = new Informer({ kube, resource: resources.nodeReadinesses, transform: slimReadiness, log });
  nodes.subscribe(({ type, object: { metadata } }) => {
    if (type === 'Added' && isTainted(metadata.name)) bornTainted.add(metadata.name);
  });
  for (const informer of [nodes, pods, readinesses]) {
    informer.start(watching.signal);
    await informer.synced();
  }
});

afterAll(async () => {
  watching.abort();
  await worker?.kill();
  await world?.close();
});

function start(env: Record<string, string> = {}): WorkerProcess {
  return startWorker(world.sandbox, { env: { READINESS_GRACE: '6', ...env } });
}

/** The one that takes over, without the wait for a Lease that nobody renews. */
async function startNext(): Promise<WorkerProcess> {
  const key = { namespace: SYSTEM_NAMESPACE, name: 'node-maintenance-controllers' };
  const { uid = '' } = (await world.kube.get(resources.leases, key))?.metadata ?? {};
  await world.kube.delete(resources.leases, key, { uid });
  return start();
}

/** SIGKILLs the worker in the moment in which a watch shows that something is so. */
async function killedWhen(isSo: () => boolean): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const look = () => {
    if (isSo()) resolve(worker.kill());
  };
  const unsubscribe = [nodes, pods, readinesses].map((informer) => informer.subscribe(look));
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

/** What kubectl and autoscalers are told of a node. */
function told(node: string): unknown {
  const { readinessGates = [] } = readinesses.get(node)?.spec ?? {};
  const { gates, conditions = [] } = readinesses.get(node)?.status ?? {};
  const condition = nodes.get(node)?.status?.conditions?.find(({ type }) => type === READINESS_CONDITION);
  return { written: readinessGates.length, gates, reasons: [conditions[0]?.reason, condition?.reason] };
}

const open = { written: 3, gates: '3/3', reasons: ['GatesReady', 'GatesReady'] };

const eventuallyTold = (node: string, what: object) =>
  eventually(`what is told of ${node}`, () => expect(told(node)).toEqual(what), { within: 60_000 });

const eventuallyTainted = (node: string, want: boolean) =>
  eventually(
    `node ${node} ${want ? 'to have' : 'to lose'} the taint`,
    () => expect(isTainted(node)).toBe(want),
    { within: 60_000 },
  );

const eventuallyRuns = (app: string, node: string) =>
  eventuallyHolds(`${app} runs on ${node}`, () => runs(app, node), Boolean, 60_000);

/** What a kubelet does when a probe fails, or passes again. */
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

  test('nodes are closed from their first version on, and take pods when their agents run', async () => {
    const gates = agents.map((name) => gate({ name, namespace: 'default' }));
    await policies.applied(readinessPolicy('gated', ofPool(pool), gates), { pool });
    await world.sandbox.addNodes(first, { pool });
    await eventually('the nodes in the watch', () => expect([...bornTainted].toSorted()).toEqual(first));
    const web = workload('web', []);
    await world.kube.create(resources.daemonSets as Resource, web as KubeObject);
    for (const name of agents) {
      expect(pods.list().filter(({ spec }) => runs('web', spec.nodeName ?? ''))).toEqual([]);
      const agent = workload(name, [{ operator: 'Exists' }]);
      await world.kube.create(resources.daemonSets as Resource, agent as KubeObject);
    }
    for (const node of first) await eventuallyRuns('web', node);
    for (const node of first) await eventuallyTold(node, open);
  });
});

describe('A worker that is killed', () => {
  test('before the NodeReadiness of a node is made: the node waits for the next one, and not in vain', async () => {
    await worker.kill();
    await world.sandbox.addNodes(['late'], { pool });
    for (const app of agents) await eventuallyRuns(app, 'late');
    expect(bornTainted.has('late')).toBe(true);
    expect([isTainted('late'), runs('web', 'late'), readinesses.get('late')]).toEqual([
      true,
      false,
      undefined,
    ]);
    worker = await startNext();
    await eventuallyRuns('web', 'late');
    await eventuallyTold('late', open);
  });

  test.each([
    {
      when: 'when the NodeReadiness is made',
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
      when: 'when the taint is gone, before that is told',
      node: 'gone',
      isSo: (node: string) => nodes.get(node) !== undefined && !isTainted(node),
    },
  ])('$when: the next one finishes it', async ({ node, isSo }) => {
    const killed = killedWhen(() => isSo(node));
    await world.sandbox.addNodes([node], { pool });
    await killed;
    expect(bornTainted.has(node)).toBe(true);
    for (const app of agents) await eventuallyRuns(app, node);
    worker = await startNext();
    await eventuallyRuns('web', node);
    await eventuallyTold(node, open);
  });

  test('between the gates of a node that takes pods and its taint: the next one puts it on after the grace', async () => {
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

test('a node that completes while the leader is dead is given back behind its taint', async () => {
  const node = 'gated-1';
  await worker.kill();
  // As that of a leader that has just died, and for as long as the next one believes it.
  const key = { namespace: SYSTEM_NAMESPACE, name: 'node-maintenance-controllers' };
  const renewTime = microTime(world.kube.now());
  const spec = { holderIdentity: 'dead', leaseDurationSeconds: 600, renewTime };
  await world.kube.mergePatch(resources.leases, key, { spec });
  worker = start();
  await worker.ready();
  const input = { name: 'leaderless', nodes: [node], stage: 'Cordon' };
  const run = await world.temporal.workflow.start('nodeMaintenance', {
    taskQueue: TASK_QUEUE,
    workflowId: workflowIdOf('leaderless'),
    args: [input],
  });
  await eventuallyHolds('the cordon', () => nodes.get(node)?.spec.unschedulable === true, Boolean, 60_000);
  await probed('network', node, false);
  const given = nodeVersions(node);
  await run.signal('cancel');
  await eventuallyHolds('the node is given back', given.isSchedulable, Boolean, 60_000);
  expect(given.wasOpen()).toBe(false);
  const { uid = '' } = (await world.kube.get(resources.leases, key))?.metadata ?? {};
  await world.kube.delete(resources.leases, key, { uid });
  await eventuallyTold(node, { written: 3, gates: '2/3', reasons: ['GatesNotReady', 'GatesNotReady'] });
  expect(readinesses.get(node)?.status?.losses).toBe(0);
  await probed('network', node, true);
  await eventuallyTainted(node, false);
});

/** What a watch shows of a node from now on. */
function nodeVersions(node: string) {
  let wasOpen = false;
  const isSchedulable = () => nodes.get(node)?.spec.unschedulable !== true;
  nodes.subscribe(({ object }) => {
    if (object.metadata.name === node) wasOpen ||= isSchedulable() && !isTainted(node);
  });
  return { isSchedulable, wasOpen: () => wasOpen };
}

test('gates close and open across a restart of the apiserver', async () => {
  const node = 'gated-0';
  const server = world.sandbox.server('kube-apiserver');
  await probed('network', node, false);
  await eventually('the loss to be told', () =>
    expect(told(node)).toMatchObject({ gates: '2/3', reasons: ['GatesLost', 'GatesLost'] }),
  );
  await server.kill();
  await server.start();
  await eventuallyTainted(node, true);
  await server.kill();
  await server.start();
  await eventually('the probe to be told', () => probed('network', node, true));
  await eventuallyTainted(node, false);
  await eventuallyTold(node, open);
});

test('the examples: a policy, and the gate of a person beside its own, taken back', async () => {
  const node = 'worker-8';
  const kubectl = (args: string[], object?: object) =>
    succeeds(kubectlOf(world.sandbox)(['apply', '-f', ...args], object));
  const example = (name: string) => fileURLToPath(new URL(`../../docs/examples/${name}`, import.meta.url));
  const eventuallyOwned = (want: object) =>
    eventually('who owns which gate', () => {
      const owners = Object.entries(readinesses.get(node)?.gateOwners ?? {});
      expect(Object.fromEntries(owners.map(([name, by]) => [name, Object.keys(by)]))).toEqual(want);
    });
  await kubectl([example('readiness-policy.yaml')]);
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

test('switched off, the worker leaves gates alone, and says which nodes wait in vain', async () => {
  await worker.stop();
  worker = start({ READINESS_GATES: 'false' });
  await eventuallyHolds(
    'the warning',
    () => worker.log(),
    (text) => text.includes('Readiness gates are switched off'),
    60_000,
  );
  await policies.inEffect({ pool });
  await world.sandbox.addNodes(['unkept'], { pool });
  for (const app of agents) await eventuallyRuns(app, 'unkept');
  await eventuallyTainted('unkept', true);
  expect(readinesses.get('unkept')).toBeUndefined();
});
