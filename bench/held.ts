import { setTimeout as sleep } from 'node:timers/promises';
import { NODE_MAINTENANCE, temporalNames } from '../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { isCompleted } from '../domain/common/stage.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { resources } from '../kube/resources.ts';
import { until } from '../sandbox/until.ts';
import { actionsBetween, type Reading, readActions } from './actions.ts';
import type { BenchmarkOf } from './benchmarks.ts';
import { coresOf, cpuBetween, readCpu } from './cpu.ts';
import type { Testbed } from './testbed.ts';
import { unregister, WorkerProcess } from './worker.ts';

/** Costs of maintenances that are only held, each with a node of its own: billed actions of Temporal, CPU and memory. */
export interface HeldMeasurement {
  maintenances: number;
  /** Actions per maintenance, by kind. */
  starting: Record<string, number>;
  /** Actions per maintenance and day while nothing happens, extrapolated from their number in `seconds`. */
  heldPerDay: Record<string, number>;
  completing: Record<string, number>;
  /** Seconds until the update `cancel` of a maintenance was answered, and until its node was uncordoned, while all others are held. */
  cancel: { answerSeconds: number; completeSeconds: number }[];
  /** Requests for DescribeWorkflowExecution per maintenance and day while nothing happens. */
  describesPerDay: number;
  seconds: number;
  /** Seconds until all were started. */
  startSeconds: number;
  /** Cores that each process uses while nothing happens. */
  cores: Record<string, number>;
  residentMb: number;
  /** Requests of the worker to Kubernetes per maintenance and hour while nothing happens, by kind. */
  requestsPerHour: Record<string, number>;
}

const maxInFlight = 16;
/** Number of maintenances that are cancelled, one after the other, while the others are held. */
const cancellations = 10;
const timeoutMs = 900_000;
const secondsOfDay = 86_400;
/** Delay after the start of maintenances: everything that it causes is over by then. */
const settleMs = 15_000;

export async function measureHeld(
  testbed: Testbed,
  { maintenances, seconds }: BenchmarkOf<'Held'>,
  report: (line: string) => void,
): Promise<HeldMeasurement> {
  const names = Array.from({ length: maintenances }, (_, index) => `held-${index + 1}`);
  await testbed.sandbox.addNodes(names, { pool: 'bench-held' });
  const worker = await WorkerProcess.start(testbed);
  try {
    const read = () => readActions(testbed.sandbox.temporalMetrics);
    const perMaintenance = (counts: Record<string, number>, factor = 1) =>
      Object.fromEntries(
        Object.entries(counts).map(([kind, count]) => [kind, (count * factor) / maintenances]),
      );
    const before = await read();
    const startedAt = performance.now();
    await holdNodes(testbed, names);
    const startSeconds = (performance.now() - startedAt) / 1_000;
    report(`All ${maintenances} are held after ${startSeconds.toFixed(0)} s`);
    await sleep(settleMs, undefined, { signal: testbed.signal });
    const started = await read();
    const held = await observe(testbed, worker, seconds);
    report(`Held for ${seconds} s: ${JSON.stringify({ ...held.actions, cores: held.cores })}`);
    const cancel = [];
    for (const name of names.slice(0, cancellations)) cancel.push(await measureCancel(testbed, name));
    await completeHeld(testbed, names);
    const completed = await read();
    const days = seconds / secondsOfDay;
    return {
      maintenances,
      seconds,
      startSeconds,
      starting: perMaintenance(actionsBetween(before, started).actions),
      heldPerDay: perMaintenance(held.actions.actions, 1 / days),
      completing: perMaintenance(actionsBetween(held.after, completed).actions),
      cancel,
      describesPerDay: held.actions.describes / maintenances / days,
      cores: held.cores,
      residentMb: worker.memoryMb(),
      requestsPerHour: perMaintenance(held.requests, 3_600 / seconds),
    };
  } finally {
    await worker.stop();
    await unregister(testbed);
    await removeHeld(testbed, names);
  }
}

