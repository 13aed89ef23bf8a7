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
import { type DemoProcess, lastWords, type Program, startProgram } from './program.ts';
import { record, type Recording, type Watched } from './recording.ts';
import type { Screen } from '../cli/screen.ts';
import { workerProgram } from './worker.ts';

/** What a story plays in: a sandbox that is watched, and the processes that it starts. */
export interface Setting {
  scene: Scene;
  screen: Screen;
  sandbox: Sandbox;
  kube: Kube;
  cluster: Cluster;
  recording: Recording;
  kubectl: Kubectl;
  /** Of the demo's own Kubernetes client. */
  log: Log;
  /** See SettingOptions. */
  undo: SettingOptions['undo'];
  /** Starts one more worker. */
  startWorker(): DemoProcess;
  start(program: Program): DemoProcess;
  /** Holder of the Lease by which workers elect the one that runs the control loops; undefined when nobody has it. */
  leader(): string | undefined;
  /**
   * Waits for a fact; `probe` answers with what is seen instead, or undefined. Throws SandboxError when a
   * process that was not killed has ended, or when it takes too long.
   */
  until(fact: string, probe: Probe): Promise<void>;
}

type Probe = () => Promise<string | undefined> | string | undefined;

/** Where and how a setting is made. */
export interface SettingOptions {
  dir: string;
  screen: Screen;
  signal: AbortSignal;
  /** Takes what has to be undone, in order; to be done in reverse order, whatever happens. */
  undo: (() => Promise<unknown>)[];
}

/**
 * Milliseconds that anything may take, on a machine that is busy with other things. An eviction that is cut off by the
 * kill of a worker can use up its budget for two minutes: so long Kubernetes waits for the pod to go.
 */
const within = 240_000;

/** Where a story plays: `nodes` are there from the beginning, by the names node-1, node-2, ... */
export interface Scene extends Watched {
  nodes: number;
}

export async function createSetting(
  { dir, screen, signal, undo }: SettingOptions,
  scene: Scene,
): Promise<Setting> {
  const sandbox = await startSandbox({
    dir,
    nodes: scene.nodes,
    report: (text) => screen.say(`   ${text}`),
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
    scene,
    screen,
    sandbox,
    kube,
    cluster,
    recording: record(cluster, scene),
    kubectl: kubectlOf(sandbox, signal),
    undo,
    log,
    start,
    startWorker: () => {
      workers += 1;
      return start(workerProgram(sandbox, workers));
    },
    leader: () => leases.get(controllersLease)?.spec.holderIdentity || undefined,
    until: (fact, probe) => until(fact, () => untilOneDies(processes, probe), { within, signal }),
  };
}

const controllersLease = `${SYSTEM_NAMESPACE}/node-maintenance-controllers`;

async function watch(
  kube: Kube,
  log: Log,
  { signal, undo }: Pick<SettingOptions, 'signal' | 'undo'>,
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

function untilOneDies(processes: readonly DemoProcess[], probe: Probe): ReturnType<Probe> {
  const dead = processes.find((process) => !process.wasKilled && !process.isAlive());
  if (dead) {
    const why = `${lastWords(dead)} (npm run demo -- --keep keeps its whole log)`;
    throw new SandboxError(`${dead.name} ended by itself (pid ${dead.pid}): ${why}`);
  }
  return probe();
}

/** What the demo's own Kubernetes client has to say, for the rare case that somebody needs it. */
function fileLog(file: string): Log {
  const write = (level: string) => (message: string, fields?: Record<string, unknown>) =>
    appendFileSync(
      file,
      `${JSON.stringify({ time: new Date().toISOString(), level, msg: message, ...fields })}\n`,
    );
  return { debug: () => undefined, info: write('info'), warn: write('warn'), error: write('error') };
}
