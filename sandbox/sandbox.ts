import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { defaultNamespace } from '../temporal-config/devServer.ts';
import { type ApiServer, readiness } from './apiserver.ts';
import { messageOf, SandboxError } from './errors.ts';
import * as kubernetes from './kubernetes.ts';
import {
  type Layout,
  layoutOf,
  makeDirectories,
  readState,
  type SandboxState,
  type ServerName,
  serverNames,
  writePrivate,
  writeState,
} from './layout.ts';
import { accepts, choosePorts, type Ports } from './ports.ts';
import * as processes from './processes.ts';
import { temporalReadiness, temporalServer } from './temporal.ts';
import { ensureToolchain, type Toolchain } from './toolchain.ts';
import { type Patience, until } from './until.ts';

export type { ServerName } from './layout.ts';

export interface SandboxOptions {
  /** Directory of everything that the sandbox writes; made if missing. One that held a sandbox goes on with its data. */
  dir: string;
  /** kwok nodes `node-1`, `node-2`, ...; 3 unless given. */
  nodes?: number | undefined;
  /** Ports of 127.0.0.1 that it must have; free ones are found for the others. */
  ports?: Partial<Ports> | undefined;
  /** Whether deploy/ is applied; true unless given. */
  install?: boolean | undefined;
  /** Takes lines for people, about what happens. */
  report?: ((line: string) => void) | undefined;
  /** Takes lines for people that each replace the last, such as how far a build is. */
  progress?: ((line: string) => void) | undefined;
  /** Ends a start that is under way; what was started is stopped. */
  signal?: AbortSignal | undefined;
}

export interface Sandbox {
  dir: string;
  /** An administrator's (group system:masters). */
  kubeconfig: string;
  /** The worker's: the identity of its ServiceAccount, with just the permissions that deploy/ gives. */
  workerKubeconfig: string;
  /** HOST:PORT */
  temporalAddress: string;
  /** URL */
  temporalUi: string;
  temporalNamespace: typeof defaultNamespace;
  /** Directory of all binaries. */
  bin: string;
  /** KUBECONFIG (the administrator's), TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_UI_ADDRESS and PATH for a child process. */
  env: Record<string, string>;
  /** One server, for tests of outages. */
  server(name: ServerName): SandboxServer;
  /** Adds kwok nodes (32 CPUs, 256 GiB, 500 pods) with these labels beside the usual ones, and waits until they are Ready. */
  addNodes(names: string[], labels?: Record<string, string>): Promise<void>;
  /** Stops every server; the data stays in `dir`. */
  stop(): Promise<void>;
  /** Kills every server at once, and deletes `dir`. */
  discard(): Promise<void>;
}

export interface SandboxServer {
  /** Ends it as an administrator would; returns when it is gone. */
  stop(): Promise<void>;
  /** Starts it as it was, on the same port; returns when it answers. One that runs is left alone. */
  start(): Promise<void>;
  /** Ends it as a crash would; returns when it is gone. */
  kill(): Promise<void>;
  /** Makes it hang: connections are accepted and nothing is answered. */
  pause(): void;
  resume(): void;
  /** undefined when it does not run. */
  pid(): number | undefined;
}

/** The mark in the environment of every process of a sandbox; its value is the directory. */
const mark = 'NODE_MAINTENANCE_SANDBOX';

/** Milliseconds that each step of a start may take, on a machine that is busy with other things. */
const stepWithin = 90_000;

/**
 * Starts a sandbox and returns when it can be worked with: the apiserver is ready, the controllers work, the nodes are
 * Ready, Temporal serves. On failure nothing stays running. Throws SandboxError.
 */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const layout = layoutOf(options.dir);
  makeDirectories(layout);
  const lock = processes.tryLock(layout.lock);
  if ('holder' in lock) {
    throw new SandboxError(
      `Process ${lock.holder.pid} is starting the sandbox in ${layout.dir}: wait for it`,
    );
  }
  try {
    return await startLocked(layout, options);
  } finally {
    lock.release();
  }
}

async function startLocked(layout: Layout, options: SandboxOptions): Promise<Sandbox> {
  if (processes.findByEnvironment(mark, layout.dir).length > 0) {
    throw new SandboxError(`A sandbox runs in ${layout.dir} already: attach to it, or stop it first`);
  }
  const toolchain = await ensureToolchain(options);
  const state = await prepare(layout, toolchain, options);
  try {
    await startServers(layout, state, options);
    writeState(layout, { ...state, complete: true });
    const sandbox = sandboxOf(layout, state);
    writePrivate(layout.env, shellFile(layout, sandbox));
    return sandbox;
  } catch (error) {
    await stopProcesses(layout);
    throw error;
  }
}

