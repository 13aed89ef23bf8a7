import type { EvictionEnd } from '../../domain/evictionRequests/conditions.ts';
import { EvacuationController } from '../../controllers/evacuation/evacuation.ts';
import { DeploymentEvacuator } from '../../controllers/evacuation/evacuators/deployment.ts';
import { evictionViewOf } from '../../controllers/evictionRequests/evictionView.ts';
import { isRespondingTo } from '../../controllers/evictionRequests/responding.ts';
import { runEvictionRequests } from '../../controllers/evictionRequests/run.ts';
import { EventRecorder } from '../../kube/events.ts';
import { silentLog, type TestCluster } from './cluster.ts';

/** Short, so that a test sees each look that it waits for. */
const intervals = { respondingIntervalMs: 500, adoptionBackOff: { firstMs: 500, capMs: 500 } };
const daemonSetIntervalMs = 500;

interface Options {
  /** False: only the responders of Deployments and DaemonSets run. */
  runsController?: boolean;
  onEnd?: (end: EvictionEnd) => void;
}

/**
 * Starts the controllers of EvictionRequests and of Evacuations, which share the queues of budgets; the returned function ends them as a crash does:
 * only objects and their last Events remain.
 */
export function evictionRequestControllerOn(
  { cluster }: TestCluster,
  { runsController = true, onEnd }: Options = {},
): () => Promise<void> {
  const running = new AbortController();
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const evacuations = new EvacuationController({ cluster, events, log: silentLog });
  const deps = { cluster, events, log: silentLog };
  const view = evictionViewOf({ kube: cluster.kube, log: silentLog });
  const isResponding = isRespondingTo(cluster.kube, view.evictions);
  const deployments = new DeploymentEvacuator({ ...deps, ...intervals, isResponding });
  const queue = evacuations.evictionQueue;
  const requests = { ...deps, view, runsController, queue, deployments, daemonSetIntervalMs, onEnd };
  const ended = Promise.all([
    evacuations.run(running.signal),
    deployments.run(running.signal),
    runEvictionRequests(requests, running.signal),
  ]);
  return async () => {
    running.abort();
    await ended;
    await events.flush();
  };
}
