import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { isRecord, isStage } from '../common/untrusted.ts';
import { oneLine } from '../common/text.ts';
import { type DetailsSnapshot, isDetailsSnapshot } from '../maintenance/detailsSnapshot.ts';
import type { ReachedTier } from '../maintenance/summary.ts';
import { isWindowStep, type WindowState } from '../windows/windowState.ts';

/** A workflow run as Temporal recorded it, decoded. Any client of the namespace may have written any of its values. */
export interface RecordedRun {
  readonly workflowId: string;
  readonly startedAtMs: number;
  /** Undefined for an open run. */
  readonly closedAtMs?: number | undefined;
  readonly steps: readonly RecordedStep[];
}

export type RecordedStep =
  | { readonly kind: 'Input'; readonly atMs: number; readonly values: readonly unknown[] }
  | {
      readonly kind: 'Signal';
      readonly atMs: number;
      readonly name: string;
      readonly values: readonly unknown[];
    }
  | {
      readonly kind: 'Result';
      readonly atMs: number;
      readonly activity: string;
      readonly values: readonly unknown[];
      readonly result: unknown;
    }
  /** A worker started an activity again after a failure, or after its worker died. */
  | { readonly kind: 'Retry'; readonly atMs: number; readonly activity: string };

/** History of a maintenance according to its runs. */
export interface MaintenanceHistory {
  /** Start of each stage. */
  readonly stages: ReadonlyMap<NodeMaintenanceStage, number>;
  /** Tiers in the order in which they were drained. */
  readonly tiers: readonly { readonly tier: ReachedTier; readonly atMs: number }[];
  readonly drainedAtMs?: number;
  readonly finishedAtMs?: number;
  readonly snapshots: readonly { readonly atMs: number; readonly snapshot: DetailsSnapshot }[];
  readonly pauses: readonly { readonly atMs: number; readonly paused: boolean }[];
  readonly retries: number;
}

/** Returns the UID of the object of a run; undefined if the run was never admitted. */
export function uidOf({ steps }: RecordedRun): string | undefined {
  for (const step of steps) {
    // A run that continues another one starts with its state.
    const value = step.kind === 'Input' ? step.values[1] : isAdmission(step) ? step.result : undefined;
    if (isRecord(value) && typeof value['uid'] === 'string' && value['uid'] !== '') return value['uid'];
  }
  return undefined;
}

function isAdmission(step: RecordedStep): step is Extract<RecordedStep, { kind: 'Result' }> {
  return step.kind === 'Result' && (step.activity === 'admit' || step.activity === 'openWindow');
}

/**
 * Returns the runs of one object, oldest first: of the one with this UID, or of the newest one. A run that was not admitted belongs to the
 * object of the next one.
 */
export function runsOfObject(runs: readonly RecordedRun[], uid: string | undefined): RecordedRun[] {
  const sorted = runs.toSorted((a, b) => a.startedAtMs - b.startedAtMs);
  const uids = sorted.map(uidOf);
  const wanted = uid ?? uids.findLast((one) => one !== undefined);
  return sorted.filter((_, index) => {
    const own = uids.slice(index).find((one) => one !== undefined) ?? wanted;
    return own === wanted;
  });
}

/** Returns the names of the nodes that the maintenance selected when a worker last read them. */
export function nodesIn(runs: readonly RecordedRun[]): string[] {
  for (const step of runs.flatMap((run) => run.steps).toReversed()) {
    const nodes = step.kind === 'Result' && isRecord(step.result) ? step.result['nodes'] : undefined;
    if (Array.isArray(nodes)) return nodes.filter((node) => typeof node === 'string');
  }
  return [];
}

/** Reads the runs of one maintenance. Values that no worker records are ignored. */
export function maintenanceHistoryOf(runs: readonly RecordedRun[]): MaintenanceHistory {
  const steps = runs.flatMap((run) => run.steps).toSorted((a, b) => a.atMs - b.atMs);
  const results = steps.filter((step) => step.kind === 'Result');
  const stages = new Map<NodeMaintenanceStage, number>();
  for (const { activity, values, atMs } of results) {
    const stage = values[1];
    if (activity === 'startStage' && isStage(stage) && !stages.has(stage)) stages.set(stage, atMs);
  }
  const snapshots = steps.flatMap(snapshotsIn);
  const drainedAtMs = results.find(
    ({ activity, result }) => activity === 'drain' && kindOf(result) === 'Drained',
  )?.atMs;
  const finishedAtMs = results.findLast(({ activity }) => activity === 'finish')?.atMs;
  return {
    stages,
    tiers: tiersIn(results, snapshots),
    ...(drainedAtMs !== undefined && { drainedAtMs }),
    ...(finishedAtMs !== undefined && { finishedAtMs }),
    snapshots,
    pauses: results.flatMap(pausesIn),
    retries: steps.filter(({ kind }) => kind === 'Retry').length,
  };
}

