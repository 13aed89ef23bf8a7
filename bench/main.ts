import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { dirname } from 'node:path';
import type { Log } from '../kube/log.ts';
import { withBed } from './bed.ts';
import { type Options, parseOptions } from './options.ts';
import { textOf, type WorkResult } from './report.ts';
import { runWork } from './run.ts';
import { nodesFor } from './works.ts';

/** npm run bench: the bars of the project, measured. Results on standard output, progress on standard error. */

const began = new Date();
const options = parseOptions(process.argv.slice(2), began);
const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(name, () => {
    report('Interrupted: everything is being stopped');
    stop.abort(new Error('Interrupted; everything is stopped again'));
  });
}

try {
  const results = await measureAll(options);
  save(results);
  const missed = results.flatMap(({ verdicts }) => verdicts).filter(({ verdict }) => verdict === 'MISSED');
  if (options.strict && missed.length > 0) process.exitCode = 1;
} catch (error) {
  report(error instanceof Error ? error.message : String(error));
  if (!stop.signal.aborted) report((error as Error | undefined)?.stack ?? '');
  process.exitCode = 1;
}

async function measureAll({ works, profile }: Options): Promise<WorkResult[]> {
  const results: WorkResult[] = [];
  const bed = { nodes: nodesFor(works), profile, log: quietLog(), signal: stop.signal, report };
  await withBed(bed, async (made) => {
    for (const work of works) {
      const result = await runWork(made, { options, report }, work);
      results.push(result);
      process.stdout.write(`${textOf(result)}\n`);
    }
  });
  return results;
}

function save(results: WorkResult[]): void {
  const machine = {
    cpus: availableParallelism(),
    memoryGb: Math.round(totalmem() / 2 ** 30),
    node: process.version,
  };
  mkdirSync(dirname(options.json), { recursive: true });
  writeFileSync(options.json, `${JSON.stringify({ began, machine, results }, null, 2)}\n`);
  report(`Results are in ${options.json}`);
}

/** The watches of the bench are cut under load, which is normal and of no interest here. */
function quietLog(): Log {
  const nothing = () => undefined;
  const say = (message: string, fields?: Record<string, unknown>) =>
    report(fields === undefined ? message : `${message} ${JSON.stringify(fields)}`);
  return { debug: nothing, info: nothing, warn: say, error: say };
}

function report(line: string): void {
  const seconds = ((Date.now() - began.getTime()) / 1000).toFixed(1);
  process.stderr.write(`${seconds.padStart(7)} s  ${line}\n`);
}
