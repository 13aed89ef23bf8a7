import type { Job, Node } from '../../api/core.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { RebootAnnotation, REVISION_LABEL, WindowAnnotation } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type ConditionFacts, withCondition } from '../../domain/common/conditions.ts';
import { isDrained, stageOf } from '../../domain/common/stage.ts';
import { oneLine } from '../../domain/common/text.ts';
import { otherHolderOf } from '../../domain/leases/lease.ts';
import { nodeFailed as nodeFailedNotification } from '../../domain/notifications/events.ts';
import { bootIdOf, rebootStateOf } from '../../domain/reboot/nodeReboot.ts';
import {
  nodeCancelled,
  nodeFailed,
  nodeResultOf,
  nodeSucceeded,
  rebootDone,
} from '../../domain/windows/nodeResult.ts';
import type { NodeStep } from '../../domain/windows/nodeFacts.ts';
import { endedBootIdOf } from '../../domain/windows/rebootPhases.ts';
import { isJobRunning } from '../../domain/common/job.ts';
import { otherMaintenanceName } from '../../domain/common/revision.ts';
import {
  newWindowMaintenance,
  possibleJobRef,
  type WindowMaintenance,
  workTypeOf,
} from '../../domain/windows/windowMaintenance.ts';
import { newWorkJob } from '../../domain/windows/workJob.ts';
import { errorMessage, isKubeError, isRejection } from '../../kube/errors.ts';
import { annotateReboot } from '../../kube/nodeReboots.ts';
import { resources } from '../../kube/resources.ts';
import {
  annotateWindowMaintenance,
  completeWindowMaintenance,
  createWindowMaintenance,
  createWorkJob,
  deleteWindowMaintenance,
  deleteWorkJob,
  readWindowMaintenance,
  readWindowMaintenances,
  readWorkJob,
} from '../../kube/windowObjects.ts';
import type { MaintenanceRef } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { updateStatus } from '../maintenance/stage.ts';
import { notifiedMaintenanceOf } from '../notifications/notifications.ts';
import type { ObservedStep } from './observe.ts';

/** The length of messages of the apiserver in Events and conditions. */
const maxMessageLength = 1_000;

type FailStep = Extract<NodeStep, { kind: 'Fail' }>;

/** Applies the next step of a node. Running it twice writes once; the informers show the result to the next pass. */
export async function applyNodeStep(
  deps: Deps,
  window: MaintenanceWindow,
  observed: ObservedStep,
): Promise<void> {
  const { step, job } = observed;
  const { kube } = deps.cluster;
  const { maintenance } = observed.windowMaintenance;
  switch (step.kind) {
    case 'StartJob':
      return startJob(deps, window, observed);
    case 'RecordWork':
      return recordResult(deps, refTo(maintenance), step.facts);
    case 'DeleteJob':
      return job === undefined ? undefined : deleteWorkJob(kube, job);
    case 'RequestReboot':
      return requestReboot(deps, observed);
    case 'FinishReboot':
      return finishReboot(deps, observed);
    case 'Complete':
      return complete(deps, observed.windowMaintenance);
    case 'Cancel':
      return void (await recordEnd(deps, maintenance, nodeCancelled));
    case 'Succeed':
      return void (await recordEnd(deps, maintenance, nodeSucceeded));
    case 'Fail':
      return fail(deps, window, observed, step);
    case 'DeleteMaintenance':
      return deleteWindowMaintenance(kube, maintenance);
    default:
      return waitForChange(step);
  }
}

/** Does nothing: a change of the cluster, or time, leads to the next step. */
function waitForChange(
  _step: Extract<NodeStep, { kind: 'Wait' | 'AwaitNode' | 'Failed' | 'Succeeded' }>,
): undefined {
  return undefined;
}

/**
 * Creates the NodeMaintenance of a node. An existing one of the same window is the result of an earlier attempt. Anyone may have given its name to
 * another object: then it gets another one.
 */
export async function startNode(
  deps: Deps,
  window: MaintenanceWindow,
  { metadata: { name: node, uid = '' }, ...observed }: Node,
): Promise<void> {
  const { kube } = deps.cluster;
  const maintenance = newWindowMaintenance(window, { name: node, uid, bootId: bootIdOf(observed) });
  const taken = await createWindowMaintenance(kube, maintenance);
  if (taken === undefined) return;
  const renamed = (other: string): NodeMaintenance => ({
    ...maintenance,
    metadata: { ...maintenance.metadata, name: otherMaintenanceName(maintenance.metadata.name, other) },
  });
  const takenAgain = await createWindowMaintenance(kube, renamed(taken.by.metadata.uid ?? ''));
  if (takenAgain === undefined) return;
  // Both names can be predicted. A repeated attempt predicts no random one, and finds the object that has it.
  const existing = await readWindowMaintenances(kube, [window.metadata.name]);
  if (existing.some((one) => isOfSameNode(one, maintenance))) return;
  const takenAtRandom = await createWindowMaintenance(kube, renamed(crypto.randomUUID()));
  if (takenAtRandom !== undefined) throw takenAtRandom.error;
}

