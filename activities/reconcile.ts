import { Context } from '@temporalio/activity';
import type { Pod } from '../api/core.ts';
import type { Cluster } from '../kube/cluster.ts';

/** How often the server hears from a lasting activity, and can tell it to stop. Milliseconds. */
const heartbeatEvery = 1_000;
/** Changes that come together are decided together. Milliseconds. */
const settleFor = 40;
/** Looked again at this often even when no change was seen. Milliseconds. */
const resyncEvery = 30_000;

/**
 * Runs `turn` now and after every change of nodes, maintenances, Evacuations and the pods of concern, until it resolves
 * with a result. Level-triggered: a change says "look again", never what to do. Heartbeats throughout, and ends at once
 * when the activity is cancelled.
 */
export async function reconcile<T>(
  cluster: Cluster,
  concerns: (pod: Pod) => boolean,
  turn: () => Promise<T | undefined>,
): Promise<T> {
  const context = Context.current();
  const beat = setInterval(() => context.heartbeat(), heartbeatEvery);
  const changes = collectChanges(cluster, concerns);
  try {
    for (;;) {
      changes.clear();
      const result = await turn();
      if (result !== undefined) return result;
      await Promise.race([changes.next(), context.cancelled]);
    }
  } finally {
    clearInterval(beat);
    changes.stop();
  }
}

/** Remembers whether anything of concern changed, so that a change during a turn is not missed. */
function collectChanges(cluster: Cluster, concerns: (pod: Pod) => boolean) {
  let changed = false;
  let wake: () => void = () => undefined;
  let timers: NodeJS.Timeout[] = [];
  const note = () => {
    if (changed) return;
    changed = true;
    wake();
  };
  const notePod = ({ object }: { object: Pod }) => {
    if (concerns(object)) note();
  };
  const unsubscribe = [
    cluster.nodes.subscribe(note),
    cluster.maintenances.subscribe(note),
    cluster.evacuations.subscribe(note),
    cluster.pods.subscribe(notePod),
  ];
  const clearTimers = () => {
    for (const timer of timers) clearTimeout(timer);
    timers = [];
  };
  return {
    clear: () => {
      changed = false;
    },
    next: () =>
      new Promise<void>((resolve) => {
        const settle = () => timers.push(setTimeout(resolve, settleFor));
        wake = settle;
        timers.push(setTimeout(resolve, resyncEvery));
        if (changed) settle();
      }).finally(clearTimers),
    stop: () => {
      clearTimers();
      for (const stop of unsubscribe) stop();
    },
  };
}
