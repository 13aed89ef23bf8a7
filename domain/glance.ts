import type { NodeMaintenance, NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { mayPass, needsAPerson } from './blocker.ts';
import { completeDrainPlan, entryText } from './drainPlan.ts';
import { tierOf } from './maintenanceSummary.ts';
import { compareNames } from './names.ts';
import { stageOf } from './stage.ts';
import { cut } from './text.ts';

/**
 * What the page of a maintenance in the Temporal UI tells of its nodes and pods. It lies in the history of the run, and so is plain
 * JSON and small, however large the maintenance.
 */
export interface Glance {
  /** When it was taken; RFC 3339, like every time here. */
  at: string;
  stage: NodeMaintenanceStage;
  /** When the stage began; missing until it has. */
  since?: string;
  reason?: string;
  /** In words: the entry of the drain plan that is reached, and the one after it. Missing outside of Drain. */
  tier?: string;
  nextTier?: string;
  podsLeft: number;
  podsEvacuated: number;
  podsBlocked: number;
  /** Those that somebody may have to see to come first. */
  rows: GlanceRow[];
  /** Nodes that have no row, and those of them without pods to evacuate. */
  more: number;
  moreDone: number;
  causes: GlanceCause[];
  moreCauses: number;
}

export interface GlanceRow {
  node: string;
  podsLeft: number;
  podsEvacuated: number;
  message: string;
}

/** Why pods cannot leave, and what to do about it, in a sentence; with some of the pods. */
export interface GlanceCause {
  message: string;
  needsAPerson: boolean;
  /** `NAMESPACE/NAME (NODE)`. */
  pods: string[];
  morePods: number;
}

const rowsShown = 15;
const causesShown = 5;
const podsShown = 3;
const longestMessage = 160;
const longestCause = 300;

/** The same object gives the same glance, but for `at`. */
export function glanceAt(maintenance: NodeMaintenance, at: string): Glance {
  const { spec, status } = maintenance;
  const stage = stageOf(maintenance);
  const since = status?.stageStatuses.find(({ name }) => name === stage)?.startTimestamp;
  const tier = tierOf(maintenance);
  const next = tier && completeDrainPlan(spec.drainPlan)[tier.entry];
  const rows = rowsOf(maintenance);
  const rest = rows.slice(rowsShown);
  const causes = causesOf(maintenance);
  return {
    at,
    stage,
    ...(since !== undefined && { since }),
    ...(spec.reason && { reason: cut(spec.reason, longestCause) }),
    ...(tier !== undefined && { tier: cut(tier.pods, longestMessage) }),
    ...(next !== undefined && { nextTier: cut(entryText(next), longestMessage) }),
    podsLeft: sum(rows.map(({ podsLeft }) => podsLeft)),
    podsEvacuated: sum(rows.map(({ podsEvacuated }) => podsEvacuated)),
    podsBlocked: stage === 'Drain' ? (status?.podsBlocked ?? 0) : 0,
    rows: rows.slice(0, rowsShown),
    more: rest.length,
    moreDone: rest.filter(({ podsLeft }) => podsLeft === 0).length,
    causes: causes.slice(0, causesShown),
    moreCauses: Math.max(0, causes.length - causesShown),
  };
}

/** What somebody has to see to, as a text that is another one whenever that is something else; empty for nothing. */
export function awaitedOfPeople(maintenance: NodeMaintenance): string {
  // A pod that is late to end is told with the next count: there may be one after the other.
  const causes = blockedPods(maintenance).filter((blocker) => !mayPass(blocker));
  return [...new Set(causes.map(({ message }) => message))].toSorted(compareNames).join('\n');
}

function rowsOf(maintenance: NodeMaintenance): GlanceRow[] {
  const blocked = new Set(blockedPods(maintenance).map(({ node }) => node));
  const rank = ({ node, podsLeft }: GlanceRow) => (blocked.has(node) ? 0 : podsLeft > 0 ? 1 : 2);
  return (maintenance.status?.nodeStatuses ?? [])
    .map(({ nodeRef, podsPendingEvacuation, podsEvacuating, podsPeak = 0, drainMessage }) => {
      const podsLeft = podsPendingEvacuation + podsEvacuating;
      return {
        node: nodeRef.name,
        podsLeft,
        podsEvacuated: Math.max(0, podsPeak - podsLeft),
        message: cut(drainMessage, longestMessage),
      };
    })
    .toSorted((a, b) => rank(a) - rank(b) || compareNames(a.node, b.node));
}

/** Each once, with its pods. */
function causesOf(maintenance: NodeMaintenance): GlanceCause[] {
  const pods = new Map<string, { needsAPerson: boolean; pods: string[] }>();
  for (const { namespace, name, node, reason, message } of blockedPods(maintenance)) {
    const known = pods.get(message) ?? { needsAPerson: needsAPerson({ reason, message }), pods: [] };
    pods.set(message, { ...known, pods: [...known.pods, `${namespace}/${name} (${node})`] });
  }
  return [...pods]
    .map(([message, cause]) => ({
      message: cut(message, longestCause),
      needsAPerson: cause.needsAPerson,
      pods: cause.pods.toSorted(compareNames).slice(0, podsShown),
      morePods: Math.max(0, cause.pods.length - podsShown),
    }))
    .toSorted(
      (a, b) => Number(b.needsAPerson) - Number(a.needsAPerson) || compareNames(a.message, b.message),
    );
}

/** What was blocked when the drain ended is not so any more. */
function blockedPods(maintenance: NodeMaintenance) {
  return stageOf(maintenance) === 'Drain' ? (maintenance.status?.blockedPods ?? []) : [];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