/** Reports whether both maintain the same Node object in the same revision of their window. */
function isOfSameNode({ metadata: a }: NodeMaintenance, { metadata: b }: NodeMaintenance): boolean {
  const isSame = (key: string) => a.annotations?.[key] === b.annotations?.[key];
  return isSame(WindowAnnotation.NodeUid) && a.labels?.[REVISION_LABEL] === b.labels?.[REVISION_LABEL];
}

/** Records that the window pauses a drain, so that it never resumes a drain that a user paused. */
export async function markPausedByWindow(
  deps: Deps,
  maintenance: NodeMaintenance,
  isPaused: boolean,
): Promise<void> {
  const annotations = { [WindowAnnotation.PausedByWindow]: isPaused ? 'true' : null };
  await annotateWindowMaintenance(deps.cluster.kube, maintenance, annotations);
}

/** Records a result as a condition of the NodeMaintenance. */
export async function recordResult(deps: Deps, ref: MaintenanceRef, result: ConditionFacts): Promise<void> {
  const now = deps.cluster.kube.now().toISOString();
  await updateStatus(deps, ref, (status) => ({
    ...status,
    conditions: withCondition(status.conditions, result, now),
  }));
}

/**
 * Records how the maintenance of a node ended, unless another result was recorded since `maintenance` was read: a user may have advanced the node.
 * Resolves with true if the object has the result.
 */
async function recordEnd(deps: Deps, maintenance: NodeMaintenance, result: ConditionFacts): Promise<boolean> {
  const decidedFrom = nodeResultOf(maintenance);
  const now = deps.cluster.kube.now().toISOString();
  const updated = await updateStatus(deps, refTo(maintenance), (status) =>
    isSameResult(nodeResultOf({ status }), decidedFrom)
      ? { ...status, conditions: withCondition(status.conditions, result, now) }
      : status,
  );
  return updated !== undefined && isSameResult(nodeResultOf(updated.latest), result);
}

function isSameResult(
  a: Pick<ConditionFacts, 'status' | 'reason'> | undefined,
  b: Pick<ConditionFacts, 'status' | 'reason'> | undefined,
): boolean {
  return a?.status === b?.status && a?.reason === b?.reason;
}

export function refTo({ metadata }: NodeMaintenance): MaintenanceRef {
  const { name, uid = '', generation = 0 } = metadata;
  return { name, uid, generation };
}

async function fail(
  deps: Deps,
  window: MaintenanceWindow,
  { windowMaintenance: { node, maintenance } }: ObservedStep,
  { reason, message }: FailStep,
): Promise<void> {
  // The informer may not have the Job yet.
  const isJobExpected = reason === 'JobDeleted';
  if (isJobExpected && (await readWorkJob(deps.cluster.kube, possibleJobRef(maintenance))) !== undefined)
    return;
  // A user may have advanced the node: then no failure is reported.
  const found = await deps.cluster.kube.get(resources.nodeMaintenances, { name: maintenance.metadata.name });
  if (found === undefined || !isSameResult(nodeResultOf(found), nodeResultOf(maintenance))) return;
  const now = deps.cluster.kube.now().toISOString();
  const about = notifiedMaintenanceOf(maintenance);
  // Enqueued first: once the failure is recorded, no other pass reports it.
  await deps.notifications.enqueue(nodeFailedNotification(about, { node, reason, message }, now));
  if (!(await recordEnd(deps, maintenance, nodeFailed(reason, message)))) return;
  const event = {
    type: 'Warning',
    reason: 'NodeFailed',
    message: `Maintenance of node ${node} failed: ${message}.`,
  } as const;
  for (const object of [maintenance, window]) deps.events.record(object, event);
}

/** Completes the NodeMaintenance, unless a Job or a request to reboot that the informers do not have yet works on the node. */
async function complete(deps: Deps, { node: name, maintenance }: WindowMaintenance): Promise<void> {
  const { kube } = deps.cluster;
  if (isJobRunning(await readWorkJob(kube, possibleJobRef(maintenance)))) return;
  const node = workTypeOf(maintenance) === 'Reboot' ? await kube.get(resources.nodes, { name }) : undefined;
  const state = node && rebootStateOf(node, endedBootIdOf(maintenance));
  if (state === 'Requested' || state === 'Started') return;
  const newest = await readWindowMaintenance(kube, maintenance);
  if (newest !== undefined && newest.spec.stage !== 'Complete') await completeWindowMaintenance(kube, newest);
}

