import { isIP } from 'node:net';
import { Command } from 'commander';
import * as z from 'zod';
import {
  CLUSTER_NAME_PATTERN,
  DEFAULT_EVACUATOR_RESPONSE_SECONDS,
  isReservedPrefix,
  SYSTEM_NAMESPACE,
} from '../api/names.ts';
import type { EvacuatorSettings } from '../controllers/evacuation/knownEvacuators.ts';
import { defaultEvictionApi, type EvictionApiSettings, evictionApis } from '../domain/common/evictionApi.ts';
import { isClassName } from '../domain/evacuation/evacuatorSelection.ts';
import { deploymentRegistrations } from '../domain/leases/processSummary.ts';
import { type CompleteTiming, completeTiming } from '../kube/electionTiming.ts';
import { namespaceProblem, podSecurityLevels, type WindowJobs } from '../manifests/render.ts';
import {
  checkNotificationSettings,
  type NotificationSettings,
  notificationSettings,
  notificationSettingsOf,
} from './notifications/settings.ts';
import { packageVersion } from '../process/packageVersion.ts';
import {
  decimalSeconds,
  parseSettings,
  setting,
  type SettingSource,
  sourcesOf,
  wholeNumber,
} from '../process/settings.ts';

/** The configuration of the worker, parsed once. Kubernetes and Temporal have settings of their own, see `--help`. */
export interface Config {
  logLevel: string;
  healthPort: Port;
  metricsPort: Port;
  webhookPort: Port;
  webhookHost: WebhookHost;
  /** The apiservers that the admission server answers; undefined: every client. */
  webhookClients: { caFile: string; names: string[] } | undefined;
  /** Issuer of the certificate of the admission server: the server itself, or another client that writes the Secret. */
  webhookCertificates: 'managed' | 'external';
  /** Decides whether admission rejects direct evictions, for example by `kubectl drain`, of pods that have evacuators. */
  directEvictions: 'reject' | 'allow';
  evacuators: EvacuatorSettings;
  evictionApi: EvictionApiSettings;
  /** Acts on EvictionRequests of lifecycle.k8s.io, which Kubernetes serves without a controller. */
  evictionRequestController: boolean;
  /** Responds to Evictions, whichever controller writes them. The controller of this project includes it. */
  evictionRequestResponders: boolean;
  /** Duration of the Lease of a node under maintenance; the worker renews it at a third of that. */
  nodeLeaseDurationSeconds: number;
  /** A run whose workflow task fails for so long is replaced by one that continues from the object; 0: never. */
  stalledRunTimeoutSeconds: number;
  /** The worker warns if the Temporal namespace keeps histories for a shorter time; 0: never. */
  minHistoryRetentionDays: number;
  /** Enables readiness gates. */
  readinessGates: boolean;
  /** Held nodes carry the annotations that keep autoscalers from removing them. */
  autoscalerAnnotations: boolean;
  /** Grace period before a gate that became not ready taints the node. */
  readinessGraceSeconds: number;
  /** Durations of the elections among the processes of the installation. */
  leaderElection: CompleteTiming;
  identityLeases: IdentityLeaseSettings;
  /** Namespace of the installation: of the leader election Leases, and of the admission server's certificates and Service. */
  namespace: string;
  /** Undefined when no notifications are sent. */
  notifications: NotificationSettings | undefined;
  /** Name of the cluster, which its names in Temporal contain; undefined: no other cluster shares the Temporal namespace. */
  cluster: string | undefined;
  /** File with the bundled workflows; undefined: the one that was written when the packages were installed, or at an earlier start. */
  workflowBundle: string | undefined;
  /** Undefined: Temporal sends tasks to every worker, whatever its release. */
  workerDeployment: WorkerDeployment | undefined;
  /** Number of runs whose workflows stay in memory. */
  workflowCache: number;
  /** Exports traces by OTLP. */
  exportsTraces: boolean;
  install: boolean;
  /** Whether --install enables the Jobs of windows, and with which level of Pod Security. */
  windowJobs: WindowJobs;
  /** The components that this process runs. */
  components: ReadonlySet<ComponentName>;
  /** The kubeconfig for all requests of admission; undefined: that of the controllers. */
  admissionKubeconfig: string | undefined;
}

