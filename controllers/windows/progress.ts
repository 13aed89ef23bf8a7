import { isDeepStrictEqual } from 'node:util';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { FIELD_MANAGER, WINDOW_LABEL } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { needsReboot } from '../../domain/reboot/nodeReboot.ts';
import { nodeOutcomeOf } from '../../domain/windows/nodeOutcome.ts';
import { progressWhileClosed } from '../../domain/windows/progress.ts';
import { windowMaintenancesOf } from '../../domain/windows/windowMaintenance.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { ignoreNotFound } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';

const workers = 2;
/** Nodes may have been added or removed. */
const resyncMs = 60_000;
/** Delay, so that many NodeMaintenances that change at once need one write. */
const debounceMs = 1_000;

/**
 * Keeps the progress of closed windows up to date, so that a failure that a user has resolved disappears before the next opening.
 * The workflow of an open window does that itself.
 */
export async function runWindowProgressController(
  { cluster, log }: { cluster: FencedCluster; log: Log },
  signal: AbortSignal,
): Promise<void> {
  const { windows, maintenances, nodes } = cluster;
  const queue = new WorkQueue('window-progress');
  const unsubscribe = [
    windows.subscribe(({ object }) => {
      if (hasProgressToKeep(object)) queue.addAfter(object.metadata.name, debounceMs);
    }),
    nodes.subscribe((change) => {
      const before = change.type === 'Updated' && needsReboot(change.previous);
      if (before === needsReboot(change.object)) return;
      for (const { metadata, spec } of windows.list())
        if (spec.work.type === 'Reboot') queue.addAfter(metadata.name, debounceMs);
    }),
    maintenances.subscribe((change) => {
      const window = change.object.metadata.labels?.[WINDOW_LABEL];
      const isSame = change.type === 'Updated' && hasSameOutcome(change.previous, change.object);
      if (window !== undefined && !isSame) queue.addAfter(window, debounceMs);
    }),
  ];
  for (const { metadata } of windows.list()) queue.add(metadata.name);
  try {
    await queue.run({
      workers,
      reconcile: (name) => reconcile(cluster, name),
      fieldsOf: (name) => ({ window: name }),
      signal,
      log,
      observer: cluster.queues,
    });
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

/** A window that reboots nodes shows which of them need a reboot before it opens for the first time. */
function hasProgressToKeep({ metadata, spec, status }: Readonly<MaintenanceWindow>): boolean {
  const hasProgress = status?.progress !== undefined || spec.work.type === 'Reboot';
  return metadata.deletionTimestamp === undefined && status?.active === undefined && hasProgress;
}

function hasSameOutcome(before: NodeMaintenance, after: NodeMaintenance): boolean {
  return isDeepStrictEqual(nodeOutcomeOf(before), nodeOutcomeOf(after));
}

async function reconcile(cluster: FencedCluster, name: string): Promise<Requeue | void> {
  const window = cluster.windows.get(name);
  if (window === undefined || !hasProgressToKeep(window)) return undefined;
  const maintenances = windowMaintenancesOf(name, cluster.maintenances.list());
  const progress = progressWhileClosed(window, { nodes: cluster.nodes.list(), maintenances });
  if (isDeepStrictEqual(progress, window.status?.progress)) return { requeueAfterMs: resyncMs };
  // Only for this version of the window: a workflow that has opened it since has newer information.
  const { uid, resourceVersion } = window.metadata;
  // A merge patch removes a field only if it is null.
  const removed = Object.fromEntries(Object.keys(window.status?.progress ?? {}).map((key) => [key, null]));
  const body = { metadata: { uid, resourceVersion }, status: { progress: { ...removed, ...progress } } };
  const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
  await cluster.kube.mergePatch(resources.maintenanceWindows, { name }, body, options).catch(ignoreNotFound);
  return { requeueAfterMs: resyncMs };
}
