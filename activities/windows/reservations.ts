import { isDeepStrictEqual } from 'node:util';
import { FIELD_MANAGER, NODE_DISRUPTION_BUDGET_NAME } from '../../api/names.ts';
import {
  DEFAULT_NODE_DISRUPTION_BUDGET,
  type NodeDisruptionBudget,
  type NodeReservation,
} from '../../api/nodeDisruptionBudget.ts';
import { budgetStatus, limitsOf, outOfService } from '../../domain/budget/nodeDisruptionBudget.ts';
import type { BudgetView } from '../../domain/windows/decideWindow.ts';
import { isReservationActive, reservationsIn } from '../../domain/windows/reservations.ts';
import { type WindowMaintenance, windowMaintenancesIn } from '../../domain/windows/windowMaintenance.ts';
import { isKubeError } from '../../kube/errors.ts';
import { resources, versionOf } from '../../kube/resources.ts';
import { readWindowMaintenances } from '../../kube/windowObjects.ts';
import type { Deps } from '../deps.ts';

type BudgetDeps = Pick<Deps, 'cluster'>;

const attempts = 8;

/**
 * The reservations of nodes for windows, and the newest budget that was written here: the informer may not have it yet. All reservations
 * are on one budget, under one resourceVersion: two windows that decide at once cannot exceed any budget together (ADR 65).
 */
export class Reservations {
  readonly #deps: BudgetDeps;
  #written: NodeDisruptionBudget | undefined;

  constructor(deps: BudgetDeps) {
    this.#deps = deps;
  }

  /** Returns the budgets, after having removed the reservations that are not active any more: other windows wait for their nodes. */
  async read(window: string): Promise<BudgetView> {
    const budgets = await this.#newestBudgets();
    const reservations = reservationsIn(budgets);
    const active = await activeReservations(this.#deps, window, reservations);
    if (active.length === reservations.length) return budgetView(this.#deps, budgets, reservations);
    return this.reserve(window, () => []);
  }

  /** Reserves the nodes that `choose` returns, and returns the budgets that include them. */
  async reserve(window: string, choose: (budget: BudgetView) => readonly string[]): Promise<BudgetView> {
    const budgets = await reserveNodes(this.#deps, window, choose);
    this.#written = budgets.find(hasReservations);
    return budgetView(this.#deps, budgets, reservationsIn(budgets));
  }

  async #newestBudgets(): Promise<NodeDisruptionBudget[]> {
    const written = this.#written;
    const cached = this.#deps.cluster.nodeDisruptionBudgets.list();
    const reserving = cached.find(hasReservations);
    if (reserving === undefined) return readBudgets(this.#deps);
    if (written === undefined || written.metadata.uid !== reserving.metadata.uid) return [...cached];
    return versionOf(written) > versionOf(reserving) ? withBudget(cached, written) : [...cached];
  }
}

function hasReservations({ metadata }: NodeDisruptionBudget): boolean {
  return metadata.name === NODE_DISRUPTION_BUDGET_NAME;
}

/** Returns the budgets with one of them replaced. */
function withBudget(
  budgets: readonly NodeDisruptionBudget[],
  newer: NodeDisruptionBudget,
): NodeDisruptionBudget[] {
  return [...budgets.filter(({ metadata }) => metadata.name !== newer.metadata.name), newer];
}

/** Reads all budgets. Creates the one that has the reservations, with the default, if it does not exist. */
async function readBudgets(deps: BudgetDeps): Promise<NodeDisruptionBudget[]> {
  const { kube } = deps.cluster;
  const { items } = await kube.list(resources.nodeDisruptionBudgets);
  if (items.some(hasReservations)) return items;
  const budget = {
    metadata: { name: NODE_DISRUPTION_BUDGET_NAME },
    spec: { maxUnavailable: DEFAULT_NODE_DISRUPTION_BUDGET },
  };
  const options = { fieldManager: FIELD_MANAGER };
  try {
    const created = await kube.create<NodeDisruptionBudget>(resources.nodeDisruptionBudgets, budget, options);
    return withBudget(items, created);
  } catch (error) {
    if (!isKubeError(error, 'AlreadyExists')) throw error;
    return readBudgets(deps);
  }
}

/**
 * Reserves the nodes that `choose` returns for the newest budgets, removes reservations that are not active any more, and returns the
 * budgets with the one that was written. The write carries the resourceVersion that was decided on: if several windows decide at the same
 * time, one write succeeds and the other windows decide again.
 */
export async function reserveNodes(
  deps: BudgetDeps,
  window: string,
  choose: (budget: BudgetView) => readonly string[],
): Promise<NodeDisruptionBudget[]> {
  const { kube } = deps.cluster;
  for (let attempt = 1; ; attempt++) {
    const budgets = await readBudgets(deps);
    const before = reservationsIn(budgets);
    const active = await activeReservations(deps, window, before);
    const reserved = new Set(active.map(({ node }) => node));
    const since = kube.now().toISOString();
    const chosen = choose(budgetView(deps, budgets, active)).filter((node) => !reserved.has(node));
    const reservations = [...active, ...chosen.map((node) => ({ node, window, since }))];
    const budget = budgets.find(hasReservations);
    if (budget === undefined || isDeepStrictEqual(reservations, before)) return budgets;
    try {
      return withBudget(budgets, await writeReservations(deps, budget, reservations));
    } catch (error) {
      if (!isKubeError(error, 'Conflict', 'NotFound') || attempt === attempts) throw error;
    }
  }
}

function writeReservations(
  { cluster }: BudgetDeps,
  budget: NodeDisruptionBudget,
  reservations: NodeReservation[],
): Promise<NodeDisruptionBudget> {
  const { kube } = cluster;
  const nodes = cluster.nodes.list();
  const out = outOfService({ nodes, maintenances: cluster.maintenances.list(), reservations });
  const status = { ...budgetStatus(budget, { nodes, out }, kube.now().toISOString()), reservations };
  const { uid, resourceVersion } = budget.metadata;
  return kube.mergePatch(
    resources.nodeDisruptionBudgets,
    { name: NODE_DISRUPTION_BUDGET_NAME },
    { metadata: { uid, resourceVersion }, status },
    { subresource: 'status', fieldManager: FIELD_MANAGER },
  );
}

function budgetView(
  { cluster }: BudgetDeps,
  budgets: readonly NodeDisruptionBudget[],
  reservations: readonly NodeReservation[],
): BudgetView {
  const nodes = cluster.nodes.list();
  return {
    reservations,
    limits: limitsOf(budgets, nodes),
    outOfService: outOfService({ nodes, maintenances: cluster.maintenances.list(), reservations }),
  };
}

/** Returns the reservations that are active, from the point of view of the window that decides. */
async function activeReservations(
  { cluster }: BudgetDeps,
  requestingWindow: string,
  reservations: readonly NodeReservation[],
): Promise<readonly NodeReservation[]> {
  const nowMs = cluster.kube.now().getTime();
  const activeWith = (maintenances: readonly WindowMaintenance[]) =>
    reservations.filter((one) => isReservationActive(one, { maintenances, requestingWindow, nowMs }));
  const cached = windowMaintenancesIn(cluster.maintenances.list());
  const active = activeWith(cached);
  if (active.length === reservations.length) return reservations;
  // The informer may be behind: the apiserver confirms that a reservation is not active any more.
  const windows = new Set(reservations.filter((one) => !active.includes(one)).map(({ window }) => window));
  const newest = windowMaintenancesIn(await readWindowMaintenances(cluster.kube, windows));
  return activeWith([...cached.filter(({ window }) => !windows.has(window)), ...newest]);
}