/**
 * The Worker Deployment of Temporal to which the process belongs. Temporal sends all tasks of a deployment to one of its versions, the current
 * one, whatever the number of processes of each (ADR 44).
 */
export interface WorkerDeployment {
  readonly deploymentName: string;
  /** Names a release; processes with different workflow code have different build ids. */
  readonly buildId: string;
  /** The leader makes its build the current version; otherwise another tool does, such as Temporal's worker controller. */
  readonly setsCurrentVersion: boolean;
}

/** The identity Lease of this process (KEP-1965). */
export interface IdentityLeaseSettings {
  enabled: boolean;
  /** Time after which other processes may consider this one dead, and delete its Lease. */
  leaseDurationSeconds: number;
  renewEverySeconds: number;
}

const componentNames = ['controllers', 'admission'] as const;
export type ComponentName = (typeof componentNames)[number];

/** Address at which the apiserver reaches the admission server. */
export type WebhookHost = { kind: 'Service' } | { kind: 'Host'; host: string };

export interface Port {
  number: number;
  /** The user asked for this port: it is an error if it is taken. */
  isExplicit: boolean;
  /** IP address to listen on; undefined: all. */
  address?: string | undefined;
}

/** Throws an Error that names flag, variable and remedy of each invalid setting, or commander's CommanderError. */
export function parseConfig(argv: readonly string[], env: NodeJS.ProcessEnv): Config {
  const settings = parseSettings(Settings, { command: commandLine(), argv, env });
  const { logLevel, directEvictions, readinessGates, webhookCertificates } = settings;
  const { namespace, cluster, workflowBundle, workflowCache, install } = settings;
  const { components, admissionKubeconfig } = settings;
  return {
    logLevel,
    healthPort: { ...settings.healthPort, address: settings.healthBindAddress },
    metricsPort: { ...settings.metricsPort, address: settings.metricsBindAddress },
    webhookPort: { ...settings.webhookPort, address: settings.webhookBindAddress },
    webhookHost: webhookHostOf(settings),
    webhookClients: webhookClientsOf(settings),
    webhookCertificates,
    directEvictions,
    evacuators: {
      responseSeconds: settings.evacuatorResponseTimeout,
      knownClasses: settings.evacuatorClasses,
      deployments: settings.deploymentEvacuator,
      deploymentRegistration: settings.deploymentRegistration,
    },
    evictionApi: { api: settings.evictionApi, responseSeconds: settings.evictionRequestResponseTimeout },
    evictionRequestController: settings.evictionRequestController,
    evictionRequestResponders: settings.evictionRequestResponders ?? settings.evictionRequestController,
    nodeLeaseDurationSeconds: settings.nodeLeaseDuration,
    stalledRunTimeoutSeconds: settings.stalledRunTimeout,
    minHistoryRetentionDays: settings.minHistoryRetention,
    readinessGates,
    autoscalerAnnotations: settings.autoscalerAnnotations,
    readinessGraceSeconds: settings.readinessGrace,
    leaderElection: completeTiming(timingOf(settings)),
    identityLeases: {
      enabled: settings.identityLeases,
      leaseDurationSeconds: settings.identityLeaseDuration,
      renewEverySeconds: settings.identityLeaseRenewInterval,
    },
    namespace,
    notifications: notificationSettingsOf(settings),
    cluster,
    workflowBundle,
    workerDeployment: workerDeploymentOf(settings),
    workflowCache,
    exportsTraces: settings.tracesExporter === 'otlp',
    install,
    windowJobs: windowJobsOf(settings),
    components,
    admissionKubeconfig,
  };
}

function commandLine(): Command {
  return new Command('npm start --')
    .description('Runs the worker: maintenances, evacuations and control loops, until it is stopped.')
    .addHelpText(
      'after',
      `
Kubernetes: KUBECONFIG, or the ServiceAccount when the worker runs in a cluster.
Temporal:   TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS..., TEMPORAL_API_KEY, or a profile of temporal.toml
            (TEMPORAL_CONFIG_FILE, TEMPORAL_PROFILE), as for the temporal CLI. TEMPORAL_API_KEY_FILE is a file with the key,
            NODE_MAINTENANCE_PAYLOAD_KEYS the folder of the keys that encrypt payloads.`,
    )
    .exitOverride();
}

