import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeObject, Node, Pod } from '../api/core.ts';
import { NODE_READINESS_POLICY, READINESS_TAINT } from '../api/names.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { byNode } from '../kube/cluster.ts';
import { Informer } from '../kube/informer.ts';
import { type RawPod, type Resource, resources } from '../kube/resources.ts';
import { trimNode, trimPod } from '../kube/transform.ts';
import { ask } from '../sandbox/apiserver.ts';
import { until } from '../sandbox/until.ts';
import type { BenchmarkOf } from './benchmarks.ts';
import type { Testbed } from './testbed.ts';
import { unregister, WorkerProcess } from './worker.ts';

/** Times until nodes that join at the same time accept pods, and the cost of their readiness gates. */
export interface ReadinessMeasurement {
  /**
   * Seconds per node from its last Ready gate until its taint is removed, shortest first: when all nodes join at the same
   * time, and when lost agents return, on `returnsPerSecond` nodes a second.
   */
  joining: number[];
  returning: number[];
  /** Seconds from the first node until the last one accepts pods; most of it is the work of the control plane. */
  wallSeconds: number;
  /** Requests of the worker per node, by kind: without a policy, and with gates. */
  ungated: Record<string, number>;
  gated: Record<string, number>;
  /** Resident memory of the worker: before the nodes join, with nodes without and with gates, and at its peak. */
  residentMb: { without: number; ungated: number; gated: number; peak: number };
}

const namespace = 'bench-gates';
const pool = 'bench-gated';
const timeoutMs = 300_000;
const idleMs = 3_000;
const maxInFlight = 32;
/** Nodes whose lost agents return in one second. */
const returnsPerSecond = 20;

const daemonSets = resources.daemonSets as Resource;

export async function measureReadiness(
  testbed: Testbed,
  { nodes, gates }: BenchmarkOf<'Readiness'>,
): Promise<ReadinessMeasurement> {
  // Nodes with gates get other names: kwok is slow to run the pods of a node whose name was used before.
  const [plain, names] = ['plain', 'gated'].map((prefix) =>
    Array.from({ length: nodes }, (_, index) => `${prefix}-${index + 1}`),
  ) as [string[], string[]];
  // Without a grace period, a lost gate taints its node at once.
  const worker = await WorkerProcess.start(testbed, '--readiness-grace=0');
  try {
    const without = worker.memoryMb();
    const ungated = await requestsPerNode(testbed, worker, plain, () => join(testbed, plain));
    const withNodes = worker.memoryMb();
    await remove(testbed, plain);
    const { requests, ...measured } = await measureGatedNodes(testbed, worker, names, gates);
    const residentMb = { without, ungated: withNodes, gated: worker.memoryMb(), peak: worker.peakMemoryMb() };
    return { ...measured, ungated, gated: requests, residentMb };
  } finally {
    await worker.stop();
    await unregister(testbed);
    await remove(testbed, [...plain, ...names]);
  }
}

async function measureGatedNodes(
  testbed: Testbed,
  worker: WorkerProcess,
  names: readonly string[],
  gates: number,
) {
  const apps = Array.from({ length: gates }, (_, index) => `gate-${index + 1}`);
  const finished = new AbortController();
  const created = await createGates(testbed, apps);
  try {
    const observed = await observeNodes(testbed, apps, finished.signal);
    const startedAt = performance.now();
    const requests = await requestsPerNode(testbed, worker, names, async () => {
      await join(testbed, names);
      await untilUntainted(testbed, observed, names);
    });
    const wallSeconds = (Math.max(...observed.untainted.values()) - startedAt) / 1_000;
    const joining = latenciesOf(observed, names);
    await loseAndReturn(testbed, observed, names);
    return { joining, returning: latenciesOf(observed, names), wallSeconds, requests };
  } finally {
    finished.abort();
    for (const { resource, object } of created) {
      const { uid = '', ...key } = object.metadata;
      await testbed.kube.delete(resource, { namespace: key.namespace, name: key.name }, { uid });
    }
  }
}

/** Observations of the benchmark's own watches: times of `performance.now()`, by node. */
interface ObservedNodes {
  /** Time at which all gates of the node became Ready. */
  ready: Map<string, number>;
  /** Time at which the readiness taint of the node was removed. */
  untainted: Map<string, number>;
  podsOn(node: string): readonly Readonly<Pod>[];
}

