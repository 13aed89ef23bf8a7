import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { Command } from 'commander';
import * as z from 'zod';
import { EXPECTED_OBJECT_NAME, MAX_OBJECT_NAME_LENGTH, OBJECT_NAME_PATTERN } from '../api/names.ts';
import { parseShutdownPriorities, type ShutdownPriority } from '../domain/shutdown/priorities.ts';
import { parseSettings, setting, type SettingSource, sourcesOf, wholeNumber } from '../process/settings.ts';
import type { RebootOptions } from './reboot/reboot.ts';
import type { ShutdownOptions } from './shutdown/shutdown.ts';
import type { FolderPaths } from './staticPods/folders.ts';
import type { StaticPodOptions } from './staticPods/staticPods.ts';

/** The configuration of the node agent, parsed once. */
export interface AgentConfig {
  readonly logLevel: string;
  /** Name of the Node of this host. */
  readonly node: string;
  /** Undefined: KUBECONFIG, or the ServiceAccount of the pod. */
  readonly kubeconfig: string | undefined;
  /** File with the ID of the boot, which the kubelet publishes. */
  readonly bootIdFile: string;
  readonly staticPods: StaticPodOptions;
  /** Undefined: a shutdown of the host creates no maintenance. */
  readonly shutdown: ShutdownOptions | undefined;
  /** Undefined: the agent does not reboot the host. */
  readonly reboot: Required<Pick<RebootOptions, 'command' | 'sentinel'>> | undefined;
  /** Undefined: no port is opened. */
  readonly health: { readonly port: number; readonly address: string } | undefined;
}

/** Throws an Error that names flag, variable and remedy of each invalid setting, or commander's CommanderError. */
export function parseAgentConfig(
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
  program = 'npm run agent --',
): AgentConfig {
  const command = commandLine(
    program,
    `Runs the node agent, which stops and starts the static pods of its node, delays shutdowns until it is drained, and reboots it, until it is stopped. \`${program} return\` puts back what it holds, and ends.`,
  );
  const settings = parseSettings(Settings, { command, argv, env });
  return {
    logLevel: settings.logLevel,
    node: settings.node,
    kubeconfig: settings.kubeconfig,
    bootIdFile: settings.bootIdFile,
    staticPods: {
      ...foldersOf(settings),
      controlPlaneReturnAfterSeconds: settings.controlPlaneReturnAfter,
      podLogDirectory: settings.podLogDirectory,
    },
    shutdown: settings.preferNodeMaintenance ? shutdownOf(settings, env) : undefined,
    reboot:
      settings.rebootCommand === ''
        ? undefined
        : { command: settings.rebootCommand, sentinel: settings.rebootSentinel },
    health:
      settings.healthPort === undefined
        ? undefined
        : { port: settings.healthPort, address: settings.healthBindAddress },
  };
}

/** Parses the settings of `return`. Throws as `parseAgentConfig` does. */
export function parseReturnPaths(
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
  program = 'npm run agent --',
): FolderPaths {
  const command = commandLine(
    `${program} return`,
    'Puts back the manifests that a stopped node agent holds, without an apiserver. Remove an agent only after this.',
  );
  return foldersOf(parseSettings(ReturnSettings, { command, argv, env }));
}

const systemBus = 'unix:path=/run/dbus/system_bus_socket';

function shutdownOf(settings: z.output<typeof Settings>, env: NodeJS.ProcessEnv): ShutdownOptions {
  return {
    priorities: settings.shutdownPriorities,
    limitSeconds: settings.shutdownLimit,
    kubeletPeriodSeconds: settings.kubeletShutdownPeriod,
    apiserverTimeoutSeconds: settings.apiserverTimeout,
    busAddress: env['DBUS_SYSTEM_BUS_ADDRESS'] || systemBus,
    runDirectory: settings.runDirectory,
  };
}

function foldersOf({ staticPodPath: path, holdDirectory }: z.output<typeof ReturnSettings>): FolderPaths {
  const staticPodPath = resolve(path);
  return { staticPodPath, holdDirectory: holdDirectory ?? join(dirname(staticPodPath), 'held-manifests') };
}