type Result = Extract<RecordedStep, { kind: 'Result' }>;

function kindOf(result: unknown): unknown {
  return isRecord(result) ? result['kind'] : undefined;
}

/** The result that ends the last tier does not contain it, but its snapshot does. */
function tiersIn(
  results: readonly Result[],
  snapshots: MaintenanceHistory['snapshots'],
): { tier: ReachedTier; atMs: number }[] {
  const tiers = new Map<number, { tier: ReachedTier; atMs: number }>();
  for (const { activity, result, atMs } of results) {
    const kind = kindOf(result);
    if (activity !== 'drain' || !isRecord(result) || (kind !== 'TierDrained' && kind !== 'Drained')) continue;
    const tier =
      kind === 'Drained' ? lastTierIn(result['details'], snapshots) : reachedTier(result['drained']);
    if (tier !== undefined && !tiers.has(tier.number)) tiers.set(tier.number, { tier, atMs });
  }
  return [...tiers.values()];
}

/** The first snapshot of a tier describes its pods; later ones describe entries of the plan without pods. */
function lastTierIn(details: unknown, snapshots: MaintenanceHistory['snapshots']): ReachedTier | undefined {
  if (!isDetailsSnapshot(details) || details.drainTier === undefined) return undefined;
  const { drainTier } = details;
  const first = snapshots.find(({ snapshot }) => snapshot.drainTier?.number === drainTier.number);
  return { ...drainTier, pods: oneLine(first?.snapshot.tier ?? '', maxTextLength) };
}

function reachedTier(value: unknown): ReachedTier | undefined {
  if (!isRecord(value)) return undefined;
  const { number, total, pods } = value;
  if (!isCount(number) || !isCount(total) || typeof pods !== 'string') return undefined;
  return { number, total, pods: oneLine(pods, maxTextLength) };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Snapshots come with the results of activities and with the signal `refreshDetails`. */
function snapshotsIn(step: RecordedStep): { atMs: number; snapshot: DetailsSnapshot }[] {
  const carrier = step.kind === 'Result' ? step.result : step.kind === 'Signal' ? step.values[0] : undefined;
  const snapshot = isRecord(carrier) ? carrier['details'] : undefined;
  return isDetailsSnapshot(snapshot) ? [{ atMs: step.atMs, snapshot }] : [];
}

function pausesIn({ result, atMs }: Result): { atMs: number; paused: boolean }[] {
  if (!isRecord(result) || result['kind'] !== 'PauseChanged') return [];
  return typeof result['paused'] === 'boolean' ? [{ atMs, paused: result['paused'] }] : [];
}

/** History of one opening of a window according to its runs. */
export interface WindowHistory {
  readonly states: readonly { readonly atMs: number; readonly state: WindowState }[];
  /** Nominal times of the opening. */
  readonly start?: number;
  readonly end?: number;
  readonly closedAtMs?: number;
  readonly retries: number;
}

/** Reads the runs of one opening. Values that no worker records are ignored. */
export function windowHistoryOf(runs: readonly RecordedRun[]): WindowHistory {
  const steps = runs.flatMap((run) => run.steps).toSorted((a, b) => a.atMs - b.atMs);
  const results = steps.filter((step) => step.kind === 'Result');
  const opened = results.find(({ activity }) => activity === 'openWindow')?.result;
  const [start, end] = isRecord(opened) ? [timeIn(opened['start']), timeIn(opened['end'])] : [];
  const closedAtMs = results.findLast(({ activity }) => activity === 'closeWindow')?.atMs;
  return {
    states: results.flatMap(({ activity, result, atMs }) =>
      activity === 'rollOut' && isWindowStep(result) && result.kind !== 'Gone'
        ? [{ atMs, state: result.state }]
        : [],
    ),
    ...(start !== undefined && { start }),
    ...(end !== undefined && { end }),
    ...(closedAtMs !== undefined && { closedAtMs }),
    retries: steps.filter(({ kind }) => kind === 'Retry').length,
  };
}

function timeIn(value: unknown): number | undefined {
  const at = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}

const maxTextLength = 160;
