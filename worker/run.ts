import { Runtime, type WorkflowBundle } from '@temporalio/worker';
import type { Logger } from 'pino';
import { createActivities } from '../activities/index.ts';
import { defaultResyncMs } from '../activities/reconcile.ts';
import {
  type ClusterScope,
  Component,
  ElectionLease,
  IdentityAnnotation,
  leaseHolderOf,
  READINESS_TAINT,
  temporalNames,
} from '../api/names.ts';
import { runAbandonedLeasesController } from '../controllers/leases/abandonedLeases.ts';
import { runOutageLeasesController } from '../controllers/leases/outageLeases.ts';
import { EvacuationController } from '../controllers/evacuation/evacuation.ts';
import { EvictionRequestCleanup } from '../controllers/evacuation/requestCleanup.ts';
import { DeploymentEvacuator } from '../controllers/evacuation/evacuators/deployment.ts';
import { runStatefulSetEvacuator } from '../controllers/evacuation/evacuators/statefulSet.ts';
import { runDaemonSetEvacuator } from '../controllers/evacuation/evacuators/daemonSet.ts';
import { evictionViewOf } from '../controllers/evictionRequests/evictionView.ts';
import { isRespondingTo } from '../controllers/evictionRequests/responding.ts';
import { runEvictionRequests } from '../controllers/evictionRequests/run.ts';
import { runMaintenanceController } from '../controllers/maintenance/maintenance.ts';
import { runMutationsController } from '../controllers/maintenance/mutationsInApiserver.ts';
import { runProgressingController } from '../controllers/maintenance/progressing.ts';
import { runNodeDisruptionBudgetController } from '../controllers/windows/nodeDisruptionBudget.ts';
import { runOrphanedActivitiesController } from '../controllers/orphanedActivities.ts';
import { WorkerLiveness } from '../controllers/workerLiveness.ts';
import { runNodeConditionsController } from '../controllers/maintenance/nodeConditions.ts';
import { runNodeLeasesController } from '../controllers/leases/nodeLeases.ts';
import { runAdvanceController } from '../controllers/windows/advanceAnnotation.ts';
import { runWindowProgressController } from '../controllers/windows/progress.ts';
import { runRebootRequestsController } from '../controllers/windows/rebootRequests.ts';
import { runWindowRequestController } from '../controllers/windows/requestAnnotations.ts';
import { runWindowsController } from '../controllers/windows/windows.ts';
import { runNodeReadinessController } from '../controllers/readiness/nodeReadiness.ts';
import { runReadinessPoliciesController } from '../controllers/readiness/readinessPolicies.ts';
import { defaultReviewTiming, reviewsDue } from '../domain/common/permissionReviews.ts';
import { readinessTiming } from '../domain/readiness/gates.ts';
import { heartbeatTimeoutSeconds } from '../domain/leases/renewal.ts';
import { hasTaint } from '../domain/common/toleration.ts';
import type { Answer } from '../http/server.ts';
import { mayDeleteNode, mayGateNode } from '../kube/authorization.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import { type Cluster, type FencedCluster, watchCluster } from '../kube/cluster.ts';
import { EventRecorder } from '../kube/events.ts';
import { type JobPermission, jobPermission } from '../kube/jobPermission.ts';
import { Informer } from '../kube/informer.ts';
import { runWhenLeader } from '../kube/leaderElection.ts';
import { LeaseObserver } from '../kube/leaseObserver.ts';
import type { Log } from '../kube/log.ts';
import type { RequestObservation } from '../kube/transport.ts';
import { resources } from '../kube/resources.ts';
import { NodePermissions, type ReviewRules } from '../kube/nodePermissions.ts';
import { NodeLeases } from '../node-lease/nodeLeases.ts';
import { type ServedAdmission, startAdmission } from './admission.ts';
import { startLoading } from './bundle.ts';
import { claimNames, renewClaim, readScope, runFormerClaimsController } from './clusterClaim.ts';
import type { Config } from './config.ts';
import { freePort, serve } from './http.ts';
import { type IdentityLease, publishIdentity } from './identity.ts';
import { installedPolicies } from './installation.ts';
import { type InstallationState, watchInstallation } from './installationWatch.ts';
import { createLogger, toLog } from '../process/log.ts';
import { runtimeLogging } from './log.ts';
import { createMetrics, type Metrics, metricsAnswer } from './metrics/metrics.ts';
import { startNotifications } from './notifications/notifications.ts';
import { payloadObserver } from './payloadObserver.ts';
import { checkWebhooks, prepareCluster } from './prepare.ts';
import { watchRetention } from './retention.ts';
import { runTogether } from '../process/runTogether.ts';
import { type StartupState, type WaitOptions, waitOptionsOf } from './startupRetry.ts';
import type { Tracing } from './tracing.ts';
import {
  answered,
  connectWorkers,
  createWorkers,
  openTemporal,
  prepareNamespace,
  type Temporal,
  type WorkerSettings,
  workerSettings,
} from './temporal.ts';
import { TemporalMonitor } from './temporalMonitor.ts';
import { TemporalWorkers } from './temporalWorkers.ts';
import { setCurrentVersion } from './workerDeployment.ts';

