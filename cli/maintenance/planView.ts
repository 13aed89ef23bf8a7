import { listed } from '../../domain/common/names.ts';
import { type CapacityForecast, forecastText } from '../../domain/capacity/forecast.ts';
import type { EvictionApi } from '../../domain/common/evictionApi.ts';
import { numbered } from '../../domain/common/text.ts';
import {
  isBypassed,
  isStuck,
  NoteReason,
  type PodPreview,
  type Preview,
  type TierPreview,
} from '../../domain/drain/preview.ts';
import { BlockerReason } from '../../domain/evacuation/blocker.ts';
import type { DeploymentRegistration } from '../../domain/leases/processSummary.ts';
import { escapeForTerminal } from '../output.ts';
import { type Column, table } from '../terminal/table.ts';

/** Pods that fit on no other node: their replacements are Pending, or they wait until they fit, or until the drain deadline at the latest. */
export type CapacityEffect = 'Pending' | 'Waits' | 'WaitsUntilDeadline';

/** The effect of a drain, as text or for scripts. */
export interface PlanReport extends Preview {
  readonly nodes: readonly string[];
  /** Nodes whose maintenance Lease another client holds: the drain would wait for them. */
  readonly held: readonly { readonly node: string; readonly holder: string }[];
  /** Why nothing would be evacuated at present: the maintenance is paused. */
  readonly halted: readonly string[];
  /** Pods that cannot be evacuated are deleted at the drain deadline. */
  readonly deletesAtDeadline?: true;
  /** Warnings about the nodes and other maintenances. */
  readonly warnings: readonly string[];
  /** Whether workers register the evacuator of Deployments for pods without evacuators. Missing if it is not known. */
  readonly deploymentRegistration?: DeploymentRegistration;
  /** API by which workers drain. Missing for Evacuations, or if it is not known. */
  readonly evictionApi?: EvictionApi;
  /** Whether the pods fit on other nodes. Missing if reading all pods of the cluster takes too long. */
  readonly capacity?: CapacityForecast & {
    /** Number of claims whose volumes could not be read, and were not compared with nodes. */
    readonly unreadClaims: number;
    readonly effect: CapacityEffect;
  };
}

/** Larger groups of similar pods are printed as one row. */
const maxUngrouped = 3;

/** Formats the report as text; `isWide` lists every pod. */
export function planLines(report: PlanReport, isWide: boolean): string[] {
  const { nodes, tiers, remaining, budgets, warnings } = report;
  const count = tiers.reduce((sum, { pods }) => sum + pods.length, 0);
  return [
    `${numbered(count, 'pod')} would be evacuated from ${nodes.length === 1 ? `node ${nodes[0]}` : numbered(nodes.length, 'node')}, in ${numbered(tiers.length, 'tier')}. Nothing was changed.`,
    ...tiers.flatMap((tier) => ['', ...tierLines(tier, tiers.at(-1)?.tier, isWide)]),
    ...(remaining.length === 0 ? [] : ['', 'Static pods keep running', ...rows(remaining, isWide)]),
    ...(budgets.length === 0
      ? []
      : ['', 'PodDisruptionBudgets that limit evictions', ...indentedTable(budgetColumns, budgets)]),
    ...(report.deploymentRegistration === 'automatic' ? ['', automaticText] : []),
    ...(report.evictionApi === undefined ? [] : ['', requestsText(report.evictionApi)]),
    ...(warnings.length === 0
      ? []
      : ['', ...warnings.map((text) => escapeForTerminal(`Warning: ${text}`, maxLineLength))]),
    '',
    ...capacityLines(report, isWide),
    conclusion(report),
  ];
}

const automaticText =
  'The workers also replace single replicas of Deployments before they are evicted (--deployment-registration automatic).';

function requestsText(api: string): string {
  return `Pods leave by EvictionRequests of lifecycle.k8s.io, except pods of DaemonSets, pods of groups, and pods that have evacuators but no responders (--eviction-api ${api}).`;
}

/** Says that all pods fit only if asked for everything. */
function capacityLines({ capacity, nodes }: PlanReport, isWide: boolean): string[] {
  if (nodes.length === 0) return [];
  if (capacity === undefined)
    return ['Capacity: not checked, because the cluster has too many pods to read them all in time.'];
  const unread =
    capacity.unreadClaims === 0
      ? ''
      : ` The volumes of ${numbered(capacity.unreadClaims, 'claim')} could not be read, and were not compared.`;
  const isFine = capacity.unplaced.length + capacity.notCompared + capacity.unreadClaims === 0;
  if (isFine && !isWide) return [];
  return [
    escapeForTerminal(`${forecastText(capacity, capacity.effect !== 'Pending')}${unread}`, 2 * maxLineLength),
  ];
}

function tierLines({ tier, selects, pods }: TierPreview, total = tier, isWide = false): string[] {
  return [`Tier ${tier} of ${total}, ${selects}: ${numbered(pods.length, 'pod')}`, ...rows(pods, isWide)];
}

function rows(pods: readonly PodPreview[], isWide: boolean): string[] {
  return indentedTable(podColumns, isWide ? pods.map((one) => [one]) : grouped(pods));
}

