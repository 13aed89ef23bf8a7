import type { Estimate, MaintenanceSummary, NodeSummary } from '../domain/maintenanceSummary.ts';
import { compareNames, listed } from '../domain/names.ts';
import { indented } from './block.ts';
import { titleOf } from './maintenances.ts';
import { type Column, duration, shown, table } from './output.ts';

/** One maintenance for people. */
export interface StatusText {
  readonly headline: string;
  readonly progress: readonly string[];
  /** A table of its nodes, with its titles. */
  readonly rows: readonly string[];
  readonly remarks: readonly Remark[];
}

/** What the table has no room for, as a sentence. */
export interface Remark {
  readonly about: 'Blocked' | 'Evacuator' | 'StaticPods' | 'Gate';
  readonly text: string;
}

/** Where there is little room. */
interface Room {
  /** Of the table, in columns. */
  readonly width?: number;
  /** Whether not everything is shown: nodes that somebody may have to see to come first, and what is done is only counted. */
  readonly isCut?: boolean;
}

/** `now` is milliseconds since 1970. */
export function statusText(
  summary: MaintenanceSummary,
  now: number,
  { width = Number.POSITIVE_INFINITY, isCut = false }: Room = {},
): StatusText {
  const { nodes, stage } = summary;
  const listedNodes = isCut ? pressingFirst(nodes) : nodes;
  const rest = nodes.length - listedNodes.length;
  const done = stage === 'Complete' ? 'with nothing to wait for' : 'without pods to evacuate';
  return {
    headline: headline(summary, now),
    progress: [
      ...progressLines(summary, now),
      ...(rest === 0 ? [] : [`not listed: ${rest} of ${nodes.length} nodes, ${done}`]),
    ],
    rows: rowsOf(listedNodes, stage, width),
    remarks: remarksOn(summary),
  };
}

function pressingFirst(nodes: readonly NodeSummary[]): NodeSummary[] {
  const isStuck = ({ leaving }: NodeSummary) => leaving.some(({ blocker }) => blocker !== undefined);
  return nodes.filter((node) => !isDone(node)).toSorted((a, b) => Number(isStuck(b)) - Number(isStuck(a)));
}

function isDone({ obstacles, podsLeft, cordoned, tier }: NodeSummary): boolean {
  return obstacles === undefined ? cordoned && tier !== undefined && podsLeft === 0 : obstacles.length === 0;
}

function rowsOf(nodes: readonly NodeSummary[], stage: MaintenanceSummary['stage'], width: number): string[] {
  if (nodes.length === 0) return [];
  const rows = (columns: Column<NodeSummary>[]) => table(columns, nodes).split('\n');
  if (stage === 'Complete') return rows(returningColumns);
  const wide = rows(drainingColumns);
  const fits = wide.every((row) => row.length <= width);
  return fits ? wide : rows(drainingColumns.filter(({ title }) => title !== 'TARGETS'));
}

export function statusLines(summary: MaintenanceSummary, now: number): string[] {
  const { headline: first, progress, rows, remarks } = statusText(summary, now);
  return [first, ...[...progress, ...rows, ...remarks.map(({ text }) => text)].map(indented)];
}

function headline(
  { name, stage, stageSince, tier, reason, ...summary }: MaintenanceSummary,
  now: number,
): string {
  const entry = tier === undefined ? '' : `, entry ${tier.entry} of ${tier.of} of its drain plan`;
  const state = summary.paused
    ? ', paused'
    : summary.drained
      ? ', drained'
      : summary.givenBack
        ? ', given back'
        : '';
  const since =
    stageSince === undefined ? ', not taken up yet' : ` for ${duration(now - Date.parse(stageSince))}`;
  return `${titleOf(name)}: ${stage}${since}${state === ', drained' ? '' : entry}${state}${reason === undefined ? '' : `: ${shown(reason)}`}`;
}

function progressLines(
  { stage, podsLeft, podsEvacuated, podsBlocked, estimate, nodes, missingNodes }: MaintenanceSummary,
  now: number,
): string[] {
  if (stage === 'Complete') {
    return [returnedText(nodes, missingNodes)];
  }
  if (stage !== 'Drain' || podsLeft === undefined) return [];
  const all = podsLeft + podsEvacuated;
  const blocked = podsBlocked === 0 ? '' : `, ${podsBlocked} cannot leave`;
  const left = `${podsEvacuated} of ${all} pods have left${blocked}`;
  return [estimate === undefined ? left : `${left}; ${estimateText(estimate, now)}`];
}

function returnedText(nodes: readonly NodeSummary[], missingNodes: readonly string[] = []): string {
  const back = nodes.filter(({ takesPods }) => takesPods).length;
  const left = nodes.filter((node) => node.left !== undefined && node.takesPods !== true).length;
  const parts = [
    `${back} of ${nodes.length + missingNodes.length} nodes ${back === 1 ? 'takes' : 'take'} pods again`,
    ...(left === 0 ? [] : [`${left} ${left === 1 ? 'is' : 'are'} left as before`]),
    ...(missingNodes.length === 0
      ? []
      : [`${listed(missingNodes)} ${missingNodes.length === 1 ? 'does' : 'do'} not exist`]),
  ];
  return parts.join(', ');
}

