import { admit } from './admit.ts';
import { MAINTENANCE_FINALIZER } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { Activities } from './contract.ts';
import { Cordons, keepCordoned } from './cordon.ts';
import type { Deps } from './deps.ts';
import { drain, keepDrained, rest } from './drain.ts';
import { removeEvacuations } from './evacuations.ts';
import { toFailure } from './failures.ts';
import { giveBackNodes } from './giveBack.ts';
import { NodeHolds, renewNodeLeases } from './nodeHolds.ts';
import { advanceTurn, authorizeOrder, closeWindow, openWindow } from './openWindow.ts';
import { beat } from './reconcile.ts';
import { rollOut } from './rollOut.ts';
import { beginStage, finish, recordPause, requestStage } from './stage.ts';

/** The activities of all workflows. Each may be run again at any moment, by another process. */
export function createActivities(given: Omit<Deps, 'cordons' | 'lastWrites' | 'holds'>): Activities {
  const holds = new NodeHolds(given);
  const cordons = new Cordons({ ...given, holds });
  const lastWrites = new Map<string, number>();
  given.cluster.maintenances.subscribe(({ type, object }) => {
    if (type !== 'Deleted' && !isOver(object)) return;
    const { uid = '' } = object.metadata;
    for (const memory of [holds, cordons]) memory.forget(uid);
    lastWrites.delete(uid);
  });
  const deps: Deps = { ...given, cordons, lastWrites, holds };
  return {
    admit: (request) => translated(admit(deps, request)),
    requestStage: (ref, to, orderedBy) => translated(requestStage(deps, ref, to, orderedBy)),
    recordPause: (ref, paused) => translated(recordPause(deps, ref, paused)),
    beginStage: (ref, stage) => translated(beginStage(deps, ref, stage)),
    renewNodeLeases: (ref) => translated(renewNodeLeases(deps, ref)),
    keepCordoned: (ref, stage) =>
      translated(stage === 'Drain' ? rest(deps, ref) : keepCordoned(deps, ref, stage)),
    drain: (ref, position) => translated(drain(deps, ref, position)),
    keepDrained: (ref) => translated(keepDrained(deps, ref)),
    removeEvacuations: (ref) => translated(removeEvacuations(deps, ref)),
    giveBackNodes: (ref) => translated(giveBackNodes(deps, ref)),
    finish: (ref) => translated(finish(deps, ref)),
    openWindow: (start) => translated(openWindow(deps, start)),
    rollOut: (ref, orders, seen) => translated(rollOut(deps, ref, orders, seen)),
    authorizeOrder: (ref, order) => translated(authorizeOrder(deps, ref, order)),
    advanceTurn: (ref, node) => translated(advanceTurn(deps, ref, node)),
    closeWindow: (ref, runId) => translated(closeWindow(deps, ref, runId)),
    noteUndelivered: (event, because) => translated(Promise.resolve(deps.notices.lost(event, because))),
  };
}

/** Whether nothing is left to do for it, whichever worker did it. */
function isOver({ metadata, spec }: Readonly<NodeMaintenance>): boolean {
  return spec.stage === 'Complete' && metadata.finalizers?.includes(MAINTENANCE_FINALIZER) !== true;
}

/** Heartbeats meanwhile: without them the server would learn of a worker's death only when the activity's time is over. */
async function translated<T>(work: Promise<T>): Promise<T> {
  const stopBeating = beat();
  try {
    return await work;
  } catch (error) {
    throw toFailure(error);
  } finally {
    stopBeating();
  }
}
