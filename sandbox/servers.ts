import { closeSync, fstatSync, openSync, readSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readiness } from './apiserver.ts';
import { errorMessage, PortConflictError, SandboxError } from './errors.ts';
import * as kubernetes from './kubernetes.ts';
import {
  isAdditional,
  type Layout,
  readState,
  type RealNodeName,
  type SandboxState,
  type ServerName,
} from './layout.ts';
import { acceptsConnections, listensOn } from './ports.ts';
import * as processes from './processes.ts';
import { bootIdOf, nodeFiles, removeRealNodes } from './realNodes/node.ts';
import { nodePath } from './realNodes/requirements.ts';
import { temporalReadiness } from './temporal.ts';
import { until, type WaitOptions } from './until.ts';

export interface SandboxServer {
  /** Stops it with SIGTERM, as an administrator would; returns when it has ended. */
  stop(): Promise<void>;
  /** Starts it again on the same port; returns when it answers. Does nothing while it runs. */
  start(): Promise<void>;
  /** Starts it without the arguments that begin with one of these, until its next start. */
  startWithout(flags: readonly string[]): Promise<void>;
  /** Ends it with SIGKILL, as a crash would; returns when it has ended. */
  kill(): Promise<void>;
  /** Makes it hang: it accepts connections and answers nothing. */
  pause(): void;
  resume(): void;
  /** Makes its writes beyond this length of a file fail, as on a full disk, until it is started again; undefined: no longer. It may exit. */
  limitFileSize(bytes: number | undefined): void;
  /** Returns undefined when it does not run. */
  pid(): number | undefined;
}

/** The environment variable that marks every process of a sandbox; its value is the directory. */
const mark = 'NODE_MAINTENANCE_SANDBOX';

/** Limits each step of a start, on a machine that is busy with other work. */
export const stepTimeoutMs = 180_000;

/** A start of servers. */
export interface Start {
  layout: Layout;
  state: SandboxState;
  wait: WaitOptions;
}

/** Starts one server and waits until it answers. Throws PortConflictError when another process has its port. */
export async function startServer({ layout, state, wait }: Start, name: ServerName): Promise<void> {
  wait.signal?.throwIfAborted();
  if (name === 'kwok') await kubernetes.deleteKwokLeases(kubernetes.apiServerOf(layout, state));
  const logOffset = statSync(layout.log(name), { throwIfNoEntry: false })?.size ?? 0;
  const { identity, port } = launchServer(layout, state, name);
  const probe = isRealNode(name) ? realNodeReadiness(name) : (probes[name] ?? (async () => undefined));
  let listens = false;
  const notReady = async () => {
    if (!processes.isAlive(identity)) throw exitError(layout, name, logOffset);
    // Another process may have the port, even a server of another sandbox: its answers must not count.
    listens ||=
      port === undefined || ((await acceptsConnections(state, port)) && listensOn(identity.pid, port));
    if (!listens) return `it does not listen on port ${port}`;
    return probe(layout, state);
  };
  await until(`${name} to answer (its log is ${layout.log(name)})`, notReady, wait);
}

/** Starts one server, and does not wait for it. */
export function launchServer(
  layout: Layout,
  state: SandboxState,
  name: ServerName,
): { identity: processes.ProcessIdentity; port: number | undefined } {
  const server = state.servers[name];
  if (server === undefined) throw new SandboxError(`The sandbox in ${layout.dir} has no ${name}`);
  const { command, args, port } = server;
  // The node has not booted yet.
  if (isRealNode(name)) rmSync(nodeFiles(layout, name).bootId, { force: true });
  const identity = processes.launch({
    command,
    args,
    // Inherits nothing: the user's proxies, profiles and kubeconfigs are about other servers. With Go's default of 100, the
    // apiserver spends a sixth of its CPU time on garbage collection.
    env: {
      [mark]: layout.dir,
      HOME: layout.dir,
      PATH: isAdditional(name) ? nodePath : layout.bin,
      TMPDIR: join(layout.dir, 'run'),
      GOGC: '200',
    },
    log: layout.log(name),
    pidFile: layout.pidFile(name),
  });
  return { identity, port };
}

/** The probes of servers that answer requests; the others show by their work that they run. */
const probes: Partial<
  Record<ServerName, (layout: Layout, state: SandboxState) => Promise<string | undefined>>
> = {
  etcd: async (_, { ports }) => etcdReadiness(ports.etcd),
  'kube-apiserver': async (layout, state) => readiness(kubernetes.apiServerOf(layout, state)),
  temporal: async (layout, state) => temporalReadiness(layout, state, state.servers.temporal.command),
};

/** A probe for `until`: returns undefined when the kubelet of this boot has registered the node and it is Ready. */
export function realNodeReadiness(name: RealNodeName) {
  return (layout: Layout, state: SandboxState) =>
    kubernetes.nodeReadiness(kubernetes.apiServerOf(layout, state), name, bootIdOf(layout, name));
}

