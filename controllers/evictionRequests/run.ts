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
import { type EvictionView, startWhenServed } from './evictionView.ts';
import { ImperativeResponder } from './imperativeResponder.ts';
import { OtherControllers } from './otherControllers.ts';

interface Deps {
  readonly cluster: FencedCluster;
  /** Started here. */
  readonly view: EvictionView;
  readonly runsController: boolean;
  /** The queue of the controller of Evacuations. */
  readonly queue: EvictionQueue;
  /** Undefined if another controller evacuates pods of Deployments. */
  readonly deployments: DeploymentEvacuator | undefined;
  /** Interval in which the responder of DaemonSets reads the maintenances of a node; 5 s unless given. */
  readonly daemonSetIntervalMs?: number;
  /** Recorder for Events about single pods. */
  readonly events: EventRecorder;
  readonly log: Log;
  readonly onEnd?: ((end: EvictionEnd) => void) | undefined;
}

/**
 * Runs the responders of this project, and with `runsController` also the controller of EvictionRequests and the imperative responder, from when the
 * apiserver serves lifecycle.k8s.io.
 */
export async function runEvictionRequests(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, view, log, runsController } = deps;
  const informers = runsController ? [view.requests, view.evictions] : [view.evictions];
  try {
    await startWhenServed(informers, { kube: cluster.kube, log, signal });
  } catch (error) {
    if (signal.aborted) return;
    throw error;
  }
  log.info('EvictionRequests are served', { evictions: view.evictions.size, requests: view.requests.size });
  await Promise.all([runsController ? runController(deps, signal) : undefined, runResponders(deps, signal)]);
}

async function runController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, view, events, log } = deps;
  const startedAt = cluster.kube.now();
  const others = new OtherControllers({ view, events, log, sinceMs: startedAt.getTime() });
  const stop = others.start();
  try {
    await Promise.all([
      new EvictionRequestController({ ...deps, others, startedAt }).run(signal),
      new ImperativeResponder({ ...deps, others }).run(signal),
    ]);
  } finally {
    stop();
  }
}

/** They belong to no controller: they respond to the Evictions of any. */
async function runResponders(
  { cluster, view, deployments, daemonSetIntervalMs: intervalMs, log }: Deps,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all([
    runDaemonSetResponder({ cluster, view, log, intervalMs }, signal),
    deployments &&
      new Responder({
        responderName: DEPLOYMENT_RESPONDER,
        evacuate: deployments.evacuate,
        view: { ...cluster, evictions: view.evictions },
        log,
        maxConcurrent: maxConcurrentReplacements,
      }).run(signal),
  ]);
}
