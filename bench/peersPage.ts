import { drainColumns } from './columns.ts';
import type { DrainMeasurement } from './measure.ts';
import { type BenchmarkResult, costLines, failureLine, rowsOf, thresholdLine, titleOf } from './report.ts';
import { captionOf } from './recordedTables.ts';
import type { RecordedFile, ResultsFile } from './results.ts';
import { markdownTable } from './textTable.ts';

/** Renders the recorded comparisons with peers as a page of Markdown. */
export function peersPage(files: readonly RecordedFile[]): string {
  const peers = [...new Set(files.flatMap((file) => file.peers.map(peerLine)))];
  return [
    '# Performance compared with peers',
    '',
    'Each part has interleaved runs of all programs in one sandbox, on a machine that runs everything. Each cell is a median, and the range. Compare ratios, not seconds.',
    '',
    '- `kubectl-per-node` is `kubectl drain NODE`, one process for each node, all at once.',
    '- `floor` is a script that evicts everything at once.',
    ...peers,
    '',
    '"deleted" is the time until the last pod was deleted, "reported" until the program said that it was done; "cordon" and "eviction" are',
    'the times until the first ones were observed.',
    '',
    ...files.flatMap((file) => [captionOf(file), '', ...file.results.flatMap(sectionOf)]),
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
