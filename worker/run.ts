import { Runtime, type Worker } from '@temporalio/worker';
import type { Logger } from 'pino';
import { createActivities } from '../activities/index.ts';
import {
  type ClusterScope,
  Component,
  IdentityAnnotation,
  leaseHolderOf,
  READINESS_TAINT,
} from '../api/names.ts';
import { runAbandonedLeasesController } from '../controllers/leases/abandonedLeases.ts';
import { EvacuationController } from '../controllers/evacuation/evacuation.ts';
import { runDeploymentEvacuator } from '../controllers/evacuation/evacuators/deployment.ts';
import { runDaemonSetEvacuator } from '../controllers/evacuation/evacuators/daemonSet.ts';
import { runMaintenanceController } from '../controllers/maintenance/maintenance.ts';
import { runNodeDisruptionBudgetController } from '../controllers/windows/nodeDisruptionBudget.ts';
import { runNodeConditionsController } from '../controllers/maintenance/nodeConditions.ts';
import { runNodeLeasesController } from '../controllers/leases/nodeLeases.ts';
import { runAdvanceController } from '../controllers/windows/advanceAnnotation.ts';
import { runWindowProgressController } from '../controllers/windows/progress.ts';
import { runWindowRequestController } from '../controllers/windows/requestAnnotations.ts';
import { runWindowsController } from '../controllers/windows/windows.ts';
import { runNodeReadinessController } from '../controllers/readiness/nodeReadiness.ts';
import { runReadinessPoliciesController } from '../controllers/readiness/readinessPolicies.ts';
import { defaultReviewTiming, reviewsDue } from '../domain/common/permissionReviews.ts';
import { readinessTiming } from '../domain/readiness/gates.ts';
import { hasTaint } from '../domain/common/toleration.ts';
import type { Answer } from '../http/server.ts';
import { mayDeleteNode, mayGateNode } from '../kube/authorization.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import { type Cluster, type FencedCluster, watchCluster } from '../kube/cluster.ts';
import { EventRecorder } from '../kube/events.ts';
import { type JobPermission, jobPermission } from '../kube/jobPermission.ts';
import { runWhenLeader } from '../kube/leaderElection.ts';
import type { Log } from '../kube/log.ts';
import { NodePermissions, type ReviewRules } from '../kube/nodePermissions.ts';
import { NodeLeases } from '../node-lease/nodeLeases.ts';
import { type ServedAdmission, startAdmission } from './admission.ts';
import { claimNames, keepClaim, readScope } from './clusterClaim.ts';
import type { Config } from './config.ts';
import { freePort, serve } from './http.ts';
import { type IdentityLease, publishIdentity } from './identity.ts';
import { runtimeLogging, toLog } from './log.ts';
import { createMetrics, type Metrics, metricsAnswer } from './metrics/metrics.ts';
import { startNotifications } from './notifications/notifications.ts';
import { checkWebhooks, prepareCluster } from './prepare.ts';
import { type StartupState, type WaitOptions, waitOptionsOf } from './startupRetry.ts';
import {
  connectTemporal,
  createWorker,
  type Temporal,
  type WorkerSettings,
  workerSettings,
} from './temporal.ts';
import { setCurrentVersion } from './workerDeployment.ts';

/** Events that are not written this long after the work has ended are lost. */
const flushTimeoutMs = 5_000;

/** State of the process, for the health endpoints. */
interface State extends StartupState {
  needsAdmission: boolean;
  cluster?: Cluster;
  admission?: ServedAdmission;
  worker?: Worker;
}

/**
 * Runs the worker until the signal aborts: informers, the Temporal worker and, on the leader, the control loops. Throws an Error of
 * one line for a problem that waiting does not solve.
 */
export async function runWorker(config: Config, logger: Logger, signal: AbortSignal): Promise<void> {
  const log = toLog(logger);
  const settings = workerSettings();
  const sdkMetricsAddress = `127.0.0.1:${await freePort()}`;
  installRuntime(logger, sdkMetricsAddress);
  const metrics = createMetrics();
  const state: State = { needsAdmission: config.components.has('admission') };
  const pages = {
    healthz: () => healthOf(state),
    readyz: () => readinessOf(state),
    metrics: () => metricsAnswer(metrics, sdkMetricsAddress),
  };
  const listening = await serve(pages, config, { log, onRejection: metrics.onRejection });
  log.info('Worker started', listening.ports);

  const kube = connectKube({ userAgent: 'node-maintenance', log, onRequest: metrics.onRequest });
  const wait = waitOptionsOf(state, log, signal);
  await prepareCluster(kube, { config, component: Component.Worker }, wait);
  const scope = await readScope(kube, config.cluster, wait);
  const identity = await publishWorker(kube, { ...settings, config, scope }, wait);
  metrics.observeIdentity(identity);
  const temporal = await connectTemporal(settings, wait);
  await claimNames(temporal, scope, wait);
  const cluster = watchCluster({ kube, log });
  state.cluster = cluster;
  metrics.observe(cluster);
  cluster.start(signal);
  await cluster.synced(signal);
  log.info('Informers synced', { nodes: cluster.nodes.list().length, pods: cluster.pods.list().length });
  try {
    await runSynced({ config, log, signal, state, metrics, kube, cluster, temporal, scope, identity });
  } finally {
    await temporal.close();
    await kube.close();
    listening.close();
  }
}

