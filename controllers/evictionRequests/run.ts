import type { EvictionEnd } from '../../domain/evictionRequests/conditions.ts';
import { DEPLOYMENT_RESPONDER } from '../../api/names.ts';
import { Responder } from '../../evacuator-kit/responder.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { type DeploymentEvacuator, maxConcurrentReplacements } from '../evacuation/evacuators/deployment.ts';
import type { EvictionQueue } from '../evacuation/evictionQueue.ts';
import { runDaemonSetResponder } from './daemonSetResponder.ts';
import { EvictionRequestController } from './evictionRequests.ts';
import { watchEvictionRequests } from './evictionView.ts';
import { ImperativeResponder } from './imperativeResponder.ts';
import { OtherControllers } from './otherControllers.ts';

interface Deps {
  readonly cluster: FencedCluster;
  /** The queue of the controller of Evacuations. */
  readonly queue: EvictionQueue;
  /** Undefined if another controller evacuates pods of Deployments. */
  readonly deployments: DeploymentEvacuator | undefined;
  /** Recorder for Events about single pods. */
  readonly events: EventRecorder;
  readonly log: Log;
  readonly onEnd?: ((end: EvictionEnd) => void) | undefined;
}

/** Runs the controller of EvictionRequests and the responders of this project, from when the apiserver serves lifecycle.k8s.io. */
export async function runEvictionRequestController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, deployments, events, log } = deps;
  const view = await watchEvictionRequests({ kube: cluster.kube, log, signal }).catch((error: unknown) => {
    if (signal.aborted) return undefined;
    throw error;
  });
  if (view === undefined) return;
  const startedAt = cluster.kube.now();
  const others = new OtherControllers({ view, events, log, sinceMs: startedAt.getTime() });
  const stop = others.start();
  log.info('EvictionRequests are served', { evictions: view.evictions.size, requests: view.requests.size });
  try {
    await Promise.all([
      new EvictionRequestController({ ...deps, view, others, startedAt }).run(signal),
      new ImperativeResponder({ ...deps, view, others }).run(signal),
      runDaemonSetResponder({ cluster, view, log }, signal),
      deployments &&
        new Responder({
          responderName: DEPLOYMENT_RESPONDER,
          evacuate: deployments.evacuate,
          view: { ...cluster, evictions: view.evictions },
          log,
          maxConcurrent: maxConcurrentReplacements,
        }).run(signal),
    ]);
  } finally {
    stop();
  }
}
