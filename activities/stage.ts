import type { Node } from '../api/core.ts';
import { FIELD_MANAGER, MAINTENANCE_FINALIZER } from '../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { withCondition } from '../domain/conditions.ts';
import { glanceAt } from '../domain/glance.ts';
import { finished, stageBegun } from '../domain/notices.ts';
import { withStage } from '../domain/status.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import type { Interrupted, MaintenanceRef, SeenNodes } from './contract.ts';
import type { Deps } from './deps.ts';
import { noticedMaintenance } from './notices.ts';
import { type StatusChange, StatusWriter } from './statusWriter.ts';
import { authorizeTemporal, orderedByTemporal } from './temporalUser.ts';
import { selectedNodes } from './view.ts';

const attempts = 3;

/** Writes `.spec.stage`: the object is what both kubectl and the workflow obey. */
export async function requestStage(
  deps: Deps,
  ref: MaintenanceRef,
  stage: NodeMaintenanceStage,
  orderedBy?: 'Message',
): Promise<Interrupted> {
  const current = await read(deps, ref);
  if (current === undefined) return { kind: 'Gone' };
  // Who deletes an object has been asked for his rights already.
  const isOrder = orderedBy === 'Message' && current.metadata.deletionTimestamp === undefined;
  if (isOrder && current.spec.stage !== stage) await authorizeTemporal(deps, current.spec);
  const { spec, metadata } =
    current.spec.stage === stage ? current : await writeStage(deps, ref, { stage, isOrder });
  return { kind: 'StageChanged', stage: spec.stage, generation: metadata.generation ?? 0 };
}

/** Fails, to be tried again, when the object goes meanwhile: only a look at it tells that from a crowd of writers. */
function writeStage(
  { cluster: { kube } }: Deps,
  ref: MaintenanceRef,
  { stage, isOrder }: { stage: NodeMaintenanceStage; isOrder: boolean },
): Promise<NodeMaintenance> {
  // Left as it is otherwise: then the worker only carries out what somebody has ordered before.
  const note = isOrder && { annotations: orderedByTemporal };
  const patch = { metadata: { uid: ref.uid, ...note }, spec: { stage } };
  return kube.mergePatch(resources.nodeMaintenances, { name: ref.name }, patch, {
    fieldManager: FIELD_MANAGER,
  });
}

/** The pause is on the object, where people see it and where a new run finds it. */
export async function recordPause(deps: Deps, ref: MaintenanceRef, paused: boolean): Promise<void> {
  const now = deps.cluster.kube.now().toISOString();
  const facts = paused
    ? ({
        status: 'True',
        reason: 'PauseRequested',
        message: 'No new Evacuation and no new tier begins.',
      } as const)
    : ({ status: 'False', reason: 'Resumed', message: '' } as const);
  await updateStatus(deps, ref, (status) => ({
    ...status,
    conditions: withCondition(status.conditions, { type: 'Paused', ...facts }, now),
  }));
}

/** "When a stage is not Idle, [the] finalizer is placed" (KEP-4212 > Finalizers); then `.status.stageStatuses` is amended. */
export async function beginStage(
  deps: Deps,
  ref: MaintenanceRef,
  stage: NodeMaintenanceStage,
): Promise<SeenNodes> {
  const maintenance = stage === 'Idle' ? await read(deps, ref) : await placeFinalizer(deps, ref);
  if (maintenance === undefined) return { nodes: [] };
  const now = deps.cluster.kube.now().toISOString();
  const selected = selectedNodes(maintenance, deps.cluster.nodes.list());
  const nodes = selected.map((node) => node.metadata.name).toSorted();
  const updated = await updateStatus(deps, ref, (status) => ({
    ...withStage(status, stage, now),
    nodes: nodes.length,
  }));
  if (updated?.changed) tellBegun(deps, maintenance, stage, selected);
  const known = maintenance.status?.stageStatuses.find(({ name }) => name === stage)?.startTimestamp;
  await deps.notices.put(stageBegun(noticedMaintenance(maintenance), stage, nodes, known ?? now));
  return { nodes, glance: glanceAt(updated?.latest ?? maintenance, now) };
}

