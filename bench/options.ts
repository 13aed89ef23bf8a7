import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { type Benchmark, parseBenchmark } from './benchmarks.ts';
import {
  isRecording,
  recordedFile,
  type Recording,
  type RecordingName,
  peersRecordings,
  recordingNames,
  recordings,
} from './recordings.ts';
import { type TargetName, targetNames } from './targetNames.ts';

export interface Options {
  benchmarks: Benchmark[];
  targets: TargetName[];
  /** Runs of each target, interleaved. */
  runs: number;
  /** Runs of one process of kubectl for all nodes, which takes minutes and hardly varies. */
  kubectlRuns: number;
  /** File of the results. */
  json: string;
  /** Directory for the CPU profiles of the worker. */
  profile?: string;
  /** Exit 1 when a threshold is missed. */
  check: boolean;
  /** The committed file to write, bench/results/NAME.json, once everything is measured. */
  record?: RecordingName;
}

/** Benchmarks and targets that are measured unless the command line names others. */
const defaults = {
  alone: {
    benchmarks: '1x250,10x70,pdb,budget,readiness:200x3,held:500',
    targets: ['ours', 'kubectl', 'floor'],
    runs: 3,
  },
  peers: {
    ...recordings['peers-drains'],
    benchmarks: peersRecordings.map((name) => recordings[name].benchmarks).join(),
  },
} as const satisfies Record<string, Pick<Recording, 'benchmarks' | 'targets' | 'runs'>>;

/** Parses the command line. Ends the process for `--help` (exit 0) and for invalid arguments (exit 2). */
export function parseOptions(
  argv: readonly string[],
  now: Date,
  /** Whether a path from the root of the repository exists. */
  exists = (path: string) => existsSync(join(import.meta.dirname, '..', path)),
): Options {
  const command = commandOf(`bench/results/${now.toISOString().slice(0, 19).replaceAll(':', '')}.json`);
  try {
    command.parse(argv, { from: 'user' });
    const { force, ...given } = command.opts<Given>();
    const options = withDefaults(given);
    const problem = recordProblem(options, force, exists);
    if (problem !== undefined) command.error(`error: ${problem}`);
    return options;
  } catch (error) {
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2);
    throw error;
  }
}

type Given = Omit<Options, 'benchmarks' | 'targets' | 'runs'> &
  Partial<Options> & { peers: boolean; force: boolean };

function withDefaults({ peers, benchmarks, targets, runs, ...others }: Omit<Given, 'force'>): Options {
  const named = others.record === undefined ? undefined : recordings[others.record];
  const unnamed = named ?? (peers ? defaults.peers : defaults.alone);
  return {
    benchmarks: benchmarks ?? parseBenchmarks(unnamed.benchmarks),
    targets: targets ?? [...unnamed.targets],
    runs: runs ?? unnamed.runs,
    ...others,
  };
}

/** Returns why results cannot be recorded, before hours of measurements. */
function recordProblem(
  { record, benchmarks, profile }: Options,
  force: boolean,
  exists: (path: string) => boolean,
): string | undefined {
  if (record === undefined) return force ? '--force is only for --record' : undefined;
  if (profile !== undefined)
    return '--record and --profile exclude each other: profiles are of the checkout, and recorded figures of the image';
  const other = benchmarks.find(({ kind }) => !recordings[record].kinds.includes(kind));
  if (other !== undefined)
    return `--record ${record}: the section "${recordings[record].section}" of docs/performance.md has no figures of ${other.name}; leave --work out, or use --json`;
  if (!force && exists(recordedFile(record)))
    return `--record ${record}: ${recordedFile(record)} exists; add --force to replace it`;
  return undefined;
}

function commandOf(defaultFile: string): Command {
  return new Command('npm run bench --')
    .description(
      'Drains the nodes of a sandbox of its own with this project, with kubectl drain and with bare evictions.',
    )
    .addOption(
      new Option(
        '--work, --benchmarks <list>',
        `NODESxPODS (pods per node; each:NODESxPODS with a maintenance of each node, overlap:NODESxPODS with two that have half of their nodes in common, cold:NODESxPODS as the first one after a start), pdb, budget, readiness:NODESxGATES, held:MAINTENANCES[xSECONDS], idle:NODESxPODS, takeover:RUNS, traffic:ROUNDS, policies:MAINTENANCES (default: ${defaults.alone.benchmarks}; with --peers: ${defaults.peers.benchmarks})`,
      ).argParser(parseBenchmarks),
    )
    .addOption(
      new Option(
        '--targets <list>',
        `programs to measure, of ${targetNames.join()} (default: ${defaults.alone.targets.join()}; with --peers: ${defaults.peers.targets.join()})`,
      ).argParser(parseTargets),
    )
    .option(
      '--peers',
      'compare with the peers of this project, built from their public sources in the folders of PEERS_SOURCE',
      false,
    )
    .option(
      '--runs <number>',
      `interleaved runs of each target; the table shows the median (default: ${defaults.alone.runs}, or those of --record)`,
      positive,
    )
    .option(
      '--kubectl-runs <number>',
      'runs of the target kubectl: one takes up to 142 s and hardly varies',
      positive,
      1,
    )
    .addOption(
      new Option(
        '--record <name>',
        `measure what a section of docs/performance.md shows, unless --work, --targets or --runs say otherwise, and write bench/results/NAME.json, from which \`npm run generate\` writes the section: ${recordingNames.join(', ')}. With --check it is written, too, if a threshold is missed`,
      ).argParser(parseRecording),
    )
    .option('--force', 'replace the file of --record if it exists', false)
    .option('--json <file>', 'write the results to this file', defaultFile)
    .option(
      '--profile <dir>',
      'write one CPU profile of the worker per run to this directory; the worker of the checkout runs then, so that they name the sources',
    )
    .option('--check', 'exit 1 when a threshold is missed', false)
    .exitOverride();
}

function parseBenchmarks(text: string): Benchmark[] {
  return text.split(',').map((name) => {
    const benchmark = parseBenchmark(name);
    if (benchmark === undefined)
      throw new InvalidArgumentError(
        `"${name}" is not a benchmark: use 10x70 (nodes x pods), each:100x5, overlap:20x10 (an even number of nodes), cold:1x250, pdb, budget, readiness:200x3 (nodes x gates), held:500, idle:1000x10, takeover:20 (runs), traffic:10 (rounds) or policies:1000.`,
      );
    return benchmark;
  });
}

function parseRecording(name: string): RecordingName {
  if (isRecording(name)) return name;
  throw new InvalidArgumentError(
    `"${name}" is no section of docs/performance.md: use ${recordingNames.join(', ')}, or --json for another file.`,
  );
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
