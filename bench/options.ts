import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { type Benchmark, parseBenchmark } from './benchmarks.ts';
import { type TargetName, targetNames } from './target.ts';

export interface Options {
  benchmarks: Benchmark[];
  targets: TargetName[];
  /** Runs of ours and of the floor. */
  runs: number;
  /** Runs of kubectl, which takes minutes and hardly varies. */
  kubectlRuns: number;
  /** File of the results. */
  json: string;
  /** Directory for the CPU profiles of the worker. */
  profile?: string;
  strict: boolean;
}

const defaultBenchmarks = '1x250,10x70,pdb,budget,readiness:200x3,held:500';

/** Parses the command line. Ends the process for `--help` (exit 0) and for invalid arguments (exit 2). */
export function parseOptions(argv: readonly string[], now: Date): Options {
  const command = commandOf(`bench/results/${now.toISOString().slice(0, 19).replaceAll(':', '')}.json`);
  try {
    command.parse(argv, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2);
    throw error;
  }
  return command.opts<Options>();
}

function commandOf(defaultFile: string): Command {
  return new Command('npm run bench --')
    .description(
      'Drains the nodes of a sandbox of its own with this project, with kubectl drain and with bare evictions.',
    )
    .addOption(
      new Option(
        '--work, --benchmarks <list>',
        'NODESxPODS (pods per node), pdb, budget, readiness:NODESxGATES, held:MAINTENANCES[xSECONDS], takeover:RUNS',
      )
        .argParser(parseBenchmarks)
        .default(parseBenchmarks(defaultBenchmarks), defaultBenchmarks),
    )
    .addOption(
      new Option('--targets <list>', `programs to measure, of ${targetNames.join()}`)
        .argParser(parseTargets)
        .default([...targetNames], 'all'),
    )
    .option('--runs <number>', 'runs of ours and of the floor; the table shows the median', positive, 3)
    .option(
      '--kubectl-runs <number>',
      'runs of kubectl: one takes up to 142 s and hardly varies',
      positive,
      1,
    )
    .option('--json <file>', 'write the results to this file', defaultFile)
    .option('--profile <dir>', 'write one CPU profile of the worker per run to this directory')
    .option('--strict', 'exit 1 when a threshold is missed', false)
    .exitOverride();
}

function parseBenchmarks(text: string): Benchmark[] {
  return text.split(',').map((name) => {
    const benchmark = parseBenchmark(name);
    if (benchmark === undefined)
      throw new InvalidArgumentError(
        `"${name}" is not a benchmark: use 10x70 (nodes x pods), pdb, budget, readiness:200x3 (nodes x gates), held:500 or takeover:20 (runs).`,
      );
    return benchmark;
  });
}

function parseTargets(text: string): TargetName[] {
  const requested = text.split(',');
  const unknown = requested.find((name) => !(targetNames as readonly string[]).includes(name));
  if (unknown !== undefined)
    throw new InvalidArgumentError(`"${unknown}" is not a target: use ${targetNames.join()}.`);
  return targetNames.filter((name) => requested.includes(name));
}

function positive(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1)
    throw new InvalidArgumentError('Must be a whole number, 1 or more.');
  return number;
}