/** Time without any progress after which an activity sends fewer heartbeats. */
const stalledAfterMs = 60_000;
/** Time after which one removal of Evacuations ends unfinished: half of the timeout of a short activity. */
const removalMs = 30_000;
/** Events that are not written this long after the work has ended are lost. */
const flushTimeoutMs = 5_000;

/** State of the process, for the health endpoints. */
interface State extends StartupState, InstallationState {
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
  const metrics = createMetrics();
  const settings = workerSettings(payloadObserver(log, metrics));
  const sdkMetricsAddress = `127.0.0.1:${await freePort()}`;
  installRuntime(config, sdkMetricsAddress);
  const tracing = config.exportsTraces ? await loadTracing(log) : undefined;
  const state: State = { needsAdmission: config.components.has('admission') };
  const pages = {
    healthz: () => alive,
    readyz: () => readinessOf(state),
    metrics: () => metricsAnswer(metrics, sdkMetricsAddress),
  };
  const listening = await serve(pages, config, { log, onRejection: metrics.onRejection });
  log.info('Worker started', listening.ports);

  const onRequest = (observation: RequestObservation) => {
    metrics.onRequest(observation);
    tracing?.onRequest(observation);
  };
  const kube = connectKube({ userAgent: 'node-maintenance', log, onRequest });
  const wait = waitOptionsOf(state, log, signal);
  // Both load while the process does other work, because they are slow.
  const traces = tracing !== undefined;
  const workflows = startLoading({ file: config.workflowBundle, traces }, log);
  if (config.workflowBundle !== undefined) await workflows();
  const observer = new LeaseObserver({ kube, ...controllersLease(config), log, signal });
  const { check, review } = await prepareCluster(kube, { config, component: Component.Worker }, wait);
  const scope = await readScope(kube, config.cluster, wait);
  const identity = await publishWorker(kube, { ...settings, config, scope }, wait);
  if (config.identityLeases.enabled) metrics.observeIdentity(identity);
  const temporal = openTemporal(settings, tracing);
  const monitor = monitorOf(temporal, scope, log);
  state.monitor = monitor;
  metrics.observeTemporal(() => temporalProblem(state) === undefined);
  const { leases, liveness } = watchWorkers(kube, { config, identity, log, signal });
  const cluster = watchCluster({ kube, log, queues: metrics.queues });
  if (config.evictionApi.api !== 'evacuation') cluster.lifecycle.use();
  state.cluster = cluster;
  metrics.observe(cluster);
  cluster.start(signal);
  const clients = { kube, cluster, temporal, monitor, scope, identity, liveness, workflows, observer };
  const options = { config, log, state, metrics, tracing, ...clients };
  try {
    await runTogether(signal, [
      (stop) => monitor.run(stop),
      (stop) => temporal.connections.reload(log, stop),
      (stop) => watchInstallation(check, { review, state, metrics, log, signal: stop }),
      async (stop) => {
        await Promise.all([cluster.synced(stop), leases.synced(stop)]);
        const [nodes, pods] = [cluster.nodes.list().length, cluster.pods.list().length];
        log.info('Informers synced', { nodes, pods });
        await runSynced({ ...options, signal: stop });
      },
    ]);
  } finally {
    await tracing?.close();
    await temporal.close();
    await kube.close();
    listening.close();
  }
}

type WatchWorkersOptions = Pick<SyncedOptions, 'config' | 'identity' | 'log' | 'signal'>;

/** Watches the Leases of all workers from the start, because the process that leads next must know which ones have died. */
function watchWorkers(kube: Kube, { config, identity, log, signal }: WatchWorkersOptions) {
  const leases = new Informer({ kube, resource: resources.leases, namespace: config.namespace, log });
  leases.start(signal);
  const liveness = new WorkerLiveness(leases, {
    identity: identity.holder,
    leaderLease: controllersLease(config).name,
  });
  return { leases, liveness };
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
    check: () => checkTemporal(temporal, scope),
    log,
  });
}

