import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Log } from '../kube/log.ts';
import { nodesFor } from './benchmarks.ts';
import { machineOf } from './machine.ts';
import { type Options, parseOptions } from './options.ts';
import { buildOperator, type OperatorBuilds } from './peers/build.ts';
import { type BenchmarkResult, textOf, checkResults } from './report.ts';
import { recordedOf, sourceIn, writeRecorded } from './record.ts';
import type { RecordingName } from './recordings.ts';
import type { ResultsFile, Source } from './results.ts';
import { runBenchmark } from './run.ts';
import { operators } from './peers/operators.ts';
import { isOperator, type OperatorName } from './targetNames.ts';
import { withTestbed } from './testbed.ts';

/** npm run bench: measures the project against its thresholds. Results on standard output, progress on standard error. */

const startedAt = new Date();
const options = parseOptions(process.argv.slice(2), startedAt);
const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(name, () => {
    report('Interrupted: stopping everything');
    stop.abort(new Error('Interrupted; everything is stopped again'));
  });
}

try {
  // Read first: the sources may change while hours of benchmarks run.
  const source = options.record === undefined ? undefined : await sourceIn();
  if (source?.isModified) report('The recorded file will say that the sources have uncommitted changes');
  const builds = await buildAll(options);
  const file = await measureAll(options, builds);
  report(`Wrote the results to ${options.json}`);
  if (options.record !== undefined && source !== undefined) record(file, options.record, source);
  if (options.check) reportCheck(file.results);
} catch (error) {
  report(error instanceof Error ? error.message : String(error));
  if (!stop.signal.aborted) report((error as Error | undefined)?.stack ?? '');
  process.exitCode = 1;
}

/** Written at the end only: an interrupted run replaces no results of a release. */
function record(file: ResultsFile, name: RecordingName, source: Source): void {
  const path = writeRecorded(recordedOf(file, { name, options, finishedAt: new Date(), source }));
  report(`Recorded ${path}. Next: npm run generate`);
}

/** Says which thresholds are not met, and which are not checked. */
function reportCheck(results: readonly BenchmarkResult[]): void {
  const { failures, unchecked } = checkResults(results);
  for (const line of unchecked) report(`Not checked: ${line}`);
  for (const line of failures) report(`Not met: ${line}`);
  if (failures.length > 0) process.exitCode = 1;
  else
    report(
      `Every threshold that was checked is met${unchecked.length > 0 ? `; ${unchecked.length} were not checked` : ''}`,
    );
}

/** Builds the operators before anything is measured. */
async function buildAll({ targets }: Options): Promise<OperatorBuilds> {
  const builds: OperatorBuilds = {};
  for (const name of targets.filter(isOperator)) {
    const build = await buildOperator(name, { env: process.env, report, signal: stop.signal });
    if (build.kind === 'Unavailable') report(`Not measuring ${name}: ${build.reason}`);
    builds[name] = build;
  }
  return builds;
}

async function measureAll(
  { benchmarks, targets, profile }: Options,
  builds: OperatorBuilds,
): Promise<ResultsFile> {
  const file: ResultsFile = {
    startedAt: startedAt.toISOString(),
    machine: machineOf(),
    peers: peersOf(builds),
    results: [],
  };
  const testbedOptions = {
    nodes: nodesFor(benchmarks),
    evictionRequest: targets.includes('ours-lifecycle'),
    profile,
    log: quietLog(),
    signal: stop.signal,
    report,
  };
  await withTestbed(testbedOptions, async (testbed) => {
    for (const benchmark of benchmarks) {
      const result = await runBenchmark(testbed, { options, builds, report }, benchmark);
      file.results.push(result);
      save(file);
      process.stdout.write(`${textOf(result)}\n`);
    }
  });
  return file;
}

function peersOf(builds: OperatorBuilds): ResultsFile['peers'] {
  return Object.entries(builds).map(([name, build]) =>
    build.kind === 'Built'
      ? { name, revision: build.revision, changes: operators[name as OperatorName].changes }
      : { name, unavailable: build.reason, changes: [] },
  );
}

/** Called after each benchmark: a run of all takes hours, and may be interrupted. */
function save(file: ResultsFile): void {
  mkdirSync(dirname(options.json), { recursive: true });
  writeFileSync(options.json, `${JSON.stringify(file, null, 2)}\n`);
}

/** Drops messages below warning: under load, the apiserver cuts the benchmark's watches, which is normal. */
function quietLog(): Log {
  const ignore = () => undefined;
  const print = (message: string, fields?: Record<string, unknown>) =>
    report(fields === undefined ? message : `${message} ${JSON.stringify(fields)}`);
  return { debug: ignore, info: ignore, warn: print, error: print };
}

function report(line: string): void {
  const seconds = ((Date.now() - startedAt.getTime()) / 1000).toFixed(1);
  process.stderr.write(`${seconds.padStart(7)} s  ${line}\n`);
}
