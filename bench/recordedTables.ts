import { type Column, budgetColumns, idleColumns, takeOverColumns } from './columns.ts';
import type { FigureRow } from './figures.ts';
import { policyRequests } from './policies.ts';
import { type RecordingName, recordingCommand, recordings, recordingNames } from './recordings.ts';
import { failureLine, longestText } from './report.ts';
import type { RecordedFile, RecordedResult } from './results.ts';
import type { Spread } from './statistics.ts';
import { aligned, markdownTable, spreadText } from './textTable.ts';

/** Renders the tables of a recorded file as Markdown, with the columns that docs/performance.md has and its plots read. */
export function recordedTables(file: RecordedFile): string {
  return [...tablesBy[file.name](file), captionOf(file), ...missedOf(file)].join('\n\n');
}

/** Renders the list of the commands that record all results. */
export function recordingList(): string {
  const rows = recordingNames.map((name) => {
    const { section, minutes, benchmarks, targets, runs } = recordings[name];
    const measured = `\`${benchmarks.replaceAll(',', ' ')}\`${targets.length > 1 ? `; ${targets.join(', ')}; ${runs} runs` : ''}`;
    return [`\`${recordingCommand(name)}\``, section, measured, timeText(minutes)];
  });
  return markdownTable([['command', 'section', 'what it measures', 'about'], ...rows]).join('\n');
}

function timeText(minutes: number): string {
  return minutes < 120 ? `${minutes} min` : `${minutes / 60} h`;
}

const tablesBy: Readonly<Record<RecordingName, (file: RecordedFile) => string[]>> = {
  drains: drainTables,
  'large-drains': drainTables,
  'eviction-requests': drainTables,
  'peers-drains': peersLink,
  'peers-large': peersLink,
  'peers-budget': peersLink,
  'peers-maintenances': peersLink,
  budget: ({ results }) => [fenced(results.map((result) => programTable(result, budgetShown)))],
  readiness: ({ results }) => results.flatMap(readinessTables),
  held: ({ results }) => [
    ...results.flatMap(heldTable),
    '![Cores while maintenances are held, and seconds of a cancel](images/performance-held.svg)',
  ],
  idle: ({ results }) => results.flatMap((result) => fenced([idleTable(result)])),
  traffic: ({ results }) => results.map(trafficTable),
  policies: ({ results }) => results.map(policiesTable),
  takeover: ({ results }) => results.map((result) => fenced([takeOverTable(result)])),
};

function peersLink(): string[] {
  return ['The figures of all programs are in [performance-peers.md](performance-peers.md).'];
}

/** Where, when and of which sources the figures were measured. */
export function captionOf({ command, startedAt, finishedAt, source, machine }: RecordedFile): string {
  const minutes = Math.max(1, Math.round((Date.parse(finishedAt) - Date.parse(startedAt)) / 60_000));
  const commit = `commit ${source.commit.slice(0, 12)}${source.isModified ? ' with uncommitted changes' : ''}`;
  return [
    `\`${command}\` on ${startedAt.slice(0, 10)}, ${minutes} min, ${commit}: ${machine.cpus} CPUs (${machine.cpu}), ${machine.memoryGb} GiB, ${machine.system},`,
    `Kubernetes ${machine.kubernetes}, etcd ${machine.etcd}, Temporal CLI ${machine.temporal}, Node ${machine.node}.`,
  ].join('\n');
}

function missedOf({ results }: RecordedFile): string[] {
  const missed = results.flatMap(({ benchmark, thresholds }) =>
    thresholds
      .filter(({ result }) => result === 'MISSED')
      .map(({ metric, value, unit, bound }) => {
        const limit = bound && ('atMost' in bound ? `at most ${bound.atMost}` : `at least ${bound.atLeast}`);
        return `- ${benchmark.name}, ${metric}: ${spreadText(value, 2)}${unit}, not ${limit}`;
      }),
  );
  return missed.length === 0 ? [] : [['Bounds of `--check` that are missed:', '', ...missed].join('\n')];
}

function fenced(parts: readonly string[]): string {
  return ['```', ...parts.join('\n\n').split('\n'), '```'].join('\n');
}

const drainShown = [
  'deleted s',
  'pods/s',
  'requests/pod',
  'RSS MB',
  'silent s',
  'CPU ms/pod',
  'apiserver CPU ms/pod',
];
const budgetShown = [
  'deleted s',
  'reported s',
  'pods/s',
  'requests/pod',
  'own count/pod',
  'rejected',
  'RSS MB',
  'history',
  'first wait s',
  'longest wait s',
  'p99 wait s',
];

function drainTables({ results }: RecordedFile): string[] {
  return [fenced(results.map((result) => programTable(result, drainShown)))];
}

/** A row for each program, and what failed. */
function programTable(result: RecordedResult, shown: readonly string[]): string {
  const failures = 'failures' in result ? result.failures.map((one) => failureLine(one).trim()) : [];
  const rows = result.figures.map((row) => [
    row.name,
    String(row.runs),
    ...shown.map((title) => spreadText(row.figures[title], digitsOf(budgetColumns, title))),
  ]);
  return [
    result.title,
    '',
    ...aligned([['', 'runs', ...shown], ...rows]),
    // Not indented as a row of the table.
    ...(failures.length === 0 ? [] : ['', ...failures]),
  ].join('\n');
}

function digitsOf(columns: readonly Pick<Column<never>, 'title' | 'digits'>[], title: string): number {
  return columns.find((column) => column.title === title)?.digits ?? 2;
}

