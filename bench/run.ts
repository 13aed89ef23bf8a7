import { availableParallelism } from 'node:os';
import { judgeBlocked, judgeBudget, judgeDrain, judgeHistory, judgeReadiness } from './bars.ts';
import type { Bed } from './bed.ts';
import { budgetFloor } from './budgetFloor.ts';
import type { Contender, ContenderName } from './contender.ts';
import { floor } from './floor.ts';
import { kubectl } from './kubectl.ts';
import { type DrainMeasurement, measureBlocked, measureBudget, measureDrain } from './measure.ts';
import type { Options } from './options.ts';
import { ours } from './ours.ts';
import { measureReadiness } from './readiness.ts';
import type { WorkResult } from './report.ts';
import type { Work, WorkOf } from './works.ts';

const contenders: Record<ContenderName, Contender> = { ours, kubectl, floor };

/** What a work needs besides its bed. */
export interface Plan {
  options: Options;
  report: (line: string) => void;
}

export async function runWork(bed: Bed, plan: Plan, work: Work): Promise<WorkResult> {
  switch (work.kind) {
    case 'Drain':
      return runDrains(bed, plan, work);
    case 'Blocked':
      return runBlocked(bed, plan, work);
    case 'Budget':
      return runBudget(bed, plan, work);
    case 'History':
      return runHistory(bed, plan, work);
    case 'Readiness':
      return runReadiness(bed, plan, work);
    default:
      return assertNever(work);
  }
}

async function runDrains(bed: Bed, { options, report }: Plan, work: WorkOf<'Drain'>): Promise<WorkResult> {
  const runs = [];
  for (const { name, run } of schedule(options)) {
    report(`${work.name}, run ${run}: ${name}`);
    const measurement = await measureDrain(bed, contenders[name], work.scene, run);
    report(
      `${work.name}, run ${run}: ${name} took ${measurement.wallSeconds.toFixed(2)} s${disturbance(measurement)}`,
    );
    runs.push(measurement);
  }
  return { kind: 'Drain', work, runs, verdicts: judgeDrain(work.name, runs) };
}

/** Says so when other programs had more than a tenth of the machine: then times tell little, and ratios not all. */
function disturbance({ cpuSeconds, wallSeconds, reportedSeconds }: DrainMeasurement): string {
  const elsewhere = cpuSeconds['elsewhere'] ?? 0;
  const share = elsewhere / (Math.max(wallSeconds, reportedSeconds) * availableParallelism());
  return share > 0.1 ? `; other programs took ${Math.round(share * 100)} % of the machine: run it again` : '';
}

/** Who goes when: the order of the contenders turns round with every run, so that none always comes after the same. */
function schedule(options: Options): { name: ContenderName; run: number }[] {
  const runsOf = (name: ContenderName) => (name === 'kubectl' ? options.kubectlRuns : options.runs);
  const runs = Math.max(...options.contenders.map(runsOf));
  return Array.from({ length: runs }, (_, index) => index + 1).flatMap((run) => {
    const names = options.contenders.filter((name) => run <= runsOf(name));
    return (run % 2 === 1 ? names : names.toReversed()).map((name) => ({ name, run }));
  });
}

/** Without kubectl: it takes minutes, and its evictions are refused in a loop for each pod. */
async function runBudget(bed: Bed, { options, report }: Plan, work: WorkOf<'Budget'>): Promise<WorkResult> {
  const runs = [];
  const able = { ours, floor: budgetFloor };
  for (const { name, run } of schedule(options)) {
    if (name === 'kubectl') continue;
    report(`${work.name}, run ${run}: ${name}`);
    const measurement = await measureBudget(bed, able[name], work, run);
    report(
      `${work.name}, run ${run}: ${name} took ${measurement.wallSeconds.toFixed(2)} s${disturbance(measurement)}`,
    );
    runs.push(measurement);
  }
  return { kind: 'Budget', work, runs, verdicts: judgeBudget(runs) };
}

/** The floor would only prove that bare evictions are refused. */
async function runBlocked(bed: Bed, { options, report }: Plan, work: WorkOf<'Blocked'>): Promise<WorkResult> {
  const runs = [];
  for (const name of options.contenders.filter((asked) => asked !== 'floor')) {
    report(`${work.name}: ${name}`);
    runs.push(await measureBlocked(bed, contenders[name], work.scene, work.seconds));
  }
  return { kind: 'Blocked', work, runs, verdicts: judgeBlocked(runs) };
}

async function runHistory(bed: Bed, { options, report }: Plan, work: WorkOf<'History'>): Promise<WorkResult> {
  if (!options.contenders.includes('ours'))
    return { kind: 'History', work, verdicts: judgeHistory(undefined) };
  const eventsOf = async (scene: typeof work.small) => {
    report(`${work.name}: ${scene.podsPerNode} pods`);
    return (await measureDrain(bed, ours, scene, 1)).historyEvents ?? 0;
  };
  const events = { small: await eventsOf(work.small), large: await eventsOf(work.large) };
  return { kind: 'History', work, events, verdicts: judgeHistory(events) };
}

/** Once: its times are those of many nodes. */
async function runReadiness(
  bed: Bed,
  { options, report }: Plan,
  work: WorkOf<'Readiness'>,
): Promise<WorkResult> {
  report(work.name);
  const runs = options.contenders.includes('ours') ? [await measureReadiness(bed, work)] : [];
  return { kind: 'Readiness', work, runs, verdicts: judgeReadiness(runs) };
}

function assertNever(value: never): never {
  throw new Error(`unexpected ${JSON.stringify(value)}`);
}