/** Groups similar pods if there are many of them. */
function grouped(pods: readonly PodPreview[]): PodPreview[][] {
  const groups = Map.groupBy(pods, (one) => JSON.stringify([one.priority, evacuatedBy(one), remarks(one)]));
  return [...groups.values()].flatMap((group) =>
    group.length > maxUngrouped ? [group] : group.map((one) => [one]),
  );
}

function indentedTable<T>(columns: readonly Column<T>[], lines: readonly T[]): string[] {
  return table(columns, lines)
    .split('\n')
    .map((line) => `  ${line}`);
}

/** Each row is a group of pods. */
const podColumns: Column<PodPreview[]>[] = [
  { title: 'POD', cell: (pods) => firstAndCount(pods.map(({ pod }) => pod)) },
  { title: 'NODE', cell: (pods) => firstAndCount([...new Set(pods.map(({ node }) => node))]) },
  { title: 'PRIORITY', cell: ([pod]) => pod?.priority.toString() },
  { title: 'EVACUATED BY', cell: ([pod]) => pod && evacuatedBy(pod) },
  { title: 'REMARKS', cell: ([pod]) => pod && remarks(pod) },
];

function firstAndCount([first, ...more]: readonly string[]): string | undefined {
  return more.length === 0 ? first : `${first} and ${more.length} more`;
}

function evacuatedBy({ podType, evacuators, notes }: PodPreview): string | undefined {
  if (notes.some(({ reason }) => reason === NoteReason.Remains)) return undefined;
  const evacuatorTexts = evacuators.map(({ evacuatorClass, priority }) => `${evacuatorClass} (${priority})`);
  return [...evacuatorTexts, ...(podType === 'Default' ? ['eviction'] : [])].join(', ');
}

function remarks(pod: PodPreview): string {
  const { blockers, notes } = pod;
  return [
    ...blockers.map(
      (blocker) =>
        `BLOCKED${isBypassed(pod, blocker) ? ' unless an evacuator handles it' : ''}: ${blocker.message}`,
    ),
    ...notes.map(({ message }) => message),
  ].join('; ');
}

const allowsText = { Never: 'never', NotNow: 'not now', Gradually: 'gradually', Some: 'some' } as const;

const budgetColumns: Column<PlanReport['budgets'][number]>[] = [
  { title: 'BUDGET', cell: ({ budget }) => budget },
  { title: 'EVICTIONS', cell: ({ allows }) => allowsText[allows] },
  { title: 'ALLOWED', cell: ({ allowed, pods }) => `${allowed} of ${pods}` },
  { title: 'MESSAGE', cell: ({ message }) => message },
];

function conclusion(report: PlanReport): string {
  const { blocked, tiers, capacity } = report;
  if (blocked) return `BLOCKED: ${blockersOf(report).join('; ')}.`;
  const pods = tiers.flatMap((tier) => tier.pods);
  const waiting = pods.flatMap((pod) => pod.blockers.filter((blocker) => !isBypassed(pod, blocker)));
  const unplaced = capacity?.effect === 'WaitsUntilDeadline' ? capacity.unplaced.length : 0;
  const stuck = stuckIn(report);
  // Otherwise the drain would be blocked.
  if (stuck > 0)
    return `${numbered(stuck, 'pod')} cannot be evacuated without intervention, and ${stuck === 1 ? 'is' : 'are'} deleted at the drain deadline.`;
  if (waiting.length === 0)
    return unplaced === 0
      ? 'Nothing blocks the drain.'
      : `${waitsForRoom(unplaced)}, or until the drain deadline.`;
  const silent = waiting.filter(({ reason }) => reason === BlockerReason.EvacuatorNotResponding);
  return silent.length > 0
    ? `${numbered(silent.length, 'pod')} ${silent.length === 1 ? 'waits' : 'wait'} for an evacuator that does not respond, and ${silent.length === 1 ? 'is' : 'are'} evicted when its time is over.`
    : 'Temporarily blocked by PodDisruptionBudgets until other pods are ready.';
}

/** Returns what does not end without intervention. */
function blockersOf(report: PlanReport): string[] {
  const { nodes, held, halted, capacity, deletesAtDeadline } = report;
  const stuck = deletesAtDeadline ? 0 : stuckIn(report);
  const holds = held.map(({ node, holder }) => `${node} (${escapeForTerminal(holder)})`);
  const unplaced = capacity?.effect === 'Waits' ? capacity.unplaced.length : 0;
  return [
    ...(nodes.length === 0 ? ['no node is selected'] : []),
    ...halted.map((cause) => escapeForTerminal(cause)),
    ...(held.length === 0 ? [] : [`maintenance Leases are held by others: ${listed(holds)}`]),
    ...(stuck === 0 ? [] : [`${numbered(stuck, 'pod')} cannot be evacuated without intervention`]),
    ...(unplaced === 0 ? [] : [waitsForRoom(unplaced)]),
  ];
}

function stuckIn({ tiers, budgets }: PlanReport): number {
  const pods = tiers.flatMap((tier) => tier.pods);
  return pods.filter(isStuck).length + budgets.reduce((sum, one) => sum + (one.stuck ?? 0), 0);
}

function waitsForRoom(pods: number): string {
  return `${numbered(pods, 'pod')} ${pods === 1 ? 'waits' : 'wait'} until there is room on other nodes`;
}

const maxLineLength = 1_000;
