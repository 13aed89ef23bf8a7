import { type Measured, type Panel, plotSvg } from '../../bench/plot.ts';
import { numbersIn, type Table, tablesOf } from '../../bench/tables.ts';

/** The plots of docs/performance.md. They show the figures of its tables, so that the two cannot differ. */

interface Plot {
  readonly name: string;
  readonly content: string;
}

/** Returns the plots of the page. Throws an Error that names the section or the column which it misses. */
export function performancePlots(page: string): Plot[] {
  const plots: { name: string; title: string; panels: Panel[] }[] = [
    { name: 'drains', title: 'Drains compared with peers', panels: drainPanels(page) },
    {
      name: 'idle',
      title: 'Memory and CPU time of clusters without an open maintenance',
      panels: idlePanels(page),
    },
    {
      name: 'traffic',
      title: 'CPU time of the apiserver for ordinary requests',
      panels: trafficPanels(page),
    },
    { name: 'takeover', title: 'Seconds until a successor takes over', panels: takeOverPanels(page) },
    {
      name: 'selectors',
      title: 'Large selectors before and after they are indexed',
      panels: selectorPanels(page),
    },
    { name: 'cache', title: 'Resident memory of a worker by cached runs', panels: cachePanels(page) },
  ];
  return plots.map(({ name, title, panels }) => ({ name, content: plotSvg(title, panels) }));
}

function drainPanels(page: string): Panel[] {
  const works = ['1 node x 250 pods', '10 nodes x 70 pods'];
  const tables = tablesOf(page, 'Drains').slice(0, works.length);
  const programs = [...new Set(tables.flatMap((table) => table.map((row) => row[''] ?? '')))];
  const panel = (title: string, column: string): Panel => ({
    title,
    kind: 'Bars',
    x: works,
    series: programs.map((name) => ({
      name,
      values: tables.map((table) => measuredIn(cellOf(table, name, column))),
    })),
  });
  return [
    panel('seconds until the last pod was deleted', 'deleted s'),
    panel('requests per pod', 'requests/pod'),
    panel('ms of CPU of the apiserver per pod', 'apiserver CPU ms/pod'),
  ];
}

function cellOf(table: Table, name: string, column: string): string {
  const row = table.find((one) => one[''] === name);
  if (row?.[column] === undefined)
    throw new Error(`docs/performance.md has no ${column} of ${name}: adapt scripts/reference/plots.ts`);
  return row[column];
}

/** Reads `3.87 (3.84..3.91)`: a median and the range. */
function measuredIn(cell: string): Measured | undefined {
  const [value, min, max] = numbersIn(cell.replace('..', ' ').replace(' to ', ' '));
  if (value === undefined) return undefined;
  return min === undefined || max === undefined ? { value } : { value, min, max };
}

function idlePanels(page: string): Panel[] {
  const [byNodes = [], byPods = []] = tablesOf(page, 'Clusters without an open maintenance');
  return [
    {
      title: 'MB of memory of the worker, 100 nodes',
      kind: 'Lines',
      xTitle: 'pods',
      x: columnOf(byPods, 'pods').map(String),
      series: [seriesOf(byPods, 'peak at the start', 'peak MB'), seriesOf(byPods, 'resident', 'RSS MB')],
    },
    {
      title: 'cores, 5 pods per node',
      kind: 'Lines',
      xTitle: 'nodes',
      x: columnOf(byNodes, 'nodes').map(String),
      series: [seriesOf(byNodes, 'apiserver', 'apiserver cores'), seriesOf(byNodes, 'worker', 'cores')],
    },
  ];
}

function columnOf(table: Table, column: string): number[] {
  return table.map((row) => {
    const [value] = numbersIn(row[column]);
    if (value === undefined)
      throw new Error(`docs/performance.md has no column ${column}: adapt scripts/reference/plots.ts`);
    return value;
  });
}

function seriesOf(table: Table, name: string, column: string): Panel['series'][number] {
  return { name, values: columnOf(table, column).map((value) => ({ value })) };
}