function commandLine(program: string, description: string): Command {
  return new Command(program).description(description).exitOverride();
}

const logLevels = ['trace', 'debug', 'info', 'warn', 'error'] as const;
const absolutePath = () => z.string().refine(isAbsolute, { error: 'expected an absolute path' });
/** A longer name cannot be the value of a label. */
const maxNodeNameLength = 63;

const pathSettings = {
  staticPodPath: setting(absolutePath().default('/etc/kubernetes/manifests'), {
    flags: '--static-pod-path <folder>',
    variable: 'STATIC_POD_PATH',
    description: "the kubelet's staticPodPath; without this folder, the agent stops no static pods",
    defaultText: '/etc/kubernetes/manifests',
  }),
  holdDirectory: setting(absolutePath().optional(), {
    flags: '--hold-directory <folder>',
    variable: 'HOLD_DIRECTORY',
    description: 'folder for the manifests of stopped static pods, on the same file system',
    defaultText: 'held-manifests beside the static pod path',
  }),
};

const priorities = z.string().transform((text, context): readonly ShutdownPriority[] => {
  const parsed = parseShutdownPriorities(text);
  if (parsed.ok) return parsed.priorities;
  context.addIssue({ code: 'custom', message: parsed.problem });
  return z.NEVER;
});

const Settings = z
  .object({
    node: setting(
      z
        .string()
        .default(() => hostname().toLowerCase())
        .refine((name) => OBJECT_NAME_PATTERN.test(name) && name.length <= MAX_OBJECT_NAME_LENGTH, {
          error: EXPECTED_OBJECT_NAME,
        })
        .refine((name) => name.length <= maxNodeNameLength, {
          error: `expected at most ${maxNodeNameLength} characters: a node with a longer name cannot have an agent, because Evacuations carry its name as a label`,
        }),
      {
        flags: '--node <name>',
        variable: 'NODE_NAME',
        description: 'name of the Node of this host',
        defaultText: 'the hostname in lower case',
      },
    ),
    kubeconfig: setting(z.string().min(1, { error: 'expected a file' }).optional(), {
      flags: '--kubeconfig <file>',
      variable: 'KUBECONFIG',
      description:
        'kubeconfig with a token that is bound to the node; the agent renews the token in this file',
      defaultText: 'the ServiceAccount of the pod',
    }),
    ...pathSettings,
    controlPlaneReturnAfter: setting(wholeNumber('whole seconds', 1, 86_400).default(600), {
      flags: '--control-plane-return-after <seconds>',
      variable: 'CONTROL_PLANE_RETURN_AFTER',
      description: 'put held static pods of the control plane back after this time without an apiserver',
      defaultText: '600',
    }),
    podLogDirectory: setting(absolutePath().default('/var/log/pods'), {
      flags: '--pod-log-directory <folder>',
      variable: 'POD_LOG_DIRECTORY',
      description: "the kubelet's podLogsDir, which contains the UIDs of static pods",
      defaultText: '/var/log/pods',
    }),
    bootIdFile: setting(absolutePath().default('/proc/sys/kernel/random/boot_id'), {
      flags: '--boot-id-file <file>',
      variable: 'BOOT_ID_FILE',
      description: 'file with the ID of the boot, as for the kubelet',
      defaultText: '/proc/sys/kernel/random/boot_id',
    }),
    preferNodeMaintenance: setting(
      z
        .enum(['true', 'false'], { error: 'expected true or false' })
        .default('true')
        .transform((text) => text === 'true'),
      {
        flags: '--prefer-node-maintenance-during-graceful-shutdown <boolean>',
        variable: 'PREFER_NODE_MAINTENANCE_DURING_GRACEFUL_SHUTDOWN',
        description: 'whether a shutdown of the host waits until a NodeMaintenance has drained the node',
        choices: ['true', 'false'],
        defaultText: 'true',
      },
    ),
    shutdownPriorities: setting(priorities.default([]), {
      flags: '--shutdown-priorities <list>',
      variable: 'SHUTDOWN_PRIORITIES',
      description:
        "pod priorities for the drain plan of a shutdown, each with the seconds that its pods may take, as in the kubelet's shutdownGracePeriodByPodPriority: 0:60,1000:120,2000000000",
      defaultText: 'the priorities of every drain plan',
    }),
    shutdownLimit: setting(wholeNumber('whole seconds', 1, 86_400).optional(), {
      flags: '--shutdown-limit <seconds>',
      variable: 'SHUTDOWN_LIMIT',
      description: "longest delay of a shutdown; logind's InhibitDelayMaxSec limits it, too",
      defaultText: 'the sum of the shutdown priorities, otherwise InhibitDelayMaxSec',
    }),
    kubeletShutdownPeriod: setting(wholeNumber('whole seconds', 0, 86_400).default(30), {
      flags: '--kubelet-shutdown-period <seconds>',
      variable: 'KUBELET_SHUTDOWN_PERIOD',
      description: "the kubelet's shutdownGracePeriod, which is left to it at the end",
      defaultText: '30',
    }),
    apiserverTimeout: setting(wholeNumber('whole seconds', 1, 3_600).default(10), {
      flags: '--apiserver-timeout <seconds>',
      variable: 'APISERVER_TIMEOUT',
      description: 'time without an apiserver after which the kubelet terminates the pods of a shutdown',
      defaultText: '10',
    }),
    runDirectory: setting(absolutePath().default('/run/node-maintenance-agent'), {
      flags: '--run-directory <folder>',
      variable: 'RUN_DIRECTORY',
      description: 'folder that a boot empties, for what a restarted agent must know about a shutdown',
      defaultText: '/run/node-maintenance-agent',
    }),
    rebootCommand: setting(z.string().default('systemctl reboot'), {
      flags: '--reboot-command <command>',
      variable: 'REBOOT_COMMAND',
      description: 'shell command that reboots the host; if it is empty, the agent does not reboot it',
      defaultText: 'systemctl reboot',
    }),
    rebootSentinel: setting(
      z
        .string()
        .default('/var/run/reboot-required')
        .refine((path) => path === '' || isAbsolute(path), {
          error: 'expected an absolute path, or an empty value to disable the sentinel file',
        }),
      {
        flags: '--reboot-sentinel <file>',
        variable: 'REBOOT_SENTINEL',
        description: 'file that says that the host needs a reboot',
        defaultText: '/var/run/reboot-required',
      },
    ),
    healthPort: setting(wholeNumber('a port', 1, 65_535).optional(), {
      flags: '--health-port <port>',
      variable: 'HEALTH_PORT',
      description: 'port of liveness (/healthz) and Prometheus metrics (/metrics)',
      defaultText: 'none',
    }),
    healthBindAddress: setting(
      z
        .string()
        .default('127.0.0.1')
        .refine((address) => isIP(address) !== 0, {
          error: 'expected an IP address of this host, such as 127.0.0.1',
        }),
      {
        flags: '--health-bind-address <ip>',
        variable: 'HEALTH_BIND_ADDRESS',
        description: 'IP address of that port',
        defaultText: '127.0.0.1',
      },
    ),
    logLevel: setting(
      z.enum(logLevels, { error: `expected one of ${logLevels.join(', ')}` }).default('info'),
      {
        flags: '--log-level <level>',
        variable: 'LOG_LEVEL',
        description: 'least severe level that is logged',
        choices: logLevels,
        defaultText: 'info',
      },
    ),
  })
  .check(holdsOutside);

const ReturnSettings = z.object(pathSettings).check(holdsOutside);

function holdsOutside({
  value,
  issues,
}: z.core.ParsePayload<z.output<z.ZodObject<typeof pathSettings>>>): void {
  const { holdDirectory, staticPodPath } = value;
  if (holdDirectory === undefined || !isWithin(resolve(holdDirectory), resolve(staticPodPath))) return;
  const message = 'expected a folder outside the static pod path, which the kubelet reads';
  issues.push({ code: 'custom', path: ['holdDirectory'], message, input: holdDirectory });
}

/** The settings of the agent, for the documentation. */
export const agentSettingSources: readonly SettingSource[] = sourcesOf(Settings);

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}
