import { existsSync, rmSync } from 'node:fs';
import { defaultNamespace } from '../temporal-config/devServer.ts';
import type { ApiServer } from './apiserver.ts';
import type { Toolchain } from './binaries.ts';
import { linkBinaries, writeShellFile } from './commands.ts';
import { SandboxError } from './errors.ts';
import * as kubernetes from './kubernetes.ts';
import {
  type Layout,
  layoutOf,
  makeDirectories,
  readState,
  type RealNodeName,
  type SandboxState,
  type ServerName,
  serverNames,
  writeState,
} from './layout.ts';
import { choosePorts, loopback, type Ports, retryOnPortConflict } from './ports.ts';
import * as processes from './processes.ts';
import { startAgent } from './realNodes/agent.ts';
import { createNetwork, hostAddress, type NodeAddress, realNodes } from './realNodes/network.ts';
import {
  configureNode,
  importImage,
  nodeFiles,
  type RealNodeOptions,
  realNodeServer,
} from './realNodes/node.ts';
import { RealNode } from './realNodes/realNode.ts';
import { requireRealNodes } from './realNodes/requirements.ts';
import {
  killServers,
  runningProcesses,
  runningServer,
  type SandboxServer,
  serverOf,
  type Start,
  startServer,
  stepTimeoutMs,
  stopServers,
} from './servers.ts';
import { temporalForwarder, temporalServer } from './temporal.ts';
import { ensureToolchain } from './toolchain.ts';
import type { WaitOptions } from './until.ts';
import { writeWebhookClient } from './webhookClient.ts';

export type { ServerName } from './layout.ts';
export type { SandboxServer } from './servers.ts';

export interface SandboxOptions extends RealNodeOptions {
  /** Directory of everything that the sandbox writes; created if missing. If it held a sandbox, its data is used again. */
  dir: string;
  /** Number of kwok nodes `node-1`, `node-2`, ...; 3 by default. */
  nodes?: number | undefined;
  /** Number of real nodes `real-1`, `real-2`, ..., which run containers; 0 by default. They need root (realNodes/requirements.ts). */
  realNodes?: number | undefined;
  /** Minor version of Kubernetes, such as `1.34`; by default the newest that a sandbox can run. */
  kubernetes?: string | undefined;
  /** Ports of 127.0.0.1 that it must use; the others are chosen among the free ones. */
  ports?: Partial<Ports> | undefined;
  /** Applies deploy/; true by default. */
  install?: boolean | undefined;
  /** False installs webhooks in place of MutatingAdmissionPolicies, as for an apiserver that does not serve them. */
  mutatingPolicies?: boolean | undefined;
  /**
   * Requires an apiserver that serves EvictionRequests (Kubernetes 1.37 or later), and lets the worker act on them
   * (deploy/eviction-requests).
   */
  evictionRequest?: boolean | undefined;
  /** Directory in which the apiserver writes a log of the requests of the project's accounts; it writes none by default. */
  auditLogs?: string | undefined;
  /** File of the audit policy that says which requests the log contains, in place of `audit-policy.yaml`. */
  auditPolicy?: string | undefined;
  /** How long the apiserver keeps an Event, such as `2m`; an hour by default, which begins again when etcd restarts. */
  eventTtl?: string | undefined;
  /** Directory of the bundled commands of cli/; by default they run from source. */
  commands?: string | undefined;
  /** Receives messages for the user. */
  report?: ((line: string) => void) | undefined;
  /** Receives progress lines, such as those of a build; each one replaces the previous one. */
  progress?: ((line: string) => void) | undefined;
  /** Aborts a start in progress; everything that was started is stopped. */
  signal?: AbortSignal | undefined;
}