interface SyncedOptions {
  config: Config;
  log: Log;
  signal: AbortSignal;
  state: State;
  metrics: Metrics;
  kube: Kube;
  cluster: Cluster;
  temporal: Temporal;
  scope: ClusterScope;
  identity: IdentityLease;
}

/** Runs admission, the Temporal workers and the control loops, once the informers have synced. */
async function runSynced(options: SyncedOptions): Promise<void> {
  const { config, log, signal, state, metrics, kube, cluster, temporal, scope, identity } = options;
  const admission = config.components.has('admission') ? await serveAdmission(options) : undefined;
  const events = new EventRecorder({ kube, component: 'node-maintenance', log });
  // Rate-limited, because they only report what was done: work takes precedence.
  const podEvents = new EventRecorder({ kube, component: 'node-maintenance', log, perSecond: 5 });
  const { outbox, workers } = await startNotifications({ temporal, scope, config, metrics, log });
  const mayRunJobs = jobPermission(kube);
  const activities = createActivities({
    cluster,
    scope,
    events,
    mayRunJobs,
    permissions: nodePermissions(kube, mayDeleteNode),
    nodeEvents: podEvents,
    notifications: outbox,
    leases: nodeLeases(kube, config),
    readinessGatesEnabled: config.readinessGates,
    ...temporal,
  });
  const worker = await createWorker(temporal, scope, activities, config);
  state.worker = worker;
  try {
    await runUntil(signal, [worker, ...workers], async () => {
      await Promise.all([
        lead({
          kube,
          cluster,
          events,
          podEvents,
          mayRunJobs,
          temporal,
          scope,
          identity: identity.holder,
          config,
          log,
          signal,
        }),
        keepClaim(temporal, scope, { log, signal }),
        admission?.maintainRegistration(),
      ]);
    });
  } finally {
    await Promise.all([events.flush(flushTimeoutMs), podEvents.flush(flushTimeoutMs), admission?.close()]);
  }
}

/** Serves admission from the informers of the controllers. */
async function serveAdmission({
  config,
  log,
  signal,
  state,
  metrics,
  cluster,
}: SyncedOptions): Promise<Pick<ServedAdmission, 'maintainRegistration'> & { close(): Promise<void> }> {
  // A client of its own: the requests of a drain must not delay the answers to the apiserver.
  const userAgent = 'node-maintenance-admission';
  const kube = connectKube({ kubeconfig: config.admissionKubeconfig, userAgent, log, maxInFlight: 16 });
  await checkWebhooks(kube, config.namespace, waitOptionsOf(state, log, signal));
  const { nodes, maintenances } = cluster;
  const { onRejection } = metrics;
  const admission = await startAdmission({ kube, nodes, maintenances }, config, { log, onRejection }, signal);
  state.admission = admission;
  return {
    maintainRegistration: () => admission.maintainRegistration(),
    close: async () => {
      admission.close();
      await kube.close();
    },
  };
}

function nodePermissions(kube: Kube, may: ReviewRules['may']): NodePermissions {
  const { validMs } = defaultReviewTiming;
  const isDue: ReviewRules['isDue'] = (nodes, answers, now) =>
    reviewsDue(nodes, answers, defaultReviewTiming, now);
  return new NodePermissions(kube, { may, validMs, isDue });
}

function nodeLeases(kube: Kube, config: Config): NodeLeases {
  const holder = leaseHolderOf(config.namespace);
  return new NodeLeases({ kube, holder, leaseDurationSeconds: config.nodeLeaseDurationSeconds });
}

/** Publishes the identity Lease before the process does anything else, so that every active process is listed (KEP-1965 > Test Plan). */
function publishWorker(
  kube: Kube,
  { config, scope, ...settings }: WorkerSettings & { config: Config; scope: ClusterScope },
  wait: WaitOptions,
): Promise<IdentityLease> {
  const annotations = {
    [IdentityAnnotation.TemporalIdentity]: settings.identity,
    [IdentityAnnotation.TemporalNamespace]: settings.namespace,
    [IdentityAnnotation.TaskQueue]: scope.names.taskQueue,
  };
  const { log } = wait;
  const { namespace } = config;
  return publishIdentity({ kube, namespace, component: Component.Worker, annotations, log }, wait);
}

/** Runs the Temporal workers and the control loops; when one of them ends, stops the others. */
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

