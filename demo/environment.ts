import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Lease } from '../api/core.ts';
import { SYSTEM_NAMESPACE } from '../api/names.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import { type Cluster, watchCluster } from '../kube/cluster.ts';
import { Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { SandboxError } from '../sandbox/errors.ts';
import { type Sandbox, startSandbox } from '../sandbox/sandbox.ts';
import { until } from '../sandbox/until.ts';
import { type Kubectl, kubectlOf } from './kubectl.ts';
import { type DemoProcess, lastLogLine, type Program, startProgram } from './program.ts';
import { record, type Recording, type Watched } from './recording.ts';
import type { Screen } from '../cli/terminal/screen.ts';
import { workerProgram } from './worker.ts';

/** The environment of a scenario: a sandbox, watches of its objects, and the processes that the scenario starts. */
export interface Environment {
  clusterSpec: ClusterSpec;
  screen: Screen;
  sandbox: Sandbox;
  kube: Kube;
  cluster: Cluster;
  recording: Recording;
  kubectl: Kubectl;
  /** Log of the Kubernetes client of the demo. */
  log: Log;
  /** See EnvironmentOptions. */
  undo: EnvironmentOptions['undo'];
  /** Starts one more worker. */
  startWorker(): DemoProcess;
  start(program: Program): DemoProcess;
  /** Returns the worker that holds the leader election Lease; undefined when it is not held. */
  leader(): string | undefined;
  /**
   * Waits for a condition. `probe` returns undefined when it is met, and otherwise the current state. Throws SandboxError after a
   * timeout, or when a process exits that was not killed.
   */
  until(fact: string, probe: Probe): Promise<void>;
}

type Probe = () => Promise<string | undefined> | string | undefined;

/** Options for creating an environment. */
export interface EnvironmentOptions {
  dir: string;
  screen: Screen;
  signal: AbortSignal;
  /** Clean-up steps, in the order of the actions. They run in reverse order, even after a failure. */
  undo: (() => Promise<unknown>)[];
}

/**
 * Timeout of every wait, sufficient for a busy machine. An eviction interrupted by the kill of a worker can use up its budget for
 * two minutes, because Kubernetes counts the disruption for that long.
 */
const timeoutMs = 240_000;

/** The cluster at the start: `nodes` is the number of initial nodes, named node-1, node-2, ... */
export interface ClusterSpec extends Watched {
  nodes: number;
}

export async function createEnvironment(
  { dir, screen, signal, undo }: EnvironmentOptions,
  clusterSpec: ClusterSpec,
): Promise<Environment> {
  const sandbox = await startSandbox({
    dir,
    nodes: clusterSpec.nodes,
    report: (text) => screen.print(`   ${text}`),
    ...(screen.isLive ? { progress: (text) => screen.draw([`   ${text}`.slice(0, screen.width())]) } : {}),
    signal,
  });
  undo.push(() => sandbox.stop());
  screen.clear();
  const log = fileLog(join(sandbox.dir, 'logs', 'demo.log'));
  const kube = connectKube({ kubeconfig: sandbox.kubeconfig, userAgent: 'node-maintenance-demo', log });
  undo.push(() => kube.close());
  const { cluster, leases } = await watch(kube, log, { signal, undo });
  const processes: DemoProcess[] = [];
  const start = (program: Program) => {
    const process = startProgram(sandbox, program);
    processes.push(process);
    undo.push(() => process.stop());
    return process;
  };
  let workers = 0;
  return {
    clusterSpec,
    screen,
    sandbox,
    kube,
    cluster,
    recording: record(cluster, clusterSpec),
    kubectl: kubectlOf(sandbox, signal),
    undo,
    log,
    start,
    startWorker: () => {
      workers += 1;
      return start(workerProgram(sandbox, workers));
    },
    leader: () => leases.get(controllersLease)?.spec.holderIdentity || undefined,
    until: (fact, probe) => until(fact, () => probeProcesses(processes, probe), { timeoutMs, signal }),
  };
}

const controllersLease = `${SYSTEM_NAMESPACE}/node-maintenance-controllers`;

async function watch(
  kube: Kube,
  log: Log,
  { signal, undo }: Pick<EnvironmentOptions, 'signal' | 'undo'>,
): Promise<{ cluster: Cluster; leases: Informer<Lease> }> {
  const over = new AbortController();
  undo.push(async () => over.abort());
  const watching = AbortSignal.any([signal, over.signal]);
  const cluster = watchCluster({ kube, log });
  const leases = new Informer({ kube, resource: resources.leases, namespace: SYSTEM_NAMESPACE, log });
  cluster.start(watching);
  leases.start(watching);
  await Promise.all([cluster.synced(watching), leases.synced(watching)]);
  return { cluster, leases };
}

function probeProcesses(processes: readonly DemoProcess[], probe: Probe): ReturnType<Probe> {
  const dead = processes.find((process) => !process.wasKilled && !process.isAlive());
  if (dead) {
    const reason = `${lastLogLine(dead)} (npm run demo -- --keep keeps the full log)`;
    throw new SandboxError(`${dead.name} exited unexpectedly (pid ${dead.pid}): ${reason}`);
  }
  return probe();
}

/** Creates a log for the Kubernetes client of the demo, for debugging. */
function fileLog(file: string): Log {
  const write = (level: string) => (message: string, fields?: Record<string, unknown>) =>
    appendFileSync(
      file,
      `${JSON.stringify({ time: new Date().toISOString(), level, msg: message, ...fields })}\n`,
    );
  return { debug: () => undefined, info: write('info'), warn: write('warn'), error: write('error') };
}