function tellBegun(
  { events, nodeEvents }: Deps,
  maintenance: NodeMaintenance,
  stage: NodeMaintenanceStage,
  nodes: readonly Node[],
): void {
  const event = { type: 'Normal', reason: 'StageStarted' } as const;
  const message = `Stage ${stage} started; ${nodes.length} nodes are selected.`;
  events.record(maintenance, { ...event, message });
  const reason = maintenance.spec.reason ? `: ${maintenance.spec.reason}` : '';
  const ofNode = `Stage ${stage} of NodeMaintenance ${maintenance.metadata.name} started${reason}`;
  for (const { metadata } of nodes) {
    const about = { apiVersion: 'v1', kind: 'Node', name: metadata.name, uid: metadata.uid };
    nodeEvents.record(about, { ...event, message: ofNode, related: maintenance });
  }
}

/** Lets the object go: "the finalizer is not removed until the Complete stage has been completed" (KEP-4212 > Finalizers). */
export async function finish(deps: Deps, ref: MaintenanceRef): Promise<void> {
  await tellFinished(deps, ref);
  const without = (finalizers: string[]) =>
    finalizers.filter((finalizer) => finalizer !== MAINTENANCE_FINALIZER);
  const released = await changeFinalizers(deps, ref, without);
  if (!released?.changed) return;
  deps.events.record(released.maintenance, {
    type: 'Normal',
    reason: 'Completed',
    message: 'The nodes are given back.',
  });
  await deps.events.flush();
}

/** Before the object may go: nobody could tell of it afterwards. */
async function tellFinished(deps: Deps, ref: MaintenanceRef): Promise<void> {
  const current = await read(deps, ref);
  if (current === undefined) return;
  const { stageStatuses = [], conditions = [] } = current.status ?? {};
  const stages = stageStatuses.map(({ name }) => name);
  const now = deps.cluster.kube.now().toISOString();
  await deps.notices.put(finished(noticedMaintenance(current), conditions, stages, now));
}

async function placeFinalizer(deps: Deps, ref: MaintenanceRef): Promise<NodeMaintenance | undefined> {
  const placed = await changeFinalizers(deps, ref, (finalizers) =>
    finalizers.includes(MAINTENANCE_FINALIZER) ? finalizers : [...finalizers, MAINTENANCE_FINALIZER],
  );
  return placed?.maintenance;
}

async function changeFinalizers(
  deps: Deps,
  ref: MaintenanceRef,
  change: (finalizers: string[]) => string[],
): Promise<{ maintenance: NodeMaintenance; changed: boolean } | undefined> {
  for (let attempt = 1; ; attempt++) {
    const current = await read(deps, ref);
    if (current === undefined) return undefined;
    const before = current.metadata.finalizers ?? [];
    const finalizers = change(before);
    // An object that is being deleted takes no new finalizer.
    const refused = finalizers.length > before.length && current.metadata.deletionTimestamp !== undefined;
    if (refused || finalizers.length === before.length) return { maintenance: current, changed: false };
    const { uid, resourceVersion } = current.metadata;
    try {
      const maintenance = await deps.cluster.kube.mergePatch(
        resources.nodeMaintenances,
        { name: ref.name },
        { metadata: { uid, resourceVersion, finalizers } },
        { fieldManager: FIELD_MANAGER },
      );
      return { maintenance, changed: true };
    } catch (error) {
      if (!isKubeError(error, 'Conflict') || attempt === attempts) throw error;
    }
  }
}

/** The object as it is then, and whether anything had to be written; undefined when it is gone. */
export async function updateStatus(
  deps: Deps,
  ref: MaintenanceRef,
  change: StatusChange,
): Promise<{ latest: NodeMaintenance; changed: boolean } | undefined> {
  const current = await read(deps, ref);
  if (current === undefined) return undefined;
  const writer = new StatusWriter(deps.cluster.kube, current, deps.lastWrites);
  writer.publish(change);
  await writer.flush();
  return { latest: writer.latest, changed: writer.latest !== current };
}

async function read({ cluster }: Deps, ref: MaintenanceRef): Promise<NodeMaintenance | undefined> {
  const current = await cluster.kube.get(resources.nodeMaintenances, { name: ref.name });
  return current?.metadata.uid === ref.uid ? current : undefined;
}
