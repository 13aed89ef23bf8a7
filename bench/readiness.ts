import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeObject, Node, Pod } from '../api/core.ts';
import { NODE_READINESS_POLICY, READINESS_TAINT } from '../api/names.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { byNode } from '../kube/cluster.ts';
import { Informer } from '../kube/informer.ts';
import { type RawPod, type Resource, resources } from '../kube/resources.ts';
import { slimNode, slimPod } from '../kube/slim.ts';
import { ask } from '../sandbox/apiserver.ts';
import { until } from '../sandbox/until.ts';
import type { Bed } from './bed.ts';
import { unregister, WorkerProcess } from './worker.ts';
import type { WorkOf } from './works.ts';

/** How fast nodes open that all join at once, and what their gates cost. */
export interface ReadinessMeasurement {
  /**
   * Seconds from the last Ready pod of a node's gates until its taint is gone, of each node, shortest first: when all of them
   * join at once, and when agents that were lost are back, `perSecond` nodes a second.
   */
  joining: number[];
  returning: number[];
  /** Nodes that lacked the taint in the first version that a watch saw. */
  bornOpen: number;
  /** Seconds from the first node until the last one took pods: the control plane's own work, most of it. */
  wallSeconds: number;
  /** Requests of the worker for each node, by kind: while no policy asks for gates, and with them. */
  ungated: Record<string, number>;
  gated: Record<string, number>;
  /** Resident memory of the worker, before the nodes, with them, and at most. MB. */
  residentMb: { without: number; ungated: number; gated: number; peak: number };
}

const namespace = 'bench-gates';
const pool = 'bench-gated';
/** Milliseconds. */
const patience = 300_000;
const quietFor = 3_000;
const atOnce = 32;
/** Nodes whose lost agents come back in a second. */
const perSecond = 20;

const daemonSets = resources.daemonSets as Resource;

export async function measureReadiness(
  bed: Bed,
  { nodes, gates }: WorkOf<'Readiness'>,
): Promise<ReadinessMeasurement> {
  // Other names for those with gates: kwok is slow to run the pods of a node whose name was used before.
  const [plain, names] = ['plain', 'gated'].map((prefix) =>
    Array.from({ length: nodes }, (_, index) => `${prefix}-${index + 1}`),
  ) as [string[], string[]];
  // A gate that is lost closes its node at once, so that none has to be waited for.
  const worker = await WorkerProcess.start(bed, '--readiness-grace=0');
  try {
    const without = worker.memory();
    const ungated = await costOf(bed, worker, plain, () => join(bed, plain));
    const withNodes = worker.memory();
    await leave(bed, plain);
    const { cost, ...measured } = await measureOpening(bed, worker, names, gates);
    const residentMb = { without, ungated: withNodes, gated: worker.memory(), peak: worker.peakMemory() };
    return { ...measured, ungated, gated: cost, residentMb };
  } finally {
    await worker.stop();
    await unregister(bed);
    await leave(bed, [...plain, ...names]);
  }
}

async function measureOpening(bed: Bed, worker: WorkerProcess, names: readonly string[], gates: number) {
  const apps = Array.from({ length: gates }, (_, index) => `gate-${index + 1}`);
  const over = new AbortController();
  const made = await give(bed, apps);
  try {
    const seen = await watchOpening(bed, apps, over.signal);
    const began = performance.now();
    const cost = await costOf(bed, worker, names, async () => {
      await join(bed, names);
      await untilOpen(bed, seen, names);
    });
    const wallSeconds = (Math.max(...seen.open.values()) - began) / 1_000;
    const joining = reactionsOf(seen, names);
    await comeBack(bed, seen, names);
    return { joining, returning: reactionsOf(seen, names), bornOpen: seen.bornOpen.size, wallSeconds, cost };
  } finally {
    over.abort();
    for (const { resource, object } of made) {
      const { uid = '', ...key } = object.metadata;
      await bed.kube.delete(resource, { namespace: key.namespace, name: key.name }, { uid });
    }
  }
}

/** What watches of the bench's own see; times of `performance.now()`, by node. */
interface Opening {
  bornOpen: Set<string>;
  /** Since when all of its gates are Ready. */
  ready: Map<string, number>;
  /** Since when it has no taint. */
  open: Map<string, number>;
  podsOn(node: string): readonly Readonly<Pod>[];
}

/** Seconds, shortest first. The two watches are not in step: a node may seem to have been opened before. */
function reactionsOf({ ready, open }: Opening, names: readonly string[]): number[] {
  const seconds = names.map((name) => ((open.get(name) ?? Infinity) - (ready.get(name) ?? 0)) / 1_000);
  return seconds.map((one) => Math.max(0, one)).toSorted((a, b) => a - b);
}

async function untilOpen({ signal }: Bed, { open }: Opening, names: readonly string[]): Promise<void> {
  const closed = () => {
    const left = names.filter((name) => !open.has(name));
    return left.length === 0 ? undefined : `${left.length} nodes take no pods, such as ${left[0]}`;
  };
  await until('the nodes to take pods', closed, { within: patience, signal });
}

/** One agent of each node fails, and is back when all nodes are closed. */
async function comeBack(bed: Bed, seen: Opening, names: readonly string[]): Promise<void> {
  const { signal } = bed;
  await forEachBounded(atOnce, names, (name) => probed(bed, seen, name, 'False'));
  const open = () => (seen.open.size === 0 ? undefined : `${seen.open.size} nodes take pods`);
  await until('the nodes to be closed', open, { within: patience, signal });
  const due = performance.now();
  await Promise.all(
    names.map(async (name, i) => {
      await sleep(Math.max(0, due + (i * 1_000) / perSecond - performance.now()), undefined, { signal });
      await probed(bed, seen, name, 'True');
    }),
  );
  await untilOpen(bed, seen, names);
}

