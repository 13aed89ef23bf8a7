import type { NodeMaintenance, NodeMaintenanceStage } from '../api/nodeMaintenance.ts';

/** "The order of the stages is Idle -> Cordon -> Drain -> Complete." (KEP-4212 > NodeMaintenance API) */
const order: readonly NodeMaintenanceStage[] = ['Idle', 'Cordon', 'Drain', 'Complete'];

/** Stages that may follow `stage`, nearest first (KEP-4212 > Supported Stage Transitions). Empty for Complete. */
export function stagesAfter(stage: NodeMaintenanceStage): readonly NodeMaintenanceStage[] {
  return order.slice(order.indexOf(stage) + 1);
}

/** Why a maintenance may not move between two stages, as a sentence for people; undefined when it may. */
export function transitionProblem(from: NodeMaintenanceStage, to: NodeMaintenanceStage): string | undefined {
  if (from === to || stagesAfter(from).includes(to)) return undefined;
  const allowed = stagesAfter(from);
  if (allowed.length === 0) return `stage ${from} is final: create a new NodeMaintenance instead`;
  return `stage cannot go from ${from} back to ${to}: choose ${allowed.join(' or ')}`;
}

/** Stages during which nodes are cordoned, and so "in progress" for other maintenances (KEP-4212 > Uncordon). */
export function holdsNodes(stage: NodeMaintenanceStage): stage is 'Cordon' | 'Drain' {
  return stage === 'Cordon' || stage === 'Drain';
}

/**
 * The stage that an object asks for: "When a deletion of the NodeMaintenance object is detected, its .spec.stage is set to
 * Complete" (KEP-4212 > Finalizers and Deletion), "unless the Idle stage has been set".
 */
export function stageOf({
  metadata,
  spec: { stage },
}: Pick<NodeMaintenance, 'metadata' | 'spec'>): NodeMaintenanceStage {
  return metadata.deletionTimestamp !== undefined && stage !== 'Idle' ? 'Complete' : stage;
}

/** Whether Complete has done all of its work. */
export function isGivenBack(maintenance: Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>): boolean {
  const { metadata, status } = maintenance;
  const begun = status?.stageStatuses.some(({ name }) => name === 'Complete') ?? false;
  return stageOf(maintenance) === 'Complete' && begun && (metadata.finalizers ?? []).length === 0;
}
