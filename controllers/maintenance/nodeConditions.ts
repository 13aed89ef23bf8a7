import { isDeepStrictEqual } from 'node:util';
import type { Condition, Lease, Node } from '../../api/core.ts';
import { NODE_CONDITIONS_MANAGER } from '../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceNodeStatus } from '../../api/nodeMaintenance.ts';
import { type ConditionFacts, isTrue, withCondition } from '../../domain/common/conditions.ts';
import { isHeldBy } from '../../domain/leases/lease.ts';
import { type Holder, nodeConditions } from '../../domain/maintenance/nodeConditions.ts';
import { holdsNode, skippedNodes } from '../../domain/common/nodePermission.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import { holdsNodes, stageOf } from '../../domain/common/stage.ts';
import { type FencedCluster, nodeLeaseOf } from '../../kube/cluster.ts';
import { ignoreNotFound } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  /** The identity with which this installation holds maintenance Leases. */
  holder: string;
  log: Log;
}

const workers = 8;
/** The conditions of a node follow so long after the acquisition of its Lease: earlier, they would conflict with the cordon. */
const afterAcquisitionMs = 1_000;

/**
 * Publishes the maintenances that hold a Node, and their progress, as conditions of the Node. A separate field manager owns these conditions,
 * so that an empty apply removes them and no others.
 */
export async function runNodeConditionsController(
  { cluster, holder, log }: Deps,
  signal: AbortSignal,
): Promise<void> {
  const { nodes, maintenances, leases } = cluster;
  const queue = new WorkQueue('node-conditions');
  const addSelected = ({ spec }: NodeMaintenance) => {
    for (const node of nodes.list()) if (selectsNode(spec.nodeSelector, node)) queue.add(node.metadata.name);
  };
  const unsubscribe = [
    nodes.subscribe(({ object }) => queue.add(object.metadata.name)),
    leases.subscribe((change) => {
      const isOurs = (lease: Readonly<Lease>) => isHeldBy(lease, holder, cluster.kube.now().getTime());
      if (change.type !== 'Updated' || isOurs(change.previous) !== isOurs(change.object))
        queue.add(change.object.metadata.name);
    }),
    maintenances.subscribe((change) => {
      if (change.type === 'Updated' && !hasChanged(change.previous, change.object)) return;
      addSelected(change.object);
      if (change.type === 'Updated') addSelected(change.previous);
    }),
  ];
  try {
    await queue.run({
      workers,
      reconcile: (name) => reconcileConditions(cluster, holder, name),
      signal,
      log,
      observer: cluster.queues,
    });
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

/** Compares only what the conditions show: the status of a drain changes every second, the conditions a few times. */
function hasChanged(before: NodeMaintenance, after: NodeMaintenance): boolean {
  const publishedPart = ({ metadata, spec, status }: NodeMaintenance) => [
    metadata.deletionTimestamp !== undefined,
    spec.stage,
    spec.nodeSelector,
    skippedNodes({ status }),
    isTrue(status?.conditions, 'Drained') && status?.nodeStatuses.map(isEmptied),
  ];
  return !isDeepStrictEqual(publishedPart(before), publishedPart(after));
}

async function reconcileConditions(
  cluster: FencedCluster,
  holder: string,
  name: string,
): Promise<Requeue | undefined> {
  const { kube, nodes, maintenances } = cluster;
  const node = nodes.get(name);
  if (node === undefined) return undefined;
  const holders = maintenances
    .list()
    .filter((maintenance) => holdsNode(maintenance, node))
    .flatMap((maintenance) => holderOf(maintenance, name) ?? []);
  const desired = nodeConditions(holders);
  const current = ownConditions(node);
  if (isDeepStrictEqual(current.map(factsOf), desired)) return undefined;
  // Conditions are added only to nodes whose Lease is ours, and removed from any node.
  const lease = nodeLeaseOf(cluster, name);
  const nowMs = kube.now().getTime();
  if (desired.length > 0 && !isHeldBy(lease, holder, nowMs)) return undefined;
  const sinceMs = nowMs - Date.parse(lease?.spec.acquireTime ?? '');
  const isFirst = desired.length > 0 && current.length === 0;
  if (isFirst && sinceMs >= 0 && sinceMs < afterAcquisitionMs)
    return { requeueAfterMs: afterAcquisitionMs - sinceMs };
  const now = new Date(nowMs).toISOString();
  const conditions = desired.flatMap((facts) =>
    withCondition(
      current.filter(({ type }) => type === facts.type),
      facts,
      now,
    ),
  );
  const object = { metadata: { name, uid: node.metadata.uid }, status: { conditions } };
  const options = { fieldManager: NODE_CONDITIONS_MANAGER, force: true, subresource: 'status' };
  await kube.apply(resources.nodes, object as Node, options).catch(ignoreNotFound);
  return undefined;
}

function holderOf(maintenance: NodeMaintenance, node: string): Holder | undefined {
  const { metadata, status } = maintenance;
  const stage = stageOf(maintenance);
  if (!holdsNodes(stage)) return undefined;
  const own = status?.nodeStatuses.find((one) => one.nodeRef.name === node);
  return { name: metadata.name, stage, drained: isTrue(status?.conditions, 'Drained') && isEmptied(own) };
}

/** A node that has just been selected has no drain targets yet. */
function isEmptied(node: NodeMaintenanceNodeStatus | undefined): boolean {
  if (node === undefined || node.drainTargets.length === 0) return false;
  return node.podsPendingEvacuation === 0 && node.podsEvacuating === 0;
}

/** Returns the node's conditions that this controller owns, in the order of `nodeConditions`. */
function ownConditions({ status }: Node): Condition[] {
  const types = nodeConditions([{ name: '', stage: 'Cordon', drained: false }]).map(({ type }) => type);
  return types.flatMap((type) => status?.conditions?.find((condition) => condition.type === type) ?? []);
}

function factsOf({ type, status, reason, message }: Condition): ConditionFacts {
  return { type, status, reason, message };
}
