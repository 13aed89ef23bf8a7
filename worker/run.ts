import { Runtime } from '@temporalio/worker';
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
import { runOutageLeasesController } from '../controllers/leases/outageLeases.ts';
import { EvacuationController } from '../controllers/evacuation/evacuation.ts';
import { runDeploymentEvacuator } from '../controllers/evacuation/evacuators/deployment.ts';
import { runDaemonSetEvacuator } from '../controllers/evacuation/evacuators/daemonSet.ts';
import { runMaintenanceController } from '../controllers/maintenance/maintenance.ts';
import { runProgressingController } from '../controllers/maintenance/progressing.ts';
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
import { loadWorkflows } from './bundle.ts';
import { claimNames, keepClaim, readScope } from './clusterClaim.ts';
import type { Config } from './config.ts';
import { freePort, serve } from './http.ts';
import { type IdentityLease, publishIdentity } from './identity.ts';
import { runtimeLogging, toLog } from './log.ts';
import { createMetrics, type Metrics, metricsAnswer } from './metrics/metrics.ts';
import { startNotifications } from './notifications/notifications.ts';
import { checkWebhooks, prepareCluster } from './prepare.ts';
import { watchRetention } from './retention.ts';
import { runTogether } from './runTogether.ts';
import { type StartupState, type WaitOptions, waitOptionsOf } from './startupRetry.ts';
import {
  answered,
  connectWorkers,
  createWorker,
  openTemporal,
  prepareNamespace,
  type Temporal,
  type WorkerSettings,
  workerSettings,
} from './temporal.ts';
import { TemporalMonitor } from './temporalMonitor.ts';
import { TemporalWorkers } from './temporalWorkers.ts';
import { setCurrentVersion } from './workerDeployment.ts';

/** Events that are not written this long after the work has ended are lost. */
const flushTimeoutMs = 5_000;

/** State of the process, for the health endpoints. */
interface State extends StartupState {
  needsAdmission: boolean;
  cluster?: Cluster;
  admission?: ServedAdmission;
  monitor?: TemporalMonitor;
  workers?: TemporalWorkers;
}

/**
 * Runs the worker until the signal aborts: informers, admission, the Temporal workers and, on the leader, the control loops. Only what needs
 * Temporal waits for it. Throws an Error of one line for a problem that waiting does not solve.
 */