/** Rejects while this cluster cannot use Temporal. */
function checkTemporal(temporal: Temporal, scope: ClusterScope): Promise<void> {
  return answered(temporal, () => renewClaim(temporal, scope));
}

interface SyncedOptions {
  config: Config;
  log: Log;
  signal: AbortSignal;
  state: State;
  metrics: Metrics;
  tracing: Tracing | undefined;
  kube: Kube;
  cluster: Cluster;
  temporal: Temporal;
  monitor: TemporalMonitor;
  scope: ClusterScope;
  identity: IdentityLease;
  liveness: WorkerLiveness;
  workflows: () => Promise<WorkflowBundle>;
  /** Observes the leader election Lease of the control loops. */
  observer: LeaseObserver;
}

/** Runs admission, the Temporal workers and the control loops, once the informers have synced. */
async function runSynced(options: SyncedOptions): Promise<void> {
  const { config, log, signal, metrics, tracing, kube, cluster, temporal, monitor, scope } = options;
  const { identity, liveness, observer } = options;
  const events = new EventRecorder({ kube, component: 'node-maintenance', log });
  // Rate-limited, because they only report what was done: work takes precedence.
  const podEvents = new EventRecorder({ kube, component: 'node-maintenance', log, perSecond: 5 });
  const mayRunJobs = jobPermission(kube);
  try {
    const shared = { events, podEvents, mayRunJobs };
    const leadOptions = {
      ...shared,
      kube,
      cluster,
      temporal,
      monitor,
      scope,
      liveness,
      observer,
      config,
      metrics,
      tracing,
      log,
    };
    await runTogether(signal, [
      (stop) => lead({ ...leadOptions, identity: identity.holder, signal: stop }),
      async (stop) => (await prepareWorkers(options, shared)).run(stop),
      (stop) =>
        watchRetention(temporal, {
          days: config.minHistoryRetentionDays,
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
  { config, log, state, metrics, tracing, kube, cluster, temporal, monitor, scope, workflows }: SyncedOptions,
  { events, podEvents, mayRunJobs }: Pick<LeaderOptions, 'events' | 'podEvents' | 'mayRunJobs'>,
): Promise<TemporalWorkers> {
  const { outbox, createWorkers: createNotificationWorkers } = await startNotifications({
    temporal,
    scope,
    config,
    metrics,
    log,
  });
  const activities = createActivities({
    cluster,
    namespace: config.namespace,
    scope,
    events,
    mayRunJobs,
    permissions: nodePermissions(kube, mayDeleteNode),
    nodeEvents: podEvents,
    notifications: outbox,
    leases: nodeLeases(kube, config),
    evictionApi: config.evictionApi,
    heartbeatTimeoutSeconds: heartbeatTimeoutSeconds(config.nodeLeaseDurationSeconds, {
      revealsDeaths: !config.identityLeases.enabled,
    }),
    stalledAfterMs,
    resyncMs: defaultResyncMs,
    removalMs,
    readinessGatesEnabled: config.readinessGates,
    autoscalerAnnotationsEnabled: config.autoscalerAnnotations,
    starterOf: temporal.starterOf,
    isRunning: temporal.isRunning,
  });
  const workers = new TemporalWorkers({
    availability: monitor,
    create: async () => {
      const connection = await connectWorkers(temporal);
      const created = [
        ...(await createWorkers(connection, scope, activities, {
          ...config,
          tracing,
          workflows: await workflows(),
          answers: { check: () => checkTemporal(temporal, scope), availability: monitor },
        })),
        ...(await createNotificationWorkers(connection)),
      ];
      return created.map((worker) => temporal.connections.use(worker));
    },
    log,
  });
  state.workers = workers;
  return workers;
}

/** Loads OpenTelemetry, which costs memory, only for those who export traces. */
async function loadTracing(log: Log): Promise<Tracing> {
  const { startTracing } = await import('./tracing.ts');
  return startTracing(log);
}

/** Serves admission from the informers of the controllers, until the signal aborts. */
async function serveAdmission(options: SyncedOptions): Promise<void> {
  const { config, log, signal, state, metrics, cluster } = options;
  // A client of its own: the requests of a drain must not delay the answers to the apiserver.
  const userAgent = 'node-maintenance-admission';
  const kube = connectKube({ kubeconfig: config.admissionKubeconfig, userAgent, log, maxInFlight: 16 });
  await checkWebhooks(kube, config, waitOptionsOf(state, log, signal));
  const { nodes, maintenances } = cluster;
  const observers = {
    onRejection: metrics.onRejection,
    elections: metrics.elections,
    queues: metrics.queues,
  };
  const admission = await startAdmission(
    { kube, nodes, maintenances },
    config,
    { log, ...observers },
    signal,
  );
  state.admission = admission;
  try {
    await admission.maintainRegistration();
  } finally {
    await admission.close();
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
  { config, scope, uuid, ...settings }: WorkerSettings & { config: Config; scope: ClusterScope },
  wait: WaitOptions,
): Promise<IdentityLease> {
  const annotations = {
    [IdentityAnnotation.TemporalIdentity]: settings.identity,
    [IdentityAnnotation.TemporalNamespace]: settings.namespace,
    [IdentityAnnotation.TaskQueue]: scope.names.taskQueue,
    [IdentityAnnotation.DeploymentRegistration]: config.evacuators.deploymentRegistration,
    ...(config.evictionApi.api !== 'evacuation' && {
      [IdentityAnnotation.EvictionApi]: config.evictionApi.api,
    }),
  };
  const { log } = wait;
  const { namespace, identityLeases } = config;
  const component = Component.Worker;
  return publishIdentity({ kube, namespace, component, annotations, uuid, ...identityLeases, log }, wait);
}

/** Returns the Lease of the worker that runs the control loops. */
function controllersLease({ namespace }: Config) {
  return { namespace, name: ElectionLease.Controllers };
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
  liveness: WorkerLiveness;
  /** Identity of the process in the identity Leases. */
  identity: string;
  observer: LeaseObserver;
  config: Config;
  metrics: Metrics;
  tracing: Tracing | undefined;
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
  liveness,
  identity,
  observer,
  config,
  metrics,
  tracing,
  log,
  signal,
}: LeaderOptions): Promise<void> {
  const election = { ...controllersLease(config), ...config.leaderElection, identity, observer };
  await runWhenLeader(
    { kube, ...election, metrics: metrics.elections, log, signal },
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
        runRegistrationControllers({ temporal, availability, scope, liveness, config, log }, leading),
        runMaintenanceController({ ...runs, onRestart: () => metrics.onRestart('nodeMaintenance') }, leading),
        runOrphanedActivitiesController({ ...runs, workers: liveness }, leading),
        runWindowControllers({ ...runs, leases, mayRunJobs, metrics }, leading),
        runConditionControllers({ cluster: fencedCluster, availability, events, log }, leading),
        runOutageLeasesController({ cluster: fencedCluster, leases, availability, log }, leading),
        runEvacuationControllers(
          { cluster: fencedCluster, events: podEvents, config, metrics, log },
          leading,
        ),
        runNodeConditionsController(
          { cluster: fencedCluster, holder: leaseHolderOf(config.namespace), log },
          leading,
        ),
        runNodeLeasesController({ cluster: fencedCluster, log }, leading),
        runAbandonedLeasesController({ cluster: fencedCluster, events, log }, leading),
        runReadinessControllers({ cluster: fencedCluster, config, events, log }, leading),
        observeMaintenances({ ...runs, metrics, tracing }, leading),
      ]);
      log.info('Control loops stopped', { identity });
    },
  );
}

/** Keeps what Temporal knows of the installation: the current version of its workers, and one claim. */
async function runRegistrationControllers(
  {
    temporal,
    availability,
    scope,
    liveness,
    config: { workerDeployment: deployment },
    log,
  }: Pick<LeaderOptions, 'temporal' | 'scope' | 'liveness' | 'config' | 'log'> & {
    availability: TemporalMonitor;
  },
  signal: AbortSignal,
): Promise<void> {
  const { client } = temporal;
  const isUsed = (taskQueue: string) => liveness.isUsed(taskQueue);
  await Promise.all([
    setCurrentVersion({ temporal, availability, deployment, log }, signal),
    runFormerClaimsController({ client, availability, scope, isUsed, log }, signal),
  ]);
}

/** Runs the controllers that report on each NodeMaintenance that Temporal is unavailable, or that webhooks replace its admission policies. */
async function runConditionControllers(
  deps: Parameters<typeof runProgressingController>[0],
  signal: AbortSignal,
): Promise<void> {
  const readPolicies = () => installedPolicies(deps.cluster.kube);
  await Promise.all([
    runProgressingController(deps, signal),
    runMutationsController({ ...deps, readPolicies }, signal),
  ]);
}

async function runEvacuationControllers(
  {
    cluster,
    events,
    config: { evacuators, evictionRequestController: runsController, evictionRequestResponders },
    metrics: { onEvacuationEnd: onEnd, onEvictionEnd },
    log,
  }: Pick<LeaderOptions, 'events' | 'config' | 'metrics' | 'log'> & { cluster: FencedCluster },
  signal: AbortSignal,
): Promise<void> {
  const controller = new EvacuationController({ cluster, events, log, evacuators, onEnd });
  const queue = controller.evictionQueue;
  const view = evictionRequestResponders ? evictionViewOf({ kube: cluster.kube, log }) : undefined;
  const isResponding = view && isRespondingTo(cluster.kube, view.evictions);
  const deployments = evacuators.deployments
    ? new DeploymentEvacuator({ cluster, events, log, isResponding })
    : undefined;
  const requests = { cluster, runsController, queue, deployments, events, log, onEnd: onEvictionEnd };
  await Promise.all([
    controller.run(signal),
    new EvictionRequestCleanup({ cluster, log, onEnd }).run(signal),
    view && runEvictionRequests({ ...requests, view }, signal),
    deployments?.run(signal),
    runDaemonSetEvacuator({ cluster, log }, signal),
    runStatefulSetEvacuator({ cluster, events, log }, signal),
  ]);
}

/** Dependencies of the controllers that start and observe workflow runs. */
type RunOptions = Omit<Parameters<typeof runMaintenanceController>[0], 'onRestart'>;

/** Counts drains and runs, and exports the spans of maintenances. */
async function observeMaintenances(
  { metrics, tracing, ...runs }: RunOptions & Pick<LeaderOptions, 'metrics' | 'tracing'>,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all([
    metrics.observeDrains(runs.cluster, signal),
    metrics.observeRuns(runs, signal),
    tracing?.observe(runs.cluster, signal),
  ]);
}

async function runWindowControllers(
  {
    leases,
    mayRunJobs,
    metrics,
    ...runs
  }: RunOptions & Pick<LeaderOptions, 'mayRunJobs' | 'metrics'> & { leases: NodeLeases },
  signal: AbortSignal,
): Promise<void> {
  const { cluster, events, log } = runs;
  const onRestart = () => metrics.onRestart('maintenanceWindow');
  await Promise.all([
    runWindowsController({ ...runs, mayRunJobs, onRestart }, signal),
    runAdvanceController({ cluster, events, mayRunJobs, log }, signal),
    runWindowRequestController({ cluster, events, log }, signal),
    runWindowProgressController({ cluster, log }, signal),
    runRebootRequestsController({ cluster, leases, log }, signal),
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

/** The SDK's metrics are named as the conventions of Prometheus demand. */
const prometheusNames = { countersTotalSuffix: true, unitSuffix: true, useSecondsForDurations: true };

function installRuntime({ logLevel, cluster }: Config, sdkMetricsAddress: string): void {
  const logger = createLogger(logLevel, { ownTime: true });
  const { logging, ...options } = runtimeLogging(logger, temporalNames(cluster));
  Runtime.install({
    ...options,
    // worker/main.ts handles signals, because it also stops the control loops.
    shutdownSignals: [],
    telemetryOptions: {
      logging,
      metrics: { prometheus: { bindAddress: sdkMetricsAddress, ...prometheusNames } },
    },
  });
}

const alive: Answer = { status: 200, type: 'text/plain', body: 'ok\n' };

/**
 * Returns whether the process is ready. Without Temporal, it is if it serves admission, or if it has worked with Temporal before: an outage must
 * not take the process out of service. A process that only runs controllers and has never reached Temporal is not ready, so that a rollout with
 * wrong settings stops.
 */
function readinessOf(state: State): Answer {
  const { waiting, needsAdmission, workers } = state;
  const blocked = waiting ?? informersProblem(state) ?? admissionProblem(state);
  const outage = blocked ?? temporalProblem(state);
  const isReady =
    blocked === undefined && (outage === undefined || needsAdmission || workers?.hasStarted === true);
  const details = [outage, state.installation].filter((detail) => detail !== undefined).join('; ');
  const body = isReady ? `ok${details === '' ? '' : `, but ${details}`}` : outage;
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
