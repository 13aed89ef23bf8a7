import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { workerArguments } from '../../scripts/tools.ts';
import { eventuallyHolds } from './eventually.ts';

const bundledModules = new URL('bundledModules.ts', import.meta.url).href;
const root = fileURLToPath(new URL('../..', import.meta.url));

/** A worker as an operator runs it: a process of its own, with exactly the permissions of deploy/. */
export interface WorkerProcess {
  pid: number;
  /** Ends it as a crash does. */
  kill(): Promise<void>;
  /** Ends it as a rollout does, and returns its exit code. */
  stop(): Promise<number | null>;
  exited(): Promise<number | null>;
  log(): string;
  /** Waits until /readyz answers ok, which means that it works with Temporal, too. */
  ready(): Promise<void>;
  /** Returns the status and the body of /readyz. */
  readyz(): Promise<string>;
  /** Returns what Prometheus scrapes. */
  metrics(): Promise<string>;
}

/** The Lease of the worker that leads the controllers. */
export const controllersLease = { namespace: SYSTEM_NAMESPACE, name: 'node-maintenance-controllers' };

interface WorkerOptions {
  env?: NodeJS.ProcessEnv;
  args?: string[];
  /** Directory of the sources of another release; by default these. */
  source?: string;
}

/** Starts the worker after one that was killed, whose Lease it need not wait for. */
export async function startNextWorker(
  { sandbox, kube }: { sandbox: Sandbox; kube: Kube },
  options: WorkerOptions = {},
): Promise<WorkerProcess> {
  const { uid } = (await kube.get(resources.leases, controllersLease))?.metadata ?? {};
  if (uid !== undefined) await kube.delete(resources.leases, controllersLease, { uid });
  return startWorker(sandbox, options);
}

/** Starts an admission server as a process of its own, as in deploy/: it outlives workers that run only `controllers`. */
export function startAdmission(sandbox: Sandbox): WorkerProcess {
  return startWorker(sandbox, { args: ['--components', 'admission'] });
}

export const controllers = { args: ['--components', 'controllers'] };

/** For workers that a test kills: their activities are started again after three seconds, not after half a minute. */
export const deathNoticedSoon = { IDENTITY_LEASE_RENEW_INTERVAL: '1' };

/** Starts a worker: in `npm test` that of the image, unless it is of other sources or gets other workflows. */
export function startWorker(
  sandbox: Sandbox,
  { env = {}, args = [], source }: WorkerOptions = {},
): WorkerProcess {
  // Test files that share a sandbox must not read each other's logs.
  const logFile = join(sandbox.dir, `worker-${crypto.randomUUID()}.log`);
  const log = openSync(logFile, 'a');
  const program = programOf(source, env['WORKFLOW_BUNDLE']);
  const own = { ...sandbox.env, KUBECONFIG: sandbox.workerKubeconfig, NODE_OPTIONS: '' };
  const child = spawn(process.execPath, [...program.args, ...args], {
    cwd: source ?? root,
    env: { ...process.env, ...own, ...program.env, ...env },
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  const read = () => readFileSync(logFile, 'utf8');
  return {
    pid: child.pid ?? 0,
    kill: () => end(child, 'SIGKILL', exited).then(() => undefined),
    stop: () => end(child, 'SIGTERM', exited),
    exited: () => exited,
    log: read,
    ready: async () => {
      const isReady = (answer: string) => answer === '200 ok';
      await eventuallyHolds('the worker to be ready', () => readiness(child, read()), isReady);
    },
    readyz: () => readiness(child, read()),
    metrics: async () => (await fetch(`http://127.0.0.1:${portIn(read(), 'metrics')}/metrics`)).text(),
  };
}

interface Program {
  args: string[];
  env: NodeJS.ProcessEnv;
}

/** Returns the program of the worker: the one that the run of tests has prepared, unless other sources are given. */
function programOf(source: string | undefined, workflows: string | undefined): Program {
  const withoutBundle = { WORKFLOW_BUNDLE: undefined };
  const { NM_TEST_WORKER: prepared } = process.env;
  if (source !== undefined)
    return { args: workerArguments().map((arg) => movedTo(source, arg)), env: withoutBundle };
  if (prepared === undefined || workflows !== undefined)
    return { args: ['--import', bundledModules, ...workerArguments()], env: {} };
  return { args: workerArguments(prepared), env: withoutBundle };
}

function movedTo(source: string, arg: string): string {
  return arg.startsWith(root) ? join(source, arg.slice(root.length)) : arg;
}

async function end(
  child: ChildProcess,
  signal: NodeJS.Signals,
  exited: Promise<number | null>,
): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) child.kill(signal);
  return exited;
}

/** Returns what /readyz answers, or the end of the log while it does not. */
async function readiness({ exitCode }: ChildProcess, log: string): Promise<string> {
  const port = portIn(log, 'health');
  if (port === undefined || exitCode !== null) return `exit code ${exitCode}: ${log.slice(-2_000)}`;
  const response = await fetch(`http://127.0.0.1:${port}/readyz`);
  return `${response.status} ${(await response.text()).trim()}`;
}

function portIn(log: string, server: 'health' | 'metrics'): string | undefined {
  return new RegExp(`"${server}":(\\d+)`).exec(log)?.[1];
}
