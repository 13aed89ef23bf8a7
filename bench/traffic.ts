import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeObject } from '../api/core.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import { microTime } from '../kube/leaseRecord.ts';
import { resources } from '../kube/resources.ts';
import { type Sandbox, startSandbox } from '../sandbox/sandbox.ts';
import type { BenchmarkOf } from './benchmarks.ts';
import { Cordons } from './cordons.ts';
import { readCpu } from './cpu.ts';
import { createNamespace, nameAt, podOn, removePods, trafficNamespace } from './pods.ts';
import { completeHeld, holdNodes, removeHeld } from './held.ts';
import { auditOptions, type Testbed } from './testbed.ts';
import { unregister, WorkerProcess } from './worker.ts';

/**
 * Costs of the traffic of all other clients for the apiserver with the policies and webhooks of deploy/, a worker and open maintenances, relative
 * to a control plane without them. Both run at the same time, and their slices alternate.
 */
export interface TrafficMeasurement {
  /** Number of open maintenances. */
  maintenances: number;
  rounds: { bare: Slice; installed: Slice }[];
}

/** A slice of five seconds, with the same requests as every other one. */
export interface Slice {
  /** CPU time of the apiserver. */
  cpuSeconds: number;
  /** Seconds until each request was answered, by kind. */
  seconds: Record<TrafficKind, number[]>;
}

/** Returns the seconds until requests of a kind were answered, ascending. */
export function answersOf(slices: readonly Slice[], kind: TrafficKind): number[] {
  return slices.flatMap(({ seconds }) => seconds[kind]).toSorted((a, b) => a - b);
}

/** Requests that a cluster makes without pause: workloads that change, and what every kubelet reports. */
export const trafficKinds = ['create pod', 'pod status', 'delete pod', 'node Lease', 'node status'] as const;
export type TrafficKind = (typeof trafficKinds)[number];

/** Requests of each kind in a tick: most are of kubelets, as in a cluster of a thousand nodes. */
const perTick: Record<TrafficKind, number> = {
  'create pod': 3,
  'pod status': 6,
  'delete pod': 3,
  'node Lease': 10,
  'node status': 1,
};
const tickMs = 100;
/** Number of ticks of a slice, which takes five seconds. */
const ticks = 50;
/** Delay before and after a slice: everything that earlier requests cause is over by then. */
const settleMs = 1_000;
const openMaintenances = [0, 1, 50];
const namespace = trafficNamespace;
const maxInFlight = 16;

interface ControlPlane {
  sandbox: Sandbox;
  kube: Kube;
}

