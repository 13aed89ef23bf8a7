import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { AGENT_SERVICE_ACCOUNT, SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import { programOf } from './program.ts';

const killer = new URL('killAtFileOperation.ts', import.meta.url).href;
const program = programOf('agent/main.ts');

export interface AgentProcess {
  /** Ends it as a crash does. */
  kill(): Promise<void>;
  /** Ends it as systemd does, and returns its exit code. */
  stop(): Promise<number | null>;
  exited(): Promise<number | null>;
  log(): string;
}

export interface AgentOptions {
  args?: string[];
  kubeconfig?: string;
  /** Kills the agent before or after it changes a name in its folders, such as `link:after`. */
  killAt?: string;
}

/** The agent must neither delay a shutdown of the machine that runs the tests nor reboot it. */
const staysUp = { PREFER_NODE_MAINTENANCE_DURING_GRACEFUL_SHUTDOWN: 'false', REBOOT_COMMAND: '' };

/** The host of a node agent: its folders, and its kubeconfig. */
export class AgentHost {
  readonly dir: string;
  readonly node: string;
  readonly kubeconfig: string;
  readonly #children = new Set<ChildProcess>();
  #starts = 0;

  private constructor(dir: string, node: string, kubeconfig: string) {
    this.dir = dir;
    this.node = node;
    this.kubeconfig = kubeconfig;
  }

  static async of(
    admin: Kube,
    { node, kubeconfig }: { node: string; kubeconfig: string },
  ): Promise<AgentHost> {
    const dir = await mkdtemp(join(tmpdir(), 'nm-agent-'));
    await mkdir(join(dir, 'manifests'));
    const path = join(dir, 'kubeconfig');
    await writeFile(path, await agentKubeconfig(admin, node, kubeconfig), { mode: 0o600 });
    return new AgentHost(dir, node, path);
  }

  get manifests(): string {
    return join(this.dir, 'manifests');
  }

  get hold(): string {
    return join(this.dir, 'held-manifests');
  }

  /** Puts a manifest into the folder of the kubelet. */
  async placed(file: string, manifest: object): Promise<void> {
    await writeFile(join(this.manifests, file), stringify(manifest));
  }

  async present(): Promise<string[]> {
    return files(this.manifests);
  }

  async held(): Promise<string[]> {
    return files(this.hold);
  }

  async aside(): Promise<string[]> {
    return files(join(this.hold, 'set-aside'));
  }

  start({ args = [], kubeconfig = this.kubeconfig, killAt }: AgentOptions = {}): AgentProcess {
    this.#starts += 1;
    const logFile = join(this.dir, `agent-${this.#starts}.log`);
    const log = openSync(logFile, 'a');
    const folders = ['--node', this.node, '--static-pod-path', this.manifests, '--log-level', 'debug'];
    const preload = killAt === undefined ? [] : ['--import', killer];
    const child = spawn(process.execPath, [...preload, program, ...folders, ...args], {
      env: { ...process.env, ...staysUp, KUBECONFIG: kubeconfig, NODE_OPTIONS: '', NM_KILL_AT: killAt },
      stdio: ['ignore', log, log],
    });
    closeSync(log);
    this.#children.add(child);
    const exited = once(child, 'exit').then(([code]) => code as number | null);
    const end = (signal: NodeJS.Signals) => {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      return exited;
    };
    return {
      kill: () => end('SIGKILL').then(() => undefined),
      stop: () => end('SIGTERM'),
      exited: () => exited,
      log: () => readFileSync(logFile, 'utf8'),
    };
  }

  async close(): Promise<void> {
    for (const child of this.#children) child.kill('SIGKILL');
    await rm(this.dir, { recursive: true, force: true });
  }
}

async function files(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isFile())
    .map(({ name }) => name)
    .toSorted();
}

/** Returns a token of the agents' account, bound to a node. */
export async function nodeToken(admin: Kube, node: string): Promise<string> {
  const { metadata } = (await admin.get(resources.nodes, { name: node })) ?? {};
  const account = { namespace: SYSTEM_NAMESPACE, name: AGENT_SERVICE_ACCOUNT };
  const about = { apiVersion: 'v1', kind: 'Node', name: node, uid: metadata?.uid };
  return admin.requestNodeToken(account, { node: about, expirationSeconds: 3_600 });
}

/** Returns a copy of a kubeconfig, with a token in place of its credentials. */
export function withToken(kubeconfig: string, token: string): string {
  const config = parse(readFileSync(kubeconfig, 'utf8')) as { users: { user: object }[] };
  for (const entry of config.users) entry.user = { token };
  return stringify(config);
}

async function agentKubeconfig(admin: Kube, node: string, kubeconfig: string): Promise<string> {
  return withToken(kubeconfig, await nodeToken(admin, node));
}