export interface Sandbox {
  dir: string;
  /** Path of an administrator's kubeconfig (group system:masters). */
  kubeconfig: string;
  /** Path of the worker's kubeconfig: its ServiceAccount, with only the permissions of deploy/. */
  workerKubeconfig: string;
  /** Path of the admission server's kubeconfig, likewise. */
  admissionKubeconfig: string;
  /** Path of the CA certificate that signed the apiserver's client certificate for webhooks, whose common name is `webhookClientName`. */
  webhookClientCa: string;
  /** Address of Temporal as HOST:PORT. */
  temporalAddress: string;
  /** URL of the Temporal UI. */
  temporalUi: string;
  /** URL of the metrics of Temporal's server. */
  temporalMetrics: string;
  temporalNamespace: typeof defaultNamespace;
  /** Directory of all binaries. */
  bin: string;
  /**
   * KUBECONFIG (the administrator's), ADMISSION_KUBECONFIG, TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_UI_ADDRESS and PATH for a child process;
   * with real nodes REAL_NODE_MANIFESTS and REAL_NODE_HOLD, the folders of real-1.
   */
  env: Record<string, string>;
  /** Returns one server, for tests of outages. */
  server(name: ServerName): SandboxServer;
  realNodes: readonly RealNode[];
  /** Returns a real node, for tests of crashes, reboots and power failures. Throws SandboxError if there is none with this name. */
  realNode(name: RealNodeName): RealNode;
  /** Adds kwok nodes (32 CPUs, 256 GiB, 500 pods) with the given labels in addition to the usual ones; waits until they are Ready. */
  addNodes(names: string[], labels?: Record<string, string>): Promise<void>;
  /** Imports an archive of an image into every real node. */
  importImage(archive: string): Promise<void>;
  /** Stops every server; the data stays in `dir`. */
  stop(): Promise<void>;
  /** Kills every server at once and deletes `dir`. */
  discard(): Promise<void>;
}

/**
 * Starts a sandbox and returns when it is usable: the apiserver is ready, the controllers are running, the nodes are Ready, Temporal
 * serves. If another process takes a chosen port in the meantime, it starts again with other ports. After a failure nothing
 * keeps running. Throws SandboxError.
 */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const layout = layoutOf(options.dir);
  makeDirectories(layout);
  const lock = processes.tryLock(layout.lock);
  if ('holder' in lock) {
    throw new SandboxError(
      `Process ${lock.holder.pid} is starting the sandbox in ${layout.dir}: wait until it has finished`,
    );
  }
  try {
    return await startLocked(layout, options);
  } finally {
    lock.release();
  }
}

async function startLocked(layout: Layout, options: SandboxOptions): Promise<Sandbox> {
  if (runningProcesses(layout).length > 0) {
    throw new SandboxError(`A sandbox is already running in ${layout.dir}: attach to it, or stop it first`);
  }
  const hasRealNodes = (options.realNodes ?? 0) > 0;
  if (hasRealNodes) requireRealNodes(layout);
  const toolchain = await ensureToolchain({ ...options, realNodes: hasRealNodes });
  linkBinaries(layout, toolchain, options.commands);
  kubernetes.writeCredentials(layout);
  await writeWebhookClient(layout);
  const report = (line: string) => options.report?.(line);
  return retryOnPortConflict(options.ports ?? {}, report, () => startOnce(layout, toolchain, options));
}

async function startOnce(layout: Layout, toolchain: Toolchain, options: SandboxOptions): Promise<Sandbox> {
  const state = await prepareState(layout, toolchain, options);
  try {
    await startServers(layout, state, options);
    writeState(layout, { ...state, complete: true });
    const sandbox = sandboxOf(layout, state);
    const { PATH: _, ...variables } = sandbox.env;
    writeShellFile(layout, variables);
    return sandbox;
  } catch (error) {
    await stopServers(layout);
    throw error;
  }
}

/** Chooses the ports, creates the network of real nodes, and writes the state before the first server starts. */
async function prepareState(
  layout: Layout,
  toolchain: Toolchain,
  options: SandboxOptions,
): Promise<SandboxState> {
  const before = readState(layout);
  const ports = await choosePorts(options.ports ?? {}, before?.ports);
  const count = options.realNodes ?? 0;
  const network = count === 0 ? undefined : await createNetwork(count, before?.realNodes?.network);
  const addresses = { host: network === undefined ? loopback : hostAddress(network), ports };
  // The certificate of the apiserver names its address.
  if (before !== undefined && before.host !== addresses.host)
    rmSync(layout.certificates, { recursive: true, force: true });
  const nodes = network === undefined ? [] : realNodes(network, count);
  const servers = {
    ...(await kubernetes.kubernetesServers(layout, addresses, toolchain, options)),
    temporal: temporalServer(layout, addresses, toolchain.temporal),
    ...(network !== undefined && { socat: temporalForwarder(addresses) }),
    ...Object.fromEntries(nodes.map((node) => [node.name, realNodeServer(layout, node, toolchain, options)])),
  };
  const state: SandboxState = {
    ...addresses,
    servers,
    complete: false,
    ...(network !== undefined && { realNodes: { network, count } }),
  };
  writeState(layout, state);
  return state;
}

