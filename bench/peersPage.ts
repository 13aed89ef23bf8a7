import { drainColumns } from './columns.ts';
import type { DrainMeasurement } from './measure.ts';
import { type BenchmarkResult, costLines, failureLine, rowsOf, thresholdLine, titleOf } from './report.ts';
import type { ResultsFile } from './results.ts';
import { markdownTable } from './textTable.ts';

/** Renders the results of `npm run bench -- --peers` as a page of Markdown. */
export function peersPage({ startedAt, machine, peers, results }: ResultsFile): string {
  return [
    '# Performance compared with peers',
    '',
    `\`npm run bench -- --peers\`, started ${startedAt.slice(0, 10)}: interleaved runs of all programs in one sandbox, on ${machine.cpus} CPUs (${machine.cpu}) and`,
    `${machine.memoryGb} GiB that run everything, with Kubernetes ${machine.kubernetes}, etcd ${machine.etcd}, Temporal CLI ${machine.temporal}, Node ${machine.node}, ${machine.system}.`,
    'Each cell is a median, and the range. Compare ratios, not seconds.',
    '',
    '- `kubectl-per-node` is `kubectl drain NODE`, one process for each node, all at once.',
    '- `floor` is a script that evicts everything at once.',
    ...peers.map(peerLine),
    '',
    '"deleted" is the time until the last pod was deleted, "reported" until the program said that it was done; "cordon" and "eviction" are',
    'the times until the first ones were observed.',
    '',
    ...results.flatMap(sectionOf),
  ].join('\n');
}

function peerLine({ name, revision, unavailable, changes }: ResultsFile['peers'][number]): string {
  if (unavailable !== undefined) return `- \`${name}\` was not measured: ${unavailable}.`;
  return `- \`${name}\`${revision === undefined ? '' : ` ${revision}`}, outside the cluster: ${changes.join('; ')}.`;
}

function sectionOf(result: BenchmarkResult): string[] {
  if (result.kind !== 'Drain' && result.kind !== 'Budget') return [];
  const { benchmark, runs, failures, thresholds } = result;
  return [
    `## ${titleOf(benchmark)}`,
    '',
    ...tableOf(runs),
    '',
    '```',
    ...[...failures.map(failureLine), ...costLines(runs), ...thresholds.map(thresholdLine)].map((line) =>
      line.trim(),
    ),
    '```',
    '',
  ];
}

function tableOf(runs: readonly DrainMeasurement[]): string[] {
  return markdownTable(rowsOf(drainColumns, runs));
}
