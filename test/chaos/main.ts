import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startSandbox } from '../../sandbox/sandbox.ts';
import { createTestbed, sandboxOptions } from './testbed.ts';
import { type Options, parseOptions } from './options.ts';
import { addResults, recordOf } from './results.ts';
import { type RunResult, runScenario } from './run.ts';
import { scenarioOf, shortened, stepText, type Scenario, withSteps } from './scenario.ts';
import { violationText } from './violationText.ts';

/** npm run chaos: random faults in random worlds. Results on standard output, progress on standard error; exit 1 after a violation. */

const startedAt = performance.now();
const options = parseOptions(process.argv.slice(2), Math.floor(Math.random() * 1_000_000) + 1);
const scenarios = Array.from({ length: options.runs }, (_, index) =>
  scenarioWith(options, options.seed + index),
);

if (options.show) for (const scenario of scenarios) print(textOf(scenario));
// An exit by itself frees what is left of closed connections, in which Node 24.9 has looped for ever.
else process.exit(await main(options));

function scenarioWith({ steps, evictionApi, short }: Options, seed: number): Scenario {
  const whole = scenarioOf(seed, evictionApi);
  const scenario = short ? shortened(whole) : whole;
  return steps === undefined ? scenario : withSteps(scenario, steps);
}

async function main({ keep, evictionApi, short, json }: Options): Promise<number> {
  const dir = await mkdtemp(join(tmpdir(), 'node-maintenance-chaos-'));
  const stop = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(name, () => stop.abort(new Error('Interrupted; everything is stopped again')));
  const served = await sandboxOptions(dir, evictionApi);
  const sandbox = await startSandbox({ dir, nodes: 1, ...served, report: log, signal: stop.signal });
  const results: RunResult[] = [];
  try {
    const testbed = await createTestbed(sandbox, served.auditLogs ?? '', evictionApi);
    for (const scenario of scenarios) {
      if (stop.signal.aborted) break;
      log(
        `seed ${scenario.seed}: ${scenario.nodes.length} nodes, ${scenario.maintenances.length} maintenances, ${scenario.workers} workers`,
      );
      const result = await runScenario(testbed, scenario, { report: log });
      results.push(result);
      print(lineOf(result));
      for (const violation of result.violations)
        print(violationText(violation, { seed: result.seed, evictionApi, short }));
      if (json !== undefined) await addResults(json, [recordOf(result, evictionApi)]);
    }
    await testbed.close();
  } finally {
    if (keep) log(`The servers go on: npm run sandbox -- down --dir ${dir}`);
    else await sandbox.stop();
  }
  if (!keep) await rm(dir, { recursive: true, force: true });
  const failed = results.filter(({ violations }) => violations.length > 0);
  print(
    `${results.length} runs, ${failed.length} with violations${failed.length > 0 ? `: seeds ${failed.map(({ seed }) => seed).join(', ')}` : ''}`,
  );
  return failed.length > 0 || stop.signal.aborted ? 1 : 0;
}

function lineOf({ seed, violations, evicted, faults, seconds }: RunResult): string {
  const outcome = violations.length === 0 ? 'kept all promises' : `${violations.length} VIOLATIONS`;
  return `seed ${seed}: ${outcome}, ${evicted} evictions, ${seconds.toFixed(0)} s, faults: ${faults.join(', ') || 'none'}`;
}

function textOf({ seed, steps, ...world }: Scenario): string {
  const numbered = steps.map((step, index) => `${String(index + 1).padStart(3)}  ${stepText(step)}`);
  return [`seed ${seed}`, JSON.stringify(world, null, 1), ...numbered].join('\n');
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function log(line: string): void {
  process.stderr.write(`${((performance.now() - startedAt) / 1_000).toFixed(1).padStart(7)} s  ${line}\n`);
}