/** Starts Temporal and Kubernetes at the same time; a server of Kubernetes starts when the servers that it needs answer. */
async function startServers(layout: Layout, state: SandboxState, options: SandboxOptions): Promise<void> {
  const failed = new AbortController();
  const signals = [failed.signal, ...(options.signal ? [options.signal] : [])];
  const wait = { timeoutMs: stepTimeoutMs, signal: AbortSignal.any(signals) };
  const start = { layout, state, wait };
  const report = timedReport(options);
  const parts = [startKubernetes(start, options, report), startTemporal(start, report)];
  try {
    await Promise.all(parts);
  } catch (error) {
    // The other part must not start more servers while the first part is being stopped.
    failed.abort(error);
    await Promise.allSettled(parts);
    throw error;
  }
}

type Report = (line: string) => void;

/** Returns a `report` that puts the seconds since now before each line. */
function timedReport(options: SandboxOptions): Report {
  const startedAt = performance.now();
  return (line) => {
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    options.report?.(`${seconds.padStart(5)} s  ${line}`);
  };
}

async function startKubernetes(start: Start, options: SandboxOptions, report: Report): Promise<void> {
  const { layout, state, wait } = start;
  await startServer(start, 'etcd');
  const isInstalled = options.install !== false;
  await Promise.all([
    startServer(start, 'kube-apiserver'),
    isInstalled && kubernetes.applyDefinitions(layout, state, wait),
  ]);
  report(`etcd and kube-apiserver answer on https://${state.host}:${state.ports.apiserver}`);
  kubernetes.writeKubeconfigs(layout, state);
  const server = kubernetes.apiServerOf(layout, state);
  await kubernetes.deleteRootCertificate(server);
  for (const name of ['kube-controller-manager', 'kube-scheduler', 'kwok'] as const)
    await startServer(start, name);
  const names = nodeNames(options.nodes ?? 3);
  if (options.evictionRequest === true) await kubernetes.requireEvictionRequests(server);
  await Promise.all([
    kubernetes.untilControllersWork(server, wait),
    kubernetes.addNodes(server, names, { taints: taintsOf(state) }, wait),
    startRealNodes(start, options),
    isInstalled && installDeploy(layout, server, options, wait),
  ]);
  const count = names.length + (state.realNodes?.count ?? 0);
  report(`${count} ${count === 1 ? 'node is' : 'nodes are'} Ready, the controllers are running`);
  if (isInstalled) report('deploy/ is installed');
  if (isInstalled && options.agent !== false) await startAgents(start, options);
}

/** Where there are real nodes, pods run on simulated ones only if they tolerate it. */
function taintsOf({ realNodes: real }: SandboxState): object[] {
  return real === undefined ? [] : [kubernetes.fakeNodeTaint];
}

async function startRealNodes(start: Start, options: RealNodeOptions): Promise<void> {
  const { layout, state } = start;
  const nodes = realNodesOf(state);
  if (nodes.length === 0) return;
  for (const node of nodes) {
    const kubeconfigs = kubernetes.nodeKubeconfigs(layout, state, node.name);
    await configureNode(layout, node, kubeconfigs, options);
  }
  await startServer(start, 'socat');
  await Promise.all(nodes.map(({ name }) => startServer(start, name)));
}

async function startAgents(start: Start, { agentArguments }: RealNodeOptions): Promise<void> {
  await Promise.all(realNodesOf(start.state).map(({ name }) => startAgent(start, name, agentArguments)));
}

function realNodesOf({ realNodes: real }: SandboxState): NodeAddress[] {
  return real === undefined ? [] : realNodes(real.network, real.count);
}

async function installDeploy(
  layout: Layout,
  server: ApiServer,
  { mutatingPolicies = true, evictionRequest = false }: SandboxOptions,
  wait: WaitOptions,
): Promise<void> {
  const isServed = await kubernetes.servesMutatingPolicies(server);
  const options = { mutatingPolicies: mutatingPolicies && isServed, evictionRequests: evictionRequest };
  await kubernetes.install(layout, server, options, wait);
}

async function startTemporal(start: Start, report: Report): Promise<void> {
  await startServer(start, 'temporal');
  report(`Temporal serves on ${start.state.host}:${start.state.ports.temporal}`);
}

function nodeNames(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `node-${index + 1}`);
}

/** Returns the sandbox that runs in a directory. Throws SandboxError when none does. */
export async function attachSandbox(dir: string): Promise<Sandbox> {
  const layout = layoutOf(dir);
  const state = readState(layout);
  const isUp = state?.complete && serverNames.some((name) => runningServer(layout, name));
  if (!isUp)
    throw new SandboxError(
      `No sandbox is running in ${layout.dir}: npm run sandbox -- up --dir ${layout.dir}`,
    );
  return sandboxOf(layout, state);
}