/** Returns seconds, shortest first. The two watches are not in step, so the taint may seem to go before the gate is Ready. */
function latenciesOf({ ready, untainted }: ObservedNodes, names: readonly string[]): number[] {
  const seconds = names.map((name) => ((untainted.get(name) ?? Infinity) - (ready.get(name) ?? 0)) / 1_000);
  return seconds.map((one) => Math.max(0, one)).toSorted((a, b) => a - b);
}

async function untilUntainted(
  { signal }: Testbed,
  { untainted }: ObservedNodes,
  names: readonly string[],
): Promise<void> {
  const tainted = () => {
    const left = names.filter((name) => !untainted.has(name));
    return left.length === 0 ? undefined : `${left.length} nodes are tainted, such as ${left[0]}`;
  };
  await until('the nodes to accept pods', tainted, { timeoutMs, signal });
}

/** Makes one agent of each node fail, waits until all nodes are tainted, and makes the agents Ready again. */
async function loseAndReturn(
  testbed: Testbed,
  observed: ObservedNodes,
  names: readonly string[],
): Promise<void> {
  const { signal } = testbed;
  await forEachBounded(maxInFlight, names, (name) => setReady(testbed, observed, name, 'False'));
  const { untainted } = observed;
  const untaintedNodes = () => (untainted.size === 0 ? undefined : `${untainted.size} nodes accept pods`);
  await until('the nodes to be tainted', untaintedNodes, { timeoutMs, signal });
  const due = performance.now();
  await Promise.all(
    names.map(async (name, i) => {
      await sleep(Math.max(0, due + (i * 1_000) / returnsPerSecond - performance.now()), undefined, {
        signal,
      });
      await setReady(testbed, observed, name, 'True');
    }),
  );
  await untilUntainted(testbed, observed, names);
}

/** Writes the Ready condition of a gate's pod, as a kubelet does after a probe. */
async function setReady(
  { kube }: Testbed,
  observed: ObservedNodes,
  node: string,
  status: 'True' | 'False',
): Promise<void> {
  const [pod] = observed.podsOn(node).toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  if (pod === undefined) throw new Error(`Node ${node} has no pod of a gate`);
  const patch = { status: { conditions: [{ type: 'Ready', status }] } };
  const key = { namespace, name: pod.metadata.name };
  await kube.mergePatch(resources.pods, key, patch, { subresource: 'status' });
}

async function observeNodes(
  testbed: Testbed,
  apps: readonly string[],
  signal: AbortSignal,
): Promise<ObservedNodes> {
  const { kube, log } = testbed;
  const nodes = new Informer<Node>({ kube, resource: resources.nodes, transform: trimNode, log });
  const pods = new Informer<Pod, RawPod>({
    kube,
    resource: resources.pods,
    namespace,
    transform: trimPod,
    indexes: { [byNode]: ({ spec }: Pod) => (spec.nodeName === undefined ? [] : [spec.nodeName]) },
    log,
  });
  for (const informer of [nodes, pods]) {
    informer.start(signal);
    await informer.synced(signal);
  }
  const podsOn = (node: string) => pods.byIndex(byNode, node);
  const observed: ObservedNodes = { ready: new Map(), untainted: new Map(), podsOn };
  nodes.subscribe(({ object: { metadata, spec } }) => {
    if (metadata.labels?.['pool'] !== pool) return;
    record(observed.untainted, metadata.name, !isTainted(spec));
  });
  pods.subscribe(({ object: { spec } }) => {
    const { nodeName = '' } = spec;
    const ready = podsOn(nodeName).filter(({ status }) => status.ready);
    record(observed.ready, nodeName, ready.length === apps.length);
  });
  return observed;
}

/** Records since when a fact is true. */
function record(times: Map<string, number>, name: string, isTrue: boolean): void {
  if (!isTrue) times.delete(name);
  else if (!times.has(name)) times.set(name, performance.now());
}

function isTainted({ taints = [] }: Node['spec']): boolean {
  return taints.some(({ key }) => key === READINESS_TAINT.key);
}

