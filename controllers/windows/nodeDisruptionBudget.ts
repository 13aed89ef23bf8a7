import { isDeepStrictEqual } from 'node:util';
import { FIELD_MANAGER, NODE_DISRUPTION_BUDGET_NAME } from '../../api/names.ts';
import { DEFAULT_NODE_DISRUPTION_BUDGET, type NodeDisruptionBudget } from '../../api/nodeDisruptionBudget.ts';
import { budgetStatus } from '../../domain/budget/nodeDisruptionBudget.ts';
import { withoutStaleReservations } from '../../domain/windows/reservations.ts';
import { windowMaintenancesIn } from '../../domain/windows/windowMaintenance.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { ignoreConflict, isKubeError } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';

/** The status is written at most once in this time, however many nodes change at once. */
const writeIntervalMs = 1_000;
/** The budget may have been deleted, or a reservation may have expired, without any event. */
const resyncMs = 60_000;

/** Creates the NodeDisruptionBudget of the cluster if it does not exist, and keeps its status up to date. */
export async function runNodeDisruptionBudgetController(
  { cluster, log }: { cluster: FencedCluster; log: Log },
  signal: AbortSignal,
): Promise<void> {
  const queue = new WorkQueue('node-disruption-budget');
  const enqueue = () => queue.addAfter(NODE_DISRUPTION_BUDGET_NAME, writeIntervalMs);
  const { nodes, maintenances, nodeDisruptionBudgets } = cluster;
  const unsubscribe = [
    nodes.subscribe(enqueue),
    maintenances.subscribe(enqueue),
    nodeDisruptionBudgets.subscribe(enqueue),
  ];
  queue.add(NODE_DISRUPTION_BUDGET_NAME);
  try {
    await queue.run({
      workers: 1,
      reconcile: () => reconcile(cluster),
      signal,
      log,
      observer: cluster.queues,
    });
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

async function reconcile(cluster: FencedCluster): Promise<Requeue> {
  const budget = cluster.nodeDisruptionBudgets.get(NODE_DISRUPTION_BUDGET_NAME);
  await (budget === undefined ? createDefault(cluster) : updateStatus(cluster, budget));
  return { requeueAfterMs: resyncMs };
}

/** Users who maintain nodes without a window are warned from then on. */
async function createDefault({ kube }: FencedCluster): Promise<void> {
  const budget = {
    metadata: { name: NODE_DISRUPTION_BUDGET_NAME },
    spec: { maxUnavailable: DEFAULT_NODE_DISRUPTION_BUDGET },
  };
  try {
    await kube.create(resources.nodeDisruptionBudgets, budget, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (!isKubeError(error, 'AlreadyExists')) throw error;
  }
}

async function updateStatus(
  { kube, ...cluster }: FencedCluster,
  budget: NodeDisruptionBudget,
): Promise<void> {
  const maintenances = cluster.maintenances.list();
  const now = kube.now();
  const { status: active } = withoutStaleReservations(budget, {
    maintenances: windowMaintenancesIn(maintenances),
    nowMs: now.getTime(),
  });
  const input = { nodes: cluster.nodes.list(), maintenances, reservations: active?.reservations ?? [] };
  const status = budgetStatus(budget, input, now.toISOString());
  const { reservations: _reservations, ...before } = budget.status ?? {};
  if (isDeepStrictEqual(status, before)) return;
  // Windows own the reservations: they write them under the resourceVersion that they decided on.
  const body = { metadata: { uid: budget.metadata.uid }, status };
  const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
  await kube
    .mergePatch(resources.nodeDisruptionBudgets, { name: NODE_DISRUPTION_BUDGET_NAME }, body, options)
    .catch(ignoreConflict);
}
