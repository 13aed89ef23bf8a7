import { MAINTENANCE_FINALIZER } from '../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';

/** "The order of the stages is Idle -> Cordon -> Drain -> Complete." (KEP-4212 > NodeMaintenance API) */
const order: readonly NodeMaintenanceStage[] = ['Idle', 'Cordon', 'Drain', 'Complete'];

/** Returns the stages that may follow `stage`, nearest first (KEP-4212 > Supported Stage Transitions). Empty for Complete. */
export function stagesAfter(stage: NodeMaintenanceStage): readonly NodeMaintenanceStage[] {
  return order.slice(order.indexOf(stage) + 1);
}

/** Returns why a maintenance may not move between two stages; undefined if it may. */
export function transitionProblem(from: NodeMaintenanceStage, to: NodeMaintenanceStage): string | undefined {
  if (from === to || stagesAfter(from).includes(to)) return undefined;
  const allowed = stagesAfter(from);
  if (allowed.length === 0) return `stage ${from} is final: create a new NodeMaintenance instead`;
  return `stage cannot go from ${from} back to ${to}: choose ${allowed.join(' or ')}`;
}

/** Returns true if a maintenance in stage `current` has reached `stage`, or passed it. */
export function hasReached(current: NodeMaintenanceStage, stage: NodeMaintenanceStage): boolean {
  return order.indexOf(current) >= order.indexOf(stage);
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

/** Returns true after Complete: "The finalizer is not removed until the Complete stage has been completed" (KEP-4212 > Finalizers). */
export function isCompleted(maintenance: Pick<NodeMaintenance, 'metadata' | 'status'>): boolean {
  const { finalizers = [] } = maintenance.metadata;
  return hasStarted(maintenance, 'Complete') && !finalizers.includes(MAINTENANCE_FINALIZER);
}
