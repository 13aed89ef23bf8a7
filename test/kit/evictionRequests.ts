import type { EvictionEnd } from '../../domain/evictionRequests/conditions.ts';
import { EvacuationController } from '../../controllers/evacuation/evacuation.ts';
import { DeploymentEvacuator } from '../../controllers/evacuation/evacuators/deployment.ts';
import { isRespondingTo } from '../../controllers/evictionRequests/responding.ts';
import { runEvictionRequestController } from '../../controllers/evictionRequests/run.ts';
import { EventRecorder } from '../../kube/events.ts';
import { silentLog, type TestCluster } from './cluster.ts';

interface Options {
  onEnd?: (end: EvictionEnd) => void;
}

/**
 * Starts the controllers of EvictionRequests and of Evacuations, which share the queues of budgets; the returned function ends them as a crash does:
 * only objects and their last Events remain.
 */
export function evictionRequestControllerOn(
  { cluster }: TestCluster,
  { onEnd }: Options = {},
): () => Promise<void> {
  const running = new AbortController();
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const evacuations = new EvacuationController({ cluster, events, log: silentLog });
  const deps = { cluster, events, log: silentLog };
  const deployments = new DeploymentEvacuator({ ...deps, isResponding: isRespondingTo(cluster.kube) });
  const requests = { ...deps, queue: evacuations.evictionQueue, deployments, onEnd };
  const ended = Promise.all([
    evacuations.run(running.signal),
    deployments.run(running.signal),
    runEvictionRequestController(requests, running.signal),
  ]);
  return async () => {
    running.abort();
    await ended;
    await events.flush();
  };
}
