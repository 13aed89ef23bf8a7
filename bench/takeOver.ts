import { setTimeout as sleep } from 'node:timers/promises';
import { completeTiming } from '../kube/electionTiming.ts';
import { resources } from '../kube/resources.ts';
import { until } from '../sandbox/until.ts';
import { type BenchmarkOf, podsOf, type Successor, successors } from './benchmarks.ts';
import { withBudget } from './measure.ts';
import { complete, maintenanceOf } from './ours.ts';
import { namespace, type Testbed } from './testbed.ts';
import { unregister, WorkerProcess } from './worker.ts';
import { placePod, placeWorkload } from './workload.ts';

/** The kill of a leader in the middle of a drain. Times are in seconds. */
export interface TakeOverMeasurement {
  successor: Successor;
  run: number;
  /** Time from the kill until the successor evicts the first of the pods that have an Evacuation. */
  firstEviction: number;
  /** Time from the kill until it evicts a pod that has appeared since: Temporal has given it the drain. */
  drainContinues: number;
  /** Time from the start of the successor until it is ready. */
  start: number;
}

const timeoutMs = 120_000;

/** Kills the leader of each run. The successor leads in the next one. */
export async function measureTakeOvers(
  testbed: Testbed,
  benchmark: BenchmarkOf<'TakeOver'>,
  report: (line: string) => void,
): Promise<TakeOverMeasurement[]> {
  const measurements: TakeOverMeasurement[] = [];
  const workers = [await WorkerProcess.start(testbed)];
  const launch = async () => {
    const worker = await WorkerProcess.launch(testbed);
    workers.push(worker);
    return worker;
  };
  try {
    for (const successor of successors) {
      for (let run = 1; run <= benchmark.runs; run++) {
        const times = await measureTakeOver(testbed, benchmark, {
          leader: workers.at(-1),
          successor,
          launch,
        });
        measurements.push({ successor, run, ...times });
        const { firstEviction, drainContinues, start } = times;
        const seconds = [firstEviction, drainContinues, start].map((time) => `${time.toFixed(2)} s`);
        report(`${benchmark.name}, ${successor}, run ${run}: ${seconds.join(', ')}`);
      }
    }
    return measurements;
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()));
    await unregister(testbed);
  }
}

interface Kill {
  leader: WorkerProcess | undefined;
  successor: Successor;
  launch(): Promise<WorkerProcess>;
}

/** Drains a node whose pods a PodDisruptionBudget blocks, kills the leader, and completes the maintenance. */
async function measureTakeOver(
  testbed: Testbed,
  { workload }: BenchmarkOf<'TakeOver'>,
  kill: Kill,
): Promise<Omit<TakeOverMeasurement, 'successor' | 'run'>> {
  const nodeNames = await placeWorkload(testbed, workload);
  const pods = podsOf(workload);
  return withBudget(testbed, { pods, maxUnavailable: 0 }, async (signal, deleteBudget) => {
    const startOfStandby = kill.successor === 'standby' ? await (await kill.launch()).ready() : undefined;
    const maintenance = maintenanceOf(nodeNames);
    const { name } = maintenance.metadata;
    await testbed.kube.create(resources.nodeMaintenances, maintenance, { fieldManager: 'bench' });
    await until('an Evacuation of each pod', () => missingEvacuations(testbed, pods), { timeoutMs, signal });
    // The leader renews its Lease at regular intervals: it may die at any time between two of them.
    await sleep(Math.random() * completeTiming({}).retryPeriodSeconds * 1_000, undefined, { signal });
    const terminations = testbed.podCount.terminations();
    const killedAt = performance.now();
    await kill.leader?.kill();
    const start = startOfStandby ?? (await kill.launch()).ready();
    // From here on every eviction is one of the successor.
    await deleteBudget();
    const late = await placePod(testbed, `late-${name}`, nodeNames[0] ?? '');
    const isLeft = () =>
      terminations.times.has(late) ? undefined : `${terminations.times.size} other pods left`;
    const [startSeconds] = await Promise.all([
      start,
      until('the late pod to be evicted', isLeft, { timeoutMs, signal }),
    ]);
    terminations.stop();
    await complete(testbed, name);
    const secondsTo = (time: number) => (time - killedAt) / 1_000;
    const others = [...terminations.times].flatMap(([uid, time]) => (uid === late ? [] : [time]));
    return {
      firstEviction: secondsTo(Math.min(...others)),
      drainContinues: secondsTo(terminations.times.get(late) ?? Infinity),
      start: startSeconds,
    };
  });
}

async function missingEvacuations({ kube }: Testbed, pods: number): Promise<string | undefined> {
  const { items } = await kube.list(resources.evacuations, { namespace });
  return items.length === pods ? undefined : `${items.length} of ${pods}`;
}
