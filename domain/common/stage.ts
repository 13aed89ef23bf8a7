import { COMPLETED_ANNOTATION, MAINTENANCE_FINALIZER } from '../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';

/** "The order of the stages is Idle -> Cordon -> Drain -> Complete." (KEP-4212 > NodeMaintenance API) */
const stageOrder: readonly NodeMaintenanceStage[] = ['Idle', 'Cordon', 'Drain', 'Complete'];

/** Returns the stages that may follow `stage`, nearest first (KEP-4212 > Supported Stage Transitions). Empty for Complete. */
export function stagesAfter(stage: NodeMaintenanceStage): readonly NodeMaintenanceStage[] {
  return stageOrder.slice(stageOrder.indexOf(stage) + 1);
}

/** Returns why a maintenance may not move between two stages; undefined if it may. */
export function transitionProblem(from: NodeMaintenanceStage, to: NodeMaintenanceStage): string | undefined {
  if (from === to || stagesAfter(from).includes(to)) return undefined;
  const allowed = stagesAfter(from);
  if (allowed.length === 0) return `stage ${from} is final: create a new NodeMaintenance instead`;
  return `stage cannot go from ${from} back to ${to}: choose ${allowed.join(' or ')}`;
}

/** A user's request for the next stage, or `to`; with `from`, only if the maintenance is in that stage. */
export interface AdvanceRequest {
  to?: NodeMaintenanceStage | undefined;
  from?: NodeMaintenanceStage | undefined;
}

/** A user who repeats a request expects it to have no effect. Within this time of a change, a request must name its `from`. */
const repeatedRequestMs = 10_000;

/** Returns the stage that the request asks for when the maintenance is in stage `current`. */
export function destinationOf(
  current: NodeMaintenanceStage,
  { to, from = current }: AdvanceRequest,
): NodeMaintenanceStage {
  return to ?? stagesAfter(from)[0] ?? 'Complete';
}

/** Returns why the request cannot be carried out; undefined if it can, or if it has been carried out already. */
export function advanceProblem(current: NodeMaintenanceStage, request: AdvanceRequest): string | undefined {
  const { from } = request;
  const destination = destinationOf(current, request);
  if (from !== undefined) {
    const problem = from === 'Complete' ? finalStage : transitionProblem(from, destination);
    if (problem !== undefined) return problem;
    if (current === from || current === destination) return undefined;
    const remedy =
      current === 'Complete' ? finalStage : `check it, and advance it from ${current} if you want to`;
    return `from: the maintenance is in stage ${current}, not ${from}: ${remedy}`;
  }
  if (current === 'Complete') return finalStage;
  return transitionProblem(current, destination);
}

const finalStage = 'stage Complete is final: there is nothing to advance to';

/**
 * Returns why a request must name the stage from which it advances: without it, a repetition of the request that has just started a stage would end
 * that stage, and uncordon the nodes in the middle of the work. `sinceChangeMs` is undefined if the stage has not started yet.
 */
export function missingFromProblem(
  current: NodeMaintenanceStage,
  { to, from }: AdvanceRequest,
  sinceChangeMs: number | undefined,
): string | undefined {
  const isAmbiguous = to === undefined && from === undefined && stagesAfter(current)[0] === 'Complete';
  if (!isAmbiguous || (sinceChangeMs ?? 0) >= repeatedRequestMs) return undefined;
  const because =
    sinceChangeMs === undefined
      ? `stage ${current} has not started yet`
      : `stage ${current} started less than ${repeatedRequestMs / 1_000} s ago`;
  return `from: required, because ${because}: send {"from": "${current}"} to complete the maintenance`;
}

/** Returns true if a maintenance in stage `current` has reached `stage`, or passed it. */
export function hasReached(current: NodeMaintenanceStage, stage: NodeMaintenanceStage): boolean {
  return stageOrder.indexOf(current) >= stageOrder.indexOf(stage);
}

/** Returns true for stages that keep nodes cordoned: other maintenances count them as "in progress" (KEP-4212 > Uncordon). */
export function holdsNodes(stage: NodeMaintenanceStage): stage is 'Cordon' | 'Drain' {
  return stage === 'Cordon' || stage === 'Drain';
}

/**
 * Returns the stage that the object requests: "When a deletion of the NodeMaintenance object is detected, its .spec.stage is set to
 * Complete" (KEP-4212 > Finalizers and Deletion), "unless the Idle stage has been set".
 */
export function stageOf({
  metadata,
  spec: { stage },
}: Pick<NodeMaintenance, 'metadata' | 'spec'>): NodeMaintenanceStage {
  return metadata.deletionTimestamp !== undefined && stage !== 'Idle' ? 'Complete' : stage;
}

/** Returns true if the stage has been recorded as started. */
export function hasStarted(
  { status }: Pick<NodeMaintenance, 'status'>,
  stage: NodeMaintenanceStage,
): boolean {
  return status?.stageStatuses.some(({ name }) => name === stage) ?? false;
}

/**
 * Reports whether a maintenance in Complete was Idle before, or was created so, which makes its nodes schedulable. One that was completed before a worker has
 * started any stage has cordoned nothing, and leaves the cordons of others.
 */
export function isFromIdle(maintenance: Pick<NodeMaintenance, 'metadata' | 'status'>): boolean {
  if (hasStarted(maintenance, 'Cordon')) return false;
  return maintenance.metadata.generation === 1 || hasStarted(maintenance, 'Idle');
}

/**
 * Returns true if the condition Drained is True for this generation of the object. After an edit of its selector, and for a restored object, whose
 * generations start again, that of another generation says nothing.
 */
export function isDrained({ metadata, status }: Pick<NodeMaintenance, 'metadata' | 'status'>): boolean {
  const drained = status?.conditions.find(({ type }) => type === 'Drained');
  const { generation = 0 } = metadata;
  return drained?.status === 'True' && (drained.observedGeneration ?? generation) === generation;
}

/** Returns true after Complete: "The finalizer is not removed until the Complete stage has been completed" (KEP-4212 > Finalizers). */
export function isCompleted(maintenance: NodeMaintenance): boolean {
  const { finalizers = [] } = maintenance.metadata;
  if (finalizers.includes(MAINTENANCE_FINALIZER)) return false;
  return hasStarted(maintenance, 'Complete') || isRestoredAsCompleted(maintenance);
}

/** The annotation alone decides nothing in another stage: users copy manifests with all annotations. */
function isRestoredAsCompleted({ metadata, spec }: NodeMaintenance): boolean {
  return spec.stage === 'Complete' && metadata.annotations?.[COMPLETED_ANNOTATION] !== undefined;
}
