import { setTimeout as sleep } from 'node:timers/promises';
import { forEachBounded } from '../kube/bounded.ts';
import { resources } from '../kube/resources.ts';
import { until } from '../sandbox/until.ts';
import type { BenchmarkOf } from './benchmarks.ts';
import { coresOf, cpuBetween, readCpu } from './cpu.ts';
import { createNamespace, podOn, removePods, trafficNamespace } from './pods.ts';
import type { Testbed } from './testbed.ts';
import { unregister, WorkerProcess } from './worker.ts';

/** Costs of a worker in a cluster of some size while no maintenance is open, and of each pod that comes and goes elsewhere. */
export interface IdleMeasurement {
  nodes: number;
  pods: number;
  /** Seconds from the start of the worker until it is ready. */
  startSeconds: number;
  /** Resident memory, after the start and at its peak. */
  residentMb: { idle: number; peak: number };
  /** Cores that each process uses while nothing changes, but for the kubelets' Leases. */
  cores: Record<string, number>;
  requestsPerSecond: number;
  /** CPU time of the worker in milliseconds for a pod that is created, starts and is deleted. */
  churnMsPerPod: number;
}

const observedSeconds = 30;
/** Pods that come and go while the worker is observed. */
const churned = 600;
/** Delay after the start of the worker: everything that it causes is over by then. */
const settleMs = 5_000;
const maxInFlight = 16;
const timeoutMs = 900_000;
const nodesAtOnce = 250;

/** Measures clusters of a quarter, half and all of the nodes, for the slope. */
export async function measureIdle(
  testbed: Testbed,
  { nodes, podsPerNode }: BenchmarkOf<'Idle'>,
  report: (line: string) => void,
): Promise<IdleMeasurement[]> {
  const measurements: IdleMeasurement[] = [];
  const names = Array.from({ length: nodes }, (_, index) => `idle-${index + 1}`);
  await createNamespace(testbed.kube, testbed.signal);
  let placed = 0;
  for (const share of [1 / 4, 1 / 2, 1]) {
    const size = Math.round(nodes * share);
    await place(testbed, names.slice(placed, size), podsPerNode);
    placed = size;
    report(`${size} nodes with ${podsPerNode} pods each`);
    measurements.push(await measureSize(testbed, { names: names.slice(0, size), podsPerNode }));
  }
  await removePods(testbed.kube, testbed.signal);
  return measurements;
}

interface Size {
  names: readonly string[];
  podsPerNode: number;
}

/** Adds nodes with pods that run. */
async function place(
  { sandbox, kube, signal }: Testbed,
  names: string[],
  podsPerNode: number,
): Promise<void> {
  for (let start = 0; start < names.length; start += nodesAtOnce)
    await sandbox.addNodes(names.slice(start, start + nodesAtOnce));
  const indexes = Array.from({ length: names.length * podsPerNode }, (_, index) => index);
  const prefix = crypto.randomUUID().slice(0, 8);
  await forEachBounded(maxInFlight, indexes, async (index) => {
    await kube.create(resources.pods, podOn(names, `${prefix}-${index}`, index));
  });
  const pending = async () => {
    const { items } = await kube.list(resources.pods, {
      namespace: trafficNamespace,
      fieldSelector: 'status.phase=Pending',
    });
    return items.length === 0 ? undefined : `${items.length} are Pending`;
  };
  await until('the pods to run', pending, { timeoutMs, signal });
}

async function measureSize(testbed: Testbed, { names, podsPerNode }: Size): Promise<IdleMeasurement> {
  const { signal } = testbed;
  const worker = await WorkerProcess.start(testbed);
  try {
    await sleep(settleMs, undefined, { signal });
    const idle = await observe(worker, () => sleep(observedSeconds * 1_000, undefined, { signal }));
    const idleMb = worker.memoryMb();
    const churning = await observe(worker, () => churn(testbed, names));
    const cores = coresOf(idle.cpu, idle.seconds);
    const churnedSeconds = (churning.cpu['worker'] ?? NaN) - (cores['worker'] ?? NaN) * churning.seconds;
    return {
      nodes: names.length,
      pods: names.length * podsPerNode,
      startSeconds: worker.startSeconds,
      residentMb: { idle: idleMb, peak: worker.peakMemoryMb() },
      cores,
      requestsPerSecond: idle.requests / idle.seconds,
      churnMsPerPod: (churnedSeconds * 1_000) / churned,
    };
  } finally {
    await worker.stop();
    await unregister(testbed);
  }
}

async function observe(worker: WorkerProcess, work: () => Promise<unknown>) {
  const { processes } = worker;
  const [cpu, requests, startedAt] = [readCpu(processes), await worker.requests(), performance.now()];
  await work();
  const seconds = (performance.now() - startedAt) / 1_000;
  return {
    seconds,
    cpu: cpuBetween(cpu, readCpu(processes)),
    requests: (await worker.requests()) - requests,
  };
}

async function churn({ kube, signal }: Testbed, names: readonly string[]): Promise<void> {
  const prefix = crypto.randomUUID().slice(0, 8);
  const indexes = Array.from({ length: churned }, (_, index) => index);
  await forEachBounded(maxInFlight, indexes, async (index) => {
    const name = `${prefix}-${index}`;
    const { metadata } = await kube.create(resources.pods, podOn(names, name, index));
    const notRunning = async () => {
      const pod = await kube.get(resources.pods, { namespace: trafficNamespace, name });
      return pod?.status?.phase === 'Running' ? undefined : 'it does not run';
    };
    await until(`pod ${name} to run`, notRunning, { timeoutMs, signal });
    await kube.delete(resources.pods, { namespace: trafficNamespace, name }, { uid: metadata.uid ?? '' });
  });
}
