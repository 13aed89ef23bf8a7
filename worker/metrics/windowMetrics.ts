import type { Registry } from 'prom-client';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { STALLED } from '../../domain/common/stalledRun.ts';
import { countOutOfService, limitsOf, outOfService } from '../../domain/budget/nodeDisruptionBudget.ts';
import { isPaused } from '../../domain/maintenance/summary.ts';
import { nodeOutcomeOf } from '../../domain/windows/nodeOutcome.ts';
import { activeReservationsIn } from '../../domain/windows/reservations.ts';
import { windowMaintenancesIn, windowMaintenancesOf } from '../../domain/windows/windowMaintenance.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { metricDefinitions } from './definitions.ts';
import { registerGauge } from './register.ts';

/** Registers the metrics of windows and of NodeDisruptionBudgets. There are series by window and by budget, none by node. */
export function observeWindows(registry: Registry, cluster: Cluster): void {
  const waiting = new WaitingTimes(cluster);
  const readers: [WindowGauge, (window: MaintenanceWindow) => Series[]][] = [
    [metricDefinitions.windowOpen, isOpen],
    [metricDefinitions.windowEnd, endOf],
    [metricDefinitions.windowNodes, nodesByState],
    [metricDefinitions.windowRebootRequired, rebootRequired],
    [metricDefinitions.windowOldestNodeStarted, (window) => oldestNodeStarted(cluster, window)],
    [metricDefinitions.windowWaitingSince, (window) => waiting.update(window)],
    [metricDefinitions.windowConditionNotTrue, conditionsNotTrue],
  ];
  for (const [definition, read] of readers)
    registerGauge(registry, definition, (gauge) => {
      for (const window of cluster.windows.list())
        for (const { labels, value } of read(window))
          gauge.set({ window: window.metadata.name, ...labels }, value);
    });
  observeBudgets(registry, cluster);
}

type Definitions = typeof metricDefinitions;
type WindowGauge = Extract<Definitions[keyof Definitions], { name: `node_maintenance_window_${string}` }>;

interface Series {
  labels?: Record<string, string>;
  value: number;
}

function isOpen({ status }: MaintenanceWindow): Series[] {
  return [{ value: status?.active === undefined ? 0 : 1 }];
}

function endOf({ status }: MaintenanceWindow): Series[] {
  return status?.active === undefined ? [] : [{ value: Date.parse(status.active.end) / 1_000 }];
}

function nodesByState({ status }: MaintenanceWindow): Series[] {
  if (status?.progress === undefined) return [];
  const { done, inProgress, failed, remaining } = status.progress;
  const counts = { InProgress: inProgress, Succeeded: done, Failed: failed, Remaining: remaining };
  return Object.entries(counts).map(([state, value]) => ({ labels: { state }, value }));
}

function rebootRequired({ status }: MaintenanceWindow): Series[] {
  const { rebootRequired: required } = status?.progress ?? {};
  return required === undefined ? [] : [{ value: required.nodes }];
}

function oldestNodeStarted({ maintenances }: Cluster, { metadata }: MaintenanceWindow): Series[] {
  const startedMs = windowMaintenancesOf(metadata.name, maintenances.list())
    .filter(({ maintenance }) => !isPaused(maintenance))
    .filter(({ maintenance }) => nodeOutcomeOf(maintenance).state === 'InProgress')
    .map(({ maintenance }) => Date.parse(maintenance.metadata.creationTimestamp ?? ''));
  return startedMs.length === 0 ? [] : [{ value: Math.min(...startedMs) / 1_000 }];
}

function conditionsNotTrue({ status }: MaintenanceWindow): Series[] {
  // A user suspended or paused the window on purpose; InvalidSpec repeats what condition Valid reports.
  const isIgnored = (reason: string) => ['Suspended', 'Paused', 'InvalidSpec'].includes(reason);
  return (status?.conditions ?? [])
    .filter(({ type }) => type !== STALLED)
    .filter((condition) => condition.status !== 'True' && !isIgnored(condition.reason))
    .map(({ type, reason }) => ({ labels: { type, reason }, value: 1 }));
}

/** Stores the time at which each window started to wait. No object records it, and a restart of the process loses only an age. */
class WaitingTimes {
  readonly #cluster: Cluster;
  /** Keyed by window. */
  readonly #waiting = new Map<string, { reason: string; sinceMs: number }>();

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    cluster.windows.subscribe(({ type, object }) => {
      if (type === 'Deleted') this.#waiting.delete(object.metadata.name);
    });
  }

  update({ metadata: { name }, status }: MaintenanceWindow): Series[] {
    const reason = status?.active?.waiting?.reason;
    if (reason === undefined) {
      this.#waiting.delete(name);
      return [];
    }
    const known = this.#waiting.get(name);
    const sinceMs = known?.reason === reason ? known.sinceMs : this.#cluster.kube.now().getTime();
    this.#waiting.set(name, { reason, sinceMs });
    return [{ labels: { reason }, value: sinceMs / 1_000 }];
  }
}

function observeBudgets(registry: Registry, cluster: Cluster): void {
  const { nodes, maintenances, nodeDisruptionBudgets } = cluster;
  const limits = () => limitsOf(nodeDisruptionBudgets.list(), nodes.list());
  registerGauge(registry, metricDefinitions.budgetAllowedNodes, (gauge) => {
    for (const { name, allowed } of limits()) gauge.set({ budget: name }, allowed);
  });
  registerGauge(registry, metricDefinitions.budgetOutOfServiceNodes, (gauge) => {
    const all = maintenances.list();
    const reservations = activeReservationsIn(nodeDisruptionBudgets.list(), {
      maintenances: windowMaintenancesIn(all),
      nowMs: cluster.kube.now().getTime(),
    });
    const out = outOfService({ nodes: nodes.list(), maintenances: all, reservations });
    for (const limit of limits()) gauge.set({ budget: limit.name }, countOutOfService(limit, out));
  });
}
