import type { DrainStep, Interrupted, MaintenanceRef, SeenNodes } from '../activities/contract.ts';
import type { NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import type { Glance } from '../domain/glance.ts';
import { stagesAfter } from '../domain/stage.ts';

/** Where one maintenance stands: all that outlives continue-as-new, plain JSON. */
export interface Run {
  /** Empty until the maintenance was admitted. */
  name: string;
  uid: string;
  /** The newest `.metadata.generation` that the workflow has acted on, and the stage that it asks for. */
  generation: number;
  stage: NodeMaintenanceStage;
  /** Stages that were begun, oldest first. */
  begun: NodeMaintenanceStage[];
  paused: boolean;
  /** Index into the drain plan, and its length. */
  position: number;
  planLength: number;
  drained: boolean;
  /** The nodes that the maintenance selected when it was last looked at. */
  nodes: string[];
  /** The object was deleted without waiting for its finalizer: nothing is left to reconcile. */
  gone: boolean;
  /** For the page in the Temporal UI, as of the last activity that told it. */
  glance?: Glance;
}

/** The answer of the `progress` query. */
export type Progress = Omit<Run, 'generation' | 'begun' | 'gone' | 'glance'> & {
  next: NodeMaintenanceStage | undefined;
};

export function newRun(): Run {
  return {
    name: '',
    uid: '',
    generation: 0,
    stage: 'Idle',
    begun: [],
    paused: false,
    position: 0,
    planLength: 0,
    drained: false,
    nodes: [],
    gone: false,
  };
}

export function refTo({ name, uid, generation }: Run): MaintenanceRef {
  return { name, uid, generation };
}

/** Whether nothing is left to do in the stages before Complete. */
export function isOver(run: Run): boolean {
  return run.gone || run.stage === 'Complete';
}

/**
 * Takes in what was seen of the object, unless the workflow knows something newer. Tells whether the work under way
 * has lost its reason.
 */
export function takeIn(run: Run, seen: Interrupted): boolean {
  if (seen.kind === 'Gone') {
    run.gone = true;
    return true;
  }
  if (seen.generation <= run.generation) return false;
  run.generation = seen.generation;
  const changed = seen.stage !== run.stage;
  run.stage = seen.stage;
  return changed;
}

/** Takes in which nodes there are, and what is to be told of them. */
export function takeInSeen(run: Run, { nodes, glance }: SeenNodes): void {
  run.nodes = nodes;
  if (glance !== undefined) run.glance = glance;
}

/** Takes in how a turn of the drain ended. */
export function takeInStep(run: Run, step: DrainStep): void {
  switch (step.kind) {
    case 'TierDrained':
      run.position = step.position;
      takeInSeen(run, step);
      break;
    case 'Drained':
      run.drained = true;
      takeInSeen(run, step);
      break;
    default:
      takeIn(run, step);
  }
}

export function progressOf(run: Run): Progress {
  const { generation: _generation, begun: _begun, gone: _gone, glance: _glance, ...shown } = run;
  return { ...shown, next: stagesAfter(shown.stage)[0] };
}
