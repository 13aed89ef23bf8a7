import { ApplicationFailure } from '@temporalio/workflow';
import type {
  Admitted,
  DrainStep,
  EscalationStep,
  ObservedStage,
  MaintenanceRef,
  Pace,
  RunCluster,
  SelectedNodes,
} from '../../activities/contract.ts';
import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { type DetailsSnapshot, isDetailsSnapshot } from '../../domain/maintenance/detailsSnapshot.ts';
import { stagesAfter } from '../../domain/common/stage.ts';
import { isGeneration, isNameOrUid, isRecord, isStage } from '../../domain/common/untrusted.ts';

/** State of one maintenance that outlives continue-as-new. Plain JSON. */
export interface Run {
  /** Empty until the maintenance is admitted. */
  name: string;
  uid: string;
  /** Undefined until the maintenance is admitted. */
  cluster?: RunCluster;
  /** The newest `.metadata.generation` that an activity has read. */
  generation: number;
  /** The stage of the object; after a hint, the claimed one until an activity has read the object. */
  stage: NodeMaintenanceStage;
  /** When the run learned of this stage: milliseconds since the epoch. */
  stageChangedAtMs: number;
  /** The number of hints that this run has received. */
  hints: number;
  /** Oldest first. */
  startedStages: NodeMaintenanceStage[];
  paused: boolean;
  /** Index into the drain plan, and its length. */
  position: number;
  planLength: number;
  drained: boolean;
  /** How the drain of the current tier goes. */
  pace: Pace;
  /** Heartbeat timeout of the activities that only wait. */
  heartbeatTimeoutSeconds: number;
  /** The nodes that the maintenance selected when an activity last read them. */
  nodes: string[];
  /** The object was deleted without waiting for its finalizer: nothing is left to reconcile. */
  gone: boolean;
  /** When the next step before or at the drain deadline is due: milliseconds since the epoch. Missing if there is none. */
  escalatesAtMs?: number;
  /** Identifies the steps of the escalation that the history has. */
  recordedSteps?: string[];
  /** Facts for the current details in the Temporal UI, from the last activity that returned some. */
  details?: DetailsSnapshot;
}

/** The response to the `progress` query. */
export type Progress = Omit<
  Run,
  | 'generation'
  | 'stageChangedAtMs'
  | 'hints'
  | 'startedStages'
  | 'pace'
  | 'heartbeatTimeoutSeconds'
  | 'gone'
  | 'escalatesAtMs'
  | 'recordedSteps'
  | 'details'
> & {
  next: NodeMaintenanceStage | undefined;
};

export function newRun(): Run {
  return {
    name: '',
    uid: '',
    generation: 0,
    stage: 'Idle',
    stageChangedAtMs: 0,
    hints: 0,
    startedStages: [],
    paused: false,
    position: 0,
    planLength: 0,
    drained: false,
    pace: 'Active',
    heartbeatTimeoutSeconds: 0,
    nodes: [],
    gone: false,
  };
}

export function refTo({ name, uid, generation, cluster }: Run): MaintenanceRef {
  return { name, uid, generation, clusterUid: cluster?.uid };
}

/** Reports whether nothing is left to do in the stages before Complete. */
export function isOver(run: Run): boolean {
  return run.gone || run.stage === 'Complete';
}

/** Applies the state that a run starts from. */
export function applyAdmitted(run: Run, admitted: Admitted): void {
  const { name, uid, generation, stage, nodes, cluster } = admitted ?? {};
  requireResult(isNameOrUid(name) && isNameOrUid(uid) && isGeneration(generation) && isStage(stage));
  requireResult(areNames(nodes) && isCluster(cluster));
  Object.assign(run, admitted);
  setStage(run, stage);
}

/** Applies the state of the object that an activity has read, unless the run has a newer one. */
export function applyObservation(run: Run, observed: ObservedStage): void {
  if (observed?.kind === 'Gone') {
    run.gone = true;
    return;
  }
  requireResult(isStage(observed?.stage) && isGeneration(observed?.generation));
  if (observed.generation < run.generation) return;
  run.generation = observed.generation;
  run.gone = false;
  if (observed.stage !== run.stage) setStage(run, observed.stage);
}

/**
 * Applies what a signal says about the object. Any client may send it, so it only says that there is something to read: the next activity
 * reads the object, and its result replaces the claim. Beyond Idle the activity in progress watches the object itself.
 */
export function applyHint(run: Run, claimed: ObservedStage): void {
  if (run.stage === 'Drain') applyDrainHint(run, claimed);
  if (run.stage !== 'Idle') return;
  if (claimed.kind !== 'Gone' && claimed.generation <= run.generation) return;
  run.hints += 1;
  if (claimed.kind === 'Gone') run.gone = true;
  // No stage is followed by an earlier one.
  else if (stagesAfter(run.stage).includes(claimed.stage)) setStage(run, claimed.stage);
}

