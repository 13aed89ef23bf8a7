import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EnduranceRecord } from '../../test/chaos/endurance/record.ts';
import type { RecordedRun } from '../../test/chaos/results.ts';

/** Returns docs/reliability-runs.md, from the recorded runs of `npm run chaos` and `npm run endurance`. */
export function reliabilityRuns(root: string): string {
  const recorded = (name: string): unknown => {
    const file = join(root, 'test', 'chaos', name);
    return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined;
  };
  const runs = (recorded('results.json') ?? []) as RecordedRun[];
  const endurance = recorded('endurance.json') as EnduranceRecord | undefined;
  return `# Recorded chaos runs

[Reliability](reliability.md) says what these runs try and how they are checked. Each row can be repeated: \`npm run chaos -- --runs 1 --seed SEED --eviction-api API\`.

${runs.length === 0 ? 'No runs are recorded yet.' : tables(runs)}
${endurance === undefined ? '' : `\n${enduranceTable(endurance)}\n`}`;
}

function enduranceTable(record: EnduranceRecord): string {
  const { minutes, seed, runs, maintenances, evicted, broken, restarts, growth } = record;
  const faults = Object.values(record.faults).reduce((sum, count) => sum + count, 0);
  const rows = Object.entries(growth).map(
    ([name, { mean, perHour, low, high, isGrowing }]) =>
      `| ${name} | ${rounded(mean)} | ${rounded(perHour)} (${rounded(low)} to ${rounded(high)}) | ${isGrowing ? '**yes**' : 'no'} |`,
  );
  return [
    '## Endurance',
    `${runs} runs from seed ${seed} in ${minutes} minutes, with ${maintenances} maintenances, ${evicted} evictions and ${faults} faults: ${broken.length} runs broke a promise${broken.length === 0 ? '' : ` (seeds ${broken.join(', ')})`}, and ${restarts} workers were started again. Of the second half:`,
    [
      '| what | mean | change in an hour, and its confidence interval of 95 % | grows |',
      '|---|---|---|---|',
      ...rows,
    ].join('\n'),
  ].join('\n\n');
}

function rounded(value: number): string {
  return String(Number(value.toPrecision(3)));
}

function tables(runs: readonly RecordedRun[]): string {
  const evicted = runs.reduce((sum, run) => sum + run.evicted, 0);
  const kept = runs.filter(({ broken }) => broken.length === 0).length;
  const names = [...new Set(runs.flatMap(({ faults }) => faults))].toSorted();
  const faults = names.map((name) => {
    const count = runs.reduce((sum, run) => sum + run.faults.filter((one) => one === name).length, 0);
    return `| ${name} | ${count} |`;
  });
  const rows = runs.map(
    ({ evictionApi, seed, faults: caused, evicted: pods, broken }) =>
      `| ${evictionApi} | ${seed} | ${broken.length === 0 ? 'kept' : `**broke ${broken.join(', ')}**`} | ${pods} | ${caused.join(', ')} |`,
  );
  return [
    `${runs.length} runs with ${evicted} evictions: ${kept} kept all promises, ${runs.length - kept} did not.`,
    '## Faults',
    ['| fault | times |', '|---|---|', ...faults].join('\n'),
    '## Runs',
    ['| API | seed | promises | evictions | faults |', '|---|---|---|---|---|', ...rows].join('\n'),
  ].join('\n\n');
}
