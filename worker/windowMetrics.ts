import type { Gauge, Registry } from 'prom-client';
import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import { NODE_BUDGET_NAME } from '../api/names.ts';
import { claimedTurns } from '../api/windowTurn.ts';
import { asItStands, limitOf, outOfService } from '../domain/nodeBudget.ts';
import { isPaused } from '../domain/maintenanceSummary.ts';
import { standingOf } from '../domain/windowProgress.ts';
import type { Cluster } from '../kube/cluster.ts';
import { gaugesIn } from './gauges.ts';

/**
 * Maintenance windows and the budget of nodes, as this worker sees them: read from the informers at each scrape. Series are by window,
 * none by node. Names and labels are what deploy/monitoring/alerts.yaml relies on.
 */
export function observeWindows(registry: Registry, cluster: Cluster): void {
  const { windows } = cluster;
  const gauge = gaugesIn(registry, 'node_maintenance_');
  const ofWindows = (
    name: string,
    help: string,
    read: (window: MaintenanceWindow) => Series[],
    labels: string[] = [],
  ) =>
    gauge(`window_${name}`, help, ['window', ...labels], (series) => {
      for (const window of windows.list())
        for (const { value, ...more } of read(window))
          series.set({ window: window.metadata.name, ...more.labels }, value);
    });
  ofWindows('open', 'Whether a window is open, or is over and has turns to finish.', isOpen);
  ofWindows('end_timestamp_seconds', 'When a window that is open ends, or has ended.', endOf);
  ofWindows('turns', 'Turns of the nodes of a window, in its newest revision, by outcome.', turnsOf, [
    'outcome',
  ]);
  const begun = 'When the oldest turn began that is under way in a window.';
  ofWindows('oldest_turn_begun_timestamp_seconds', begun, (window) => oldestTurn(cluster, window));
  const waits = new Waits(cluster);
  const waiting =
    'Since when, as far as this worker knows, no further turn begins in an open window, by reason.';
  ofWindows('waiting_since_timestamp_seconds', waiting, (window) => waits.seen(window), ['reason']);
  const concern = 'Conditions of a window that should be True and are not; 1 each.';
  ofWindows('condition_not_true', concern, concernsOf, ['type', 'reason']);
  const allowed = 'How many nodes of the cluster may be out of service at once.';
  gauge('budget_allowed_nodes', allowed, [], (series) => setBudget(cluster, series, 'allowed'));
  const out = 'How many nodes of the cluster are out of service, whatever took them out.';
  gauge('budget_out_of_service_nodes', out, [], (series) => setBudget(cluster, series, 'out'));
}

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

function turnsOf({ status }: MaintenanceWindow): Series[] {
  if (status?.progress === undefined) return [];
  const { done, inProgress, failed, remaining } = status.progress;
  return Object.entries({ Succeeded: done, UnderWay: inProgress, Failed: failed, ToCome: remaining }).map(
    ([outcome, value]) => ({ labels: { outcome }, value }),
  );
}

/** Of those that have neither failed nor given their node back, and do not rest until the next window. */
function oldestTurn({ maintenances }: Cluster, { metadata }: MaintenanceWindow): Series[] {
  const begun = claimedTurns(maintenances.list())
    .filter(({ window, maintenance }) => window === metadata.name && !isPaused(maintenance))
    .filter(({ maintenance }) => standingOf(maintenance).kind === 'UnderWay')
    .map(({ maintenance }) => Date.parse(maintenance.metadata.creationTimestamp ?? ''));
  return begun.length === 0 ? [] : [{ value: Math.min(...begun) / 1_000 }];
}

function concernsOf({ status }: MaintenanceWindow): Series[] {
  // Whoever suspended a window knows, and of what is not valid condition Valid tells.
  const isMeant = (reason: string) => reason === 'Suspended' || reason === 'NotValid';
  return (status?.conditions ?? [])
    .filter((one) => one.status !== 'True' && !isMeant(one.reason))
    .map(({ type, reason }) => ({ labels: { type, reason }, value: 1 }));
}

/** Objects do not say since when a window waits: what this process saw at scrapes does, and losing it loses no more than an age. */
class Waits {
  readonly #cluster: Cluster;
  /** By window. */
  readonly #since = new Map<string, { reason: string; at: number }>();

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  seen({ metadata: { name }, status }: MaintenanceWindow): Series[] {
    const reason = status?.active?.waiting?.reason;
    if (reason === undefined) {
      this.#since.delete(name);
      return [];
    }
    const known = this.#since.get(name);
    const at = known?.reason === reason ? known.at : this.#cluster.kube.now().getTime();
    this.#since.set(name, { reason, at });
    return [{ labels: { reason }, value: at / 1_000 }];
  }
}

/** Nothing before the budget was seen. */
function setBudget(cluster: Cluster, series: Gauge, which: 'allowed' | 'out'): void {
  const { kube, nodes, maintenances, nodeBudgets } = cluster;
  const stored = nodeBudgets.get(NODE_BUDGET_NAME);
  if (stored === undefined) return;
  const all = maintenances.list();
  const { spec, status } = asItStands(stored, { turns: claimedTurns(all), now: kube.now().getTime() });
  const claims = status?.claims ?? [];
  const value =
    which === 'allowed'
      ? limitOf(spec.maxUnavailable, nodes.list().length)
      : outOfService({ nodes: nodes.list(), maintenances: all, claims }).size;
  series.set(value);
}