function idleTable({ figures }: RecordedResult): string {
  const rows = figures.map((row) =>
    idleColumns.map(({ title, digits }) => spreadText(row.figures[title], digits)),
  );
  return aligned([idleColumns.map(({ title }) => title), ...rows]).join('\n');
}

function takeOverTable({ figures }: RecordedResult): string {
  const rows = figures.map((row) => [
    row.name,
    String(row.runs),
    ...takeOverColumns.map(({ title, digits }) => longestText(row.figures[title], digits)),
  ]);
  const titles = takeOverColumns.map(({ title }) => `${title} (p50, max)`);
  return aligned([['', 'runs', ...titles], ...rows]).join('\n');
}

function readinessTables({ benchmark, figures }: RecordedResult): string[] {
  const figure = figureIn(figures);
  const gates = benchmark.kind === 'Readiness' ? benchmark.gates : 0;
  const nodes = benchmark.kind === 'Readiness' ? benchmark.nodes : 0;
  const times = (row: string) =>
    ['median', '99th percentile', 'longest'].map((title) => spreadText(figure(row, `${title} s`), 2, ' s'));
  const last = spreadText(figure('all nodes join at once', 'last node accepts pods s'), 0, ' s');
  const cost = (title: string, digits: number, unit = '') =>
    ['without a policy', 'with gates'].map((row) => spreadText(figure(row, title), digits, unit));
  const [before, peak] = [
    spreadText(figure('without a policy', 'RSS MB before the nodes join'), 0, ' MB'),
    spreadText(figure('with gates', 'peak MB'), 0, ' MB'),
  ];
  const [ungated = '-', gated = '-'] = cost('RSS MB', 0, ' MB');
  const timeRows = [
    ["time from a node's last Ready gate until its taint is removed", 'median', '99th percentile', 'longest'],
    ['lost agents return', ...times('lost agents return')],
    [
      `all ${nodes} nodes join at once (the last one accepts pods after ${last})`,
      ...times('all nodes join at once'),
    ],
  ];
  const costRows = [
    ['cost', 'without a policy', `with ${gates} gates`],
    ['requests of the worker per node that joins', ...cost('requests/node', 1)],
    [
      'resident memory of the worker',
      `${ungated} (${before} before the nodes joined)`,
      `${gated}; at most ${peak}`,
    ],
  ];
  return [timeRows, costRows].map((rows) => markdownTable(rows).join('\n'));
}

function figureIn(rows: readonly FigureRow[]) {
  return (name: string, title: string): Spread | undefined =>
    rows.find((row) => row.name === name)?.figures[title];
}

function heldTable({ figures }: RecordedResult): string[] {
  return figures.map(({ name, figures: own }) => {
    const rows = heldRows.map(({ label, title, digits, unit }) => [
      label,
      spreadText(own[title], digits, unit),
    ]);
    return markdownTable([['figure', `${name} that are held`], ...rows]).join('\n');
  });
}

const heldRows = [
  { label: 'time until all nodes are cordoned', title: 'all cordoned s', digits: 0, unit: ' s' },
  { label: 'cores of the worker', title: 'worker cores', digits: 3, unit: '' },
  { label: 'cores of Temporal', title: 'Temporal cores', digits: 3, unit: '' },
  { label: 'cores of the apiserver', title: 'apiserver cores', digits: 3, unit: '' },
  { label: 'a cancel until it is answered', title: 'cancel answered s', digits: 2, unit: ' s' },
  { label: 'a cancel until the node is uncordoned', title: 'cancel uncordoned s', digits: 2, unit: ' s' },
  { label: 'peak memory of the worker', title: 'RSS MB', digits: 0, unit: ' MB' },
  { label: 'actions per maintenance to start and cordon', title: 'actions to start', digits: 1, unit: '' },
  { label: 'actions per maintenance and day while held', title: 'actions/day', digits: 0, unit: '' },
  { label: 'actions per maintenance to complete', title: 'actions to complete', digits: 1, unit: '' },
  { label: 'requests per maintenance and hour while held', title: 'requests/h', digits: 1, unit: '' },
] as const;

/** Each time is followed by its ratio to that of the first row. */
function policiesTable({ figures }: RecordedResult): string {
  const [first] = figures;
  const rows = figures.map(({ name, figures: own }) => {
    const times = policyRequests.map((request) => {
      const [time, base] = [own[`${request} ms`]?.median, first?.figures[`${request} ms`]?.median];
      if (time === undefined || base === undefined) return '-';
      return `${time.toFixed(1)} ms (${(time / base).toFixed(1)})`;
    });
    return [name, ...times];
  });
  return markdownTable([['maintenances', ...policyRequests], ...rows]).join('\n');
}

function trafficTable({ figures }: RecordedResult): string {
  const number = (spread: Spread | undefined, digits: number) => spread?.median.toFixed(digits) ?? '-';
  const rows = figures.map(({ name, figures: own }) => [
    name,
    spreadText(own['CPU ratio'], 2),
    number(own['CPU ratio of all slices'], 2),
    `${number(own['create pod median ms'], 1)} / ${number(own['create pod median ms without'], 1)} ms`,
  ]);
  const titles = [
    'open maintenances',
    'CPU of the apiserver, with / without this project',
    'the same, all slices together',
    'time to create a pod, median, with / without',
  ];
  return markdownTable([titles, ...rows]).join('\n');
}