const oneOf = (choices: readonly string[]) => ({ error: `expected one of ${choices.join(', ')}` });

const logLevels = ['trace', 'debug', 'info', 'warn', 'error'] as const;
const traceExporters = ['none', 'otlp'] as const;
const certificateIssuers = ['managed', 'external'] as const;
const evictionPolicies = ['reject', 'allow'] as const;
const classesError = {
  error: 'expected evacuator classes separated by commas, such as migrate.example.com, or * for every class',
};
const namespaceSchema = z
  .string()
  .default(SYSTEM_NAMESPACE)
  .refine((name) => namespaceProblem(name) === undefined, {
    error: ({ input }) => namespaceProblem(String(input)) ?? '',
  });
const componentsError = {
  error: `expected one or more of ${componentNames.join(', ')}, separated by commas`,
};
const isComponentName = (name: string) => (componentNames as readonly string[]).includes(name);
const clusterNameError = {
  error: 'expected at most 63 lower case letters, digits and "-", such as berlin-1',
};
const onOff = z.enum(['true', 'false'], oneOf(['true', 'false']));

const Settings = z
  .object({
    healthPort: portSetting('health', 'liveness and readiness', 8080),
    metricsPort: portSetting('metrics', 'Prometheus metrics', 9464),
    webhookPort: portSetting('webhook', 'the admission server', 9443),
    healthBindAddress: bindAddressSetting('health', 'liveness and readiness'),
    metricsBindAddress: bindAddressSetting('metrics', 'Prometheus metrics'),
    webhookBindAddress: bindAddressSetting('webhook', 'the admission webhooks'),
    webhookHost: setting(z.string().optional(), {
      flags: '--webhook-host <host>',
      variable: 'WEBHOOK_HOST',
      description: 'host at which the apiserver reaches the admission server',
      defaultText: 'the Service in a cluster, 127.0.0.1 elsewhere',
    }),
    webhookClientCa: setting(z.string().min(1, { error: 'expected a file' }).optional(), {
      flags: '--webhook-client-ca <file>',
      variable: 'WEBHOOK_CLIENT_CA',
      description:
        'authorities in PEM that sign the client certificates of the apiservers; the admission server answers nobody else',
      defaultText: 'every client is answered',
    }),
    webhookClientNames: setting(listSetting(), {
      flags: '--webhook-client-names <names>',
      variable: 'WEBHOOK_CLIENT_NAMES',
      description: 'common names of these certificates, separated by commas',
      defaultText: 'every name',
    }),
    webhookCertificates: setting(z.enum(certificateIssuers, oneOf(certificateIssuers)).default('managed'), {
      flags: '--webhook-certificates <issuer>',
      variable: 'WEBHOOK_CERTIFICATES',
      description:
        'managed: the admission server issues its certificate; external: another one, such as cert-manager, writes Secret node-maintenance-webhook with ca.crt, tls.crt and tls.key',
      choices: certificateIssuers,
      defaultText: 'managed',
    }),
    directEvictions: setting(z.enum(evictionPolicies, oneOf(evictionPolicies)).default('reject'), {
      flags: '--direct-evictions <policy>',
      variable: 'DIRECT_EVICTIONS',
      description:
        'whether to allow direct evictions (for example by kubectl drain) of pods that have evacuators',
      choices: evictionPolicies,
      defaultText: 'reject',
    }),
    evacuatorResponseTimeout: setting(
      wholeNumber('whole seconds', 1, 3_600).default(DEFAULT_EVACUATOR_RESPONSE_SECONDS),
      {
        flags: '--evacuator-response-timeout <seconds>',
        variable: 'EVACUATOR_RESPONSE_TIMEOUT',
        description: 'time within which an evacuator must respond, unless its class is known',
        defaultText: String(DEFAULT_EVACUATOR_RESPONSE_SECONDS),
      },
    ),
    evacuatorClasses: setting(
      listSetting().refine((names) => names.every((name) => name === '*' || isClassName(name)), classesError),
      {
        flags: '--evacuator-classes <classes>',
        variable: 'EVACUATOR_CLASSES',
        description: 'known classes, whose evacuators may take the whole progress deadline to respond',
        defaultText: 'the built-in ones, and those that have responded',
      },
    ),
    deploymentEvacuator: setting(
      onOff.default('true').transform((value) => value === 'true'),
      {
        flags: '--deployment-evacuator <true|false>',
        variable: 'DEPLOYMENT_EVACUATOR',
        description:
          'replace pods of Deployments that ask for it before they are evicted; false: another controller serves deployment.apps.k8s.io',
        choices: onOff.options,
        defaultText: 'true',
      },
    ),
    deploymentRegistration: setting(
      z.enum(deploymentRegistrations, oneOf(deploymentRegistrations)).default('annotated'),
      {
        flags: '--deployment-registration <choice>',
        variable: 'DEPLOYMENT_REGISTRATION',
        description:
          'annotated: only pods with the annotation of deployment.apps.k8s.io are replaced before they are evicted; automatic: also pods without evacuators of Deployments that have a single replica, or whose PodDisruptionBudget can never allow a disruption',
        choices: deploymentRegistrations,
        defaultText: 'annotated',
      },
    ),
    evictionApi: setting(z.enum(evictionApis, oneOf(evictionApis)).default(defaultEvictionApi.api), {
      flags: '--eviction-api <api>',
      variable: 'EVICTION_API',
      description:
        'by which API drains request that pods leave. evacuation: Evacuations; lifecycle: EvictionRequests of lifecycle.k8s.io, for pods that these support; auto: EvictionRequests where a controller serves them',
      choices: evictionApis,
      defaultText: defaultEvictionApi.api,
    }),
    evictionRequestResponseTimeout: setting(
      wholeNumber('whole seconds', 1, 3_600).default(defaultEvictionApi.responseSeconds),
      {
        flags: '--eviction-request-response-timeout <seconds>',
        variable: 'EVICTION_REQUEST_RESPONSE_TIMEOUT',
        description:
          'time within which a controller must answer an EvictionRequest; with --eviction-api auto, Evacuations are used after it',
        defaultText: String(defaultEvictionApi.responseSeconds),
      },
    ),
    evictionRequestController: setting(
      onOff.default('false').transform((value) => value === 'true'),
      {
        flags: '--eviction-request-controller <true|false>',
        variable: 'EVICTION_REQUEST_CONTROLLER',
        description:
          'act on EvictionRequests of lifecycle.k8s.io (alpha in Kubernetes 1.37), until another controller does; needs deploy/eviction-requests',
        choices: onOff.options,
        defaultText: 'false',
      },
    ),
    evictionRequestResponders: setting(onOff.transform((value) => value === 'true').optional(), {
      flags: '--eviction-request-responders <true|false>',
      variable: 'EVICTION_REQUEST_RESPONDERS',
      description:
        'respond to Evictions of lifecycle.k8s.io for pods of Deployments and DaemonSets that name our responders, whichever controller writes them; needs deploy/eviction-requests',
      choices: onOff.options,
      defaultText: 'as --eviction-request-controller',
    }),
    // KEP-1411 allows at most an hour.
    nodeLeaseDuration: setting(wholeNumber('whole seconds', 6, 3_600).default(900), {
      flags: '--node-lease-duration <seconds>',
      variable: 'NODE_LEASE_DURATION',
      description: 'duration of the maintenance Leases, in seconds',
      defaultText: '900',
    }),
    // By default the Leases of the nodes, which the run renews every 300 s, do not expire before.
    stalledRunTimeout: setting(wholeNumber('whole seconds', 0, 86_400).default(300), {
      flags: '--stalled-run-timeout <seconds>',
      variable: 'STALLED_RUN_TIMEOUT',
      description:
        'replace a workflow run whose workflow task has failed for this time by one that continues from the object; 0: never',
      defaultText: '300',
    }),
    minHistoryRetention: setting(wholeNumber('whole days', 0, 36_500).default(30), {
      flags: '--min-history-retention <days>',
      variable: 'MIN_HISTORY_RETENTION',
      description:
        'warn if the Temporal namespace keeps the histories of closed runs for fewer days; 0: never',
      defaultText: '30',
    }),
    readinessGates: setting(
      onOff.default('true').transform((value) => value === 'true'),
      {
        flags: '--readiness-gates <true|false>',
        variable: 'READINESS_GATES',
        description: 'enable readiness gates',
        choices: onOff.options,
        defaultText: 'true',
      },
    ),
    autoscalerAnnotations: setting(
      onOff.default('true').transform((value) => value === 'true'),
      {
        flags: '--autoscaler-annotations <true|false>',
        variable: 'AUTOSCALER_ANNOTATIONS',
        description:
          'keep Cluster Autoscaler and Karpenter from removing nodes that a maintenance holds, by their annotations',
        choices: onOff.options,
        defaultText: 'true',
      },
    ),
    readinessGrace: setting(wholeNumber('whole seconds', 0, 3_600).default(30), {
      flags: '--readiness-grace <seconds>',
      variable: 'READINESS_GRACE',
      description: 'grace period before a gate that became not ready taints the node',
      defaultText: '30',
    }),
    leaderElectLeaseDuration: setting(wholeNumber('whole seconds', 2, 120).default(3), {
      flags: '--leader-elect-lease-duration <seconds>',
      variable: 'LEADER_ELECT_LEASE_DURATION',
      description: 'time that other processes wait for a leader that has stopped renewing its Lease',
      defaultText: '3',
    }),
    leaderElectRenewDeadline: setting(decimalSeconds(0.5, 120).optional(), {
      flags: '--leader-elect-renew-deadline <seconds>',
      variable: 'LEADER_ELECT_RENEW_DEADLINE',
      description: 'time for which a leader that cannot renew its Lease continues to write',
      defaultText: 'two thirds of the lease duration',
    }),
    leaderElectRetryPeriod: setting(decimalSeconds(0.1, 60).optional(), {
      flags: '--leader-elect-retry-period <seconds>',
      variable: 'LEADER_ELECT_RETRY_PERIOD',
      description: 'interval of the renewals, and of attempts to acquire the Lease that failed',
      defaultText: 'a sixth of the lease duration',
    }),
    identityLeases: setting(
      onOff.default('true').transform((value) => value === 'true'),
      {
        flags: '--identity-leases <true|false>',
        variable: 'IDENTITY_LEASES',
        description: 'publish a Lease for this process, which kubectl maintenance workers lists',
        choices: onOff.options,
        defaultText: 'true',
      },
    ),
    identityLeaseDuration: setting(wholeNumber('whole seconds', 3, 86_400).default(3_600), {
      flags: '--identity-lease-duration <seconds>',
      variable: 'IDENTITY_LEASE_DURATION',
      description: 'time after which other processes delete the identity Lease if it is not renewed',
      defaultText: '3600',
    }),
    identityLeaseRenewInterval: setting(wholeNumber('whole seconds', 1, 3_600).default(10), {
      flags: '--identity-lease-renew-interval <seconds>',
      variable: 'IDENTITY_LEASE_RENEW_INTERVAL',
      description: 'interval of the renewals of the identity Lease, at most a third of its duration',
      defaultText: '10',
    }),
    logLevel: setting(z.enum(logLevels, oneOf(logLevels)).default('info'), {
      flags: '--log-level <level>',
      variable: 'LOG_LEVEL',
      description: 'least severe level to log',
      choices: logLevels,
      defaultText: 'info',
    }),
    namespace: setting(namespaceSchema, {
      flags: '--namespace <name>',
      variable: 'NODE_MAINTENANCE_NAMESPACE',
      description: 'namespace of the installation: of its ServiceAccounts, Leases, certificates and Service',
      defaultText: SYSTEM_NAMESPACE,
    }),
    cluster: setting(
      z
        .string()
        .regex(CLUSTER_NAME_PATTERN, clusterNameError)
        .refine((name) => !isReservedPrefix(name), {
          error: 'expected another beginning than node-maintenance-, maintenance-window- and notify-',
        })
        .optional(),
      {
        flags: '--cluster <name>',
        variable: 'NODE_MAINTENANCE_CLUSTER',
        description:
          'name of this cluster, required if clusters share a Temporal namespace: part of the task queue, workflow ids and Schedule ids',
        defaultText: 'none; notifications and searches contain the first 8 digits of its UID',
      },
    ),
    workflowBundle: setting(z.string().optional(), {
      flags: '--workflow-bundle <file>',
      variable: 'WORKFLOW_BUNDLE',
      description: 'file with the bundled workflows (node worker/printBundle.ts > FILE)',
      defaultText: 'bundled when the packages are installed, and again when the sources change',
    }),
    deploymentName: setting(deploymentPart(), {
      flags: '--deployment-name <name>',
      variable: 'TEMPORAL_DEPLOYMENT_NAME',
      description: 'Worker Deployment of Temporal that the worker belongs to; enables Worker Versioning',
      defaultText: 'none: Temporal sends tasks to workers of every release',
    }),
    buildId: setting(deploymentPart(), {
      flags: '--build-id <id>',
      variable: 'TEMPORAL_WORKER_BUILD_ID',
      description: 'with --deployment-name: version of the Worker Deployment',
      defaultText: 'the version of the package',
    }),
    setCurrentVersion: setting(onOffFlag('true'), {
      flags: '--set-current-version [true|false]',
      variable: 'SET_CURRENT_VERSION',
      description:
        'with --deployment-name: the leader makes its build the current version; false if another tool does',
      choices: onOff.options,
      defaultText: 'true',
    }),
    workflowCache: setting(wholeNumber('a number of runs', 10, 100_000).default(1_000), {
      flags: '--workflow-cache <runs>',
      variable: 'WORKFLOW_CACHE',
      description:
        'runs whose workflows stay in memory; a run beyond it is replayed from its history at its next event',
      defaultText: '1000',
    }),
    tracesExporter: setting(z.enum(traceExporters, oneOf(traceExporters)).default('none'), {
      flags: '--traces-exporter <exporter>',
      variable: 'OTEL_TRACES_EXPORTER',
      description:
        'whether to export traces by OTLP over HTTP, as other variables OTEL_... of OpenTelemetry configure it',
      choices: traceExporters,
      defaultText: 'none',
    }),
    install: setting(z.boolean().default(false), {
      flags: '--install',
      description: 'apply the CRDs, policies, webhooks, RBAC and namespaces of deploy/ first',
    }),
    windowJobs: setting(onOffFlag('false'), {
      flags: '--window-jobs [true|false]',
      variable: 'WINDOW_JOBS',
      description: 'with --install: also apply deploy/window-jobs, which lets maintenance windows run Jobs',
      choices: onOff.options,
      defaultText: 'false',
    }),
    workPodSecurity: setting(z.enum(podSecurityLevels, oneOf(podSecurityLevels)).optional(), {
      flags: '--work-pod-security <level>',
      variable: 'WORK_POD_SECURITY',
      description: 'with --window-jobs: pod security of the namespace in which Jobs of windows run',
      choices: podSecurityLevels,
      defaultText: 'baseline',
    }),
    components: setting(
      z
        .string()
        .default(componentNames.join(','))
        .transform((text) => new Set(text.split(',').map((name) => name.trim())))
        .refine((names): names is Set<ComponentName> => [...names].every(isComponentName), componentsError),
      {
        flags: '--components <names>',
        variable: 'COMPONENTS',
        description:
          'components that this process runs, separated by commas; admission alone needs no Temporal',
        defaultText: componentNames.join(','),
      },
    ),
    admissionKubeconfig: setting(z.string().optional(), {
      flags: '--admission-kubeconfig <file>',
      variable: 'ADMISSION_KUBECONFIG',
      description: 'kubeconfig for all requests of admission, so that it has a ServiceAccount of its own',
      defaultText: 'the same as for the controllers',
    }),
    ...notificationSettings,
    kubernetesServiceHost: setting(z.string().optional(), { variable: 'KUBERNETES_SERVICE_HOST' }),
    kubeconfig: setting(z.string().optional(), { variable: 'KUBECONFIG' }),
  })
  .check(({ value, issues }) => void issues.push(...checkNotificationSettings(value)))
  .check(({ value, issues }) => void issues.push(...checkWindowJobs(value), ...checkWebhookClients(value)))
  .check(({ value, issues }) => void issues.push(...checkWorkerDeployment(value)))
  .check(({ value, issues }) => void issues.push(...checkDeploymentRegistration(value)))
  .check(({ value, issues }) => void issues.push(...checkEvictionRequests(value)))
  .check(({ value, issues }) => void issues.push(...checkElection(value), ...checkIdentityLeases(value)));
