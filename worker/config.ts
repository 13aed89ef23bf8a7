import { Command, Option } from 'commander';
import * as z from 'zod';
import { SYSTEM_NAMESPACE } from '../api/names.ts';
import { type Notifications, notificationsIn, noticeOptions } from './noticeConfig.ts';

/** Everything that the worker can be told, parsed once. Kubernetes and Temporal have settings of their own, see `--help`. */
export interface Config {
  logLevel: string;
  /** `named`: the port was asked for, so that its being taken is an error. */
  healthPort: Port;
  metricsPort: Port;
  webhookPort: Port;
  webhookHost: WebhookHost;
  /** What becomes of evictions, as of `kubectl drain`, of pods that have evacuators. */
  plainEvictions: 'refuse' | 'allow';
  /** How long the Lease of a node under maintenance stays ours without a renewal; it is renewed at a third of that. */
  nodeLeaseDurationSeconds: number;
  /** Whether nodes wait for their readiness gates. */
  readinessGates: boolean;
  /** How long a readiness gate may be lost before its node takes no new pods. */
  readinessGraceSeconds: number;
  /** Namespace of the leader election Leases, and of the admission server's certificates and Service. */
  namespace: string;
  /** Who is told what happens; undefined when nobody is. */
  notifications: Notifications | undefined;
  /** What notices call the cluster; undefined: by its UID. */
  clusterName: string | undefined;
  install: boolean;
  /** Serve admission and nothing else. */
  admissionOnly: boolean;
}

/** Where the apiserver finds the admission server. */
export type WebhookHost = { kind: 'Service' } | { kind: 'Host'; host: string };

export interface Port {
  number: number;
  named: boolean;
}

const logLevels = ['trace', 'debug', 'info', 'warn', 'error'];

/** Throws commander's CommanderError, after it has printed what is wrong, for arguments that make no sense. */
export function parseConfig(argv: readonly string[], env: NodeJS.ProcessEnv): Config {
  const command = commandLine();
  const before = process.env;
  try {
    // commander reads option values from process.env alone.
    process.env = env;
    command.parse(argv, { from: 'user' });
  } finally {
    process.env = before;
  }
  const options = command.opts();
  const port = (name: string) => ({
    number: options[name] as number,
    named: command.getOptionValueSource(name) !== 'default',
  });
  return {
    logLevel: options['logLevel'] as string,
    healthPort: port('healthPort'),
    metricsPort: port('metricsPort'),
    webhookPort: port('webhookPort'),
    webhookHost: webhookHost(options['webhookHost'] as string | undefined, env),
    plainEvictions: options['plainEvictions'] as Config['plainEvictions'],
    nodeLeaseDurationSeconds: options['nodeLeaseDuration'] as number,
    readinessGates: options['readinessGates'] === 'true',
    readinessGraceSeconds: options['readinessGrace'] as number,
    namespace: options['namespace'] as string,
    notifications: notificationsIn(options),
    clusterName: options['clusterName'] as string | undefined,
    install: options['install'] as boolean,
    admissionOnly: options['admissionOnly'] as boolean,
  };
}

function commandLine(): Command {
  const command = new Command('npm start --')
    .description('The worker: runs maintenances, evacuations and control loops until it is stopped.')
    .addHelpText(
      'after',
      `
Kubernetes: KUBECONFIG, or the ServiceAccount when it runs in a cluster.
Temporal:   TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS..., TEMPORAL_API_KEY, or a profile of temporal.toml
            (TEMPORAL_CONFIG_FILE, TEMPORAL_PROFILE), as the temporal CLI has them.`,
    )
    .addOption(portOption('--health-port <port>', 'liveness and readiness', 'HEALTH_PORT', 8080))
    .addOption(portOption('--metrics-port <port>', 'Prometheus', 'METRICS_PORT', 9464))
    .addOption(portOption('--webhook-port <port>', 'admission server', 'WEBHOOK_PORT', 9443))
    .addOption(
      new Option(
        '--webhook-host <host>',
        'host by which the apiserver finds the admission server (default: the Service in a cluster, 127.0.0.1 elsewhere)',
      ).env('WEBHOOK_HOST'),
    )
    .addOption(
      new Option(
        '--plain-evictions <what>',
        'evictions, as of kubectl drain, of pods whose annotations name evacuators',
      )
        .choices(['refuse', 'allow'])
        .env('PLAIN_EVICTIONS')
        .default('refuse'),
    )
    .addOption(nodeLeaseDurationOption())
    .addOption(
      new Option('--readiness-gates <true|false>', 'whether nodes wait for the pods that they need')
        .choices(['true', 'false'])
        .env('READINESS_GATES')
        .default('true'),
    )
    .addOption(readinessGraceOption())
    .addOption(new Option('--log-level <level>').choices(logLevels).env('LOG_LEVEL').default('info'))
    .addOption(
      new Option('--namespace <name>', 'namespace of the Leases, certificates and Service')
        .env('NODE_MAINTENANCE_NAMESPACE')
        .default(SYSTEM_NAMESPACE),
    )
    .option('--install', 'apply the CRDs, RBAC, policies and namespaces of deploy/ first', false)
    .option('--admission-only', 'serve admission and nothing else; needs no Temporal', false)
    .exitOverride();
  for (const option of noticeOptions()) command.addOption(option);
  return command;
}

/** Every pod has KUBERNETES_SERVICE_HOST; one with a KUBECONFIG works on another cluster than its own. */
function webhookHost(host: string | undefined, env: NodeJS.ProcessEnv): WebhookHost {
  if (host !== undefined) return { kind: 'Host', host };
  const isInCluster = env['KUBERNETES_SERVICE_HOST'] && !env['KUBECONFIG'];
  return isInCluster ? { kind: 'Service' } : { kind: 'Host', host: '127.0.0.1' };
}

/** KEP-1411 wants at most an hour. */
const leaseDuration = z.coerce.number().int().min(6).max(3_600);

function nodeLeaseDurationOption(): Option {
  return new Option(
    '--node-lease-duration <seconds>',
    'how long the Lease of a node under maintenance outlives its last renewal',
  )
    .env('NODE_LEASE_DURATION')
    .default(900)
    .argParser((value) => {
      const parsed = leaseDuration.safeParse(value);
      if (parsed.success) return parsed.data;
      throw new Error(
        `--node-lease-duration (NODE_LEASE_DURATION): expected whole seconds, 6 to 3600 (got "${value}")`,
      );
    });
}

const readinessGrace = z.coerce.number().int().min(0).max(3_600);

function readinessGraceOption(): Option {
  return new Option(
    '--readiness-grace <seconds>',
    'how long a readiness gate may be lost before its node takes no new pods',
  )
    .env('READINESS_GRACE')
    .default(30)
    .argParser((value) => {
      const parsed = readinessGrace.safeParse(value);
      if (parsed.success) return parsed.data;
      throw new Error(
        `--readiness-grace (READINESS_GRACE): expected whole seconds, 0 to 3600 (got "${value}")`,
      );
    });
}

const portNumber = z.coerce.number().int().min(0).max(65_535);

function portOption(flags: string, what: string, variable: string, fallback: number): Option {
  return new Option(flags, what)
    .env(variable)
    .default(fallback)
    .argParser((value) => {
      const parsed = portNumber.safeParse(value);
      if (!parsed.success)
        throw new Error(`${flags.split(' ')[0]} (${variable}): expected a port, 0 to 65535 (got "${value}")`);
      return parsed.data;
    });
}
