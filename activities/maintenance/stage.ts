import { log } from '@temporalio/activity';
import type { Node } from '../../api/core.ts';
import {
  COMPLETED_ANNOTATION,
  COMPLETED_LABEL,
  FIELD_MANAGER,
  MAINTENANCE_FINALIZER,
  WINDOW_LABEL,
} from '../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { deadlineProblem } from '../../domain/admission/maintenance.ts';
import { withCondition } from '../../domain/common/conditions.ts';
import { hasReached, isCompleted, stageOf } from '../../domain/common/stage.ts';
import { numbered } from '../../domain/common/text.ts';
import { isStage, shown } from '../../domain/common/untrusted.ts';
import { detailsSnapshotAt } from '../../domain/maintenance/detailsSnapshot.ts';
import { finished, stageStarted } from '../../domain/notifications/events.ts';
import { nextStepInMs } from '../../domain/drain/escalation.ts';
import { withDrainDeadline, withStage } from '../../domain/maintenance/status.ts';
import { mayResumeNodes } from '../../domain/windows/openWindow.ts';
import { isPausedByWindow } from '../../domain/windows/windowMaintenance.ts';
import { retryOnConflict } from '../../kube/retryOnConflict.ts';
import { resources } from '../../kube/resources.ts';
import type { ObservedStage, MaintenanceRef, SelectedNodes, StageRequest } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { invalidInput } from '../failures.ts';
import { notifiedMaintenanceOf } from '../notifications/notifications.ts';
import { type StatusChange, StatusWriter } from '../statusWriter.ts';
import { authorizeTemporal, requestedByTemporal, requesterIsTemporal } from '../temporalUser.ts';
import { isCompleting, selectedNodes } from '../view.ts';
import { hasNodesToUncordon, uncordonNodes } from './uncordon.ts';

const attempts = 3;

/**
 * Activity: answers a request for a stage. Only what the object says, and what the Temporal user may do, decides: the workflow may have
 * received anything. Both kubectl and the workflow follow the object.
 */
export async function requestStage(
  deps: Deps,
  ref: MaintenanceRef,
  stage: NodeMaintenanceStage,
  requestedBy: StageRequest,
): Promise<ObservedStage> {
  if (!isStage(stage)) throw invalidInput(`to: expected a stage (got ${shown(stage)})`);
  const current = await read(deps, ref);
  if (current === undefined) return { kind: 'Gone' };
  const observed = stageOf(current);
  const isDeleted = current.metadata.deletionTimestamp !== undefined;
  if (current.spec.stage === stage) return stageResult(current);
  // The deletion of an object was authorized by the apiserver: "its .spec.stage is set to Complete" (KEP-4212 > Finalizers).
  if (isDeleted && stage === 'Complete' && (observed === stage || requestedBy === 'Message'))
    return stageResult(await writeStage(deps, ref, { stage }));
  if (isDeleted || requestedBy === 'Observation') return stageResult(current);
  const proposed = { ...current, spec: { ...current.spec, stage } };
  const { metadata, spec, status } = current;
  const proposal = { name: metadata.name, spec: proposed.spec, before: spec, status };
  const problem = deadlineProblem(proposal, deps.cluster.kube.now());
  if (problem !== undefined) throw invalidInput(problem);
  await authorizeTemporal(deps, proposed);
  return stageResult(
    await writeStage(deps, ref, { stage, annotations: { ...requestedByTemporal, ...requesterIsTemporal } }),
  );
}

function stageResult(maintenance: NodeMaintenance): ObservedStage {
  const { generation = 0 } = maintenance.metadata;
  return { kind: 'StageChanged', stage: stageOf(maintenance), generation };
}

/** Fails if the object is deleted before the write, so that Temporal retries the activity, which reads the object again. */
function writeStage(
  { cluster: { kube } }: Deps,
  ref: MaintenanceRef,
  { stage, annotations }: { stage: NodeMaintenanceStage; annotations?: Record<string, string> },
): Promise<NodeMaintenance> {
  const patch = { metadata: { uid: ref.uid, ...(annotations && { annotations }) }, spec: { stage } };
  return kube.mergePatch(resources.nodeMaintenances, { name: ref.name }, patch, {
    fieldManager: FIELD_MANAGER,
  });
}

/**
 * Records the pause on the object, where users see it and a new run finds it. A pause changes no stage, and needs no permission; a drain that
 * a window holds is resumed by the window alone, or by users who may maintain the nodes.
 */
