import { Runtime, type Worker } from '@temporalio/worker';
import type { Logger } from 'pino';
import { createActivities } from '../activities/index.ts';
import { Component, IdentityAnnotation, leaseHolderOf, READINESS_TAINT, TASK_QUEUE } from '../api/names.ts';
import { runAbandonedLeasesController } from '../controllers/abandonedLeases.ts';
import { EvacuationController } from '../controllers/evacuation.ts';
import { runDeploymentEvacuator } from '../controllers/evacuators/deployment.ts';
import { runDaemonSetEvacuator } from '../controllers/evacuators/daemonSet.ts';
import { runMaintenanceController } from '../controllers/maintenance.ts';
import { runNodeBudgetController } from '../controllers/nodeBudget.ts';
import { runNodeConditionsController } from '../controllers/nodeConditions.ts';
import { runNodeLeasesController } from '../controllers/nodeLeases.ts';
import { runTurnOrdersController } from '../controllers/turnOrders.ts';
import { runWindowProgressController } from '../controllers/windowProgress.ts';
import { runWindowsController } from '../controllers/windows.ts';
import { runNodeReadinessController } from '../controllers/nodeReadiness.ts';
import { runReadinessPoliciesController } from '../controllers/readinessPolicies.ts';
import { readinessPatience } from '../domain/readiness.ts';
import { hasTaint } from '../domain/toleration.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import { type Cluster, type FencedCluster, watchCluster } from '../kube/cluster.ts';
import { EventRecorder } from '../kube/events.ts';
import { runWhenLeader } from '../kube/leaderElection.ts';
import type { Log } from '../kube/log.ts';
import { NodeLeases } from '../node-lease/nodeLeases.ts';
import { type ServedAdmission, startAdmission } from './admission.ts';
import type { Config } from './config.ts';
import { type Answer, freePort, serve } from './http.ts';
import { type IdentityLease, publishIdentity } from './identity.ts';
import { install, installationProblems, versionProblem } from './install.ts';
import { runtimeLogging, toLog } from './log.ts';
import { createMetrics, scraped } from './metrics.ts';
import { startNotices } from './notices.ts';
import { type Patience, patienceOf, untilItAnswers, type Waits } from './patience.ts';
import {
  connectTemporal,
  createWorker,
  type Temporal,
  type WorkerSettings,
  workerSettings,
} from './temporal.ts';

/** Events that are not written so long after the work has ended are given up. Milliseconds. */
const flushWithin = 5_000;

/** What the health endpoint reports, as far as the process has come. */
interface Parts extends Waits {
  cluster?: Cluster;
  admission?: ServedAdmission;
  worker?: Worker;
}

/**
 * Runs the whole worker until the signal: informers, the Temporal worker, and, on one worker of all, the control loops.
 * Throws an Error of one line for what waiting cannot mend.
 */