type Settings = z.output<typeof Settings>;

/** The settings of the worker, for the documentation. */
export const settingSources: readonly SettingSource[] = sourcesOf(Settings);

function portSetting(name: string, purpose: string, defaultPort: number) {
  const port = wholeNumber('a port', 0, 65_535)
    .optional()
    .transform((number): Port => ({ number: number ?? defaultPort, isExplicit: number !== undefined }));
  return setting(port, {
    flags: `--${name}-port <port>`,
    variable: `${name.toUpperCase()}_PORT`,
    description: `port of ${purpose}`,
    defaultText: String(defaultPort),
  });
}

/** Returns a schema for a flag that has an optional value: the flag alone is true. */
function onOffFlag(byDefault: 'true' | 'false') {
  return z
    .union([z.literal(true), onOff], oneOf(onOff.options))
    .default(byDefault)
    .transform((value) => value === true || value === 'true');
}

/** Returns a schema for a name or build id of a Worker Deployment. Temporal separates the two by a dot or a colon. */
function deploymentPart() {
  return z
    .string()
    .regex(/^[^\s:]{1,255}$/, { error: 'expected at most 255 characters without spaces and ":"' })
    .optional();
}

/** Returns a schema for names that are separated by commas. */
function listSetting() {
  return z
    .string()
    .default('')
    .transform((text) =>
      text
        .split(',')
        .map((name) => name.trim())
        .filter(Boolean),
    );
}