interface LeaderOptions {
  kube: Kube;
  cluster: Cluster;
  events: EventRecorder;
  /** Records Events of single pods and nodes. */
  podEvents: EventRecorder;
  mayRunJobs: JobPermission;
  temporal: Temporal;
  scope: ClusterScope;
  /** Identity of the process in the identity Leases. */
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
  mayRunJobs,
  temporal,
  scope,
  identity,
  config,
  log,
  signal,
}: LeaderOptions): Promise<void> {
  await runWhenLeader(
    { kube, name: 'node-maintenance-controllers', namespace: config.namespace, identity, log, signal },
    async (leading, fenced) => {
      log.info('Control loops started', { identity });
      const fencedCluster = { ...cluster, kube: fenced };
      await Promise.all([
        setCurrentVersion(temporal, config.workerDeployment, { log, signal: leading }),
        runMaintenanceController(
          { cluster: fencedCluster, temporal: temporal.client, scope, events, log },
          leading,
        ),
        new EvacuationController({
          cluster: fencedCluster,
          events: podEvents,
          log,
          evacuators: config.evacuators,
        }).run(leading),
        runDeploymentEvacuator({ cluster: fencedCluster, events: podEvents, log }, leading),
        runDaemonSetEvacuator({ cluster: fencedCluster, log }, leading),
        runNodeConditionsController(
          { cluster: fencedCluster, holder: leaseHolderOf(config.namespace), log },
          leading,
        ),
        runNodeDisruptionBudgetController({ cluster: fencedCluster, log }, leading),
        runNodeLeasesController({ cluster: fencedCluster, log }, leading),
        runAbandonedLeasesController({ cluster: fencedCluster, events, log }, leading),
        runReadinessControllers({ cluster: fencedCluster, config, events, log }, leading),
        runAdvanceController({ cluster: fencedCluster, events, mayRunJobs, log }, leading),
        runWindowRequestController({ cluster: fencedCluster, events, log }, leading),
        runWindowProgressController({ cluster: fencedCluster, log }, leading),
        runWindowsController(
          { cluster: fencedCluster, temporal: temporal.client, scope, events, mayRunJobs, log },
          leading,
        ),
      ]);
      log.info('Control loops stopped', { identity });
    },
  );
}

/** Runs the controllers of readiness gates. If they are disabled, logs which nodes would wait forever. */
async function runReadinessControllers(
  {
    cluster,
    config,
    events,
    log,
  }: Pick<LeaderOptions, 'config' | 'events' | 'log'> & { cluster: FencedCluster },
  signal: AbortSignal,
): Promise<void> {
  if (!config.readinessGates) {
    warnAboutDisabledGates(cluster, log);
    return;
  }
  const permissions = nodePermissions(cluster.kube, mayGateNode);
  const timing = readinessTiming(config.readinessGraceSeconds * 1_000);
  await Promise.all([
    runNodeReadinessController({ cluster, permissions, timing, events, log }, signal),
    runReadinessPoliciesController({ cluster, permissions, log }, signal),
  ]);
}

function warnAboutDisabledGates({ nodes, readinesses, readinessPolicies }: FencedCluster, log: Log): void {
  const { key, effect } = READINESS_TAINT;
  const found = {
    policies: readinessPolicies.list().length,
    gatedNodes: readinesses.list().filter(({ spec }) => spec.readinessGates.length > 0).length,
    taintedNodes: nodes.list().filter((node) => hasTaint(node, READINESS_TAINT)).length,
  };
  if (Object.values(found).every((count) => count === 0)) return;
  log.warn(
    'Readiness gates are disabled, but some nodes still have gates or the readiness taint: delete the NodeReadinessPolicies and the gates, then the taints',
    { ...found, taint: `${key}:${effect}` },
  );
}

function installRuntime(logger: Logger, sdkMetricsAddress: string): void {
  const { logging, ...options } = runtimeLogging(logger);
  Runtime.install({
    ...options,
    // worker/main.ts handles signals, because it also stops the control loops.
    shutdownSignals: [],
    telemetryOptions: { logging, metrics: { prometheus: { bindAddress: sdkMetricsAddress } } },
  });
}

function healthOf({ worker }: State): Answer {
  const failed = worker?.getState() === 'FAILED';
  return {
    status: failed ? 503 : 200,
    type: 'text/plain',
    body: failed ? 'the Temporal worker failed\n' : 'ok\n',
  };
}

function readinessOf({ waiting, needsAdmission, cluster, admission, worker }: State): Answer {
  const workerState = worker?.getState() ?? 'not created yet';
  if (waiting !== undefined) return { status: 503, type: 'text/plain', body: `${waiting}\n` };
  if (cluster?.hasSynced() !== true)
    return { status: 503, type: 'text/plain', body: 'the informers have not synced yet\n' };
  const problem = admission === undefined ? 'admission is not served yet' : admission.problem();
  if (needsAdmission && problem !== undefined)
    return { status: 503, type: 'text/plain', body: `${problem}\n` };
  const ready = workerState === 'RUNNING';
  return {
    status: ready ? 200 : 503,
    type: 'text/plain',
    body: ready ? 'ok\n' : `the Temporal worker is ${workerState}\n`,
  };
}
