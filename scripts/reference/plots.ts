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
    { name: 'parts', title: 'CPU time of parts of a drain before and after', panels: partPanels(page) },
    { name: 'large-drains', title: 'A drain of 100 nodes', panels: largeDrainPanels(page) },
    { name: 'budget', title: 'Pods behind one PodDisruptionBudget', panels: budgetPanels(page) },
    { name: 'readiness', title: 'Time and cost of readiness gates', panels: readinessPanels(page) },
    { name: 'actions', title: 'Billed actions of Temporal', panels: actionPanels(page) },
    ...heldPlots(page),
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
  const panel = programPanels(works, tablesOf(page, 'Drains').filter(isOfPrograms));
  return [
    panel('seconds until the last pod was deleted', 'deleted s'),
    panel('requests per pod', 'requests/pod'),
    panel('ms of CPU of the apiserver per pod', 'apiserver CPU ms/pod'),
  ];
}

function isOfPrograms([row = {}]: Table): boolean {
  return 'deleted s' in row;
}

/** Returns how to draw a column of tables with a row for each program, one table for each work. */
function programPanels(works: readonly string[], all: readonly Table[]) {
  const tables = all.slice(0, works.length);
  const programs = [...new Set(tables.flatMap((table) => table.map((row) => row[''] ?? '')))];
  return (title: string, column: string): Panel => {
    if (!tables.some((table) => table.some((row) => column in row)))
      throw new Error(
        `docs/performance.md has no ${column} of ${works.join(' and ')}: adapt scripts/reference/plots.ts`,
      );
    return {
      title,
      kind: 'Bars',
      x: works,
      series: programs.map((name) => ({
        name,
        values: tables.map((table) => measuredIn(table.find((row) => row[''] === name)?.[column] ?? '')),
      })),
    };
  };
}

const beforeAndAfter = ['before', 'after'] as const;

/** Returns the numbers of the row that begins with a name, one for each column. */
function numbersOf(table: Table, name: string, columns: readonly string[]): (number | undefined)[] {
  const row = table.find((one) => Object.values(one)[0]?.startsWith(name));
  if (row === undefined || !columns.every((column) => column in row))
    throw new Error(
      `docs/performance.md has no ${columns.join(' and ')} of "${name}": adapt scripts/reference/plots.ts`,
    );
  return columns.map((column) => numbersIn(row[column])[0]);
}

/** Compares rows before and after a change. A row may be shown in another unit. */
function changePanel(
  title: string,
  table: Table,
  rows: readonly { row: string; label?: string; factor?: number }[],
): Panel {
  const numbers = rows.map(({ row, factor = 1 }) =>
    numbersOf(table, row, beforeAndAfter).map((value) => value && value * factor),
  );
  return {
    title,
    kind: 'Bars',
    x: rows.map(({ row, label = row }) => label),
    share: 1 + rows.length / 2,
    series: beforeAndAfter.map((name, index) => ({
      name,
      values: numbers.map((values) => valueOf(values[index])),
    })),
  };
}

function valueOf(value: number | undefined): Measured | undefined {
  return value === undefined ? undefined : { value };
}

function partPanels(page: string): Panel[] {
  const [parts = []] = tablesOf(page, 'Parts of a drain');
  const works = ['1 node x 250 pods', '10 nodes x 70 pods', '50 nodes x 100 pods'];
  return [
    changePanel(
      'ms of a decision',
      parts,
      works.map((work) => ({ row: `one decision, ${work}`, label: work })),
    ),
    changePanel('µs of a key, and of a request', parts, [
      { row: 'a key of a work queue', label: 'key of a work queue' },
      { row: 'a request under', label: 'request under the guard', factor: 1_000 },
    ]),
    changePanel('ms of new connections', parts, [{ row: '59 new connections', label: '59 at once' }]),
  ];
}

/** Compares the programs once their figures are recorded, until then the time before and after a change. */
function largeDrainPanels(page: string): Panel[] {
  const tables = tablesOf(page, 'Larger drains');
  const recorded = tables.filter(isOfPrograms);
  if (recorded.length > 0) {
    const panel = programPanels(['100 nodes x 30 pods'], recorded);
    return [
      panel('seconds until the last pod was deleted', 'deleted s'),
      panel('requests per pod', 'requests/pod'),
      panel('ms of CPU of the apiserver per pod', 'apiserver CPU ms/pod'),
    ];
  }
  const [changes = []] = tables;
  return [
    changePanel('ours / floor', changes, [
      { row: 'time until the last pod', label: 'time' },
      { row: 'CPU time of the apiserver' },
    ]),
    changePanel('per pod', changes, [
      { row: 'requests of a pod', label: 'requests' },
      { row: 'CPU time of the worker', label: 'ms of CPU of the worker' },
    ]),
    changePanel('MB', changes, [{ row: 'peak memory of the worker' }]),
  ];
}

