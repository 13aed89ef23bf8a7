import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { readMemoryMb } from '../../../bench/memory.ts';
import { NODE_LEASE_NAMESPACE, SYSTEM_NAMESPACE } from '../../../api/names.ts';
import { type Resource, resources } from '../../../kube/resources.ts';
import { deployedNodeOptions } from '../../../scripts/tools.ts';
import { valueOf } from '../../kit/metrics.ts';
import { layoutOf } from '../../../sandbox/layout.ts';
import { storedMb } from '../../kit/etcd.ts';
import { windowWorkflowIdOf, workflowIdOf } from '../../kit/temporalNames.ts';
import type { Testbed } from '../testbed.ts';
import { sum } from './growth.ts';
import type { WorkerSlot } from '../workerSlot.ts';
import type { Names } from '../worldObjects.ts';

/** Resources in use between two runs, when nothing of a maintenance is left. */
export interface ResourceSample {
  /** Time since the first run began. */
  seconds: number;
  /** Runs so far. */
  runs: number;
  workers: WorkerSample[];
  /** Resource -> number of its objects. */
  objects: Record<string, number>;
  /** Workflow runs that are open, and the events of their histories. */
  openRuns: number;
  openEvents: number;
  /** Events and size of all histories of the maintenances and windows of the last run, and events of the longest one. */
  historyEvents: number;
  historyKb: number;
  longestHistory: number;
  /** Size of the data in etcd, without earlier revisions. */
  etcdMb: number;
  /** Temporal keeps what has ended until the retention of the namespace. */
  temporalMb: number;
}

interface WorkerSample {
  pid: number;
  /**
   * The most that was resident since the sample before. The most since its start could only grow, and what is resident now says less: a kernel may take
   * unused pages back (DAMON), and return them later.
   */
  peakMb: number;
  /** The compiled code in the heap of its main thread: V8 compiles a function when it runs for the first time, and frees what has not run for a while. */
  codeMb: number;
  /** The rest of this heap, and what its objects hold outside of it. Workflows have a thread, and a heap, of their own. */
  objectsMb: number;
  externalMb: number;
  handles: number;
}

const counted: Record<string, { resource: Resource; namespace?: string }> = {
  NodeMaintenances: { resource: resources.nodeMaintenances as Resource },
  MaintenanceWindows: { resource: resources.maintenanceWindows as Resource },
  Evacuations: { resource: resources.evacuations as Resource },
  NodeReadinesses: { resource: resources.nodeReadinesses as Resource },
  'maintenance Leases': { resource: resources.leases as Resource, namespace: NODE_LEASE_NAMESPACE },
  'Leases of workers': { resource: resources.leases as Resource, namespace: SYSTEM_NAMESPACE },
  Pods: { resource: resources.pods as Resource },
  Events: { resource: resources.events as Resource },
};

/** NODE_OPTIONS of workers of which samples are taken. */
export const sampledNodeOptions = `${deployedNodeOptions()} --expose-gc --import ${new URL('collectOnSignal.ts', import.meta.url).href}`;

export async function takeSample(
  { kube, temporal, sandbox }: Pick<Testbed, 'kube' | 'temporal' | 'sandbox'>,
  slots: readonly WorkerSlot[],
  { prefix }: Names,
): Promise<Omit<ResourceSample, 'seconds' | 'runs'>> {
  const objects: Record<string, number> = {};
  for (const [name, { resource, ...within }] of Object.entries(counted))
    objects[name] = (await kube.list(resource, within)).items.length;
  const open = await historiesOf(temporal, 'ExecutionStatus = "Running"');
  const ids = [workflowIdOf(`${prefix}-`), windowWorkflowIdOf(`${prefix}-`)];
  const own = await historiesOf(temporal, ids.map((id) => `WorkflowId STARTS_WITH "${id}"`).join(' OR '));
  return {
    workers: await Promise.all(slots.map(sampleOf)),
    objects,
    openRuns: open.length,
    openEvents: sum(open.map(({ events }) => events)),
    historyEvents: sum(own.map(({ events }) => events)),
    historyKb: sum(own.map(({ bytes }) => bytes)) / 2 ** 10,
    longestHistory: Math.max(0, ...own.map(({ events }) => events)),
    etcdMb: await storedMb(sandbox),
    temporalMb: sizeMb(layoutOf(sandbox.dir).temporalDatabase),
  };
}

/** Describes each run: the list has no length of a history that is not closed. */
async function historiesOf(
  { workflow }: Testbed['temporal'],
  query: string,
): Promise<{ events: number; bytes: number }[]> {
  const found = [];
  for await (const { workflowId, runId } of workflow.list({ query })) {
    const { historyLength, historySize = 0 } = await workflow.getHandle(workflowId, runId).describe();
    found.push({ events: historyLength, bytes: historySize });
  }
  return found;
}

/** "Writing 5 resets the peak resident set size to its current value" (Documentation/filesystems/proc.rst of Linux). */
const resetPeak = '5';

/** Machine code, and bytecode with its tables. */
const codeSpaces = ['code', 'code_large_object', 'trusted', 'trusted_large_object'];

async function sampleOf(slot: WorkerSlot): Promise<WorkerSample> {
  const { pid } = slot;
  process.kill(pid, 'SIGUSR2');
  // Answered after the signal was handled.
  const metrics = await slot.metrics();
  const inSpace = (space: string) => sizeIn(metrics, `nodejs_heap_space_size_used_bytes{space="${space}"}`);
  const codeMb = codeSpaces.reduce((total, space) => total + inSpace(space), 0);
  const peakMb = readMemoryMb(pid, 'VmHWM') ?? 0;
  writeFileSync(`/proc/${pid}/clear_refs`, resetPeak);
  return {
    pid,
    peakMb,
    codeMb,
    objectsMb: sizeIn(metrics, 'nodejs_heap_size_used_bytes') - codeMb,
    externalMb: sizeIn(metrics, 'nodejs_external_memory_bytes'),
    handles: readdirSync(`/proc/${pid}/fd`).length,
  };
}

function sizeIn(metrics: string, name: string): number {
  const bytes = valueOf(metrics, name);
  if (bytes === undefined) throw new Error(`The worker has no metric ${name}`);
  return bytes / 2 ** 20;
}

function sizeMb(file: string): number {
  return statSync(file).size / 2 ** 20;
}
