import { writeFile } from 'node:fs/promises';
import { Command, CommanderError } from 'commander';
import { retryUntilAnswered } from '../retryUntilAnswered.ts';
import { positive } from '../options.ts';
import { interruption, log, print, withTestbed } from '../program.ts';
import { runScenario } from '../run.ts';
import { scenarioOf, withLastingWorkers } from '../scenario.ts';
import { violationText } from '../violationText.ts';
import { Names, worldDeleted } from '../worldObjects.ts';
import { type ResourceSample, sampledNodeOptions, takeSample } from './resources.ts';
import { type EnduranceRecord, growthOfAll, restartsOf, valuesOf } from './record.ts';

/**
 * npm run endurance: the scenarios of npm run chaos one after the other, with two workers that no fault ends. After each of them everything that could
 * grow is counted. Exit 1 after a violation, if something grows, or, at once, if a worker has ended.
 */

interface Options {
  minutes: number;
  seed: number;
  json?: string;
}

const workers = 2;

// An exit by itself frees what is left of closed connections, in which Node 24.9 has looped for ever.
process.exit(await main(parsed(process.argv.slice(2))));

function parsed(argv: readonly string[]): Options {
  const command = new Command('npm run endurance --')
    .description(
      'Maintains the nodes of random worlds, one after the other, by the same two workers, while servers and networks fail, and reports what grows.',
    )
    .option('--minutes <number>', 'no run starts after this time', positive, 120)
    .option('--seed <number>', 'seed of the first run; each later run has the next one', positive, 1)
    .option('--json <file>', 'write the result to this file')
    .exitOverride();
  try {
    return command.parse(argv, { from: 'user' }).opts<Options>();
  } catch (error) {
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2);
    throw error;
  }
}

async function main({ minutes, seed, json }: Options): Promise<number> {
  const signal = interruption();
  const samples: ResourceSample[] = [];
  const record: Omit<EnduranceRecord, 'growth' | 'restarts'> = {
    minutes,
    seed,
    runs: 0,
    maintenances: 0,
    evicted: 0,
    faults: {},
    broken: [],
  };
  await withTestbed({ evictionApi: 'evacuation', signal }, async (testbed) => {
    const slots = await testbed.workerSlots(workers, sampledNodeOptions);
    const beganAt = performance.now();
    const elapsed = () => (performance.now() - beganAt) / 1_000;
    while (elapsed() < minutes * 60 && !signal.aborted) {
      const scenario = withLastingWorkers(scenarioOf(seed + record.runs), workers);
      const result = await runScenario(testbed, scenario, { report: () => undefined });
      record.runs += 1;
      record.maintenances += scenario.maintenances.length;
      record.evicted += result.evicted;
      for (const fault of result.faults) record.faults[fault] = (record.faults[fault] ?? 0) + 1;
      if (result.violations.length > 0) record.broken.push(result.seed);
      for (const violation of result.violations)
        print(violationText(violation, { seed: result.seed, evictionApi: 'evacuation' }));
      const names = new Names(scenario.seed);
      await worldDeleted(testbed, names);
      const sample = await retryUntilAnswered('the sample', () => takeSample(testbed, slots, names));
      samples.push({ seconds: elapsed(), runs: record.runs, ...sample });
      log(`seed ${result.seed}, ${result.seconds.toFixed(0)} s: ${textOf(samples.at(-1) as ResourceSample)}`);
      if (restartsOf(samples) > 0) {
        print(
          `a worker has ended in the run of seed ${result.seed}, which no fault ends: the memory of its successor says nothing about hours`,
        );
        break;
      }
    }
  });
  const recorded = { ...record, restarts: restartsOf(samples), growth: growthOfAll(samples) };
  if (json !== undefined) await writeFile(json, `${JSON.stringify(recorded, rounded, 2)}\n`);
  return report(recorded);
}

function report({ runs, maintenances, broken, restarts, growth }: EnduranceRecord): number {
  for (const [name, { mean, perHour, low, high, isGrowing }] of Object.entries(growth))
    print(
      `${name}: ${mean.toFixed(1)}, ${perHour.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)}) an hour${isGrowing ? ', GROWS' : ''}`,
    );
  print(
    `${runs} runs with ${maintenances} maintenances, ${broken.length} with violations, ${restarts} restarts of workers`,
  );
  const isFlat = Object.values(growth).every(({ isGrowing }) => !isGrowing);
  return broken.length === 0 && isFlat && restarts === 0 ? 0 : 1;
}

function textOf(sample: ResourceSample): string {
  const values = Object.entries(valuesOf(sample)).map(([name, value]) => `${name} ${Math.round(value)}`);
  const code = sample.workers.map(({ codeMb }) => codeMb.toFixed(1)).join(' and ');
  return [
    ...values,
    `compiled code ${code} MB`,
    `database of Temporal ${Math.round(sample.temporalMb)} MB`,
  ].join('; ');
}

function rounded(_: string, value: unknown): unknown {
  return typeof value === 'number' ? Number(value.toPrecision(5)) : value;
}
