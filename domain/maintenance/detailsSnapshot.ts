import type { DrainTier, NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { deadlineText } from '../drain/escalation.ts';
import { isTransient, requiresIntervention } from '../evacuation/blocker.ts';
import { tierOf } from './summary.ts';
import { compareNames } from '../common/names.ts';
import { stageOf } from '../common/stage.ts';
import { cut } from '../common/text.ts';
import { isRecord, isStage } from '../common/untrusted.ts';

/**
 * The nodes and pods that the current details of a maintenance show in the Temporal UI. It is stored in the history of the run: plain JSON,
 * and small for any size of maintenance.
 */
export interface DetailsSnapshot {
  /** Time of the snapshot. All times are RFC 3339. */
  at: string;
  stage: NodeMaintenanceStage;
  /** Start of the stage. Missing before that. */
  since?: string;
  reason?: string;
  /** The current tier, counting only tiers that contain pods, and a description of its pods. Missing outside of Drain. */
  drainTier?: DrainTier;
  tier?: string;
  /** The deadline of the drain and its next step. Missing without one, and once the nodes were drained. */
  deadline?: string;
  podsToEvacuate: number;
  podsEvacuated: number;
  podsBlocked: number;
  /** Sorted: nodes with blocked pods first. */
  rows: DetailsRow[];
  /** Number of nodes without a row, and of those among them without pods to evacuate. */
  more: number;
  moreDone: number;
  causes: DetailsCause[];
  moreCauses: number;
}

export interface DetailsRow {
  node: string;
  podsToEvacuate: number;
  podsEvacuated: number;
  message: string;
}

/** Why pods cannot leave and how to fix it, with some of the pods. */
export interface DetailsCause {
  message: string;
  requiresIntervention: boolean;
  /** `NAMESPACE/NAME (NODE)`. */
  pods: string[];
  morePods: number;
}

const maxRows = 15;
const maxCauses = 5;
const maxPods = 3;
const maxMessageLength = 160;
const maxCauseLength = 300;

/** Takes a snapshot. The same object gives the same snapshot, except for `at`. */
export function detailsSnapshotAt(maintenance: NodeMaintenance, at: string): DetailsSnapshot {
  const { spec, status } = maintenance;
  const stage = stageOf(maintenance);
  const since = status?.stageStatuses.find(({ name }) => name === stage)?.startTimestamp;
  const tier = tierOf(maintenance);
  const rows = rowsOf(maintenance);
  const omitted = rows.slice(maxRows);
  const causes = causesOf(maintenance);
  const deadline = stage === 'Drain' ? deadlineText(maintenance) : undefined;
  return {
    at,
    stage,
    ...(since !== undefined && { since }),
    ...(spec.reason && { reason: cut(spec.reason, maxCauseLength) }),
    ...(tier !== undefined && {
      drainTier: { number: tier.number, total: tier.total },
      tier: cut(tier.pods, maxMessageLength),
    }),
    ...(deadline !== undefined && { deadline: cut(deadline, maxCauseLength) }),
    podsToEvacuate: sum(rows.map(({ podsToEvacuate }) => podsToEvacuate)),
    podsEvacuated: sum(rows.map(({ podsEvacuated }) => podsEvacuated)),
    podsBlocked: stage === 'Drain' ? (status?.podsBlocked ?? 0) : 0,
    rows: rows.slice(0, maxRows),
    more: omitted.length,
    moreDone: omitted.filter(({ podsToEvacuate }) => podsToEvacuate === 0).length,
    causes: causes.slice(0, maxCauses),
    moreCauses: Math.max(0, causes.length - maxCauses),
  };
}

/** Returns true for a value that `detailsSnapshotAt` could have returned: any client may send a snapshot to a run. */
export function isDetailsSnapshot(value: unknown): value is DetailsSnapshot {
  if (!isRecord(value)) return false;
  const { at, stage, since, reason, drainTier, tier, deadline, rows, causes, ...counts } = value;
  return (
    isTime(at) &&
    isStage(stage) &&
    (since === undefined || isTime(since)) &&
    [reason, tier, deadline].every((text) => text === undefined || isTextOf(maxCauseLength, text)) &&
    (drainTier === undefined || hasFields(drainTier, { number: isCount, total: isCount })) &&
    isListOf(maxRows, rows, isRow) &&
    isListOf(maxCauses, causes, isCause) &&
    hasFields(counts, snapshotCounts)
  );
}

type Guard = (value: unknown) => boolean;

const isTime: Guard = (value) => isTextOf(maxTimeLength, value) && !Number.isNaN(Date.parse(value as string));
const isCount: Guard = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isName: Guard = (value) => isTextOf(maxPodLength, value);

const snapshotCounts = {
  podsToEvacuate: isCount,
  podsEvacuated: isCount,
  podsBlocked: isCount,
  more: isCount,
  moreDone: isCount,
  moreCauses: isCount,
};

const isRow: Guard = (value) =>
  hasFields(value, {
    node: isName,
    podsToEvacuate: isCount,
    podsEvacuated: isCount,
    message: (text) => isTextOf(maxMessageLength, text),
  });

const isCause: Guard = (value) =>
  hasFields(value, {
    message: (text) => isTextOf(maxCauseLength, text),
    requiresIntervention: (flag) => typeof flag === 'boolean',
    pods: (pods) => isListOf(maxPods, pods, isName),
    morePods: isCount,
  });

/** RFC 3339. */
const maxTimeLength = 35;
/** Namespace, name and node of a pod. */
const maxPodLength = 600;

function isTextOf(maxLength: number, value: unknown): boolean {
  return typeof value === 'string' && value.length <= maxLength;
}

function isListOf(maxItems: number, value: unknown, isItem: Guard): boolean {
  return Array.isArray(value) && value.length <= maxItems && value.every((item) => isItem(item));
}

/** Returns true for an object with exactly these fields. */
function hasFields(value: unknown, guards: Readonly<Record<string, Guard>>): boolean {
  if (!isRecord(value)) return false;
  const names = Object.keys(guards);
  return (
    Object.keys(value).length === names.length && names.every((name) => guards[name]?.(value[name]) === true)
  );
}

/** Returns the reasons that require intervention as one text, so that a change is easy to detect. Empty if there are none. */
export function interventionReasons(maintenance: NodeMaintenance): string {
  // Late terminating pods are left to the next snapshot, because there may be one after the other.
  const causes = blockedPods(maintenance).filter((blocker) => !isTransient(blocker));
  return [...new Set(causes.map(({ message }) => message))].toSorted(compareNames).join('\n');
}

function rowsOf(maintenance: NodeMaintenance): DetailsRow[] {
  const blocked = new Set(blockedPods(maintenance).map(({ node }) => node));
  const rank = ({ node, podsToEvacuate }: DetailsRow) => (blocked.has(node) ? 0 : podsToEvacuate > 0 ? 1 : 2);
  return (maintenance.status?.nodeStatuses ?? [])
    .map(({ nodeRef, podsPendingEvacuation, podsEvacuating, podsPeak = 0, drainMessage }) => {
      const podsToEvacuate = podsPendingEvacuation + podsEvacuating;
      return {
        node: nodeRef.name,
        podsToEvacuate,
        podsEvacuated: Math.max(0, podsPeak - podsToEvacuate),
        message: cut(drainMessage, maxMessageLength),
      };
    })
    .toSorted((a, b) => rank(a) - rank(b) || compareNames(a.node, b.node));
}

/** Returns each cause once, with its pods. */
function causesOf(maintenance: NodeMaintenance): DetailsCause[] {
  const pods = new Map<string, { requiresIntervention: boolean; pods: string[] }>();
  for (const { namespace, name, node, reason, message } of blockedPods(maintenance)) {
    const known = pods.get(message) ?? {
      requiresIntervention: requiresIntervention({ reason, message }),
      pods: [],
    };
    pods.set(message, { ...known, pods: [...known.pods, `${namespace}/${name} (${node})`] });
  }
  return [...pods]
    .map(([message, cause]) => ({
      message: cut(message, maxCauseLength),
      requiresIntervention: cause.requiresIntervention,
      pods: cause.pods.toSorted(compareNames).slice(0, maxPods),
      morePods: Math.max(0, cause.pods.length - maxPods),
    }))
    .toSorted(
      (a, b) =>
        Number(b.requiresIntervention) - Number(a.requiresIntervention) || compareNames(a.message, b.message),
    );
}

/** Returns the blocked pods of a drain. The list in the status is outdated after the drain has ended. */
function blockedPods(maintenance: NodeMaintenance) {
  return stageOf(maintenance) === 'Drain' ? (maintenance.status?.blockedPods ?? []) : [];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
