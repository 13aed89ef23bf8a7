import { needsAPerson } from '../domain/blocker.ts';
import type { PodPreview, TierPreview } from '../domain/preview.ts';
import { type Column, shown, table } from './output.ts';
import type { PlanReport } from './plan.ts';

/** So many are listed one by one. */
const mostAlike = 3;

/** The report as lines for people; `isWide`: with every pod. */
export function planLines(report: PlanReport, isWide: boolean): string[] {
  const { nodes, tiers, stays, budgets, warnings } = report;
  const count = tiers.reduce((sum, { pods }) => sum + pods.length, 0);
  return [
    `${numbered(count, 'pod')} would leave ${nodes.length === 1 ? `node ${nodes[0]}` : numbered(nodes.length, 'node')}, in ${numbered(tiers.length, 'tier')}. Nothing was touched.`,
    ...tiers.flatMap((tier) => ['', ...tierLines(tier, isWide)]),
    ...(stays.length === 0
      ? []
      : ['', 'Left running: static pods, which only the kubelet of their node ends', ...rows(stays, isWide)]),
    ...(budgets.length === 0
      ? []
      : ['', 'PodDisruptionBudgets that keep pods back', ...indentedTable(budgetColumns, budgets)]),
    ...(warnings.length === 0 ? [] : ['', ...warnings.map((text) => shown(`Warning: ${text}`, longestLine))]),
    '',
    verdict(report),
  ];
}

function tierLines({ entry, selects, pods }: TierPreview, isWide: boolean): string[] {
  return [
    `Entry ${entry} of the drain plan, ${selects}: ${numbered(pods.length, 'pod')}`,
    ...rows(pods, isWide),
  ];
}

function rows(pods: readonly PodPreview[], isWide: boolean): string[] {
  return indentedTable(podColumns, isWide ? pods.map((one) => [one]) : grouped(pods));
}

/** Pods of which there is the same to say, where they are many. */
function grouped(pods: readonly PodPreview[]): PodPreview[][] {
  const groups = Map.groupBy(pods, (one) => JSON.stringify([one.priority, leavesBy(one), remarks(one)]));
  return [...groups.values()].flatMap((group) =>
    group.length > mostAlike ? [group] : group.map((one) => [one]),
  );
}

function indentedTable<T>(columns: readonly Column<T>[], lines: readonly T[]): string[] {
  return table(columns, lines)
    .split('\n')
    .map((line) => `  ${line}`);
}

/** A row is a group of pods. */
const podColumns: Column<PodPreview[]>[] = [
  { title: 'POD', cell: (pods) => firstOf(pods.map(({ pod }) => pod)) },
  { title: 'NODE', cell: (pods) => firstOf([...new Set(pods.map(({ node }) => node))]) },
  { title: 'PRIORITY', cell: ([pod]) => pod?.priority.toString() },
  { title: 'LEAVES BY', cell: ([pod]) => pod && leavesBy(pod) },
  { title: 'REMARKS', cell: ([pod]) => pod && remarks(pod) },
];

function firstOf([first, ...more]: readonly string[]): string | undefined {
  return more.length === 0 ? first : `${first} and ${more.length} more`;
}

function leavesBy({ podType, evacuators }: PodPreview): string | undefined {
  if (podType === 'Static') return undefined;
  const asked = evacuators.map(({ evacuatorClass, priority }) => `${evacuatorClass} (${priority})`);
  return [...asked, ...(podType === 'Default' ? ['eviction'] : [])].join(', ');
}

function remarks({ blockers, notes, evacuators }: PodPreview): string {
  const unless = evacuators.length === 0 ? '' : ' unless an evacuator takes it away: ';
  return [
    ...blockers.map(({ message }) => `BLOCKED${unless || ': '}${message}`),
    ...notes.map(({ message }) => message),
  ].join('; ');
}

const letting = { Never: 'never', NotNow: 'not now', InTurns: 'in turns' } as const;

const budgetColumns: Column<PlanReport['budgets'][number]>[] = [
  { title: 'BUDGET', cell: ({ budget }) => budget },
  { title: 'LETS GO', cell: ({ lets }) => letting[lets] },
  { title: 'ALLOWED', cell: ({ allowed, pods }) => `${allowed} of ${pods}` },
  { title: 'MESSAGE', cell: ({ message }) => message },
];

function verdict({ blocked, tiers }: PlanReport): string {
  // What an evacuator takes away needs no eviction.
  const evicted = tiers.flatMap(({ pods }) => pods).filter(({ evacuators }) => evacuators.length === 0);
  if (blocked) {
    const stuck = evicted.filter(({ blockers }) => blockers.some(needsAPerson));
    return `BLOCKED: ${numbered(stuck.length, 'pod')} would not leave until somebody acts.`;
  }
  const waits = evicted.some(({ blockers }) => blockers.length > 0);
  return waits ? 'Blocked for the moment: by budgets, until other pods are ready.' : 'Nothing blocks.';
}

function numbered(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

const longestLine = 1_000;
