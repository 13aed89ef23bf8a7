import { NODE_DISRUPTION_BUDGET_NAME } from '../../api/names.ts';
import type { NodeDisruptionBudget, NodeReservation } from '../../api/nodeDisruptionBudget.ts';
import { isCompleted } from '../common/stage.ts';
import type { WindowMaintenance } from './windowMaintenance.ts';

export interface ReservationInput {
  maintenances: readonly Pick<WindowMaintenance, 'window' | 'node' | 'maintenance'>[];
  /** The window that decides, if one does. Only a window itself knows whether it is about to use its reservation. */
  requestingWindow?: string;
  nowMs: number;
}

/** A reservation of another window is valid for this time without a NodeMaintenance, because that window may be about to create it. */
const unusedReservationTtlMs = 120_000;

/** The same time for a window that was deleted: it starts no node later than some seconds after it has reserved it. */
const abandonedReservationTtlMs = 30_000;

/** Reports whether a node is reserved: until its NodeMaintenance is completed or deleted. */
export function isReservationActive(
  { node, window, since }: NodeReservation,
  { maintenances, requestingWindow, nowMs }: ReservationInput,
): boolean {
  const own = maintenances.filter((one) => one.node === node && one.window === window);
  if (own.length === 0)
    return window !== requestingWindow && nowMs - Date.parse(since) < unusedReservationTtlMs;
  return own.some(({ maintenance }) => !isCompleted(maintenance));
}

/** Returns the reservations of all windows that are active. Windows may not have removed the others yet. */
export function activeReservationsIn(
  budgets: readonly Pick<NodeDisruptionBudget, 'metadata' | 'status'>[],
  input: ReservationInput,
): NodeReservation[] {
  return reservationsIn(budgets).filter((one) => isReservationActive(one, input));
}

/**
 * Returns the reservations that nobody uses or removes any more: those of windows that do not exist, for nodes without a NodeMaintenance in progress.
 * `windows` are the names of the windows that exist.
 */
export function abandonedReservations(
  reservations: readonly NodeReservation[],
  {
    windows,
    maintenances,
    nowMs,
  }: Omit<ReservationInput, 'requestingWindow'> & { windows: ReadonlySet<string> },
): NodeReservation[] {
  return reservations.filter((one) => {
    const isAged = nowMs - Date.parse(one.since) >= abandonedReservationTtlMs;
    return (
      isAged &&
      !windows.has(one.window) &&
      !isReservationActive(one, { maintenances, requestingWindow: one.window, nowMs })
    );
  });
}

/** Returns the reservations of all windows, which are on one budget, whichever budgets select their nodes (ADR 65). */
export function reservationsIn(
  budgets: readonly Pick<NodeDisruptionBudget, 'metadata' | 'status'>[],
): readonly NodeReservation[] {
  return (
    budgets.find(({ metadata }) => metadata.name === NODE_DISRUPTION_BUDGET_NAME)?.status?.reservations ?? []
  );
}