function estimateText(estimate: Estimate, now: number): string {
  switch (estimate.basis) {
    case 'Paused':
      return 'no estimate while paused';
    case 'Blocked':
      return 'no estimate until somebody acts on those that cannot leave';
    case 'NoPodHasLeft':
      return 'no estimate before the first has left';
    case 'NoPodLeftOfLate':
      return 'no estimate: no pod has left for a minute';
    case 'Evacuator':
      return `about ${duration(estimate.seconds * 1_000)} more, as ${shown(estimate.evacuator)} expects${at(estimate.seconds, now)}`;
    case 'PaceSoFar':
    case 'RecentPace': {
      const which = estimate.basis === 'PaceSoFar' ? 'so far' : 'of late';
      const { pods, ms } = estimate.pace;
      return `about ${duration(estimate.seconds * 1_000)} more at the pace ${which} (${pods} pods in ${duration(ms)})`;
    }
  }
}

/** The hour, for what lasts. */
function at(seconds: number, now: number): string {
  return seconds < 600 ? '' : ` (${new Date(now + seconds * 1_000).toISOString().slice(11, 16)} UTC)`;
}

const drainingColumns: Column<NodeSummary>[] = [
  { title: 'NODE', cell: ({ node }) => node },
  { title: 'DRAINED', cell: drainedBar },
  { title: 'PODS LEFT', cell: ({ podsLeft }) => podsLeft?.toString() },
  { title: 'GATES', cell: gatesCell },
  { title: 'TARGETS', cell: ({ tier }) => tier },
  { title: 'MESSAGE', cell: ({ message, cordoned }) => message || (cordoned ? 'Cordoned' : undefined) },
];

const returningColumns: Column<NodeSummary>[] = [
  { title: 'NODE', cell: ({ node }) => node },
  { title: 'TAKES PODS', cell: ({ takesPods }) => (takesPods ? 'yes' : 'no') },
  { title: 'GATES', cell: gatesCell },
  {
    title: 'WAITS FOR',
    cell: (node) => node.message || node.obstacles?.join('; ') || leftText(node),
  },
];

const leftWords = {
  CordonedBefore: 'nothing: left cordoned, as before',
  NeverTouched: 'nothing: left alone, never touched',
} as const;

/** Undefined for a node that takes pods, or is to do so. */
export function leftText({ left, takesPods }: NodeSummary): string | undefined {
  return left === undefined || takesPods === true ? undefined : leftWords[left];
}

function gatesCell({ gates }: NodeSummary): string | undefined {
  return gates && `${gates.open}/${gates.all}`;
}

const barWidth = 10;

/** Full only when no pod is left. */
function drainedBar({ podsLeft, podsEvacuated, tier }: NodeSummary): string | undefined {
  if (tier === undefined || podsLeft === undefined) return undefined;
  const all = podsLeft + podsEvacuated;
  const share = all === 0 ? 1 : podsEvacuated / all;
  const full = Math.floor(share * barWidth);
  const percent = `${Math.floor(share * 100)}%`.padStart(4);
  return `${'█'.repeat(full)}${'░'.repeat(barWidth - full)} ${percent}`;
}

/** What blocks pods, what evacuators do, static pods, gates that are closed. */
function remarksOn({ nodes, stage }: MaintenanceSummary): Remark[] {
  if (stage === 'Complete') return [];
  const statics = nodes.flatMap(({ node, staticPods }) => staticPods.map((pod) => `${pod} (${node})`));
  const left = `${listed(statics)} left running: static pods, which only their kubelet ends`;
  const remarks: Remark[] = [
    ...causesOn(nodes),
    ...(statics.length === 0 ? [] : [{ about: 'StaticPods', text: left } as const]),
    ...nodes.flatMap(({ node, gates }) =>
      (gates?.closed ?? []).map(
        ({ gate, message }) => ({ about: 'Gate', text: `${node}: gate ${gate}: ${message}` }) as const,
      ),
    ),
  ];
  return remarks.map(({ about, text }) => ({ about, text: shown(text, longestRemark) }));
}

/** Each cause once, with its pods. */
function causesOn(nodes: readonly NodeSummary[]): Remark[] {
  const causes = new Map<string, { about: Remark['about']; pods: string[] }>();
  const add = (about: Remark['about'], cause: string, pod: string) => {
    const known = causes.get(cause) ?? { about, pods: [] };
    causes.set(cause, { about, pods: [...known.pods, pod] });
  };
  for (const { node, leaving } of nodes) {
    for (const { pod, blocker, evacuator, message } of leaving) {
      if (blocker !== undefined) add('Blocked', `cannot leave: ${blocker.message}`, `${pod} (${node})`);
      else if (evacuator !== undefined)
        add('Evacuator', `${evacuator}: ${message ?? 'at work'}`, `${pod} (${node})`);
    }
  }
  return [...causes].map(([cause, { about, pods }]) => ({
    about,
    text: `${listed(pods.toSorted(compareNames))} ${cause}`,
  }));
}

const longestRemark = 1_000;
