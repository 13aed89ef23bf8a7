import type { Estimate, MaintenanceSummary, NodeSummary } from '../../domain/maintenance/summary.ts';
import { deadlineEffect } from '../../domain/drain/escalation.ts';
import { tierText } from '../../domain/drain/tiers.ts';
import { compareNames, listed } from '../../domain/common/names.ts';
import { indented } from '../terminal/block.ts';
import { displayWidth } from '../terminal/width.ts';
import { titleOf } from './maintenances.ts';
import { duration, escapeForTerminal } from '../output.ts';
import { type Column, table } from '../terminal/table.ts';

/** The status of one maintenance as text. */
export interface StatusText {
  readonly headline: string;
  readonly progress: readonly string[];
  /** Table of the nodes, including its titles. */
  readonly rows: readonly string[];
  readonly remarks: readonly Remark[];
}

/** A sentence about what the table does not show. */
export interface Remark {
  readonly about:
    | 'Stalled'
    | 'Capacity'
    | 'Unserved'
    | 'Blocked'
    | 'Evacuator'
    | 'Terminating'
    | 'StaticPods'
    | 'Gate';
  readonly text: string;
}

/** Space limits of the output. */
interface Layout {
  /** Width of the table in terminal columns. */
  readonly width?: number;
  /** Lists blocked nodes first, only counts nodes that are done, and names causes before their pods. */
  readonly isTruncated?: boolean;
}

/** `now` is in milliseconds since the epoch. */
export function statusText(
  summary: MaintenanceSummary,
  now: number,
  { width = Number.POSITIVE_INFINITY, isTruncated = false }: Layout = {},
): StatusText {
  const { nodes, stage } = summary;
  const listedNodes = isTruncated ? blockedFirst(nodes) : nodes;
  const rest = nodes.length - listedNodes.length;
  const done = stage === 'Complete' ? 'back in service' : 'without pods to evacuate';
  return {
    headline: headline(summary, now),
    progress: [
      ...notProgressingLines(summary, now),
      ...progressLines(summary, now),
      ...deadlineLines(summary, now),
      ...(rest === 0 ? [] : [`not listed: ${rest} of ${nodes.length} nodes, ${done}`]),
    ],
    rows: rowsOf(listedNodes, stage, width),
    remarks: remarksOn(summary, isTruncated),
  };
}

function blockedFirst(nodes: readonly NodeSummary[]): NodeSummary[] {
  const isStuck = ({ leaving }: NodeSummary) => leaving.some(({ blocker }) => blocker !== undefined);
  return nodes.filter((node) => !isDone(node)).toSorted((a, b) => Number(isStuck(b)) - Number(isStuck(a)));
}

function isDone({ outOfServiceReasons, podsToEvacuate, cordoned, tier }: NodeSummary): boolean {
  return outOfServiceReasons === undefined
    ? cordoned && tier !== undefined && podsToEvacuate === 0
    : outOfServiceReasons.length === 0;
}

function rowsOf(nodes: readonly NodeSummary[], stage: MaintenanceSummary['stage'], width: number): string[] {
  if (nodes.length === 0) return [];
  const rows = (columns: Column<NodeSummary>[]) => table(columns, nodes).split('\n');
  if (stage === 'Complete') return rows(completeColumns);
  const wide = rows(drainingColumns);
  const fits = wide.every((row) => displayWidth(row) <= width);
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
  const progress = tier === undefined ? '' : `, ${tierText(tier)}`;
  const state = summary.paused
    ? ', paused'
    : summary.drained
      ? ', drained'
      : summary.completed
        ? ', uncordoned'
        : '';
  const since = stageSince === undefined ? ', not started' : ` for ${duration(now - Date.parse(stageSince))}`;
  return `${titleOf(name)}: ${stage}${since}${state === ', drained' ? '' : progress}${state}${reason === undefined ? '' : `: ${escapeForTerminal(reason)}`}`;
}

function notProgressingLines({ notProgressing }: MaintenanceSummary, now: number): string[] {
  if (notProgressing === undefined) return [];
  const { message, since } = notProgressing;
  const waiting = duration(now - Date.parse(since));
  return [`not progressing for ${waiting}: ${escapeForTerminal(message, maxRemarkLength)}`];
}

