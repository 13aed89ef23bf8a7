import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import { isNameOrUid, isRecord, shown } from '../../domain/common/untrusted.ts';
import { decideAdvance, unknownJobProblem } from '../../domain/windows/advance.ts';
import { canAdvance } from '../../domain/windows/nodeOutcome.ts';
import { pausedByAnnotation, pauseOf } from '../../domain/windows/overrides.ts';
import { openedBy } from '../../domain/windows/openWindow.ts';
import { withRequest } from '../../domain/windows/requests.ts';
import { possibleJobRef, windowMaintenancesOf, workTypeOf } from '../../domain/windows/windowMaintenance.ts';
import { annotateWindowMaintenance, cachedWorkJob } from '../../kube/windowObjects.ts';
import type { WindowRef, WindowRequest } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { currentExecution } from '../execution.ts';
import { invalidInput, notOpen } from '../failures.ts';
import { authorizeTemporal, authorizeTemporalFor, requestedByTemporal } from '../temporalUser.ts';
import { recordResult, refTo } from './nodes.ts';
import { readWindow, updateWindowStatus } from './status.ts';

/**
 * Records a request in the status of the window, where a later run finds it. Fails if users who send messages may not maintain the
 * nodes of the window, or if the window does not select a node of the request.
 */
export async function authorizeRequest(deps: Deps, ref: WindowRef, request: WindowRequest): Promise<void> {
  const { approvedNodes, ...flags } = checkedRequest(request);
  const window = await readWindow(deps, ref);
  if (window === undefined) return;
  const { workflowId } = currentExecution();
  if (openedBy(window, workflowId) === undefined) throw notOpen(ref.name, workflowId);
  if (flags.paused === false && pauseOf(window) !== undefined)
    throw invalidInput(pausedByAnnotation(ref.name));
  await authorizeWindow(deps, window);
  const selected = new Set(selectedNodeNames(deps, window));
  const unknown = approvedNodes.find((node) => !selected.has(node));
  if (unknown !== undefined)
    throw invalidInput(`node: MaintenanceWindow "${ref.name}" does not select a node ${shown(unknown)}`);
  await updateWindowStatus(deps, ref, ({ active, ...status }) => {
    if (active?.workflowId !== workflowId) return active === undefined ? status : { ...status, active };
    const requests = withRequest(active.requests, { ...flags, approvedNodes });
    return { ...status, active: { ...active, requests } };
  });
}

/** Fails unless the request has the form of one: unlike the handlers of the workflow, any client can schedule the activity. */
function checkedRequest(request: unknown): WindowRequest & { approvedNodes: string[] } {
  const { approvedNodes = [], ...flags } = isRecord(request) ? request : { invalid: request };
  const areFlags = Object.entries(flags).every(
    ([flag, value]) => ['approved', 'paused', 'cancelled'].includes(flag) && typeof value === 'boolean',
  );
  const areNodes = Array.isArray(approvedNodes) && approvedNodes.every((node) => isNameOrUid(node));
  if (areFlags && areNodes) return { ...flags, approvedNodes };
  throw invalidInput(`expected approved, approvedNodes, paused or cancelled (got ${shown(request)})`);
}

/** Marks the work on a node as done. Fails if the window does not maintain the node, or while its Job is running. */
export async function advanceNode(deps: Deps, ref: WindowRef, node: string): Promise<void> {
  if (!isNameOrUid(node)) throw invalidInput(`node: expected the name of a node (got ${shown(node)})`);
  const window = await readWindow(deps, ref);
  if (window === undefined) return;
  await authorizeWindow(deps, window, node);
  const found = windowMaintenancesOf(ref.name, deps.cluster.maintenances.list()).find(
    (one) => one.node === node && canAdvance(one.maintenance),
  );
  if (found === undefined)
    throw invalidInput(`node: MaintenanceWindow "${ref.name}" does not maintain node ${shown(node)} now`);
  const { maintenance } = found;
  if (workTypeOf(maintenance) === 'Job' && !(await deps.mayRunJobs()))
    throw invalidInput(`node: ${unknownJobProblem(node)}`);
  const job = cachedWorkJob(deps.cluster, possibleJobRef(maintenance));
  const decision = decideAdvance(maintenance, node, job);
  if (decision.kind === 'Rejected') throw invalidInput(`node: ${decision.problem}`);
  await authorizeTemporal(deps, maintenance);
  await annotateWindowMaintenance(deps.cluster.kube, maintenance, requestedByTemporal);
  await recordResult(deps, refTo(maintenance), decision.result);
}

/** Fails if users who start workflows and send messages may not maintain the nodes of a window, and the given node. */
export async function authorizeWindow(deps: Deps, window: MaintenanceWindow, node?: string): Promise<void> {
  // The window continues to maintain a node that it does not select any more.
  const names = new Set([...selectedNodeNames(deps, window), ...(node === undefined ? [] : [node])]);
  await authorizeTemporalFor(deps, [...names].toSorted(), window.spec.template);
}

function selectedNodeNames({ cluster }: Deps, { spec }: MaintenanceWindow): string[] {
  const nodes = cluster.nodes.list().filter((node) => selectsNode(spec.nodeSelector, node));
  return nodes.map(({ metadata }) => metadata.name);
}