/** Everything that has to be on disk before the first server starts. */
async function prepare(layout: Layout, toolchain: Toolchain, options: SandboxOptions): Promise<SandboxState> {
  linkBinaries(layout, toolchain);
  kubernetes.writeCredentials(layout);
  const ports = await choosePorts(options.ports ?? {}, readState(layout)?.ports);
  const servers = {
    ...(await kubernetes.kubernetesServers(layout, ports, toolchain)),
    temporal: temporalServer(layout, ports, toolchain.temporal),
  };
  const state = { ports, servers, complete: false };
  writeState(layout, state);
  return state;
}

function linkBinaries(layout: Layout, toolchain: Toolchain): void {
  rmSync(layout.bin, { recursive: true, force: true });
  mkdirSync(layout.bin, { mode: 0o700 });
  for (const [name, path] of Object.entries(toolchain)) symlinkSync(path, join(layout.bin, name));
  for (const [name, source] of Object.entries(plugin))
    writeFileSync(join(layout.bin, name), pluginScript(source), { mode: 0o700 });
}

/** As package.json has them. */
const plugin = { 'kubectl-maintenance': 'main.ts', 'kubectl_complete-maintenance': 'complete.ts' };

/** kubectl's plugin, run from source by this very Node: the one on PATH may be too old for that. */
function pluginScript(source: string): string {
  const main = join(import.meta.dirname, '..', 'cli', source);
  return `#!/bin/sh\nexec ${quoted(process.execPath)} ${quoted(main)} "$@"\n`;
}

/** For a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Temporal and Kubernetes side by side; within Kubernetes, each as soon as what it talks to answers. */
async function startServers(layout: Layout, state: SandboxState, options: SandboxOptions): Promise<void> {
  const failed = new AbortController();
  const signals = [failed.signal, ...(options.signal ? [options.signal] : [])];
  const start = {
    layout,
    state,
    patience: { within: stepWithin, signal: AbortSignal.any(signals) },
    began: performance.now(),
  };
  const parts = [startKubernetes(start, options), startTemporal(start, options)];
  try {
    await Promise.all(parts);
  } catch (error) {
    // The other part must not start anything more while the first one is being stopped.
    failed.abort(error);
    await Promise.allSettled(parts);
    throw error;
  }
}

/** A start under way. */
interface Start {
  layout: Layout;
  state: SandboxState;
  patience: Patience;
  /** performance.now() at its beginning. */
  began: number;
}

async function startKubernetes(start: Start, options: SandboxOptions): Promise<void> {
  const { layout, state, patience } = start;
  const say = reporter(start, options);
  await startServer(start, 'etcd');
  const isInstalled = options.install !== false;
  await Promise.all([
    startServer(start, 'kube-apiserver'),
    isInstalled && kubernetes.define(layout, state.ports, patience),
  ]);
  say(`etcd and kube-apiserver answer on https://127.0.0.1:${state.ports.apiserver}`);
  kubernetes.writeKubeconfigs(layout, state.ports);
  const server = kubernetes.apiServerOf(layout, state.ports);
  await kubernetes.dropControllersProof(server);
  for (const name of ['kube-controller-manager', 'kube-scheduler', 'kwok'] as const)
    await startServer(start, name);
  const names = nodeNames(options.nodes ?? 3);
  await Promise.all([
    kubernetes.untilControllersWork(server, patience),
    kubernetes.addNodes(server, names, {}, patience),
    isInstalled && kubernetes.install(layout, server, patience),
  ]);
  say(`${names.length} ${names.length === 1 ? 'node is' : 'nodes are'} Ready, the controllers work`);
  if (isInstalled) say('deploy/ is installed');
}

async function startTemporal(start: Start, options: SandboxOptions): Promise<void> {
  await startServer(start, 'temporal');
  reporter(start, options)(`Temporal serves on 127.0.0.1:${start.state.ports.temporal}`);
}

function reporter(start: Start, options: SandboxOptions): (line: string) => void {
  return (line) => {
    const seconds = ((performance.now() - start.began) / 1000).toFixed(1);
    options.report?.(`${seconds.padStart(5)} s  ${line}`);
  };
}

function nodeNames(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `node-${index + 1}`);
}

