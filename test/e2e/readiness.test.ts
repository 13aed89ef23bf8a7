import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { KubeObject, Node, Pod } from '../../api/core.ts';
import { READINESS_TAINT } from '../../api/names.ts';
import { Informer } from '../../kube/informer.ts';
import { type RawPod, type Resource, resources } from '../../kube/resources.ts';
import { slimNode, slimPod } from '../../kube/slim.ts';
import { silentLog as log } from '../kit/cluster.ts';
import { eventuallyHolds } from '../kit/holds.ts';
import { gate, ofPool, ReadinessPolicies, readinessPolicy } from '../kit/readiness.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from './world.ts';

let world: World;
let worker: WorkerProcess;
let nodes: Informer<Node>;
let pods: Informer<Pod, RawPod>;
const watching = new AbortController();
const agents = ['network', 'storage', 'devices'];
const pool = 'gated';
/** When a node, or the last of its agents, came to be as its key says. Milliseconds of one clock. */
const times = {
  tainted: new Map<string, number>(),
  open: new Map<string, number>(),
  free: new Map<string, number>(),
};

beforeAll(async () => {
  world = await createWorld({ nodes: 1 });
  worker = startWorker(world.sandbox);
  await worker.ready();
  const { kube } = world;
  nodes = new Informer({ kube, resource: resources.nodes, transform: slimNode, log });
  pods = new Informer({ kube, resource: resources.pods, transform: slimPod, log });
  nodes.subscribe(({ type, object: { metadata, spec } }) => {
    const isTainted = spec.taints?.some(({ key }) => key === READINESS_TAINT.key) === true;
    const { tainted, free } = times;
    if (type === 'Added' && isTainted) tainted.set(metadata.name, performance.now());
    if (!isTainted && !free.has(metadata.name)) free.set(metadata.name, performance.now());
  });
  pods.subscribe(({ object: { spec } }) => {
    const { nodeName = '' } = spec;
    if (!times.open.has(nodeName) && agents.every((app) => runs(app, nodeName)))
      times.open.set(nodeName, performance.now());
  });
  for (const informer of [nodes, pods]) {
    informer.start(watching.signal);
    await informer.synced();
  }
}, 180_000);

afterAll(async () => {
  watching.abort();
  await worker?.kill();
  await world?.close();
});

function runs(app: string, node: string): boolean {
  return pods
    .list()
    .some(
      ({ metadata, spec, status }) =>
        metadata.labels?.['app'] === app && spec.nodeName === node && status.ready,
    );
}

const isFree = (node: string) => times.free.has(node);

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
  const first = Array.from({ length: 10 }, (_, i) => `gated-${i}`);

  test('nodes are closed from their first version on, and open within a second of their last agent', async () => {
    const gates = agents.map((name) => gate({ name, namespace: 'default' }));
    const policies = new ReadinessPolicies(world.kube, world.sandbox);
    await policies.applied(readinessPolicy('agents', ofPool(pool), gates), { pool });
    await world.sandbox.addNodes(first, { pool });
    expect([...times.tainted.keys()].toSorted()).toEqual(first);
    const web = workload('web', []);
    await world.kube.create(resources.daemonSets as Resource, web as KubeObject);
    for (const name of agents)
      await world.kube.create(
        resources.daemonSets as Resource,
        workload(name, [{ operator: 'Exists' }]) as KubeObject,
      );
    await eventuallyHolds(
      'web runs on every node',
      () => first.filter((node) => !runs('web', node)),
      (missing) => missing.length === 0,
      60_000,
    );
    const reactions = first.map((node) => (times.free.get(node) ?? Infinity) - (times.open.get(node) ?? 0));
    expect(Math.max(...reactions)).toBeLessThan(1_000);
  });

  test('a node that joins while it is dead waits for it, and not in vain', async () => {
    await worker.kill();
    await world.sandbox.addNodes(['late'], { pool });
    await eventuallyHolds(
      'the agents run',
      () => agents.filter((app) => !runs(app, 'late')),
      (missing) => missing.length === 0,
    );
    expect([times.tainted.has('late'), isFree('late'), runs('web', 'late')]).toEqual([true, false, false]);
    worker = startWorker(world.sandbox);
    await eventuallyHolds('web runs on it', () => runs('web', 'late'), Boolean, 60_000);
  });
});