type DeploymentSettings = Pick<Settings, 'deploymentName' | 'buildId' | 'setCurrentVersion'>;

/** A build id would have no effect on a worker without Worker Versioning. */
function checkWorkerDeployment({ deploymentName, buildId }: DeploymentSettings): z.core.$ZodRawIssue[] {
  if (deploymentName !== undefined || buildId === undefined) return [];
  return [
    { code: 'custom', path: ['deploymentName'], message: 'required with --build-id', input: undefined },
  ];
}

function workerDeploymentOf({ deploymentName, buildId, setCurrentVersion }: DeploymentSettings) {
  if (deploymentName === undefined) return undefined;
  return { deploymentName, buildId: buildId ?? packageVersion(), setsCurrentVersion: setCurrentVersion };
}

type RegistrationSettings = Pick<Settings, 'deploymentEvacuator' | 'deploymentRegistration' | 'evictionApi'>;

/** Rejects automatic registration if nothing in this installation would replace the pods, or some of them. */
function checkDeploymentRegistration(settings: RegistrationSettings): z.core.$ZodRawIssue[] {
  const { deploymentEvacuator, deploymentRegistration, evictionApi } = settings;
  if (deploymentRegistration === 'annotated') return [];
  const issue = (message: string): z.core.$ZodRawIssue => ({
    code: 'custom',
    path: ['deploymentRegistration'],
    message,
    input: deploymentRegistration,
  });
  return [
    ...(deploymentEvacuator ? [] : [issue('automatic requires --deployment-evacuator true')]),
    // Only Evacuations have evacuators that their pods do not name.
    ...(evictionApi === 'evacuation' ? [] : [issue('automatic requires --eviction-api evacuation')]),
  ];
}