export async function recordPause(deps: Deps, ref: MaintenanceRef, paused: boolean): Promise<void> {
  if (typeof paused !== 'boolean')
    throw invalidInput(`paused: expected true or false (got ${shown(paused)})`);
  if (!paused) await authorizeResume(deps, ref);
  const now = deps.cluster.kube.now().toISOString();
  const facts = paused
    ? ({
        status: 'True',
        reason: 'PauseRequested',
        message: 'No new Evacuation is created and no new tier starts.',
      } as const)
    : ({ status: 'False', reason: 'Resumed', message: '' } as const);
  const change: StatusChange = (status) => ({
    ...status,
    conditions: withCondition(status.conditions, { type: 'Paused', ...facts }, now),
  });
  // The run may not have seen a newer generation: the controller signals what is not observed.
  await updateStatus(deps, ref, change, { generation: ref.generation });
}

async function authorizeResume(deps: Deps, ref: MaintenanceRef): Promise<void> {
  const current = await read(deps, ref);
  if (current === undefined || !isPausedByWindow(current)) return;
  const name = current.metadata.labels?.[WINDOW_LABEL] ?? '';
  const window = await deps.cluster.kube.get(resources.maintenanceWindows, { name });
  if (window !== undefined && mayResumeNodes(window, deps.cluster.kube.now().getTime())) return;
  await authorizeTemporal(deps, current);
}

/** Adds the finalizer ("When a stage is not Idle, [the] finalizer is placed", KEP-4212 > Finalizers) and amends `.status.stageStatuses`. */
export async function startStage(
  deps: Deps,
  ref: MaintenanceRef,
  stage: NodeMaintenanceStage,
): Promise<SelectedNodes> {
  const current = await read(deps, ref);
  if (current === undefined) return { nodes: [], observed: { kind: 'Gone' } };
  if (!mayStart(current, stage))
    return { nodes: namesOfSelected(deps, current), observed: stageResult(current) };
  const maintenance = stage === 'Idle' ? current : await placeFinalizer(deps, ref, current);
  if (maintenance === undefined) return { nodes: [], observed: { kind: 'Gone' } };
  const now = deps.cluster.kube.now().toISOString();
  const selected = selectedNodes(maintenance, deps.cluster.nodes.list());
  const nodes = selected.map((node) => node.metadata.name).toSorted();
  const change: StatusChange = (status) => ({
    ...withDrainDeadline(withStage(status, stage, now), maintenance.spec.drainDeadline),
    nodes: nodes.length,
  });
  const updated = await updateStatus(deps, ref, change, { known: maintenance });
  if (updated?.changed) {
    log.info('Stage started', { uid: ref.uid, stage, nodes: nodes.length });
    recordStarted(deps, maintenance, stage, selected);
  }
  const known = maintenance.status?.stageStatuses.find(({ name }) => name === stage)?.startTimestamp;
  await deps.notifications.enqueue(
    stageStarted(notifiedMaintenanceOf(maintenance), stage, nodes, known ?? now),
  );
  const latest = updated?.latest ?? maintenance;
  const escalatesInMs = stage === 'Drain' ? nextStepInMs(latest, deps.cluster.kube.now()) : undefined;
  return {
    nodes,
    details: detailsSnapshotAt(latest, now),
    observed: stageResult(latest),
    ...(escalatesInMs !== undefined && { escalatesInMs }),
  };
}

/** Returns true if the object has reached the stage, and is not over: the workflow may have received another stage. */
function mayStart(maintenance: NodeMaintenance, stage: NodeMaintenanceStage): boolean {
  const current = stageOf(maintenance);
  if (!isStage(stage) || isCompleted(maintenance)) return false;
  return stage === 'Idle' ? current === 'Idle' : hasReached(current, stage);
}

function namesOfSelected({ cluster }: Deps, maintenance: NodeMaintenance): string[] {
  return selectedNodes(maintenance, cluster.nodes.list())
    .map((node) => node.metadata.name)
    .toSorted();
}

function recordStarted(
  { events, nodeEvents }: Deps,
  maintenance: NodeMaintenance,
  stage: NodeMaintenanceStage,
  nodes: readonly Node[],
): void {
  const event = { type: 'Normal', reason: 'StageStarted' } as const;
  const message = `Stage ${stage} started; ${numbered(nodes.length, 'node')} selected.`;
  events.record(maintenance, { ...event, message });
  const reason = maintenance.spec.reason ? `: ${maintenance.spec.reason}` : '';
  const ofNode = `Stage ${stage} of NodeMaintenance ${maintenance.metadata.name} started${reason}`;
  for (const { metadata } of nodes) {
    const about = { apiVersion: 'v1', kind: 'Node', name: metadata.name, uid: metadata.uid };
    nodeEvents.record(about, { ...event, message: ofNode, related: maintenance });
  }
}