async function etcdReadiness(port: number): Promise<string | undefined> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/health`, { signal: AbortSignal.timeout(5_000) });
    return response.ok ? undefined : `/health answers ${response.status}`;
  } catch (error) {
    return errorMessage(error);
  }
}

/** Returns the error for a server that exited while it was starting, with the relevant line of its log. */
function exitError(layout: Layout, name: ServerName, logOffset: number): SandboxError {
  const file = layout.log(name);
  const lines = readFrom(file, logOffset).trim().split('\n');
  const line =
    lines.findLast((text) => /error|fatal|panic|in use/i.test(text)) ?? (lines.at(-1) || 'it logged nothing');
  const message = `${name} exited while starting: ${line.slice(0, 300)} (full log: ${file})`;
  const port = /:(\d+): bind: address already in use/.exec(lines.join('\n'))?.[1];
  return port === undefined ? new SandboxError(message) : new PortConflictError(Number(port), message);
}

/** Reads a log from an offset on: earlier lines belong to previous starts. */
function readFrom(file: string, offset: number): string {
  const descriptor = openSync(file, 'r');
  try {
    const buffer = Buffer.alloc(Math.max(0, fstatSync(descriptor).size - offset));
    return buffer.toString('utf8', 0, readSync(descriptor, buffer, 0, buffer.length, offset));
  } finally {
    closeSync(descriptor);
  }
}

/** Stops every process of the sandbox. Returns the names of those that ran. */
export async function stopServers(layout: Layout): Promise<string[]> {
  const stopped: string[] = [];
  const state = readState(layout);
  const additional = (Object.keys(state?.servers ?? {}) as ServerName[]).filter(isAdditional);
  for (const group of [additional, ...stopOrder]) {
    const running = group.flatMap((name) => {
      const identity = runningServer(layout, name);
      return identity ? [{ name, identity }] : [];
    });
    stopped.push(...running.map(({ name }) => name));
    await Promise.all(
      running.map(({ name, identity }) => processes.terminate(identity, gracePeriodMs(name))),
    );
  }
  for (const identity of runningProcesses(layout)) {
    stopped.push(processes.commandName(identity.pid));
    await processes.kill(identity);
  }
  await removeRealNodes(layout, state?.realNodes);
  rmSync(layout.env, { force: true });
  rmSync(dirname(layout.pidFile('etcd')), { recursive: true, force: true });
  return stopped;
}

function isRealNode(name: string): name is RealNodeName {
  return name.startsWith('real-');
}

/** Clients stop before the servers they talk to, so that they log no errors. */
const stopOrder: readonly (readonly ServerName[])[] = [
  ['temporal', 'kwok', 'kube-scheduler', 'kube-controller-manager'],
  ['kube-apiserver'],
  ['etcd'],
];

/** Returns the time between SIGTERM and SIGKILL. A kube-apiserver with open watches would take more than a minute to exit. */
function gracePeriodMs(name: ServerName): number {
  // Everything in a real node ends with its first process.
  if (isRealNode(name)) return 0;
  return name === 'kube-apiserver' ? 1_000 : 5_000;
}

export async function killServers(layout: Layout): Promise<void> {
  await Promise.all(runningProcesses(layout).map(processes.kill));
  await removeRealNodes(layout, readState(layout)?.realNodes);
}

/** Returns all processes of the sandbox, also those that a killed launcher left without a pid file. */
export function runningProcesses(layout: Layout): processes.ProcessIdentity[] {
  return processes.findByEnvironment(mark, layout.dir);
}

export function runningServer(layout: Layout, name: ServerName): processes.ProcessIdentity | undefined {
  const identity = processes.readPidFile(layout.pidFile(name));
  return identity && processes.isAlive(identity) ? identity : undefined;
}

/** Returns one server of a sandbox, for tests of outages. */
export function serverOf(layout: Layout, state: SandboxState, name: ServerName): SandboxServer {
  const running = () => runningServer(layout, name);
  const withRunning = async (act: (identity: processes.ProcessIdentity) => Promise<void>) => {
    const identity = running();
    if (identity) await act(identity);
  };
  const send = (signal: NodeJS.Signals) => {
    const identity = running();
    if (identity) processes.signalProcess(identity, signal);
  };
  const start = async (started: SandboxState) => {
    if (running()) return;
    await startServer({ layout, state: started, wait: { timeoutMs: stepTimeoutMs } }, name);
    if (name === 'kube-apiserver') await kubernetes.touchWaitingPods(kubernetes.apiServerOf(layout, state));
  };
  return {
    stop: () => withRunning((identity) => processes.terminate(identity, gracePeriodMs(name))),
    kill: () => withRunning(processes.kill),
    start: () => start(state),
    startWithout: (flags) => start(withoutArguments(state, name, flags)),
    pause: () => send('SIGSTOP'),
    resume: () => send('SIGCONT'),
    limitFileSize: (bytes) => {
      const identity = running();
      if (identity) processes.limitFileSize(identity, bytes);
    },
    pid: () => running()?.pid,
  };
}

function withoutArguments(state: SandboxState, name: ServerName, flags: readonly string[]): SandboxState {
  const server = state.servers[name];
  if (server === undefined) return state;
  const args = server.args.filter((arg) => !flags.some((flag) => arg.startsWith(flag)));
  return { ...state, servers: { ...state.servers, [name]: { ...server, args } } };
}
