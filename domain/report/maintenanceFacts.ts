import type { PodDisruptionBudget } from '../../api/core.ts';
import { COMPLETED_ANNOTATION } from '../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { isCompleted } from '../common/stage.ts';
import { type DetailsSnapshot, detailsSnapshotAt } from '../maintenance/detailsSnapshot.ts';
import { type RecordedAction, timeOf } from './parts.ts';
import type { LeavingPod, PodEvent } from './podRows.ts';
import { type MaintenanceHistory, maintenanceHistoryOf, type RecordedRun, runsOfObject } from './recorded.ts';
import type { Span } from './report.ts';
import { within } from './spans.ts';

/** An Event of a maintenance, a window or a pod, as the apiserver still has it. */
export interface ReportEvent {
  readonly reason: string;
  readonly message: string;
  readonly firstMs: number;
  readonly lastMs: number;
}

/** Everything from which the report of a maintenance is made. */
export interface MaintenanceRecord {
  readonly name: string;
  /** Time of the apiserver. */
  readonly nowMs: number;
  /** All runs of this name that Temporal has; undefined if it was not reached. */
  readonly runs: readonly RecordedRun[] | undefined;
  /** Undefined if it was deleted, or may not be read. */
  readonly maintenance: NodeMaintenance | undefined;
  readonly events: readonly ReportEvent[];
  /** Pods on its nodes that have an Evacuation or an EvictionRequest. */
  readonly leaving: readonly LeavingPod[];
  readonly podEvents: readonly PodEvent[];
  readonly budgets: readonly PodDisruptionBudget[];
  readonly actions: readonly RecordedAction[];
  /** Names of what could not be read, and why. */
  readonly unread: readonly string[];
}

/** The facts of a record that several parts of the report need. */
export interface Facts {
  readonly record: MaintenanceRecord;
  /** The runs of this object. */
  readonly own: readonly RecordedRun[];
  readonly history: MaintenanceHistory;
  readonly stages: readonly { readonly stage: NodeMaintenanceStage; readonly atMs: number }[];
  readonly snapshots: readonly { readonly atMs: number; readonly snapshot: DetailsSnapshot }[];
  readonly span: Span;
  /** The time from the start of Drain until the nodes were drained, or uncordoned. */
  readonly drain: Span | undefined;
  readonly drainedAtMs: number | undefined;
  readonly isOver: boolean;
}

export function factsOf(record: MaintenanceRecord): Facts {
  const { maintenance, runs = [] } = record;
  const own = runsOfObject(runs, maintenance?.metadata.uid);
  const history = maintenanceHistoryOf(own);
  const stages = stagesOf(record, history);
  const closedMs = own.at(-1)?.closedAtMs;
  const isOver = maintenance === undefined ? closedMs !== undefined : isCompleted(maintenance);
  const toMs = isOver ? (endOf(record, history) ?? closedMs ?? record.nowMs) : record.nowMs;
  const begins = [timeOf(maintenance?.metadata.creationTimestamp), own[0]?.startedAtMs, stages[0]?.atMs];
  const known = [...begins.filter((at) => at !== undefined), toMs];
  const span = { fromMs: Math.min(...known), toMs: Math.max(...known) };
  const drainedAtMs = history.drainedAtMs ?? drainedTimeOf(record);
  const drain = drainOf(stages, drainedAtMs, span);
  return {
    record,
    own,
    history,
    stages,
    snapshots: snapshotsOf(record, history),
    span,
    drain,
    drainedAtMs,
    isOver,
  };
}

/** Returns when the nodes were returned, as the first of these sources says. */
function endOf(
  { maintenance, events }: MaintenanceRecord,
  { finishedAtMs }: MaintenanceHistory,
): number | undefined {
  const annotated = timeOf(maintenance?.metadata.annotations?.[COMPLETED_ANNOTATION]);
  return finishedAtMs ?? annotated ?? events.find(({ reason }) => reason === 'Completed')?.lastMs;
}

function drainOf(stages: Facts['stages'], drainedAtMs: number | undefined, span: Span): Span | undefined {
  const startOf = (name: NodeMaintenanceStage) => stages.find(({ stage }) => stage === name)?.atMs;
  const fromMs = startOf('Drain');
  if (fromMs === undefined) return undefined;
  return within({ fromMs, toMs: drainedAtMs ?? startOf('Complete') ?? span.toMs }, span);
}

/** The object has the times of its stages; without it, those of the history are the next best. */
function stagesOf({ maintenance }: MaintenanceRecord, history: MaintenanceHistory): Facts['stages'] {
  const stages = new Map(history.stages);
  for (const { name, startTimestamp } of maintenance?.status?.stageStatuses ?? []) {
    const atMs = timeOf(startTimestamp);
    if (atMs !== undefined) stages.set(name, atMs);
  }
  return [...stages].map(([stage, atMs]) => ({ stage, atMs })).toSorted((a, b) => a.atMs - b.atMs);
}

function drainedTimeOf({ maintenance }: MaintenanceRecord): number | undefined {
  const drained = maintenance?.status?.conditions.find(({ type }) => type === 'Drained');
  return drained?.status === 'True' ? timeOf(drained.lastTransitionTime) : undefined;
}

/** Adds what the object says now. A completed one says nothing about its drain any more. */
function snapshotsOf(
  { maintenance, nowMs }: MaintenanceRecord,
  history: MaintenanceHistory,
): Facts['snapshots'] {
  if (maintenance?.status === undefined || isCompleted(maintenance)) return history.snapshots;
  const snapshot = detailsSnapshotAt(maintenance, new Date(nowMs).toISOString());
  return [...history.snapshots, { atMs: nowMs, snapshot }];
}
