import { MAINTENANCE_FINALIZER } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { Activities } from './contract.ts';
import type { Deps } from './deps.ts';
import { Capacity } from './drain/capacity.ts';
import { drain, keepDrained, keepPaused } from './drain/drain.ts';
import { removeEvacuations } from './drain/evacuations.ts';
import { ServingMonitor } from './drain/servingMonitor.ts';
import { checkedMaintenance, checkedWindow } from './execution.ts';
import { toFailure } from './failures.ts';
import { Heartbeats } from './heartbeats.ts';
import type { InjectedDeps } from './injectedDeps.ts';
import { NodeAgents } from './leases/nodeAgents.ts';
import { NodeAuthority } from './leases/nodeAuthority.ts';
import { NodeLeaseRegistry } from './leases/nodeLeaseRegistry.ts';
import { admit } from './maintenance/admit.ts';
import { keepCordoned } from './maintenance/cordon.ts';
import { Cordons } from './maintenance/cordons.ts';
import { escalate } from './maintenance/escalation.ts';
import { finish, recordPause, requestStage, startStage } from './maintenance/stage.ts';
import { SharedRead } from './maintenance/sharedRead.ts';
import { readHeldNodes } from './maintenance/heldNodes.ts';
import { uncordonNodes } from './maintenance/uncordon.ts';
import { recordDropped } from './notifications/notifications.ts';
import { closeWindow } from './windows/closeWindow.ts';
import { openWindow } from './windows/openWindow.ts';
import { advanceNode, authorizeRequest } from './windows/requests.ts';
import { rollOut } from './windows/rollout.ts';

/**
 * Creates the activities of all workflows. Each is idempotent: another process may run it again at any time. Each trusts only the object, not
 * its arguments (activities/execution.ts).
 */
export function createActivities(injected: InjectedDeps): Activities {
  const deps = withProcessState(injected);
  const heartbeats = new Heartbeats();
  const run = <T>(work: () => Promise<T>) => withHeartbeats(heartbeats, work);
  const maintenanceOf = (ref: unknown) => checkedMaintenance(deps.scope, ref);
  const windowOf = (ref: unknown) => checkedWindow(deps.scope, ref);
  return {
    admit: (request) => run(() => admit(deps, request)),
    requestStage: (ref, to, requestedBy) =>
      run(() => requestStage(deps, maintenanceOf(ref), to, requestedBy)),
    recordPause: (ref, paused) => run(() => recordPause(deps, maintenanceOf(ref), paused)),
    startStage: (ref, stage) => run(() => startStage(deps, maintenanceOf(ref), stage)),
    keepCordoned: (ref, stage) =>
      run(() =>
        stage === 'Drain' ? keepPaused(deps, maintenanceOf(ref)) : keepCordoned(deps, maintenanceOf(ref)),
      ),
    drain: (ref, position, pace) => run(() => drain(deps, maintenanceOf(ref), position, pace)),
    keepDrained: (ref) => run(() => keepDrained(deps, maintenanceOf(ref))),
    escalate: (ref, recorded) => run(() => escalate(deps, maintenanceOf(ref), recorded)),
    removeEvacuations: (ref) => run(() => removeEvacuations(deps, maintenanceOf(ref))),
    uncordonNodes: (ref, pace) => run(() => uncordonNodes(deps, maintenanceOf(ref), pace)),
    finish: (ref) => run(() => finish(deps, maintenanceOf(ref))),
    openWindow: (start) => run(() => openWindow(deps, start)),
    rollOut: (ref, requests, previous) => run(() => rollOut(deps, windowOf(ref), requests, previous)),
    authorizeRequest: (ref, request) => run(() => authorizeRequest(deps, windowOf(ref), request)),
    advanceNode: (ref, node) => run(() => advanceNode(deps, windowOf(ref), node)),
    closeWindow: (ref, runId) => run(() => closeWindow(deps, windowOf(ref), runId)),
    recordDropped: (event, reason) => run(() => Promise.resolve(recordDropped(deps, event, reason))),
  };
}

function withProcessState(injected: InjectedDeps): Deps {
  const authority = new NodeAuthority(injected);
  const nodeLeases = new NodeLeaseRegistry(injected);
  const cordons = new Cordons({ ...injected, nodeLeases });
  const heldNodes = new SharedRead(() => readHeldNodes(injected.cluster.kube));
  const nodeAgents = new NodeAgents(injected.cluster.kube, injected.resyncMs);
  const capacity = new Capacity(injected);
  const serving = new ServingMonitor(injected);
  const lastStatusWrites = new Map<string, number>();
  injected.cluster.nodes.subscribe(({ type, object }) => {
    if (type === 'Deleted') nodeAgents.forget(object.metadata.name);
  });
  injected.cluster.maintenances.subscribe(({ type, object }) => {
    if (type !== 'Deleted' && !isReleased(object)) return;
    const { uid = '' } = object.metadata;
    authority.forget(uid);
    nodeLeases.forget(uid);
    cordons.forget(uid);
    lastStatusWrites.delete(uid);
  });
  return {
    ...injected,
    authority,
    capacity,
    cordons,
    heldNodes,
    nodeAgents,
    nodeLeases,
    serving,
    lastStatusWrites,
  };
}

/** Returns true if no worker has anything left to do for the maintenance. */
function isReleased({ metadata, spec }: Readonly<NodeMaintenance>): boolean {
  return spec.stage === 'Complete' && metadata.finalizers?.includes(MAINTENANCE_FINALIZER) !== true;
}

/** Sends heartbeats and converts errors. Without heartbeats the server would notice a dead worker only at the activity's timeout. */
async function withHeartbeats<T>(heartbeats: Heartbeats, work: () => Promise<T>): Promise<T> {
  const stopHeartbeat = heartbeats.start();
  try {
    return await work();
  } catch (error) {
    throw toFailure(error);
  } finally {
    stopHeartbeat();
  }
}