/** Creates a maintenance for each node, of the same name, and waits until all nodes are cordoned. */
export async function holdNodes(testbed: Testbed, names: readonly string[]): Promise<void> {
  await forEachBounded(maxInFlight, names, (name) =>
    testbed.kube.create(resources.nodeMaintenances, maintenanceOf(name), { fieldManager: 'bench' }),
  );
  await untilAll(testbed, names, 'to be held', isHeld);
}

/** Completes the maintenances of `holdNodes`. */
export async function completeHeld(testbed: Testbed, names: readonly string[]): Promise<void> {
  await forEachBounded(maxInFlight, names, (name) => setStage(testbed, name, 'Complete'));
  await untilAll(testbed, names, 'to be complete', isCompleted);
}

/** Observes for a while in which nobody asks for anything. */
async function observe(testbed: Testbed, worker: WorkerProcess, seconds: number) {
  const { sandbox, signal } = testbed;
  const { processes } = worker;
  const before: Reading = await readActions(sandbox.temporalMetrics);
  const [cpu, requests] = [readCpu(processes), await worker.requestsByKind()];
  await sleep(seconds * 1_000, undefined, { signal });
  const used = cpuBetween(cpu, readCpu(processes));
  const after = await readActions(sandbox.temporalMetrics);
  const requestsAfter = await worker.requestsByKind();
  return {
    after,
    actions: actionsBetween(before, after),
    cores: coresOf(used, seconds),
    requests: Object.fromEntries(
      Object.entries(requestsAfter)
        .map(([kind, count]): [string, number] => [kind, count - (requests[kind] ?? 0)])
        .filter(([, count]) => count > 0),
    ),
  };
}

async function measureCancel(
  { temporal, maintenances, signal }: Testbed,
  name: string,
): Promise<HeldMeasurement['cancel'][number]> {
  const startedAt = performance.now();
  const seconds = () => (performance.now() - startedAt) / 1_000;
  await temporal.workflow.getHandle(temporalNames(undefined).maintenanceId(name)).executeUpdate('cancel');
  const answerSeconds = seconds();
  const isOver = () => {
    const found = maintenances.get(name);
    return found !== undefined && isCompleted(found);
  };
  while (!isOver()) await maintenances.changed(signal);
  return { answerSeconds, completeSeconds: seconds() };
}

function isHeld({ status }: Readonly<NodeMaintenance>): boolean {
  return status?.nodeStatuses.some(({ unschedulableBefore }) => unschedulableBefore !== undefined) === true;
}

async function untilAll(
  { maintenances, signal }: Testbed,
  names: readonly string[],
  what: string,
  holds: (maintenance: Readonly<NodeMaintenance>) => boolean,
): Promise<void> {
  const open = () => {
    const left = names.filter((name) => {
      const found = maintenances.get(name);
      return found === undefined || !holds(found);
    });
    return left.length === 0 ? undefined : `${left.length} are not, such as ${left[0]}`;
  };
  await until(`the maintenances ${what}`, open, { timeoutMs, signal });
}

async function setStage({ kube }: Testbed, name: string, stage: NodeMaintenanceStage): Promise<void> {
  await kube.mergePatch(resources.nodeMaintenances, { name }, { spec: { stage } }, { fieldManager: 'bench' });
}

/** Deletes the maintenances of `holdNodes`, and their nodes. */
export async function removeHeld({ kube, maintenances }: Testbed, names: readonly string[]): Promise<void> {
  await forEachBounded(maxInFlight, names, async (name) => {
    const uid = maintenances.get(name)?.metadata.uid;
    if (uid !== undefined) await kube.delete(resources.nodeMaintenances, { name }, { uid });
    const node = await kube.get(resources.nodes, { name });
    if (node !== undefined) await kube.delete(resources.nodes, { name }, { uid: node.metadata.uid ?? '' });
  });
}

function maintenanceOf(name: string): NodeMaintenance {
  const hostname = { key: 'kubernetes.io/hostname', operator: 'In' as const, values: [name] };
  return {
    apiVersion: NODE_MAINTENANCE.apiVersion,
    kind: NODE_MAINTENANCE.kind,
    metadata: { name },
    spec: {
      nodeSelector: { nodeSelectorTerms: [{ matchExpressions: [hostname] }] },
      stage: 'Cordon',
      reason: 'benchmark',
    },
  };
}
