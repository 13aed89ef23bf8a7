import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';
import type { KubeConfig } from '@kubernetes/client-node';

/**
 * Credential plugins (`users[].user.exec` of a kubeconfig) as kubectl runs them. client-node captures what they write to standard error, gives them an
 * input that never ends, waits for them without a limit, and keeps a token that the apiserver rejects; what changes that is private there.
 */

/** The authenticator of client-node for plugins. */
interface PluginAuthenticator {
  execFn: (command: string, args: string[] | undefined, options: SpawnOptions) => ChildProcess;
  /** User -> credentials. */
  tokenCache: Record<string, unknown>;
}

/** Nobody sees what a plugin asks. */
const unattendedTimeoutMs = 30_000;

/** Lets plugins talk to the user in a terminal, for example to log in. Without one, they must answer in time. */
export function letPluginsAsk(config: KubeConfig): void {
  for (const authenticator of pluginAuthenticators(config)) authenticator.execFn = spawnPlugin;
}

/** Discards the tokens of plugins, because the apiserver has rejected one. */
export function forgetPluginTokens(config: KubeConfig): void {
  for (const authenticator of pluginAuthenticators(config)) authenticator.tokenCache = {};
}

function pluginAuthenticators(config: KubeConfig): PluginAuthenticator[] {
  const { authenticators } = config as unknown as { authenticators: readonly Partial<PluginAuthenticator>[] };
  return authenticators.filter((one) => one.execFn !== undefined) as PluginAuthenticator[];
}

function spawnPlugin(command: string, args: string[] = [], options: SpawnOptions = {}): ChildProcess {
  if (!process.stdin.isTTY)
    return spawn(command, args, {
      ...options,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: unattendedTimeoutMs,
      killSignal: 'SIGKILL',
    });
  const child = spawn(command, args, { ...options, stdio: ['inherit', 'pipe', 'pipe'] });
  child.stderr.pipe(process.stderr, { end: false });
  return child;
}