export async function measureTraffic(
  testbed: Testbed,
  { rounds }: BenchmarkOf<'Traffic'>,
  report: (line: string) => void,
): Promise<TrafficMeasurement[]> {
  const { signal, log } = testbed;
  const names = Array.from({ length: Math.max(...openMaintenances) }, (_, index) => `traffic-${index + 1}`);
  const dir = await mkdtemp(join(tmpdir(), 'node-maintenance-bench-bare-'));
  try {
    const sandbox = await startSandbox({
      dir,
      nodes: testbed.nodes.length,
      install: false,
      ...(await auditOptions(dir)),
      signal,
    });
    const kube = connectKube({ kubeconfig: sandbox.kubeconfig, userAgent: 'bench', log });
    const watching = new AbortController();
    try {
      // The testbed has this watch too, and the apiserver sends it every status of a node.
      await new Cordons(kube, log).start(watching.signal);
      for (const plane of [{ sandbox, kube }, testbed]) {
        await plane.sandbox.addNodes(names);
        await createNamespace(plane.kube, signal);
      }
      return await compare(testbed, { bare: { sandbox, kube }, names, rounds, report });
    } finally {
      watching.abort();
      await kube.close();
      await sandbox.stop();
    }
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

interface Comparison {
  bare: ControlPlane;
  /** Names of the nodes. */
  names: readonly string[];
  rounds: number;
  report: (line: string) => void;
}

async function compare(
  testbed: Testbed,
  { bare, names, rounds, report }: Comparison,
): Promise<TrafficMeasurement[]> {
  const worker = await WorkerProcess.start(testbed);
  const measurements: TrafficMeasurement[] = [];
  let open = 0;
  try {
    for (const maintenances of openMaintenances) {
      await holdNodes(testbed, names.slice(open, maintenances));
      open = maintenances;
      const planes = { bare, installed: testbed, names };
      const pairs = [];
      for (let round = 1; round <= rounds; round++) pairs.push(await runRound(planes, round, testbed.signal));
      measurements.push({ maintenances, rounds: pairs });
      report(`${rounds} rounds with ${maintenances} open maintenances`);
    }
    await completeHeld(testbed, names.slice(0, open));
    return measurements;
  } finally {
    await worker.stop();
    await unregister(testbed);
    await removeHeld(testbed, names);
  }
}

interface ControlPlanes {
  bare: ControlPlane;
  installed: ControlPlane;
  names: readonly string[];
}

/** The control planes are measured one after the other, in the reverse order each second time. */
async function runRound(
  { bare, installed, names }: ControlPlanes,
  round: number,
  signal: AbortSignal,
): Promise<TrafficMeasurement['rounds'][number]> {
  const slice = (plane: ControlPlane) => measureSlice(plane, names, signal);
  if (round % 2 === 1) return { bare: await slice(bare), installed: await slice(installed) };
  const first = await slice(installed);
  return { bare: await slice(bare), installed: first };
}

async function measureSlice(
  { sandbox, kube }: ControlPlane,
  names: readonly string[],
  signal: AbortSignal,
): Promise<Slice> {
  // kwok deletes pods by name: a new one must not have the name of a previous one.
  const prefix = crypto.randomUUID().slice(0, 8);
  const existing = await placePods(kube, names, prefix);
  await sleep(settleMs, undefined, { signal });
  const seconds = emptyTimes();
  const cpuSeconds = () => readCpu({ apiserver: sandbox.server('kube-apiserver').pid() })['apiserver'] ?? NaN;
  const before = cpuSeconds();
  const target = { kube, names, prefix, existing };
  const answers: Promise<void>[] = [];
  for (let tick = 0; tick < ticks; tick++) {
    for (const kind of trafficKinds)
      for (let index = tick * perTick[kind]; index < (tick + 1) * perTick[kind]; index++)
        answers.push(handled(timed(seconds[kind], () => requests[kind](target, index))));
    await sleep(tickMs, undefined, { signal });
  }
  await Promise.all(answers);
  await sleep(settleMs, undefined, { signal });
  const used = cpuSeconds() - before;
  await removePods(kube, signal);
  return { cpuSeconds: used, seconds };
}

function emptyTimes(): Slice['seconds'] {
  return { 'create pod': [], 'pod status': [], 'delete pod': [], 'node Lease': [], 'node status': [] };
}

/** A rejection is reported when all are awaited, and must not end the process before. */
function handled<T>(answer: Promise<T>): Promise<T> {
  answer.catch(() => undefined);
  return answer;
}

/** Adds the seconds until the request is answered. */
export async function timed(seconds: number[], send: () => Promise<unknown>): Promise<void> {
  const startedAt = performance.now();
  await send();
  seconds.push((performance.now() - startedAt) / 1_000);
}

interface Target {
  kube: Kube;
  names: readonly string[];
  /** Prefix of the names of pods. */
  prefix: string;
  /** The pods that exist when a slice starts: the first ones are deleted, the others get a status. */
  existing: readonly KubeObject[];
}

const requests: Record<TrafficKind, (target: Target, index: number) => Promise<unknown>> = {
  'create pod': ({ kube, names, prefix }, index) =>
    kube.create(resources.pods, podOn(names, `${prefix}-new-${index}`, index)),
  'pod status': ({ kube, existing }, index) => {
    const { name } = podAt(existing, existing.length - 1 - index).metadata;
    const conditions = [{ type: 'ContainersReady', status: 'True', message: `probe ${index}` }];
    return kube.mergePatch(
      resources.pods,
      { namespace, name },
      { status: { conditions } },
      { subresource: 'status' },
    );
  },
  'delete pod': ({ kube, existing }, index) => {
    const { name, uid = '' } = podAt(existing, index).metadata;
    return kube.delete(resources.pods, { namespace, name }, { uid });
  },
  'node Lease': ({ kube, names }, index) => {
    const key = { namespace: 'kube-node-lease', name: nameAt(names, index) };
    return kube.mergePatch(resources.leases, key, { spec: { renewTime: microTime(new Date()) } });
  },
  'node status': ({ kube, names }, index) => {
    const images = [{ names: [`image-${index}`], sizeBytes: index }];
    const key = { name: nameAt(names, index) };
    return kube.mergePatch(resources.nodes, key, { status: { images } }, { subresource: 'status' });
  },
};

function podAt(pods: readonly KubeObject[], index: number): KubeObject {
  const pod = pods[index];
  if (pod === undefined) throw new Error(`only ${pods.length} pods were placed`);
  return pod;
}

async function placePods(kube: Kube, names: readonly string[], prefix: string): Promise<KubeObject[]> {
  const count = ticks * (perTick['pod status'] + perTick['delete pod']);
  const pods: KubeObject[] = [];
  const indexes = Array.from({ length: count }, (_, index) => index);
  await forEachBounded(maxInFlight, indexes, async (index) => {
    pods.push(await kube.create(resources.pods, podOn(names, `${prefix}-old-${index}`, index)));
  });
  return pods;
}
