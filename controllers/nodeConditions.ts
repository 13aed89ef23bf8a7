import { isDeepStrictEqual } from 'node:util';
import type { Condition, Lease, Node } from '../api/core.ts';
import { NODE_CONDITIONS_MANAGER } from '../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceNodeStatus } from '../api/nodeMaintenance.ts';
import { type ConditionFacts, isTrue, withCondition } from '../domain/conditions.ts';
import { isHeldBy } from '../domain/lease.ts';
import { type Holder, nodeConditions } from '../domain/nodeConditions.ts';
import { selectsNode } from '../domain/nodeSelector.ts';
import { holdsNodes, stageOf } from '../domain/stage.ts';
import { type FencedCluster, leaseOf } from '../kube/cluster.ts';
import { isKubeError } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { WorkQueue } from '../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  /** Of the nodes' maintenance Leases, as which this installation holds them. */
  holder: string;
  log: Log;
}

const nodesAtOnce = 8;

/**
 * Shows on every Node which maintenances hold it and how far they are: maintenances -> node conditions. Owns these
 * conditions by a field manager of its own, so that giving them up removes them and nobody else's.
 */
export async function runNodeConditionsController(
  { cluster, holder, log }: Deps,
  signal: AbortSignal,
): Promise<void> {
  const { nodes, maintenances, leases } = cluster;
  const queue = new WorkQueue();
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
      workers: nodesAtOnce,
      reconcile: (name) => showHolders(cluster, holder, name),
      signal,
      log,
    });
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

/** The status of a drain changes once a second; what nodes show of it, a few times in all. */
function hasChanged(before: NodeMaintenance, after: NodeMaintenance): boolean {
  const shown = ({ metadata, spec, status }: NodeMaintenance) => [
    metadata.deletionTimestamp !== undefined,
    spec.stage,
    spec.nodeSelector,
    isTrue(status?.conditions, 'Drained') && status?.nodeStatuses.map(isEmptied),
  ];
  return !isDeepStrictEqual(shown(before), shown(after));
}

async function showHolders(cluster: FencedCluster, holder: string, name: string): Promise<void> {
  const { kube, nodes, maintenances } = cluster;
  const node = nodes.get(name);
  if (node === undefined) return;
  const holders = maintenances
    .list()
    .filter(({ spec }) => selectsNode(spec.nodeSelector, node))
    .flatMap((maintenance) => holderOf(maintenance, name) ?? []);
  const wanted = nodeConditions(holders);
  const shown = shownConditions(node);
  if (isDeepStrictEqual(shown.map(factsOf), wanted)) return;
  // Conditions are shown on nodes that are ours; what was shown is taken away from any.
  const lease = leaseOf(cluster, name);
  if (wanted.length > 0 && !isHeldBy(lease, holder, kube.now().getTime())) return;
  const now = kube.now().toISOString();
  const conditions = wanted.flatMap((facts) =>
    withCondition(
      shown.filter(({ type }) => type === facts.type),
      facts,
      now,
    ),
  );
  const object = { metadata: { name, uid: node.metadata.uid }, status: { conditions } };
  try {
    await kube.apply(resources.nodes, object as Node, {
      fieldManager: NODE_CONDITIONS_MANAGER,
      force: true,
      subresource: 'status',
    });
  } catch (error) {
    // Another node of that name, or none: the informer will show it.
    if (!isKubeError(error, 'NotFound', 'Conflict')) throw error;
  }
}

function holderOf(maintenance: NodeMaintenance, node: string): Holder | undefined {
  const { metadata, status } = maintenance;
  const stage = stageOf(maintenance);
  if (!holdsNodes(stage)) return undefined;
  const own = status?.nodeStatuses.find((one) => one.nodeRef.name === node);
  return { name: metadata.name, stage, drained: isTrue(status?.conditions, 'Drained') && isEmptied(own) };
}

/** A node that has only just joined has no drain targets yet. */
function isEmptied(node: NodeMaintenanceNodeStatus | undefined): boolean {
  if (node === undefined || node.drainTargets.length === 0) return false;
  return node.podsPendingEvacuation === 0 && node.podsEvacuating === 0;
}

/** Those of the node's conditions that are ours, in the order in which we write them. */
function shownConditions({ status }: Node): Condition[] {
  const types = nodeConditions([{ name: '', stage: 'Cordon', drained: false }]).map(({ type }) => type);
  return types.flatMap((type) => status?.conditions?.find((condition) => condition.type === type) ?? []);
}

function factsOf({ type, status, reason, message }: Condition): ConditionFacts {
  return { type, status, reason, message };
}