export async function runWorker(config: Config, logger: Logger, signal: AbortSignal): Promise<void> {
  const log = toLog(logger);
  const settings = workerSettings();
  const sdkMetricsAddress = `127.0.0.1:${await freePort()}`;
  installRuntime(logger, sdkMetricsAddress);
  const metrics = createMetrics();
  const state: State = { needsAdmission: config.components.has('admission') };
  const pages = {
    healthz: () => alive,
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
  const temporal = openTemporal(settings);
  const monitor = monitorOf(temporal, scope, log);
  state.monitor = monitor;
  metrics.observeTemporal(() => temporalProblem(state) === undefined);
  const cluster = watchCluster({ kube, log });
  state.cluster = cluster;
  metrics.observe(cluster);
  cluster.start(signal);
  const options = { config, log, state, metrics, kube, cluster, temporal, monitor, scope, identity };
  try {
    await runTogether(signal, [
      (stop) => monitor.run(stop),
      async (stop) => {
        await cluster.synced(stop);
        const [nodes, pods] = [cluster.nodes.list().length, cluster.pods.list().length];
        log.info('Informers synced', { nodes, pods });
        await runSynced({ ...options, signal: stop });
      },
    ]);
  } finally {
    await temporal.close();
    await kube.close();
    listening.close();
  }
}

function monitorOf(temporal: Temporal, scope: ClusterScope, log: Log): TemporalMonitor {
  const { address, source } = temporal.settings;
  return new TemporalMonitor({
    address,
    source,
    prepare: async () => {
      await prepareNamespace(temporal, log);
      await answered(temporal, () => claimNames(temporal, scope, log));
    },
    check: () => answered(temporal, () => keepClaim(temporal, scope)),
    log,
  });
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
  monitor: TemporalMonitor;
  scope: ClusterScope;
  identity: IdentityLease;
}

/** Runs admission, the Temporal workers and the control loops, once the informers have synced. */
async function runSynced(options: SyncedOptions): Promise<void> {
  const { config, log, signal, metrics, kube, cluster, temporal, monitor, scope, identity } = options;
  const events = new EventRecorder({ kube, component: 'node-maintenance', log });
  // Rate-limited, because they only report what was done: work takes precedence.
  const podEvents = new EventRecorder({ kube, component: 'node-maintenance', log, perSecond: 5 });
  const mayRunJobs = jobPermission(kube);
  try {
    const shared = { events, podEvents, mayRunJobs };
    const leadOptions = { ...shared, kube, cluster, temporal, monitor, scope, config, metrics, log };
    await runTogether(signal, [
      (stop) => lead({ ...leadOptions, identity: identity.holder, signal: stop }),
      async (stop) => (await prepareWorkers(options, shared)).run(stop),
      (stop) =>
        watchRetention(temporal, {
          days: config.historyRetentionDays,
          availability: monitor,
          metrics,
          log,
          signal: stop,
        }),
      async (stop) => {
        if (config.components.has('admission')) await serveAdmission({ ...options, signal: stop });
      },
    ]);
  } finally {
    await Promise.all([events.flush(flushTimeoutMs), podEvents.flush(flushTimeoutMs)]);
  }
}

/** Prepares the Temporal workers. Throws an Error of one line for settings that they cannot work with. */
async function prepareWorkers(
  { config, log, state, metrics, kube, cluster, temporal, monitor, scope }: SyncedOptions,
  { events, podEvents, mayRunJobs }: Pick<LeaderOptions, 'events' | 'podEvents' | 'mayRunJobs'>,
): Promise<TemporalWorkers> {
  const { outbox, createWorkers } = await startNotifications({ temporal, scope, config, metrics, log });
  const workflows = await loadWorkflows(config.workflowBundle);
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
    starterOf: temporal.starterOf,
    isRunning: temporal.isRunning,
  });
  const workers = new TemporalWorkers({
    availability: monitor,
    connect: () => connectWorkers(temporal),
    create: async (connection) => [
      await createWorker(connection, scope, activities, { ...config, workflows }),
      ...(await createWorkers(connection)),
    ],
    log,
  });
  state.workers = workers;
  return workers;
}

/** Serves admission from the informers of the controllers, until the signal aborts. */
async function serveAdmission(options: SyncedOptions): Promise<void> {
  const { config, log, signal, state, metrics, cluster } = options;
  // A client of its own: the requests of a drain must not delay the answers to the apiserver.
  const userAgent = 'node-maintenance-admission';
  const kube = connectKube({ kubeconfig: config.admissionKubeconfig, userAgent, log, maxInFlight: 16 });
  await checkWebhooks(kube, config.namespace, waitOptionsOf(state, log, signal));
  const { nodes, maintenances } = cluster;
  const { onRejection } = metrics;
  const admission = await startAdmission({ kube, nodes, maintenances }, config, { log, onRejection }, signal);
  state.admission = admission;
  try {
    await admission.maintainRegistration();
  } finally {
    admission.close();
    await kube.close();
  }
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

interface LeaderOptions {
  kube: Kube;
  cluster: Cluster;
  events: EventRecorder;
  /** Records Events of single pods and nodes. */
  podEvents: EventRecorder;
  mayRunJobs: JobPermission;
  temporal: Temporal;
  monitor: TemporalMonitor;
  scope: ClusterScope;
  /** Identity of the process in the identity Leases. */
  identity: string;
  config: Config;
  metrics: Metrics;
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
  monitor: availability,
  scope,
  identity,
  config,
  metrics,
  log,
  signal,
}: LeaderOptions): Promise<void> {
  await runWhenLeader(
    { kube, name: 'node-maintenance-controllers', namespace: config.namespace, identity, log, signal },
    async (leading, fenced) => {
      log.info('Control loops started', { identity });
      const fencedCluster = { ...cluster, kube: fenced };
      const leases = nodeLeases(fenced, config);
      const runs: RunOptions = {
        cluster: fencedCluster,
        temporal: temporal.client,
        availability,
        scope,
        events,
        log,
        stalledRunTimeoutSeconds: config.stalledRunTimeoutSeconds,
      };
      await Promise.all([
        setCurrentVersion({ temporal, availability, deployment: config.workerDeployment, log }, leading),
        runMaintenanceController({ ...runs, onRestart: () => metrics.onRestart('nodeMaintenance') }, leading),
        runWindowControllers({ ...runs, mayRunJobs, metrics }, leading),
        runProgressingController({ cluster: fencedCluster, availability, events, log }, leading),
        runOutageLeasesController({ cluster: fencedCluster, leases, availability, log }, leading),
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
        runNodeLeasesController({ cluster: fencedCluster, log }, leading),
        runAbandonedLeasesController({ cluster: fencedCluster, events, log }, leading),
        runReadinessControllers({ cluster: fencedCluster, config, events, log }, leading),
      ]);
      log.info('Control loops stopped', { identity });
    },
  );
}