/** Starts one server and waits until it answers. */
async function startServer(
  { layout, state, patience }: Omit<Start, 'began'>,
  name: ServerName,
): Promise<void> {
  patience.signal?.throwIfAborted();
  if (name === 'kwok') await kubernetes.dropKwokLeases(kubernetes.apiServerOf(layout, state.ports));
  const { command, args } = state.servers[name];
  const identity = processes.launch({
    command,
    args,
    // Nothing of the user's environment: proxies, profiles and kubeconfigs are about other servers.
    env: { [mark]: layout.dir, HOME: layout.dir, PATH: layout.bin, TMPDIR: join(layout.dir, 'run') },
    log: layout.log(name),
    pidFile: layout.pidFile(name),
  });
  const probe = probes[name] ?? (async () => undefined);
  const look = async () => {
    if (!processes.isAlive(identity)) throw new SandboxError(endedEarly(layout, name));
    return probe(layout, state);
  };
  await until(`${name} to answer (its log is ${layout.log(name)})`, look, patience);
}

/** How each server shows that it can be used; the others show it by what they do. */
const probes: Partial<
  Record<ServerName, (layout: Layout, state: SandboxState) => Promise<string | undefined>>
> = {
  etcd: async (_, { ports }) => etcdReadiness(ports.etcd),
  'kube-apiserver': async (layout, { ports }) => {
    if (!(await accepts(ports.apiserver))) return `nothing listens on port ${ports.apiserver}`;
    return readiness(kubernetes.apiServerOf(layout, ports));
  },
  temporal: async (layout, { ports, servers }) =>
    temporalReadiness(layout, ports.temporal, servers.temporal.command),
};

async function etcdReadiness(port: number): Promise<string | undefined> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/health`, { signal: AbortSignal.timeout(5_000) });
    return response.ok ? undefined : `/health answers ${response.status}`;
  } catch (error) {
    return messageOf(error);
  }
}

function endedEarly(layout: Layout, name: ServerName): string {
  const lines = readFileSync(layout.log(name), 'utf8').trim().split('\n');
  const telling =
    lines.findLast((line) => /error|fatal|panic|in use/i.test(line)) ?? lines.at(-1) ?? 'it said nothing';
  return `${name} ended while starting: ${telling.slice(0, 300)} (all of it: ${layout.log(name)})`;
}

/** A sandbox that runs, started by whomever. Throws SandboxError when none runs there. */
export async function attachSandbox(dir: string): Promise<Sandbox> {
  const layout = layoutOf(dir);
  const state = readState(layout);
  const isUp = state?.complete && serverNames.some((name) => runningServer(layout, name));
  if (!isUp)
    throw new SandboxError(`No sandbox runs in ${layout.dir}: npm run sandbox -- up --dir ${layout.dir}`);
  return sandboxOf(layout, state);
}

/**
 * Stops everything that was started for this directory, also what a killed launcher left without a trace on disk.
 * Returns the names of what was running. The data stays.
 */
export async function stopSandbox(dir: string): Promise<string[]> {
  const layout = layoutOf(dir);
  const starter = processes.readPidFile(layout.lock);
  if (starter && processes.isAlive(starter) && starter.pid !== process.pid) {
    throw new SandboxError(
      `Process ${starter.pid} is starting the sandbox in ${layout.dir}: end it first (kill ${starter.pid})`,
    );
  }
  rmSync(layout.lock, { force: true });
  return stopProcesses(layout);
}

async function stopProcesses(layout: Layout): Promise<string[]> {
  const stopped: string[] = [];
  for (const group of stopOrder) {
    const running = group.flatMap((name) => {
      const identity = runningServer(layout, name);
      return identity ? [{ name, identity }] : [];
    });
    stopped.push(...running.map(({ name }) => name));
    await Promise.all(running.map(({ name, identity }) => processes.terminate(identity, graceOf(name))));
  }
  for (const identity of processes.findByEnvironment(mark, layout.dir)) {
    stopped.push(processes.commandName(identity.pid));
    await processes.kill(identity);
  }
  rmSync(layout.env, { force: true });
  rmSync(dirname(layout.pidFile('etcd')), { recursive: true, force: true });
  return stopped;
}

/** Clients before what they talk to, so that nobody complains into a log on the way out. */
const stopOrder: readonly (readonly ServerName[])[] = [
  ['temporal', 'kwok', 'kube-scheduler', 'kube-controller-manager'],
  ['kube-apiserver'],
  ['etcd'],
];

/** Milliseconds between SIGTERM and SIGKILL. A kube-apiserver with open watches would take more than a minute to leave. */
function graceOf(name: ServerName): number {
  return name === 'kube-apiserver' ? 1_000 : 5_000;
}

export interface ServerStatus {
  name: ServerName;
  /** undefined when it does not run. */
  pid: number | undefined;
  port: number | undefined;
}

/** Up: all of it runs. Broken: a part of it does, or it was never seen whole. Down: nothing of it runs. */
export type SandboxStatus = { kind: 'Up' | 'Broken'; servers: ServerStatus[] } | { kind: 'Down' };

export function sandboxStatus(dir: string): SandboxStatus {
  const layout = layoutOf(dir);
  const state = readState(layout);
  const servers = serverNames.map((name) => ({
    name,
    pid: runningServer(layout, name)?.pid,
    port: state?.servers[name].port,
  }));
  if (state?.complete && servers.every(({ pid }) => pid !== undefined)) return { kind: 'Up', servers };
  const isDown = processes.findByEnvironment(mark, layout.dir).length === 0;
  return isDown ? { kind: 'Down' } : { kind: 'Broken', servers };
}

function runningServer(layout: Layout, name: ServerName): processes.ProcessIdentity | undefined {
  const identity = processes.readPidFile(layout.pidFile(name));
  return identity && processes.isAlive(identity) ? identity : undefined;
}

function sandboxOf(layout: Layout, state: SandboxState): Sandbox {
  const temporalAddress = `127.0.0.1:${state.ports.temporal}`;
  const temporalUi = `http://127.0.0.1:${state.ports.temporalUi}`;
  const patience = { within: stepWithin };
  const apiServer = (): ApiServer => kubernetes.apiServerOf(layout, state.ports);
  return {
    dir: layout.dir,
    kubeconfig: layout.kubeconfig,
    workerKubeconfig: layout.workerKubeconfig,
    temporalAddress,
    temporalUi,
    temporalNamespace: defaultNamespace,
    bin: layout.bin,
    env: {
      KUBECONFIG: layout.kubeconfig,
      TEMPORAL_ADDRESS: temporalAddress,
      TEMPORAL_NAMESPACE: defaultNamespace,
      TEMPORAL_UI_ADDRESS: temporalUi,
      PATH: `${layout.bin}:${process.env['PATH'] ?? ''}`,
    },
    server: (name) => serverOf(layout, state, name),
    addNodes: async (names, labels = {}) => kubernetes.addNodes(apiServer(), names, labels, patience),
    stop: async () => void (await stopSandbox(layout.dir)),
    discard: async () => {
      await Promise.all(processes.findByEnvironment(mark, layout.dir).map(processes.kill));
      purgeSandbox(layout.dir);
    },
  };
}