type EvictionRequestSettings = Pick<Settings, 'evictionRequestController' | 'evictionRequestResponders'>;

/** Pods that name our responders would wait for each until the controller passes over it. */
function checkEvictionRequests(settings: EvictionRequestSettings): z.core.$ZodRawIssue[] {
  const { evictionRequestController, evictionRequestResponders } = settings;
  if (!evictionRequestController || evictionRequestResponders !== false) return [];
  const message = 'false requires --eviction-request-controller false';
  return [{ code: 'custom', path: ['evictionRequestResponders'], message, input: false }];
}

type ClientSettings = Pick<Settings, 'webhookClientCa' | 'webhookClientNames'>;

/** Names of clients that do not prove them would be worth nothing. */
function checkWebhookClients({ webhookClientCa, webhookClientNames }: ClientSettings): z.core.$ZodRawIssue[] {
  if (webhookClientCa !== undefined || webhookClientNames.length === 0) return [];
  const message = 'required with --webhook-client-names';
  return [{ code: 'custom', path: ['webhookClientCa'], message, input: webhookClientCa }];
}

function webhookClientsOf({ webhookClientCa, webhookClientNames }: ClientSettings): Config['webhookClients'] {
  return webhookClientCa === undefined ? undefined : { caFile: webhookClientCa, names: webhookClientNames };
}

