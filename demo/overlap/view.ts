import type { Cluster } from '../../kube/cluster.ts';
import type { Screen } from '../../cli/terminal/screen.ts';
import { kepMaintenances } from './fixtures.ts';
import { linesOf } from './published.ts';
import { drawTables } from './tables.ts';

/**
 * Shows the status of all maintenances while a function runs. In a terminal it redraws a dashboard; in a pipe it prints a line for
 * every new message or drain target of a node.
 */
export type ShowWhile = <T>(work: () => Promise<T>) => Promise<T>;

/** Time between two drawings of the dashboard, so that its clock runs. */
const redrawIntervalMs = 200;

export function publishedView(screen: Screen, cluster: Cluster): ShowWhile {
  const startedAtMs = performance.now();
  const clock = () => `${((performance.now() - startedAtMs) / 1000).toFixed(1).padStart(5)} s`;
  const start = screen.isLive ? () => redraw(screen, cluster, clock) : printChanges(screen, cluster, clock);
  return async (work) => {
    const stop = start();
    try {
      return await work();
    } finally {
      stop();
      screen.clear();
    }
  };
}

function redraw(screen: Screen, { maintenances }: Cluster, clock: () => string): () => void {
  const { colors, draw, width } = screen;
  const timer = setInterval(() => {
    const tables = drawTables(kepMaintenances, (name) => maintenances.get(name), { colors, width: width() });
    draw(['', colors.dim(`   ${clock()}`), ...tables]);
  }, redrawIntervalMs);
  return () => clearInterval(timer);
}

function printChanges({ print }: Screen, { maintenances }: Cluster, clock: () => string): () => () => void {
  const printed = new Map<string, string>();
  const update = () => {
    for (const kepMaintenance of kepMaintenances) {
      for (const { node, drainMessage, drainTargets } of linesOf(
        kepMaintenance,
        maintenances.get(kepMaintenance.name),
      )) {
        const where = `${kepMaintenance.name} on ${node}`;
        const text = `${drainMessage} [${drainTargets}]`;
        // A node has no message before the first decision.
        if (drainMessage === '' || printed.get(where) === text) continue;
        printed.set(where, text);
        print(`   ${clock()}  ${where}: ${text}`);
      }
    }
  };
  return () => maintenances.subscribe(update);
}