async function startJob(deps: Deps, window: MaintenanceWindow, observed: ObservedStep): Promise<void> {
  const { node } = observed.windowMaintenance;
  const job = newWorkJob(window, observed.windowMaintenance);
  if (job === undefined || !(await mayStartWork(deps, observed.windowMaintenance))) return;
  try {
    await createWorkJob(deps.cluster.kube, job);
  } catch (error) {
    if (isKubeError(error, 'AlreadyExists')) return reportForeignJob(deps, window, observed, job);
    if (isKubeError(error, 'Invalid', 'Forbidden'))
      return fail(deps, window, observed, jobRejected(errorMessage(error)));
    // An admission webhook that is down must not stop the other nodes. This node is retried.
    if (!isRejection(error)) throw error;
    recordJobCreationFailed(deps, window, node, errorMessage(error));
  }
}

/** The informer may not show the window's own Job yet. Another one prevents it, until its owner deletes it. */
async function reportForeignJob(
  deps: Deps,
  window: MaintenanceWindow,
  { windowMaintenance: { node, maintenance } }: ObservedStep,
  { metadata: { namespace, name } }: Job,
): Promise<void> {
  const ownJob = possibleJobRef(maintenance);
  if ((await readWorkJob(deps.cluster.kube, ownJob)) !== undefined) return;
  const remedy = `another Job has its name; check it, then run kubectl delete job -n ${namespace} ${name}`;
  recordJobCreationFailed(deps, window, node, remedy);
}

function recordJobCreationFailed(deps: Deps, window: MaintenanceWindow, node: string, because: string): void {
  const message = oneLine(`The Job of node ${node} could not be created: ${because}`, maxMessageLength);
  deps.events.record(window, { type: 'Warning', reason: 'JobCreationFailed', message });
}

function jobRejected(rejection: string): FailStep {
  const message = `the apiserver rejected its Job, ${rejection}: correct work.job.template, then delete the NodeMaintenance`;
  return { kind: 'Fail', reason: 'JobRejected', message: oneLine(message, maxMessageLength) };
}

/** Asks the agent for the reboot, unless the Node is not the one that was drained, or has been rebooted. */
async function requestReboot(deps: Deps, { windowMaintenance }: ObservedStep): Promise<void> {
  const { node: name, nodeUid, maintenance } = windowMaintenance;
  const { kube } = deps.cluster;
  if (!(await mayStartWork(deps, windowMaintenance))) return;
  const node = await kube.get(resources.nodes, { name });
  const bootId = endedBootIdOf(maintenance);
  if (
    node?.metadata.uid !== nodeUid ||
    bootIdOf(node) !== bootId ||
    rebootStateOf(node, bootId) !== 'NotRequested'
  )
    return;
  const annotations = { [RebootAnnotation.Requested]: bootId, [RebootAnnotation.Started]: null };
  if (!(await annotateReboot(kube, node, annotations))) return;
  const message = `The agent of node ${name} is asked to reboot it.`;
  deps.events.record(maintenance, { type: 'Normal', reason: 'RebootRequested', message });
}

/** Removes the annotations first: once the result is recorded, no other pass does. */
async function finishReboot(deps: Deps, { windowMaintenance }: ObservedStep): Promise<void> {
  const { node: name, nodeUid, maintenance } = windowMaintenance;
  const { kube } = deps.cluster;
  const node = await kube.get(resources.nodes, { name });
  if (node?.metadata.uid !== nodeUid) return;
  const { Required, Requested, Started } = RebootAnnotation;
  const existing = [Required, Requested, Started].filter(
    (key) => node.metadata.annotations?.[key] !== undefined,
  );
  const removed = Object.fromEntries(existing.map((key) => [key, null]));
  if (existing.length > 0 && !(await annotateReboot(kube, node, removed))) return;
  await recordResult(deps, refTo(maintenance), rebootDone);
}

/** The informers may not show yet that the NodeMaintenance was completed or cancelled, or that another client has acquired the node. */
async function mayStartWork(
  { cluster: { kube }, leases }: Deps,
  { node, maintenance }: WindowMaintenance,
): Promise<boolean> {
  const newest = await readWindowMaintenance(kube, maintenance);
  if (newest === undefined || stageOf(newest) !== 'Drain') return false;
  if (!isDrained(newest) || nodeResultOf(newest) !== undefined) return false;
  return otherHolderOf(await leases.read(node), leases.holder, kube.now().getTime()) === undefined;
}