type ElectionSettings = Pick<
  Settings,
  'leaderElectLeaseDuration' | 'leaderElectRenewDeadline' | 'leaderElectRetryPeriod'
>;

function timingOf(settings: ElectionSettings) {
  return {
    leaseDurationSeconds: settings.leaderElectLeaseDuration,
    renewDeadlineSeconds: settings.leaderElectRenewDeadline,
    retryPeriodSeconds: settings.leaderElectRetryPeriod,
  };
}

/** Margin for the requests in flight of the former leader, which must have arrived when the next one leads. */
const minMarginSeconds = 0.5;

function checkElection(settings: ElectionSettings): z.core.$ZodRawIssue[] {
  const timing = completeTiming(timingOf(settings));
  const { leaseDurationSeconds, renewDeadlineSeconds, retryPeriodSeconds } = timing;
  const longest = leaseDurationSeconds - minMarginSeconds;
  const issue = (path: keyof ElectionSettings, message: string): z.core.$ZodRawIssue => ({
    code: 'custom',
    path: [path],
    message,
    input: settings[path],
  });
  return [
    ...(renewDeadlineSeconds > longest
      ? [
          issue(
            'leaderElectRenewDeadline',
            `expected at most ${longest}, ${minMarginSeconds} less than --leader-elect-lease-duration`,
          ),
        ]
      : []),
    // One renewal may fail.
    ...(retryPeriodSeconds > renewDeadlineSeconds / 2
      ? [
          issue(
            'leaderElectRetryPeriod',
            `expected at most ${renewDeadlineSeconds / 2}, half of --leader-elect-renew-deadline`,
          ),
        ]
      : []),
  ];
}

