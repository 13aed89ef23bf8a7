import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { dirname } from 'node:path';
import type { Log } from '../kube/log.ts';
import { nodesFor } from './benchmarks.ts';
import { type Options, parseOptions } from './options.ts';
import { type BenchmarkResult, textOf } from './report.ts';
import { runBenchmark } from './run.ts';
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
  const results = await measureAll(options);
  save(results);
  const missed = results.flatMap(({ thresholds }) => thresholds).filter(({ result }) => result === 'MISSED');
  if (options.strict && missed.length > 0) process.exitCode = 1;
} catch (error) {
  report(error instanceof Error ? error.message : String(error));
  if (!stop.signal.aborted) report((error as Error | undefined)?.stack ?? '');
  process.exitCode = 1;
}

async function measureAll({ benchmarks, profile }: Options): Promise<BenchmarkResult[]> {
  const results: BenchmarkResult[] = [];
  const testbedOptions = {
    nodes: nodesFor(benchmarks),
    profile,
    log: quietLog(),
    signal: stop.signal,
    report,
  };
  await withTestbed(testbedOptions, async (testbed) => {
    for (const benchmark of benchmarks) {
      const result = await runBenchmark(testbed, { options, report }, benchmark);
      results.push(result);
      process.stdout.write(`${textOf(result)}\n`);
    }
  });
  return results;
}

function save(results: BenchmarkResult[]): void {
  const machine = {
    cpus: availableParallelism(),
    memoryGb: Math.round(totalmem() / 2 ** 30),
    node: process.version,
  };
  mkdirSync(dirname(options.json), { recursive: true });
  writeFileSync(options.json, `${JSON.stringify({ startedAt, machine, results }, null, 2)}\n`);
  report(`Wrote the results to ${options.json}`);
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