/** What the controllers of runs need. */
type RunOptions = Omit<Parameters<typeof runMaintenanceController>[0], 'onRestart'>;

async function runWindowControllers(
  { mayRunJobs, metrics, ...runs }: RunOptions & Pick<LeaderOptions, 'mayRunJobs' | 'metrics'>,
  signal: AbortSignal,
): Promise<void> {
  const { cluster, events, log } = runs;
  const onRestart = () => metrics.onRestart('maintenanceWindow');
  await Promise.all([
    runWindowsController({ ...runs, mayRunJobs, onRestart }, signal),
    runAdvanceController({ cluster, events, mayRunJobs, log }, signal),
    runWindowRequestController({ cluster, events, log }, signal),
    runWindowProgressController({ cluster, log }, signal),
    runNodeDisruptionBudgetController({ cluster, log }, signal),
  ]);
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

const alive: Answer = { status: 200, type: 'text/plain', body: 'ok\n' };

/**
 * Without Temporal, a process is ready if it serves admission, or if it has worked with Temporal before: its outage must not take the process
 * out of service. A process that only runs controllers and has never reached Temporal is not ready, so that a rollout with wrong settings
 * stops.
 */
function readinessOf(state: State): Answer {
  const { waiting, needsAdmission, workers } = state;
  const blocked = waiting ?? informersProblem(state) ?? admissionProblem(state);
  const outage = blocked ?? temporalProblem(state);
  const isReady =
    blocked === undefined && (outage === undefined || needsAdmission || workers?.hasStarted === true);
  const body = isReady && outage !== undefined ? `ok, but ${outage}` : (outage ?? 'ok');
  return { status: isReady ? 200 : 503, type: 'text/plain', body: `${body}\n` };
}

function informersProblem({ cluster }: State): string | undefined {
  return cluster?.hasSynced() === true ? undefined : 'the informers have not synced yet';
}

function admissionProblem({ needsAdmission, admission }: State): string | undefined {
  if (!needsAdmission) return undefined;
  return admission === undefined ? 'admission is not served yet' : admission.problem();
}

/** Returns why maintenances do not start or advance in this process. */
function temporalProblem({ monitor, workers }: State): string | undefined {
  const outage = monitor?.outage();
  if (outage !== undefined) {
    const since = new Date(outage.sinceMs).toISOString();
    return `Temporal has been unavailable since ${since}, and no maintenance starts or advances: ${outage.reason}`;
  }
  const problem = workers === undefined ? 'they have not been created yet' : workers.problem();
  return problem === undefined ? undefined : `the Temporal workers are not running: ${problem}`;
}