export async function runWorker(config: Config, logger: Logger, signal: AbortSignal): Promise<void> {
  const log = toLog(logger);
  const settings = workerSettings();
  const sdkMetrics = `127.0.0.1:${await freePort()}`;
  installRuntime(logger, sdkMetrics);
  const metrics = createMetrics();
  const parts: Parts = {};
  const health = await serve(
    { '/healthz': () => healthOf(parts), '/readyz': () => readinessOf(parts) },
    config.healthPort,
    '--health-port',
  );
  const prometheus = await serve(
    { '/metrics': () => scraped(metrics, sdkMetrics) },
    config.metricsPort,
    '--metrics-port',
  );
  log.info('Worker started', { health: health.port, metrics: prometheus.port });

  const kube = connectKube({ userAgent: 'node-maintenance', log, onRequest: metrics.onRequest });
  const patience = patienceOf(parts, log, signal);
  await prepareCluster(kube, config, patience);
  const identity = await publishWorker(kube, config.namespace, settings, patience);
  metrics.observeIdentity(identity);
  const temporal = await connectTemporal(settings, patience);
  const cluster = watchCluster({ kube, log });
  parts.cluster = cluster;
  metrics.observe(cluster);
  cluster.start(signal);
  await cluster.synced(signal);
  log.info('Cluster seen', { nodes: cluster.nodes.list().length, pods: cluster.pods.list().length });

  // Requests of its own: a drain that keeps the others busy must not keep the apiserver waiting for an answer.
  const admissionKube = connectKube({ userAgent: 'node-maintenance-admission', log, maxInFlight: 16 });
  const { nodes, maintenances } = cluster;
  const view = { kube: admissionKube, nodes, maintenances };
  const admission = await startAdmission(view, config, log, signal);
  parts.admission = admission;
  const events = new EventRecorder({ kube, component: 'node-maintenance', log });
  // They tell what was done: they may come after the work that is still to do.
  const podEvents = new EventRecorder({ kube, component: 'node-maintenance', log, perSecond: 5 });
  const holder = leaseHolderOf(config.namespace);
  const { nodeLeaseDurationSeconds: leaseDurationSeconds } = config;
  const leases = new NodeLeases({ kube, holder, leaseDurationSeconds });
  const { outbox, workers } = await startNotices({ kube, temporal, config, metrics, log });
  const { readinessGates: keepsGates } = config;
  const shared = { cluster, events, nodeEvents: podEvents, notices: outbox, leases, keepsGates, ...temporal };
  const worker = await createWorker(temporal, createActivities(shared));
  parts.worker = worker;
  try {
    await runUntil(signal, [worker, ...workers], async () => {
      await Promise.all([
        lead({ kube, cluster, events, podEvents, temporal, identity: identity.holder, config, log, signal }),
        admission.keep(),
      ]);
    });
  } finally {
    admission.close();
    await Promise.all([events.flush(flushWithin), podEvents.flush(flushWithin)]);
    await temporal.close();
    await Promise.all([kube.close(), admissionKube.close()]);
    for (const { server } of [health, prometheus]) server.close();
  }
}

/** Before the process does anything else, so that whoever acts is listed (KEP-1965 > Test Plan). */
function publishWorker(
  kube: Kube,
  namespace: string,
  settings: WorkerSettings,
  patience: Patience,
): Promise<IdentityLease> {
  const annotations = {
    [IdentityAnnotation.TemporalIdentity]: settings.identity,
    [IdentityAnnotation.TemporalNamespace]: settings.namespace,
    [IdentityAnnotation.TaskQueue]: TASK_QUEUE,
  };
  const { log } = patience;
  return publishIdentity({ kube, namespace, component: Component.Worker, annotations, log }, patience);
}

/** Runs the Temporal workers and the control loops together: when one ends, the others are stopped. */
async function runUntil(
  signal: AbortSignal,
  workers: readonly Worker[],
  loops: () => Promise<void>,
): Promise<void> {
  const shutdown = () => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  signal.addEventListener('abort', shutdown, { once: true });
  const running = workers.map((worker) => worker.run());
  if (signal.aborted) shutdown();
  await Promise.all([...running, loops().finally(shutdown)]);
}

interface Leading {
  kube: Kube;
  cluster: Cluster;
  events: EventRecorder;
  /** Of what happens to single pods. */
  podEvents: EventRecorder;
  temporal: Temporal;
  /** By which people find the process among the identity Leases. */
  identity: string;
  config: Config;
  log: Log;
  signal: AbortSignal;
}

async function lead({
  kube,
  cluster,
  events,
  podEvents,
  temporal,
  identity,
  config,
  log,
  signal,
}: Leading): Promise<void> {
  await runWhenLeader(
    { kube, name: 'node-maintenance-controllers', namespace: config.namespace, identity, log, signal },
    async (leading, fenced) => {
      log.info('Control loops started', { identity });
      const led = { ...cluster, kube: fenced };
      await Promise.all([
        runMaintenanceController({ cluster: led, temporal: temporal.client, log }, leading),
        new EvacuationController({ cluster: led, events: podEvents, log }).run(leading),
        runDeploymentEvacuator({ cluster: led, events: podEvents, log }, leading),
        runDaemonSetEvacuator({ cluster: led, log }, leading),
        runNodeConditionsController({ cluster: led, holder: leaseHolderOf(config.namespace), log }, leading),
        runNodeBudgetController({ cluster: led, log }, leading),
        runNodeLeasesController({ cluster: led, log }, leading),
        runAbandonedLeasesController({ cluster: led, events, log }, leading),
        keepReadiness({ cluster: led, config, events, log }, leading),
        runTurnOrdersController({ cluster: led, events, log }, leading),
        runWindowProgressController({ cluster: led, log }, leading),
        runWindowsController({ cluster: led, temporal: temporal.client, events, log }, leading),
      ]);
      log.info('Control loops stopped', { identity });
    },
  );
}