function progressLines(
  { stage, podsToEvacuate, podsEvacuated, podsBlocked, estimate, nodes, missingNodes }: MaintenanceSummary,
  now: number,
): string[] {
  if (stage === 'Complete') {
    return [inServiceText(nodes, missingNodes)];
  }
  if (stage !== 'Drain' || podsToEvacuate === undefined) return [];
  const all = podsToEvacuate + podsEvacuated;
  const blocked = podsBlocked === 0 ? '' : `, ${podsBlocked} blocked`;
  const text = `${podsEvacuated} of ${all} pods evacuated${blocked}`;
  return [estimate === undefined ? text : `${text}; ${estimateText(estimate, now)}`];
}

function deadlineLines({ drainDeadline }: MaintenanceSummary, now: number): string[] {
  if (drainDeadline === undefined || drainDeadline.drainedAt !== undefined) return [];
  const { time, onDeadline, nextStep } = drainDeadline;
  const leftMs = Date.parse(time) - now;
  const deletes = onDeadline === 'Delete';
  if (leftMs <= 0)
    return [`deadline ${time} has passed: pods that are left are ${deletes ? 'deleted' : 'reported'}`];
  const next = nextStep === undefined ? '' : `; next notification in ${duration(Date.parse(nextStep) - now)}`;
  return [`deadline in ${duration(leftMs)} (${time}): ${deadlineEffect(deletes)}${next}`];
}

function inServiceText(nodes: readonly NodeSummary[], missingNodes: readonly string[] = []): string {
  const inService = nodes.filter((node) => node.inService).length;
  const unchanged = nodes.filter(
    (node) => node.notUncordoned !== undefined && node.inService !== true,
  ).length;
  const parts = [
    `${inService} of ${nodes.length + missingNodes.length} nodes in service`,
    ...(unchanged === 0 ? [] : [`${unchanged} unchanged`]),
    ...(missingNodes.length === 0
      ? []
      : [
          `${listed(missingNodes.map((name) => escapeForTerminal(name)))} ${missingNodes.length === 1 ? 'does' : 'do'} not exist`,
        ]),
  ];
  return parts.join(', ');
}

function estimateText(estimate: Estimate, now: number): string {
  switch (estimate.basis) {
    case 'Paused':
      return 'no estimate while paused';
    case 'Blocked':
      return 'no estimate: blocked pods require action';
    case 'WaitingForNodeLease':
      return 'no estimate: other clients hold Leases of nodes';
    case 'NoPodHasLeft':
      return 'no estimate: no pod has been evacuated yet';
    case 'Stalled':
      return 'no estimate: no pod has been evacuated in the last minute';
    case 'Evacuator':
      return `about ${duration(estimate.seconds * 1_000)} remaining, estimated by ${escapeForTerminal(estimate.evacuator)}${endTime(estimate.seconds, now)}`;
    case 'AverageRate':
    case 'RecentRate': {
      const which = estimate.basis === 'AverageRate' ? 'average' : 'current';
      const { pods, ms } = estimate.rate;
      return `about ${duration(estimate.seconds * 1_000)} remaining at the ${which} rate (${pods} pods in ${duration(ms)})`;
    }
  }
}

/** Formats the expected end, for long durations only. */
function endTime(seconds: number, now: number): string {
  return seconds < 600 ? '' : ` (${new Date(now + seconds * 1_000).toISOString().slice(11, 16)} UTC)`;
}

const drainingColumns: Column<NodeSummary>[] = [
  { title: 'NODE', cell: ({ node }) => node },
  { title: 'DRAINED', cell: drainedBar },
  { title: 'TO EVACUATE', cell: ({ podsToEvacuate }) => podsToEvacuate?.toString() },
  { title: 'GATES', cell: gatesCell },
  { title: 'TARGETS', cell: ({ tier }) => tier },
  { title: 'MESSAGE', cell: ({ message, cordoned }) => message || (cordoned ? 'Cordoned' : undefined) },
];

