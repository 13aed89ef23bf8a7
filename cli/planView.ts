import { listed } from '../domain/names.ts';
import { isExcused, isStuck, type PodPreview, type TierPreview } from '../domain/preview.ts';
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

function remarks(pod: PodPreview): string {
  const { blockers, notes } = pod;
  return [
    ...blockers.map(
      (blocker) =>
        `BLOCKED${isExcused(pod, blocker) ? ' unless an evacuator takes it away' : ''}: ${blocker.message}`,
    ),
    ...notes.map(({ message }) => message),
  ].join('; ');
}

const letting = { Never: 'never', NotNow: 'not now', InTurns: 'in turns', Some: 'some' } as const;

const budgetColumns: Column<PlanReport['budgets'][number]>[] = [
  { title: 'BUDGET', cell: ({ budget }) => budget },
  { title: 'LETS GO', cell: ({ lets }) => letting[lets] },
  { title: 'ALLOWED', cell: ({ allowed, pods }) => `${allowed} of ${pods}` },
  { title: 'MESSAGE', cell: ({ message }) => message },
];

function verdict({ blocked, tiers, budgets, nodes, held }: PlanReport): string {
  const pods = tiers.flatMap((tier) => tier.pods);
  const stuck = pods.filter(isStuck).length + budgets.reduce((sum, one) => sum + (one.stuck ?? 0), 0);
  const holds = held.map(({ node, holder }) => `${node} (${shown(holder)})`);
  if (blocked)
    return `BLOCKED: ${[
      ...(nodes.length === 0 ? ['no node is selected'] : []),
      ...(held.length === 0 ? [] : [`others hold ${listed(holds)}`]),
      ...(stuck === 0 ? [] : [`${numbered(stuck, 'pod')} would not leave until somebody acts`]),
    ].join('; ')}.`;
  const waits = pods.some((pod) => pod.blockers.some((blocker) => !isExcused(pod, blocker)));
  return waits ? 'Blocked for the moment: by budgets, until other pods are ready.' : 'Nothing blocks.';
}

function numbered(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

const longestLine = 1_000;