function trafficPanels(page: string): Panel[] {
  const [table = []] = tablesOf(page, 'Ordinary requests');
  const [maintenances = '', ratio = '', , create = ''] = Object.keys(table[0] ?? {});
  const times = table.map((row) => numbersIn(row[create]));
  const x = table.map((row) => numbered(row[maintenances] ?? ''));
  return [
    {
      title: 'CPU of the apiserver, with / without this project (dashed: the bound)',
      kind: 'Bars',
      x,
      bound: 1.02,
      series: [{ name: 'with this project', values: table.map((row) => measuredIn(row[ratio] ?? '')) }],
    },
    {
      title: 'ms to create a pod, median',
      kind: 'Bars',
      x,
      series: [
        {
          name: 'with this project',
          values: times.map(([value]) => (value === undefined ? undefined : { value })),
        },
        {
          name: 'without it',
          values: times.map(([, value]) => (value === undefined ? undefined : { value })),
        },
      ],
    },
  ];
}

function numbered(count: string): string {
  return `${count} open ${count === '1' ? 'maintenance' : 'maintenances'}`;
}

function takeOverPanels(page: string): Panel[] {
  const isMeasured = (title: string) => title.endsWith(' s (p50, max)');
  const table = tablesOf(page, 'Take-over').find(([row = {}]) => Object.keys(row).some(isMeasured));
  if (table === undefined)
    throw new Error('docs/performance.md has no table of take-overs: adapt scripts/reference/plots.ts');
  const columns = Object.keys(table[0] ?? {}).filter(isMeasured);
  return [
    {
      title: 'seconds, median and longest',
      kind: 'Bars',
      x: columns.map((name) => name.replace(' s (p50, max)', '')),
      series: table.map((row) => ({
        name: row[''] ?? '',
        values: columns.map((column) => {
          const [value, max] = numbersIn(row[column]);
          return value === undefined || max === undefined ? undefined : { value, min: value, max };
        }),
      })),
    },
  ];
}

function selectorPanels(page: string): Panel[] {
  const [selectors = [], decisions = []] = tablesOf(page, 'Large selectors');
  const panel = (title: string, table: Table, names: readonly [string, string]): Panel => {
    const [label = '', ...columns] = Object.keys(table[0] ?? {});
    return {
      title,
      kind: 'Bars',
      isLogarithmic: true,
      x: table.map((row) => shortened(row[label] ?? '')),
      series: names.map((name, index) => ({
        name,
        values: table.map((row) => {
          const [value] = numbersIn(row[columns[index] ?? '']);
          return value === undefined ? undefined : { value };
        }),
      })),
    };
  };
  const names = ['before', 'after'] as const;
  return [
    { ...panel('ms to match 10,000 nodes with a selector (logarithmic)', selectors, names), share: 2.4 },
    panel('ms of a drain decision (logarithmic)', decisions, names),
  ];
}

/** The beginning of a label, up to its first remark. */
function shortened(label: string): string {
  return label
    .replace(/[,:(] .*$/, '')
    .replace(/ \(.*$/, '')
    .replace(/ of 12 `NotIn`$/, ' of NotIn')
    .replace('a maintenance with ', '');
}

function cachePanels(page: string): Panel[] {
  const table = tablesOf(page, 'Heaps of the worker').find(([row = {}]) => 'cached runs' in row);
  if (table === undefined)
    throw new Error('docs/performance.md has no table of cached runs: adapt scripts/reference/plots.ts');
  const [row = {}] = table;
  const cells = Object.entries(row)
    .filter(([title]) => title !== 'cached runs')
    .map(([title, cell]) => ({ runs: numbersIn(title)[0], memory: numbersIn(cell)[0] }))
    .toSorted((a, b) => (a.runs ?? 0) - (b.runs ?? 0));
  return [
    {
      title: 'MB of resident memory',
      kind: 'Lines',
      xTitle: 'cached runs',
      x: cells.map(({ runs }) => String(runs)),
      series: [
        {
          name: 'worker',
          values: cells.map(({ memory }) => (memory === undefined ? undefined : { value: memory })),
        },
      ],
    },
  ];
}
