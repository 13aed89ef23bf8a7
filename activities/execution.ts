import { Context } from '@temporalio/activity';
import { type ClusterScope, isOfWindow } from '../api/names.ts';
import { isGeneration, isNameOrUid, isRecord, shown } from '../domain/common/untrusted.ts';
import type { MaintenanceRef, WindowRef } from './contract.ts';
import { foreignRun, invalidInput } from './failures.ts';

/**
 * The arguments of an activity arrive through Temporal. A client that may write to its namespace can start workflows with any input, and run
 * workers that schedule any activity: an argument only names an object, and the object decides what is done (ADR 29).
 */

/** The workflow run that scheduled an activity, as the Temporal server reports it. */
export interface Execution {
  workflowId: string;
  runId: string;
}

/** Returns the run that scheduled the activity in progress. Fails if none did. */
export function currentExecution(): Execution {
  const { workflowExecution } = Context.current().info;
  if (workflowExecution === undefined)
    throw invalidInput('this activity can only be scheduled by a workflow of node-maintenance');
  return workflowExecution;
}

/**
 * Fails if the run belongs to another cluster, whose objects may have the same names here. `clusterUid` is what the run says; a run that was
 * started from Temporal belongs to the cluster whose worker has admitted it.
 */
export function requireOwnCluster({ uid, names }: ClusterScope, clusterUid: unknown): void {
  if (clusterUid !== undefined && clusterUid !== uid) throw foreignRun(names.taskQueue, clusterUid, uid);
}

/** Returns the reference to a NodeMaintenance. Fails unless its own workflow, in this cluster, scheduled the activity. */
export function checkedMaintenance(scope: ClusterScope, ref: unknown): MaintenanceRef {
  const { name, uid, generation, clusterUid } = fieldsOf(ref);
  requireOwnCluster(scope, clusterUid);
  if (!isNameOrUid(name) || !isNameOrUid(uid) || !isGeneration(generation))
    throw invalidInput(`expected name, uid and generation of a NodeMaintenance (got ${shown(ref)})`);
  const { workflowId } = currentExecution();
  const expected = scope.names.maintenanceId(name);
  if (workflowId !== expected)
    throw invalidInput(
      `workflow id: expected "${expected}" for the maintenance "${name}" (got ${shown(workflowId)})`,
    );
  return { name, uid, generation };
}

/** Returns the reference to a MaintenanceWindow. Fails if the workflow that scheduled the activity cannot be one of its openings. */
export function checkedWindow(scope: ClusterScope, ref: unknown): WindowRef {
  const { name, uid, clusterUid } = fieldsOf(ref);
  requireOwnCluster(scope, clusterUid);
  if (!isNameOrUid(name) || !isNameOrUid(uid))
    throw invalidInput(`expected name and uid of a MaintenanceWindow (got ${shown(ref)})`);
  requireWindowWorkflow(scope, name);
  return { name, uid };
}

/** Fails unless the workflow id belongs to this window. The id of a scheduled run ends with its time. */
export function requireWindowWorkflow({ names }: ClusterScope, name: string): Execution {
  const execution = currentExecution();
  if (isOfWindow(names, name, execution.workflowId)) return execution;
  throw invalidInput(
    `workflow id: expected "${names.windowId(name)}" for the window "${name}" (got ${shown(execution.workflowId)}); a Schedule appends the time to it`,
  );
}

function fieldsOf(ref: unknown): Record<string, unknown> {
  return isRecord(ref) ? ref : {};
}