function budgetPanels(page: string): Panel[] {
  const tables = tablesOf(page, 'One PodDisruptionBudget').filter(isOfPrograms);
  const panel = programPanels(['4 nodes x 250 pods'], tables);
  const [p99, longest] = [panel('', 'p99 wait s'), panel('', 'longest wait s')];
  return [
    panel('seconds until the last pod was deleted', 'deleted s'),
    {
      title: 'seconds from an allowed disruption to its eviction',
      kind: 'Bars',
      x: ['99th percentile', 'longest'],
      share: 1.4,
      series: p99.series.map(({ name, values }, index) => ({
        name,
        values: [values[0], longest.series[index]?.values[0]],
      })),
    },
    panel('requests per pod', 'requests/pod'),
  ];
}

function readinessPanels(page: string): Panel[] {
  const [times = [], costs = []] = tablesOf(page, 'Readiness gates');
  const [label = '', ...shares] = Object.keys(times[0] ?? {});
  const [costLabel = '', ...policies] = Object.keys(costs[0] ?? {});
  const costPanel = (title: string, name: string): Panel => {
    const row = costs.find((one) => one[costLabel]?.startsWith(name));
    if (row === undefined)
      throw new Error(`docs/performance.md has no ${name}: adapt scripts/reference/plots.ts`);
    return {
      title,
      kind: 'Bars',
      x: policies,
      series: [{ name: 'worker', values: policies.map((policy) => runsIn(row[policy])) }],
    };
  };
  return [
    {
      title: 'seconds from the last Ready gate until the taint is removed',
      kind: 'Bars',
      x: shares,
      share: 1.8,
      series: times.map((row) => ({
        name: shortened(row[label] ?? ''),
        values: shares.map((share) => runsIn(row[share])),
      })),
    },
    costPanel('requests per node that joins', 'requests of the worker'),
    costPanel('MB of resident memory', 'resident memory'),
  ];
}

/** Reads `0.01 s, 0.02 s`, the numbers of two runs, up to a remark; or a median and the range. */
function runsIn(cell: string | undefined): Measured | undefined {
  const text = cell ?? '';
  if (/^[\d.]+[ \w]* \([\d.]+\.\.[\d.]+\)/.test(text))
    return measuredIn(text.slice(0, text.indexOf(')') + 1));
  const numbers = numbersIn(text.replace(/[(:;].*$/, ''));
  if (numbers.length < 2) return valueOf(numbers[0]);
  const value = numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
  return { value, min: Math.min(...numbers), max: Math.max(...numbers) };
}

function actionPanels(page: string): Panel[] {
  const table = tablesOf(page, 'Cost in Temporal').find(([row = {}]) => 'actions' in row) ?? [];
  const cellOf = (name: string) => {
    const row = table.find((one) => one['what']?.startsWith(name));
    if (row === undefined)
      throw new Error(`docs/performance.md has no actions of "${name}": adapt scripts/reference/plots.ts`);
    return row['actions'] ?? '';
  };
  // `6 to 7` is a range, of which the bar shows the upper end.
  const most = (name: string) => {
    const [from, to] = numbersIn(/^\d+( to \d+)?/.exec(cellOf(name))?.[0]);
    return to === undefined || from === undefined ? valueOf(from) : { value: to, min: from, max: to };
  };
  const windows = numbersIn(cellOf('a window with manual work')).map((value) => ({ value }));
  const bars = (title: string, rows: readonly (readonly [string, Measured | undefined])[]): Panel => ({
    title,
    kind: 'Bars',
    x: rows.map(([label]) => label),
    share: rows.length,
    series: [{ name: 'actions', values: rows.map(([, value]) => value) }],
  });
  return [
    bars('billed actions of one maintenance, and of a window with manual work (at most)', [
      ['start', most('start a maintenance')],
      ['complete', most('complete it')],
      ['a message', most('a message')],
      ['an edit', most('an edit')],
      ['a window, one node', windows[0]],
      ['a window, two nodes', windows[1]],
    ]),
    bars('billed actions a day', [
      ['Idle', valueOf(numbersIn(cellOf('an hour in which it waits in Idle'))[0])],
      ['held', valueOf(numbersIn(cellOf('an hour in which it is held'))[1])],
      ['held, without identity Leases', valueOf(numbersIn(cellOf('a day of a hold'))[0])],
    ]),
  ];
}

/** Once they are recorded. */
function heldPlots(page: string): { name: string; title: string; panels: Panel[] }[] {
  const table = tablesOf(page, 'Cost in Temporal').find(([row = {}]) => 'figure' in row);
  if (table === undefined) return [];
  const column = Object.keys(table[0] ?? {})[1] ?? '';
  const bars = (title: string, rows: readonly (readonly [string, string])[]): Panel => ({
    title,
    kind: 'Bars',
    x: rows.map(([label]) => label),
    series: [
      {
        name: column,
        values: rows.map(([, name]) => runsIn(table.find((row) => row['figure'] === name)?.[column])),
      },
    ],
  });
  return [
    {
      name: 'held',
      title: `Cores and times of ${column}`,
      panels: [
        bars('cores while nothing happens', [
          ['worker', 'cores of the worker'],
          ['Temporal', 'cores of Temporal'],
          ['apiserver', 'cores of the apiserver'],
        ]),
        bars('seconds of a cancel', [
          ['until it is answered', 'a cancel until it is answered'],
          ['until the node is uncordoned', 'a cancel until the node is uncordoned'],
        ]),
      ],
    },
  ];
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