/** Removes the finalizer: "the finalizer is not removed until the Complete stage has been completed" (KEP-4212 > Finalizers). */
export async function finish(deps: Deps, ref: MaintenanceRef): Promise<void> {
  const current = await read(deps, ref);
  if (current === undefined || !isCompleting(current)) return;
  if (await hasNodesToUncordon(deps, current)) await uncordonNodes(deps, ref, 'Waiting');
  await notifyFinished(deps, ref);
  const released = await changeFinalizers(
    deps,
    ref,
    (finalizers) => finalizers.filter((finalizer) => finalizer !== MAINTENANCE_FINALIZER),
    {
      labels: { [COMPLETED_LABEL]: 'true' },
      annotations: { [COMPLETED_ANNOTATION]: deps.cluster.kube.now().toISOString() },
    },
  );
  if (!released?.changed) return;
  deps.events.record(released.maintenance, {
    type: 'Normal',
    reason: 'Completed',
    message: 'The maintenance holds no node any more. Nodes that stay cordoned have an Event of their own.',
  });
  log.info('Maintenance completed', { uid: ref.uid });
  await deps.events.flush();
}

/** Persists the notification while the object exists: afterwards its data are gone. */
async function notifyFinished(deps: Deps, ref: MaintenanceRef): Promise<void> {
  const current = await read(deps, ref);
  if (current === undefined) return;
  const { stageStatuses = [], conditions = [] } = current.status ?? {};
  const stages = stageStatuses.map(({ name }) => name);
  const now = deps.cluster.kube.now().toISOString();
  await deps.notifications.enqueue(finished(notifiedMaintenanceOf(current), conditions, stages, now));
}

async function placeFinalizer(
  deps: Deps,
  ref: MaintenanceRef,
  known: NodeMaintenance,
): Promise<NodeMaintenance | undefined> {
  const change = (finalizers: string[]) =>
    finalizers.includes(MAINTENANCE_FINALIZER) ? finalizers : [...finalizers, MAINTENANCE_FINALIZER];
  // A manifest that was copied from a completed maintenance has its labels.
  const placed = await changeFinalizers(deps, ref, change, { known, labels: { [COMPLETED_LABEL]: null } });
  return placed?.maintenance;
}

/**
 * Changes the finalizers, and with them labels, of which null removes one, and annotations. `known`: the object as it was just read. A write fails if
 * it has changed since, and is tried again with the newest one.
 */
async function changeFinalizers(
  deps: Deps,
  ref: MaintenanceRef,
  change: (finalizers: string[]) => string[],
  {
    labels = {},
    annotations = {},
    known,
  }: {
    labels?: Record<string, string | null>;
    annotations?: Record<string, string>;
    known?: NodeMaintenance;
  },
): Promise<{ maintenance: NodeMaintenance; changed: boolean } | undefined> {
  let first = known;
  return retryOnConflict(attempts, async () => {
    const current = first ?? (await read(deps, ref));
    first = undefined;
    if (current === undefined) return undefined;
    const before = current.metadata.finalizers ?? [];
    const finalizers = change(before);
    // The apiserver rejects a new finalizer on an object that is being deleted.
    const isRejected = finalizers.length > before.length && current.metadata.deletionTimestamp !== undefined;
    const losesLabel = Object.keys(labels).some(
      (name) => labels[name] === null && current.metadata.labels?.[name] !== undefined,
    );
    if (isRejected || (finalizers.length === before.length && !losesLabel))
      return { maintenance: current, changed: false };
    const { uid, resourceVersion } = current.metadata;
    const maintenance = await deps.cluster.kube.mergePatch(
      resources.nodeMaintenances,
      { name: ref.name },
      { metadata: { uid, resourceVersion, finalizers, labels, annotations } },
      { fieldManager: FIELD_MANAGER },
    );
    return { maintenance, changed: true };
  });
}

/**
 * Applies the change to the status. Resolves with the newest object and whether it changed; undefined if it is gone. `known`: the object as it was
 * just read. `generation`: that of the object which the change was decided from, unless it is the newest one.
 */
export async function updateStatus(
  deps: Deps,
  ref: MaintenanceRef,
  change: StatusChange,
  { known, generation }: { known?: NodeMaintenance; generation?: number } = {},
): Promise<{ latest: NodeMaintenance; changed: boolean } | undefined> {
  const current = known ?? (await read(deps, ref));
  if (current === undefined) return undefined;
  const writer = new StatusWriter(deps.cluster.kube, current, deps.lastStatusWrites);
  writer.publish(change, generation);
  await writer.flush();
  return { latest: writer.latest, changed: writer.latest !== current };
}

async function read({ cluster }: Deps, ref: MaintenanceRef): Promise<NodeMaintenance | undefined> {
  const current = await cluster.kube.get(resources.nodeMaintenances, { name: ref.name });
  return current?.metadata.uid === ref.uid ? current : undefined;
}