/**
 * Stops everything that was started for this directory, including processes of a killed launcher that left no pid file.
 * Returns the names of what was running. The data stays.
 */
export async function stopSandbox(dir: string): Promise<string[]> {
  const layout = layoutOf(dir);
  const launcher = processes.readPidFile(layout.lock);
  if (launcher && processes.isAlive(launcher) && launcher.pid !== process.pid) {
    throw new SandboxError(
      `Process ${launcher.pid} is starting the sandbox in ${layout.dir}: end it first (kill ${launcher.pid})`,
    );
  }
  rmSync(layout.lock, { force: true });
  return stopServers(layout);
}

export interface ServerStatus {
  name: ServerName;
  /** undefined when it does not run. */
  pid: number | undefined;
  port: number | undefined;
}

/** Up: all servers run. Degraded: some run, or the start was never completed. Down: none runs. */
export type SandboxStatus = { kind: 'Up' | 'Degraded'; servers: ServerStatus[] } | { kind: 'Down' };

export function sandboxStatus(dir: string): SandboxStatus {
  const layout = layoutOf(dir);
  const state = readState(layout);
  const names = state === undefined ? serverNames : (Object.keys(state.servers) as ServerName[]);
  const servers = names.map((name) => ({
    name,
    pid: runningServer(layout, name)?.pid,
    port: state?.servers[name]?.port,
  }));
  if (state?.complete && servers.every(({ pid }) => pid !== undefined)) return { kind: 'Up', servers };
  return runningProcesses(layout).length === 0 ? { kind: 'Down' } : { kind: 'Degraded', servers };
}

function sandboxOf(layout: Layout, state: SandboxState): Sandbox {
  const { host } = state;
  const temporalAddress = `${host}:${state.ports.temporal}`;
  const temporalUi = `http://${loopback}:${state.ports.temporalUi}`;
  const wait = { timeoutMs: stepTimeoutMs };
  const apiServer = (): ApiServer => kubernetes.apiServerOf(layout, state);
  return {
    dir: layout.dir,
    kubeconfig: layout.kubeconfig,
    workerKubeconfig: layout.workerKubeconfig,
    admissionKubeconfig: layout.admissionKubeconfig,
    webhookClientCa: layout.webhookClientCa,
    temporalAddress,
    temporalUi,
    temporalMetrics: `http://${loopback}:${state.ports.temporalMetrics}/metrics`,
    temporalNamespace: defaultNamespace,
    bin: layout.bin,
    env: {
      KUBECONFIG: layout.kubeconfig,
      ADMISSION_KUBECONFIG: layout.admissionKubeconfig,
      TEMPORAL_ADDRESS: temporalAddress,
      TEMPORAL_NAMESPACE: defaultNamespace,
      TEMPORAL_UI_ADDRESS: temporalUi,
      ...realNodeVariables(layout, state),
      PATH: `${layout.bin}:${process.env['PATH'] ?? ''}`,
    },
    server: (name) => serverOf(layout, state, name),
    realNodes: realNodesOf(state).map(({ name }) => new RealNode(layout, state, name)),
    realNode: (name) => new RealNode(layout, state, name),
    addNodes: async (names, labels = {}) =>
      kubernetes.addNodes(apiServer(), names, { labels, taints: taintsOf(state) }, wait),
    importImage: async (archive) => {
      for (const node of realNodesOf(state)) await importImage(layout, node, archive);
    },
    stop: async () => void (await stopSandbox(layout.dir)),
    discard: async () => {
      await killServers(layout);
      purgeSandbox(layout.dir);
    },
  };
}

/** Returns the folders of the first real node, for a shell. */
function realNodeVariables(layout: Layout, state: SandboxState): Record<string, string> {
  const [first] = realNodesOf(state);
  if (first === undefined) return {};
  const { manifests, hold } = nodeFiles(layout, first.name);
  return { REAL_NODE_MANIFESTS: manifests, REAL_NODE_HOLD: hold };
}

/** Deletes the directory of a stopped sandbox with all its data. Refuses to delete any other directory. */
export function purgeSandbox(dir: string): void {
  const layout = layoutOf(dir);
  if (!existsSync(layout.dir)) return;
  if (!readState(layout)) throw new SandboxError(`${layout.dir} holds no sandbox: it is not deleted`);
  rmSync(layout.dir, { recursive: true, force: true });
}