function serverOf(layout: Layout, state: SandboxState, name: ServerName): SandboxServer {
  const running = () => runningServer(layout, name);
  const withRunning = async (work: (identity: processes.ProcessIdentity) => Promise<void>) => {
    const identity = running();
    if (identity) await work(identity);
  };
  const send = (signal: NodeJS.Signals) => {
    const identity = running();
    if (identity) processes.signalProcess(identity, signal);
  };
  return {
    stop: () => withRunning((identity) => processes.terminate(identity, graceOf(name))),
    kill: () => withRunning(processes.kill),
    start: async () => {
      if (running()) return;
      await startServer({ layout, state, patience: { within: stepWithin } }, name);
      if (name === 'kube-apiserver')
        await kubernetes.touchWaitingPods(kubernetes.apiServerOf(layout, state.ports));
    },
    pause: () => send('SIGSTOP'),
    resume: () => send('SIGCONT'),
    pid: () => running()?.pid,
  };
}

/** For `. .sandbox/env`. */
function shellFile(layout: Layout, sandbox: Sandbox): string {
  return [
    `export KUBECONFIG=${quoted(sandbox.kubeconfig)}`,
    `export TEMPORAL_ADDRESS=${quoted(sandbox.temporalAddress)}`,
    `export TEMPORAL_NAMESPACE=${quoted(sandbox.temporalNamespace)}`,
    `export TEMPORAL_UI_ADDRESS=${quoted(sandbox.temporalUi)}`,
    `export PATH=${quoted(layout.bin)}:"$PATH"`,
    '',
  ].join('\n');
}

/** Deletes a sandbox's directory with all its data; nothing may run in it. Anything else is refused. */
export function purgeSandbox(dir: string): void {
  const layout = layoutOf(dir);
  if (!existsSync(layout.dir)) return;
  if (!readState(layout)) throw new SandboxError(`${layout.dir} holds no sandbox: it is not deleted`);
  rmSync(layout.dir, { recursive: true, force: true });
}
