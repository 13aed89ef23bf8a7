import { isDeepStrictEqual } from 'node:util';
import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import { FIELD_MANAGER, WINDOW_LABEL } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { claimedTurns } from '../api/windowTurn.ts';
import { compareNames } from '../domain/names.ts';
import { progressWhileClosed, standingOf } from '../domain/windowProgress.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import { ignoreIfOutdated } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { type Requeue, WorkQueue } from '../kube/workQueue.ts';

const workers = 2;
/** Nodes may have come or gone. Milliseconds. */
const checkEvery = 60_000;
/** Of many turns that change at once. Milliseconds. */
const lookAfter = 1_000;

/**
 * Keeps the progress of windows true that have been open and are closed, so that a failure that somebody has dealt with is not shown
 * until the next opening: turns -> object. While a window is open its run does.
 */
export async function runWindowProgressController(
  { cluster, log }: { cluster: FencedCluster; log: Log },
  signal: AbortSignal,
): Promise<void> {
  const { windows, maintenances } = cluster;
  const queue = new WorkQueue();
  const unsubscribe = [
    windows.subscribe(({ object }) => {
      if (isToKeep(object)) queue.addAfter(object.metadata.name, lookAfter);
    }),
    maintenances.subscribe((change) => {
      const window = change.object.metadata.labels?.[WINDOW_LABEL];
      const isSame = change.type === 'Updated' && standsTheSame(change.previous, change.object);
      if (window !== undefined && !isSame) queue.addAfter(window, lookAfter);
    }),
  ];
  for (const { metadata } of windows.list()) queue.add(metadata.name);
  try {
    await queue.run({ workers, reconcile: (name) => keep(cluster, name), signal, log });
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

function isToKeep({ metadata, status }: Readonly<MaintenanceWindow>): boolean {
  return (
    metadata.deletionTimestamp === undefined && status?.active === undefined && status?.progress !== undefined
  );
}

function standsTheSame(before: NodeMaintenance, after: NodeMaintenance): boolean {
  return isDeepStrictEqual(standingOf(before), standingOf(after));
}

async function keep(cluster: FencedCluster, name: string): Promise<Requeue | void> {
  const window = cluster.windows.get(name);
  if (window === undefined || !isToKeep(window)) return undefined;
  const turns = claimedTurns(cluster.maintenances.list())
    .filter(({ window: own }) => own === name)
    .toSorted((a, b) => compareNames(a.maintenance.metadata.name, b.maintenance.metadata.name));
  const progress = progressWhileClosed(window, { nodes: cluster.nodes.list(), turns });
  if (isDeepStrictEqual(progress, window.status?.progress)) return { requeueAfterMs: checkEvery };
  // This very version: a run that opens the window meanwhile knows better.
  const { uid, resourceVersion } = window.metadata;
  const body = { metadata: { uid, resourceVersion }, status: { progress } };
  const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
  await cluster.kube
    .mergePatch(resources.maintenanceWindows, { name }, body, options)
    .catch(ignoreIfOutdated);
  return { requeueAfterMs: checkEvery };
}