/** What a kubelet writes of a probe. */
async function probed({ kube }: Bed, seen: Opening, node: string, status: 'True' | 'False'): Promise<void> {
  const [pod] = seen.podsOn(node).toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  if (pod === undefined) throw new Error(`Node ${node} has no pod of a gate`);
  const patch = { status: { conditions: [{ type: 'Ready', status }] } };
  const key = { namespace, name: pod.metadata.name };
  await kube.mergePatch(resources.pods, key, patch, { subresource: 'status' });
}

async function watchOpening(bed: Bed, apps: readonly string[], signal: AbortSignal): Promise<Opening> {
  const { kube, log } = bed;
  const nodes = new Informer<Node>({ kube, resource: resources.nodes, transform: slimNode, log });
  const pods = new Informer<Pod, RawPod>({
    kube,
    resource: resources.pods,
    namespace,
    transform: slimPod,
    indexes: { [byNode]: ({ spec }: Pod) => (spec.nodeName === undefined ? [] : [spec.nodeName]) },
    log,
  });
  for (const informer of [nodes, pods]) {
    informer.start(signal);
    await informer.synced(signal);
  }
  const podsOn = (node: string) => pods.byIndex(byNode, node);
  const seen: Opening = { bornOpen: new Set(), ready: new Map(), open: new Map(), podsOn };
  nodes.subscribe(({ type, object: { metadata, spec } }) => {
    if (metadata.labels?.['pool'] !== pool) return;
    if (type === 'Added' && !isTainted(spec)) seen.bornOpen.add(metadata.name);
    note(seen.open, metadata.name, !isTainted(spec));
  });
  pods.subscribe(({ object: { spec } }) => {
    const { nodeName = '' } = spec;
    const ready = podsOn(nodeName).filter(({ status }) => status.ready);
    note(seen.ready, nodeName, ready.length === apps.length);
  });
  return seen;
}

/** Since when something is so. */
function note(times: Map<string, number>, name: string, isSo: boolean): void {
  if (!isSo) times.delete(name);
  else if (!times.has(name)) times.set(name, performance.now());
}

function isTainted({ taints = [] }: Node['spec']): boolean {
  return taints.some(({ key }) => key === READINESS_TAINT.key);
}

/** A policy in effect and a DaemonSet for each of its gates. */
async function give(bed: Bed, apps: readonly string[]) {
  const { kube } = bed;
  await kube.apply(resources.namespaces, { metadata: { name: namespace } }, { fieldManager: 'bench' });
  const made: { resource: Resource; object: KubeObject }[] = [];
  const policies = resources.nodeReadinessPolicies as Resource;
  made.push({ resource: policies, object: await kube.create(policies, policyOf(apps)) });
  await until('the policy to be in effect', () => notTainted(bed), {
    within: patience,
    signal: bed.signal,
  });
  for (const app of apps)
    made.push({ resource: daemonSets, object: await kube.create(daemonSets, daemonSetOf(app)) });
  return made;
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

async function notTainted({ server }: Bed): Promise<string | undefined> {
  const probe = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'bench-probe', labels: { pool } } };
  const { status, body } = await ask(server, 'POST', '/api/v1/nodes?dryRun=All', probe);
  return body.includes(READINESS_TAINT.key) ? undefined : `${status} without the taint`;
}

async function join({ sandbox }: Bed, names: readonly string[]): Promise<void> {
  await sandbox.addNodes([...names], { pool });
}

async function leave({ kube, signal }: Bed, names: readonly string[]): Promise<void> {
  await forEachBounded(atOnce, names, async (name) => {
    const found = await kube.get(resources.nodes, { name });
    if (found !== undefined) await kube.delete(resources.nodes, { name }, { uid: found.metadata.uid ?? '' });
  });
  const left = async () => {
    const { items } = await kube.list(resources.nodeReadinesses);
    const stay = items.filter(({ metadata }) => names.includes(metadata.name));
    return stay.length === 0 ? undefined : `${stay.length} NodeReadinesses`;
  };
  await until('the NodeReadinesses to go', left, { within: patience, signal });
}

/** What the worker asks for each node by the time in which it has nothing more to do, by kind. */
async function costOf(
  bed: Bed,
  worker: WorkerProcess,
  names: readonly string[],
  act: () => Promise<void>,
): Promise<Record<string, number>> {
  const before = await worker.requestsByKind();
  await act();
  let last = { total: 0, at: performance.now() };
  const restless = async () => {
    const total = await worker.requests();
    // Its leader election goes on, one request every few seconds.
    if (total > last.total + 3) last = { total, at: performance.now() };
    return performance.now() - last.at < quietFor ? 'the worker is busy' : undefined;
  };
  await until('the worker to rest', restless, { within: patience, signal: bed.signal });
  const after = await worker.requestsByKind();
  const kinds = Object.entries(after)
    .filter(([kind]) => /nodes|nodereadiness|nodebudgets|events$|^create leases/.test(kind))
    .map(([kind, count]): [string, number] => [kind, (count - (before[kind] ?? 0)) / names.length])
    .filter(([, count]) => count > 0);
  return Object.fromEntries(kinds.toSorted(([, a], [, b]) => b - a));
}