type IdentitySettings = Pick<Settings, 'identityLeaseDuration' | 'identityLeaseRenewInterval'>;

/** A live process that misses two renewals keeps its Lease. */
function checkIdentityLeases(settings: IdentitySettings): z.core.$ZodRawIssue[] {
  const { identityLeaseDuration, identityLeaseRenewInterval } = settings;
  const longest = Math.floor(identityLeaseDuration / 3);
  if (identityLeaseRenewInterval <= longest) return [];
  const message = `expected at most ${longest}, a third of --identity-lease-duration`;
  const path = ['identityLeaseRenewInterval'];
  return [{ code: 'custom', path, message, input: identityLeaseRenewInterval }];
}

function bindAddressSetting(name: string, purpose: string) {
  const error = 'expected an IP address of this host, such as 127.0.0.1 or ::';
  return setting(
    z
      .string()
      .refine((address) => isIP(address) !== 0, { error })
      .optional(),
    {
      flags: `--${name}-bind-address <ip>`,
      variable: `${name.toUpperCase()}_BIND_ADDRESS`,
      description: `IP address that ${purpose} are served on`,
      defaultText: 'all addresses',
    },
  );
}

/** A level would have no effect on an installation without Jobs. */
function checkWindowJobs(values: Pick<Settings, 'windowJobs' | 'workPodSecurity'>): z.core.$ZodRawIssue[] {
  if (values.windowJobs || values.workPodSecurity === undefined) return [];
  const message = 'applies to the Jobs of windows only: add --window-jobs (WINDOW_JOBS=true) to enable them';
  return [{ code: 'custom', input: values.workPodSecurity, path: ['workPodSecurity'], message }];
}

function windowJobsOf({
  windowJobs,
  workPodSecurity = 'baseline',
}: Pick<Settings, 'windowJobs' | 'workPodSecurity'>): WindowJobs {
  return windowJobs ? { kind: 'Enabled', podSecurity: workPodSecurity } : { kind: 'None' };
}

/** Every pod has KUBERNETES_SERVICE_HOST; a pod with a KUBECONFIG works on another cluster than its own. */
function webhookHostOf({ webhookHost, kubernetesServiceHost, kubeconfig }: Settings): WebhookHost {
  if (webhookHost !== undefined) return { kind: 'Host', host: webhookHost };
  const isInCluster = kubernetesServiceHost && !kubeconfig;
  return isInCluster ? { kind: 'Service' } : { kind: 'Host', host: '127.0.0.1' };
}