/** A newer object may have another deadline: the escalation reads it. */
function applyDrainHint(run: Run, claimed: ObservedStage): void {
  if (claimed.kind !== 'StageChanged' || claimed.stage !== 'Drain') return;
  if (claimed.generation > run.generation) scheduleEscalation(run, 0);
}

/** Pauses after a step that is due by the workflow's clock, and not yet by that of the apiserver. */
const minEscalationMs = 500;
/** More than the longest deadline. */
const maxEscalationMs = 10 * 365 * 86_400_000;

/** Schedules the next step of the escalation; none if `inMs` is undefined. */
function scheduleEscalation(run: Run, inMs: unknown): void {
  delete run.escalatesAtMs;
  if (typeof inMs !== 'number' || !(inMs >= 0)) return;
  // oxlint-disable-next-line pure/no-clock -- in a workflow it is the time of the history, which replays
  run.escalatesAtMs = Date.now() + Math.min(Math.floor(inMs), maxEscalationMs);
}

/** Applies what the escalation of `atMs` did. Any client may have completed the activity. A hint that arrived in the meantime stays. */
export function applyEscalation(run: Run, step: EscalationStep, atMs: number): void {
  const { generation, recorded, nextInMs } = step ?? {};
  if (isGeneration(generation)) run.generation = Math.max(run.generation, generation);
  if (isStepList(recorded)) run.recordedSteps = recorded;
  if (run.escalatesAtMs !== atMs) return;
  scheduleEscalation(run, nextInMs === undefined ? undefined : Math.max(nextInMs, minEscalationMs));
}

function setStage(run: Run, stage: NodeMaintenanceStage): void {
  run.stage = stage;
  // oxlint-disable-next-line pure/no-clock -- in a workflow it is the time of the history, which replays
  run.stageChangedAtMs = Date.now();
}

/** Applies the selected nodes and the facts for the current details that an activity returned. */
export function applyDetails(run: Run, selected: SelectedNodes): void {
  requireResult(areNames(selected?.nodes));
  const { nodes, details, observed } = selected;
  run.nodes = nodes;
  applySnapshot(run, details);
  if (selected.escalatesInMs !== undefined) scheduleEscalation(run, selected.escalatesInMs);
  if (observed !== undefined) applyObservation(run, observed);
}

/** Applies the facts for the current details, if these are some. */
function applySnapshot(run: Run, details: unknown): void {
  if (isDetailsSnapshot(details)) run.details = details;
}

/**
 * Any client of the namespace may complete an activity with any result. A result that no activity returns fails the run, and the controller starts
 * another one from the object; an error in the workflow's code would block it for ever.
 */
function requireResult(isValid: boolean): void {
  if (!isValid)
    throw ApplicationFailure.nonRetryable('an activity was completed with an unknown result', 'InvalidInput');
}

/** More than a deadline has steps. */
const maxRecordedSteps = 50;

function isStepList(steps: unknown): steps is string[] {
  return Array.isArray(steps) && steps.length <= maxRecordedSteps && steps.every(isNameOrUid);
}

function isCluster(cluster: unknown): boolean {
  return isRecord(cluster) && isNameOrUid(cluster['name']) && isNameOrUid(cluster['uid']);
}

function areNames(nodes: unknown): boolean {
  return Array.isArray(nodes) && nodes.every((node) => typeof node === 'string');
}

export function applyDrainResult(run: Run, result: DrainStep): void {
  switch (result?.kind) {
    case 'TierDrained':
      requireResult(isGeneration(result.position));
      run.position = result.position;
      run.pace = 'Active';
      applyDetails(run, result);
      break;
    case 'Waiting':
      run.pace = 'Waiting';
      applyDetails(run, result);
      break;
    case 'PauseChanged':
      requireResult(typeof result.paused === 'boolean');
      run.paused = result.paused;
      run.pace = 'Active';
      break;
    case 'Drained':
      run.drained = true;
      applyDetails(run, result);
      break;
    default:
      applyObservation(run, result);
  }
}

export function progressOf(run: Run): Progress {
  const {
    generation: _generation,
    stageChangedAtMs: _changedAt,
    hints: _hints,
    startedStages: _stages,
    pace: _pace,
    heartbeatTimeoutSeconds: _heartbeat,
    gone: _gone,
    details: _details,
    escalatesAtMs: _escalatesAt,
    recordedSteps: _recorded,
    ...shown
  } = run;
  return { ...shown, next: stagesAfter(shown.stage)[0] };
}