/** Creates a policy, waits until it is in effect, and creates a DaemonSet for each of its gates. */
async function createGates(testbed: Testbed, apps: readonly string[]) {
  const { kube } = testbed;
  await kube.apply(resources.namespaces, { metadata: { name: namespace } }, { fieldManager: 'bench' });
  const created: { resource: Resource; object: KubeObject }[] = [];
  const policies = resources.nodeReadinessPolicies as Resource;
  created.push({ resource: policies, object: await kube.create(policies, policyOf(apps)) });
  await until('the policy to be in effect', () => untaintedReason(testbed), {
    timeoutMs,
    signal: testbed.signal,
  });
  for (const app of apps)
    created.push({ resource: daemonSets, object: await kube.create(daemonSets, daemonSetOf(app)) });
  return created;
}

function policyOf(apps: readonly string[]): KubeObject {
  const { apiVersion, kind } = NODE_READINESS_POLICY;
  const requirement = { key: 'pool', operator: 'In', values: [pool] };
  const readinessGates = apps.map((app) => ({ name: app, namespace, selector: { matchLabels: { app } } }));
  const nodeSelector = { nodeSelectorTerms: [{ matchExpressions: [requirement] }] };
  return {
    apiVersion,
    kind,
    metadata: { name: 'bench' },
    spec: { nodeSelector, readinessGates },
  } as KubeObject;
}

function daemonSetOf(app: string): KubeObject {
  const spec = {
    nodeSelector: { pool },
    tolerations: [{ operator: 'Exists' }],
    containers: [{ name: 'main', image: 'pause' }],
  };
  const template = { metadata: { labels: { app } }, spec };
  const metadata = { name: app, namespace };
  return { metadata, spec: { selector: { matchLabels: { app } }, template } } as KubeObject;
}

async function untaintedReason({ server }: Testbed): Promise<string | undefined> {
  const probe = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'bench-probe', labels: { pool } } };
  const { status, body } = await ask(server, 'POST', '/api/v1/nodes?dryRun=All', probe);
  return body.includes(READINESS_TAINT.key) ? undefined : `${status} without the taint`;
}

async function join({ sandbox }: Testbed, names: readonly string[]): Promise<void> {
  await sandbox.addNodes([...names], { pool });
}

async function remove({ kube, signal }: Testbed, names: readonly string[]): Promise<void> {
  await forEachBounded(maxInFlight, names, async (name) => {
    const found = await kube.get(resources.nodes, { name });
    if (found !== undefined) await kube.delete(resources.nodes, { name }, { uid: found.metadata.uid ?? '' });
  });
  const left = async () => {
    const { items } = await kube.list(resources.nodeReadinesses);
    const stay = items.filter(({ metadata }) => names.includes(metadata.name));
    return stay.length === 0 ? undefined : `${stay.length} NodeReadinesses`;
  };
  await until('the NodeReadinesses to be deleted', left, { timeoutMs, signal });
}

/** Returns the requests of the worker per node, by kind, from before `act` until the worker is idle. */
async function requestsPerNode(
  testbed: Testbed,
  worker: WorkerProcess,
  names: readonly string[],
  act: () => Promise<void>,
): Promise<Record<string, number>> {
  const before = await worker.requestsByKind();
  await act();
  let last = { total: 0, at: performance.now() };
  const busy = async () => {
    const kinds = Object.entries(await worker.requestsByKind());
    // The Leases of leader elections and of nodes are renewed all the time.
    const total = kinds.reduce((sum, [kind, count]) => sum + (kind.includes(' leases.') ? 0 : count), 0);
    if (total > last.total + 3) last = { total, at: performance.now() };
    return performance.now() - last.at < idleMs ? 'the worker is busy' : undefined;
  };
  await until('the worker to be idle', busy, { timeoutMs, signal: testbed.signal });
  const after = await worker.requestsByKind();
  const kinds = Object.entries(after)
    .filter(([kind]) => /nodes|nodereadiness|nodedisruptionbudgets|events$|^create leases/.test(kind))
    .map(([kind, count]): [string, number] => [kind, (count - (before[kind] ?? 0)) / names.length])
    .filter(([, count]) => count > 0);
  return Object.fromEntries(kinds.toSorted(([, a], [, b]) => b - a));
}
