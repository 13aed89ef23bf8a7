import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { Command } from 'commander';
import * as z from 'zod';
import { EXPECTED_OBJECT_NAME, MAX_OBJECT_NAME_LENGTH, OBJECT_NAME_PATTERN } from '../api/names.ts';
import { parseSettings, setting, type SettingSource, sourcesOf, wholeNumber } from '../process/settings.ts';
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
    `Runs the node agent, which stops and starts the static pods of its node, until it is stopped. \`${program} return\` puts back what it holds, and ends.`,
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
    description: "the kubelet's staticPodPath; without this folder, the agent leaves static pods alone",
    defaultText: '/etc/kubernetes/manifests',
  }),
  holdDirectory: setting(absolutePath().optional(), {
    flags: '--hold-directory <folder>',
    variable: 'HOLD_DIRECTORY',
    description: 'folder for the manifests of stopped static pods, on the same file system',
    defaultText: 'held-manifests beside the static pod path',
  }),
};

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
      description: "the kubelet's podLogsDir, which tells the UIDs of static pods",
      defaultText: '/var/log/pods',
    }),
    bootIdFile: setting(absolutePath().default('/proc/sys/kernel/random/boot_id'), {
      flags: '--boot-id-file <file>',
      variable: 'BOOT_ID_FILE',
      description: 'file with the ID of the boot, as for the kubelet',
      defaultText: '/proc/sys/kernel/random/boot_id',
    }),
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
