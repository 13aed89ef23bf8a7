import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RecordedRun } from '../../test/chaos/results.ts';

/** Returns docs/reliability-runs.md, from the recorded runs of `npm run chaos`. */
export function reliabilityRuns(root: string): string {
  const file = join(root, 'test', 'chaos', 'results.json');
  const runs = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as RecordedRun[]) : [];
  return `# Recorded chaos runs

[Reliability](reliability.md) says what these runs try and how they are checked. Each row can be repeated: \`npm run chaos -- --runs 1 --seed SEED --eviction-api API\`.

${runs.length === 0 ? 'No runs are recorded yet.' : tables(runs)}
`;
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
