import { type Options, parseOptions } from './options.ts';
import { interruption, log, print, withTestbed } from './program.ts';
import { addResults, recordOf } from './results.ts';
import { type RunResult, runScenario } from './run.ts';
import { scenarioOf, shortened, stepText, type Scenario, withSteps } from './scenario.ts';
import { violationText } from './violationText.ts';

/** npm run chaos: random faults in random worlds. Results on standard output, progress on standard error; exit 1 after a violation. */

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
  const signal = interruption();
  const results: RunResult[] = [];
  const isBroken = ({ violations }: RunResult) => violations.length > 0;
  await withTestbed({ evictionApi, keep: () => keep && results.some(isBroken), signal }, async (testbed) => {
    for (const scenario of scenarios) {
      if (signal.aborted) break;
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
  });
  const failed = results.filter(isBroken);
  print(
    `${results.length} runs, ${failed.length} with violations${failed.length > 0 ? `: seeds ${failed.map(({ seed }) => seed).join(', ')}` : ''}`,
  );
  return failed.length > 0 || signal.aborted ? 1 : 0;
}

function lineOf({ seed, violations, evicted, faults, seconds }: RunResult): string {
  const outcome = violations.length === 0 ? 'kept all promises' : `${violations.length} VIOLATIONS`;
  return `seed ${seed}: ${outcome}, ${evicted} evictions, ${seconds.toFixed(0)} s, faults: ${faults.join(', ') || 'none'}`;
}

function textOf({ seed, steps, ...world }: Scenario): string {
  const numbered = steps.map((step, index) => `${String(index + 1).padStart(3)}  ${stepText(step)}`);
  return [`seed ${seed}`, JSON.stringify(world, null, 1), ...numbered].join('\n');
}
