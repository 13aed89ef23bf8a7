import type { Cluster } from '../../kube/cluster.ts';
import type { Screen } from '../../cli/screen.ts';
import { actors } from './cast.ts';
import { linesOf } from './published.ts';
import { drawTables } from './tables.ts';

/**
 * Shows what all maintenances publish for as long as something goes on: in a terminal as a block that is drawn anew, in
 * a pipe as a line for every new message or target of a node.
 */
export type During = <T>(work: () => Promise<T>) => Promise<T>;

/** Milliseconds between two drawings of the block, so that its clock runs. */
const drawEvery = 200;

export function publishedView(screen: Screen, cluster: Cluster): During {
  const began = performance.now();
  const clock = () => `${((performance.now() - began) / 1000).toFixed(1).padStart(5)} s`;
  const begin = screen.isLive ? () => drawAgain(screen, cluster, clock) : sayChanges(screen, cluster, clock);
  return async (work) => {
    const end = begin();
    try {
      return await work();
    } finally {
      end();
      screen.clear();
    }
  };
}

function drawAgain(screen: Screen, { maintenances }: Cluster, clock: () => string): () => void {
  const { colors, draw, width } = screen;
  const timer = setInterval(() => {
    const tables = drawTables(actors, (name) => maintenances.get(name), { colors, width: width() });
    draw(['', colors.dim(`   ${clock()}`), ...tables]);
  }, drawEvery);
  return () => clearInterval(timer);
}

function sayChanges({ say }: Screen, { maintenances }: Cluster, clock: () => string): () => () => void {
  const said = new Map<string, string>();
  const look = () => {
    for (const actor of actors) {
      for (const { node, drainMessage, drainTargets } of linesOf(actor, maintenances.get(actor.name))) {
        const where = `${actor.name} on ${node}`;
        const text = `${drainMessage} [${drainTargets}]`;
        // Before the first decision a node has neither.
        if (drainMessage === '' || said.get(where) === text) continue;
        said.set(where, text);
        say(`   ${clock()}  ${where}: ${text}`);
      }
    }
  };
  return () => maintenances.subscribe(look);
}
