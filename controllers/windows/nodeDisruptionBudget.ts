import { isDeepStrictEqual } from 'node:util';
import { FIELD_MANAGER, NODE_DISRUPTION_BUDGET_NAME } from '../../api/names.ts';
import type { KubeObject } from '../../api/core.ts';
import {
  DEFAULT_NODE_DISRUPTION_BUDGET,
  type NodeDisruptionBudget,
  type NodeReservation,
} from '../../api/nodeDisruptionBudget.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { budgetStatus, outOfService } from '../../domain/budget/nodeDisruptionBudget.ts';
import {
  abandonedReservations,
  activeReservationsIn,
  reservationsIn,
} from '../../domain/windows/reservations.ts';
import { windowMaintenancesIn } from '../../domain/windows/windowMaintenance.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { ignoreNotFound, isKubeError } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { readWindowMaintenances } from '../../kube/windowObjects.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';

/** The status is written at most once in this time, however many nodes change at once. */
const writeIntervalMs = 1_000;
/** The budget may have been deleted, or a reservation may have expired, without any event. */
const resyncMs = 60_000;
const resyncWithReservationsMs = 10_000;
const maxConcurrentWrites = 4;

/**
 * Creates the NodeDisruptionBudget that has the reservations if it does not exist, keeps the status of all budgets up to date, and removes the
 * reservations of windows that were deleted: no other window may open for days.
 */
export async function runNodeDisruptionBudgetController(
  { cluster, log }: { cluster: FencedCluster; log: Log },
  signal: AbortSignal,
): Promise<void> {
  const queue = new WorkQueue('node-disruption-budget');
  const enqueue = () => queue.addAfter(NODE_DISRUPTION_BUDGET_NAME, writeIntervalMs);
  const { nodes, maintenances, nodeDisruptionBudgets, windows } = cluster;
  const unsubscribe = [
    nodes.subscribe(enqueue),
    windows.subscribe(({ type }) => {
      if (type === 'Deleted') enqueue();
    }),
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
  await removeAbandonedReservations(cluster, budgets);
  const hasReservations = reservationsIn(budgets).length > 0;
  return { requeueAfterMs: hasReservations ? resyncWithReservationsMs : resyncMs };
}

/** The informers may be behind: the apiserver confirms that a reservation is abandoned. */
async function removeAbandonedReservations(
  { kube, windows, maintenances }: FencedCluster,
  budgets: readonly NodeDisruptionBudget[],
): Promise<void> {
  const abandonedIn = (
    reservations: readonly NodeReservation[],
    all: { windows: readonly Readonly<KubeObject>[]; maintenances: readonly Readonly<NodeMaintenance>[] },
  ) =>
    abandonedReservations(reservations, {
      windows: new Set(all.windows.map(({ metadata }) => metadata.name)),
      maintenances: windowMaintenancesIn(all.maintenances),
      nowMs: kube.now().getTime(),
    });
  const cached = { windows: windows.list(), maintenances: maintenances.list() };
  if (abandonedIn(reservationsIn(budgets), cached).length === 0) return;
  const newest = await kube.list(resources.nodeDisruptionBudgets);
  const budget = newest.items.find(({ metadata }) => metadata.name === NODE_DISRUPTION_BUDGET_NAME);
  const [existing, inProgress] = await Promise.all([
    kube.list(resources.maintenanceWindows),
    readWindowMaintenances(kube),
  ]);
  if (budget === undefined) return;
  const before = reservationsIn([budget]);
  const abandoned = abandonedIn(before, { windows: existing.items, maintenances: inProgress });
  if (abandoned.length === 0) return;
  const { uid, resourceVersion } = budget.metadata;
  const reservations = before.filter((one) => !abandoned.includes(one));
  const body = { metadata: { uid, resourceVersion }, status: { reservations } };
  const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
  const { name } = budget.metadata;
  await kube.mergePatch(resources.nodeDisruptionBudgets, { name }, body, options).catch(ignoreNotFound);
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
    .catch(ignoreNotFound);
}
