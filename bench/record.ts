import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { figuresOf } from './figures.ts';
import type { Options } from './options.ts';
import { type RecordingName, recordedFile, recordingCommand, recordings } from './recordings.ts';
import { type BenchmarkResult, titleOf } from './report.ts';
import type { RecordedFile, ResultsFile, Source } from './results.ts';
import { percentile } from './statistics.ts';
import type { Slice, TrafficKind } from './traffic.ts';

const root = join(import.meta.dirname, '..');
const run = promisify(execFile);

/** Returns the commit of the sources in a directory. Throws if it is no git repository: a recorded file says what it has measured. */
export async function sourceIn(directory = root): Promise<Source> {
  const git = async (...args: string[]) => (await run('git', ['-C', directory, ...args])).stdout.trim();
  try {
    const changed = ['status', '--porcelain', '--untracked-files=no', '--', '.', ':!bench/results', ':!docs'];
    return { commit: await git('rev-parse', 'HEAD'), isModified: (await git(...changed)) !== '' };
  } catch (cause) {
    throw new Error(
      '--record needs a clone of the git repository, because the file names the commit that was measured',
      { cause },
    );
  }
}

/** Everything that a recorded file has in addition to the results. */
export interface Measured {
  name: RecordingName;
  options: Options;
  finishedAt: Date;
  source: Source;
}

/** Summarizes results for a committed file: without paths, without the name of the host, and with deciles in place of each answer to a request. */
export function recordedOf(
  file: ResultsFile,
  { name, options, finishedAt, source }: Measured,
  host = hostname(),
): RecordedFile {
  const { startedAt, machine, peers, results } = file;
  return {
    name,
    command: commandOf(name, options),
    startedAt,
    finishedAt: finishedAt.toISOString(),
    source,
    machine,
    peers: peers.map((peer) =>
      peer.unavailable === undefined ? peer : { ...peer, unavailable: withoutPlaces(peer.unavailable, host) },
    ),
    results: results.map((result) => ({
      title: titleOf(result.benchmark),
      figures: figuresOf(result),
      ...shortened(result, host),
    })),
  };
}

/** Writes the file. Returns its path, relative to the root of the repository. */
export function writeRecorded(file: RecordedFile, directory = root): string {
  const path = recordedFile(file.name);
  mkdirSync(dirname(join(directory, path)), { recursive: true });
  writeFileSync(join(directory, path), jsonOf(file));
  return path;
}

function commandOf(name: RecordingName, { benchmarks, targets, runs, kubectlRuns }: Options): string {
  const recording = recordings[name];
  const options = [
    { option: '--work', value: benchmarks.map((one) => one.name).join(), usual: recording.benchmarks },
    { option: '--targets', value: targets.join(), usual: recording.targets.join() },
    { option: '--runs', value: String(runs), usual: String(recording.runs) },
    { option: '--kubectl-runs', value: String(kubectlRuns), usual: '1' },
  ];
  const changed = options.filter(({ value, usual }) => value !== usual);
  return [recordingCommand(name), ...changed.map(({ option, value }) => `${option} ${value}`)].join(' ');
}

function shortened(result: BenchmarkResult, host: string): BenchmarkResult {
  if (result.kind === 'Drain' || result.kind === 'Budget') {
    const failures = result.failures.map((one) => ({ ...one, reason: withoutPlaces(one.reason, host) }));
    return { ...result, failures };
  }
  if (result.kind !== 'Traffic') return result;
  const runs = result.runs.map(({ maintenances, rounds }) => ({
    maintenances,
    rounds: rounds.map(({ bare, installed }) => ({
      bare: withDeciles(bare),
      installed: withDeciles(installed),
    })),
  }));
  return { ...result, runs };
}

/** A slice has a thousand answers. */
function withDeciles({ cpuSeconds, seconds }: Slice): Slice {
  const deciles = Object.entries(seconds).map(([kind, answers]) => {
    const sorted = answers.toSorted((a, b) => a - b);
    return [kind, sorted.length <= 11 ? sorted : shares.map((share) => percentile(sorted, share) ?? NaN)];
  });
  return { cpuSeconds, seconds: Object.fromEntries(deciles) as Record<TrafficKind, number[]> };
}

const shares = Array.from({ length: 11 }, (_, index) => index / 10);

/** Reduces absolute paths to their last part, and replaces the name of the host. */
function withoutPlaces(text: string, host: string): string {
  const named = text.replaceAll(/(?<![\w.:/])(?:\/[\w.@+-]+)*\/([\w.@+-]+)\/?/g, '$1');
  return host.length < 4 || host === 'localhost' ? named : named.replaceAll(host, 'HOST');
}

/** Renders numbers with six digits, and lists and ranges of numbers on one line, for short differences between releases. */
function jsonOf(file: RecordedFile): string {
  const rounded = (_: string, value: unknown) =>
    typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
  const json = JSON.stringify(file, rounded, 2);
  const number = String.raw`(?:"[^"\n]+": )?-?\d[\d.e+-]*`;
  const flat = new RegExp(String.raw`([[{])\n\s+(${number}(?:,\n\s+${number})*)\n\s+([\]}])`, 'g');
  const lines = json.replaceAll(flat, (_, open: string, numbers: string, close: string) => {
    const [first, last] = open === '{' ? ['{ ', ' }'] : [open, close];
    return `${first}${numbers.replaceAll(/,\n\s+/g, ', ')}${last}`;
  });
  return `${lines}\n`;
}