/** Opens and closes the readiness gates of nodes; switched off, it says what would wait in vain. */
async function keepReadiness(
  { cluster, config, events, log }: Pick<Leading, 'config' | 'events' | 'log'> & { cluster: FencedCluster },
  signal: AbortSignal,
): Promise<void> {
  if (!config.readinessGates) {
    warnOfClosedGates(cluster, log);
    return;
  }
  const patience = readinessPatience(config.readinessGraceSeconds * 1_000);
  await Promise.all([
    runNodeReadinessController({ cluster, patience, events, log }, signal),
    runReadinessPoliciesController({ cluster, log }, signal),
  ]);
}

function warnOfClosedGates({ nodes, readinesses, readinessPolicies }: FencedCluster, log: Log): void {
  const { key, effect } = READINESS_TAINT;
  const found = {
    policies: readinessPolicies.list().length,
    gatedNodes: readinesses.list().filter(({ spec }) => spec.readinessGates.length > 0).length,
    taintedNodes: nodes.list().filter((node) => hasTaint(node, READINESS_TAINT)).length,
  };
  if (Object.values(found).every((count) => count === 0)) return;
  log.warn(
    'Readiness gates are switched off, but nodes have some and wait in vain: delete the NodeReadinessPolicies and the gates, then the taints',
    { ...found, taint: `${key}:${effect}` },
  );
}

/** Waits for the Kubernetes API and for the installation, which it applies if it is told to. */
export async function prepareCluster(kube: Kube, config: Config, patience: Patience): Promise<void> {
  const { log, signal } = patience;
  // Refusals are waited out too: an apiserver that is starting refuses what it allows a moment later.
  const waiting = {
    what: 'the Kubernetes API',
    remedy: 'check KUBECONFIG and the apiserver',
    ...patience,
  };
  const version = await untilItAnswers(waiting, () => kube.serverVersion({ signal }));
  log.info('Kubernetes reached', { version });
  const needed = { what: 'Kubernetes 1.36 or later', remedy: 'upgrade the control plane' };
  await untilItAnswers({ ...waiting, ...needed }, async () => {
    const problem = await versionProblem(kube);
    if (problem !== undefined) throw new Error(problem);
  });
  if (config.install) await install(kube, log);
  const what = 'the installation';
  await untilItAnswers({ ...waiting, what, remedy: 'npm start -- --install applies it' }, async () => {
    const problems = await installationProblems(kube, config.namespace);
    if (problems.length > 0) throw new Error(problems.join('; '));
  });
}

function installRuntime(logger: Logger, sdkMetrics: string): void {
  const { logging, ...options } = runtimeLogging(logger);
  Runtime.install({
    ...options,
    // Signals are handled in worker/main.ts, which stops the control loops too.
    shutdownSignals: [],
    telemetryOptions: { logging, metrics: { prometheus: { bindAddress: sdkMetrics } } },
  });
}

function healthOf({ worker }: Parts): Answer {
  const failed = worker?.getState() === 'FAILED';
  return {
    status: failed ? 503 : 200,
    type: 'text/plain',
    body: failed ? 'the Temporal worker failed\n' : 'ok\n',
  };
}

function readinessOf({ waiting, cluster, admission, worker }: Parts): Answer {
  const state = worker?.getState() ?? 'not created yet';
  if (waiting !== undefined) return { status: 503, type: 'text/plain', body: `${waiting}\n` };
  if (cluster?.hasSynced() !== true)
    return { status: 503, type: 'text/plain', body: 'the cluster is not seen yet\n' };
  if (admission?.isServing() !== true)
    return { status: 503, type: 'text/plain', body: 'admission is not served yet\n' };
  const ready = state === 'RUNNING';
  return {
    status: ready ? 200 : 503,
    type: 'text/plain',
    body: ready ? 'ok\n' : `the Temporal worker is ${state}\n`,
  };
}