const completeColumns: Column<NodeSummary>[] = [
  { title: 'NODE', cell: ({ node }) => node },
  { title: 'IN SERVICE', cell: ({ inService }) => (inService ? 'yes' : 'no') },
  { title: 'GATES', cell: gatesCell },
  {
    title: 'WAITING FOR',
    cell: (node) => node.message || node.outOfServiceReasons?.join('; ') || unchangedText(node),
  },
];

const unchangedTexts = {
  CordonedBefore: 'nothing: was cordoned before the maintenance',
  CordonedByAnother: 'nothing: is cordoned by another client',
  NeverCordoned: 'nothing: was not changed by the maintenance',
} as const;

/** Explains why a node is not uncordoned; undefined if it is, or will be, in service. */
export function unchangedText({ notUncordoned, inService }: NodeSummary): string | undefined {
  return notUncordoned === undefined || inService === true ? undefined : unchangedTexts[notUncordoned];
}

function gatesCell({ gates }: NodeSummary): string | undefined {
  return gates && `${gates.ready}/${gates.all}`;
}

const barWidth = 10;

/** Renders a progress bar that is full only if no pod remains. */
function drainedBar({ podsToEvacuate, podsEvacuated, tier }: NodeSummary): string | undefined {
  if (tier === undefined || podsToEvacuate === undefined) return undefined;
  const all = podsToEvacuate + podsEvacuated;
  const share = all === 0 ? 1 : podsEvacuated / all;
  const full = Math.floor(share * barWidth);
  const percent = `${Math.floor(share * 100)}%`.padStart(4);
  return `${'█'.repeat(full)}${'░'.repeat(barWidth - full)} ${percent}`;
}

/** Returns remarks on a stalled workflow, blockers, evacuators, static pods and gates that are not ready. */
function remarksOn(summary: MaintenanceSummary, isTruncated: boolean): Remark[] {
  const { stage, stalled } = summary;
  const first: Remark[] = stalled === undefined ? [] : [{ about: 'Stalled', text: stalled }];
  return [...first, ...(stage === 'Complete' ? [] : drainRemarks(summary, isTruncated))].map(
    ({ about, text }) => ({
      about,
      text: escapeForTerminal(text, maxRemarkLength),
    }),
  );
}

function drainRemarks(
  { nodes, staticPodsRemain, capacity, unserved }: MaintenanceSummary,
  isTruncated: boolean,
): Remark[] {
  const staticText = `static pods keep running: ${staticPodsRemain}`;
  return [
    ...(capacity === undefined ? [] : [{ about: 'Capacity', text: capacity } as const]),
    ...(unserved === undefined ? [] : [{ about: 'Unserved', text: unserved } as const]),
    ...causesOn(nodes, isTruncated),
    ...(staticPodsRemain === undefined ? [] : [{ about: 'StaticPods', text: staticText } as const]),
    ...nodes.flatMap(({ node, gates }) =>
      (gates?.notReady ?? []).map(
        ({ gate, message }) => ({ about: 'Gate', text: `${node}: gate ${gate}: ${message}` }) as const,
      ),
    ),
  ];
}

/** Returns each cause once, with its pods. If the output is truncated, the cause is first: it has the remedy. */
function causesOn(nodes: readonly NodeSummary[], isTruncated: boolean): Remark[] {
  const causes = new Map<string, { about: Remark['about']; pods: string[] }>();
  const add = (about: Remark['about'], cause: string, pod: string) => {
    const known = causes.get(cause) ?? { about, pods: [] };
    causes.set(cause, { about, pods: [...known.pods, pod] });
  };
  for (const { node, leaving } of nodes) {
    for (const { pod, blocker, evacuator, message, terminating } of leaving) {
      if (blocker !== undefined) add('Blocked', `blocked: ${blocker.message}`, `${pod} (${node})`);
      else if (evacuator !== undefined)
        add('Evacuator', `${evacuator}: ${message ?? 'in progress'}`, `${pod} (${node})`);
      if (terminating !== undefined) add('Terminating', `terminating: ${terminating}`, `${pod} (${node})`);
    }
  }
  return [...causes].map(([cause, { about, pods }]) => {
    const names = listed(pods.toSorted(compareNames));
    return { about, text: isTruncated ? `${cause.replace(/\.$/, '')}. Pods: ${names}` : `${names} ${cause}` };
  });
}

const maxRemarkLength = 1_000;
