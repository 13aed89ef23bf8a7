import { isDeepStrictEqual } from 'node:util';
import { FIELD_MANAGER, NODE_DISRUPTION_BUDGET_NAME } from '../../api/names.ts';
import { DEFAULT_NODE_DISRUPTION_BUDGET, type NodeDisruptionBudget } from '../../api/nodeDisruptionBudget.ts';
import { budgetStatus, outOfService } from '../../domain/budget/nodeDisruptionBudget.ts';
import { activeReservationsIn } from '../../domain/windows/reservations.ts';
import { windowMaintenancesIn } from '../../domain/windows/windowMaintenance.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { ignoreConflict, isKubeError } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';

/** The status is written at most once in this time, however many nodes change at once. */
const writeIntervalMs = 1_000;
/** The budget may have been deleted, or a reservation may have expired, without any event. */
const resyncMs = 60_000;
const maxConcurrentWrites = 4;

/** Creates the NodeDisruptionBudget that has the reservations if it does not exist, and keeps the status of all budgets up to date. */
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
  const budgets = cluster.nodeDisruptionBudgets.list();
  const hasDefault = budgets.some(({ metadata }) => metadata.name === NODE_DISRUPTION_BUDGET_NAME);
  if (!hasDefault) await createDefault(cluster);
  await updateStatuses(cluster, budgets);
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

async function updateStatuses(
  cluster: FencedCluster,
  budgets: readonly NodeDisruptionBudget[],
): Promise<void> {
  const maintenances = cluster.maintenances.list();
  const now = cluster.kube.now();
  const nodes = cluster.nodes.list();
  const reservations = activeReservationsIn(budgets, {
    maintenances: windowMaintenancesIn(maintenances),
    nowMs: now.getTime(),
  });
  const out = outOfService({ nodes, maintenances, reservations });
  const errors: unknown[] = [];
  // A budget whose status is rejected does not keep the others waiting.
  await forEachBounded(maxConcurrentWrites, budgets, (budget) =>
    updateStatus(cluster, budget, budgetStatus(budget, { nodes, out }, now.toISOString())).catch((error) =>
      errors.push(error),
    ),
  );
  if (errors.length > 0) throw errors[0];
}

async function updateStatus(
  { kube }: FencedCluster,
  budget: NodeDisruptionBudget,
  status: ReturnType<typeof budgetStatus>,
): Promise<void> {
  const { reservations: _reservations, ...before } = budget.status ?? {};
  if (isDeepStrictEqual(status, before)) return;
  // Windows own the reservations: they write them under the resourceVersion that they decided on.
  const body = { metadata: { uid: budget.metadata.uid }, status };
  const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
  await kube
    .mergePatch(resources.nodeDisruptionBudgets, { name: budget.metadata.name }, body, options)
    .catch(ignoreConflict);
}
