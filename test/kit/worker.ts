import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { workerArguments } from '../../scripts/tools.ts';
import { eventuallyHolds } from './holds.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A worker as an operator runs it: a process of its own, with the permissions of deploy/ and no more. */
export interface WorkerProcess {
  pid: number;
  /** As a crash would. */
  kill(): Promise<void>;
  /** As a rollout would; resolves with the exit code. */
  stop(): Promise<number | null>;
  exited(): Promise<number | null>;
  log(): string;
  /** Resolves when /readyz says so. */
  ready(): Promise<void>;
}

export function startWorker(
  sandbox: Sandbox,
  { env = {}, args = [] }: { env?: NodeJS.ProcessEnv; args?: string[] } = {},
): WorkerProcess {
  // Test files that share a sandbox must not read each other's logs.
  const logFile = join(sandbox.dir, `worker-${crypto.randomUUID()}.log`);
  const log = openSync(logFile, 'a');
  const child = spawn(process.execPath, [...workerArguments(), ...args], {
    cwd: root,
    env: { ...process.env, ...sandbox.env, KUBECONFIG: sandbox.workerKubeconfig, NODE_OPTIONS: '', ...env },
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
      await eventuallyHolds(
        'the worker is ready',
        () => readiness(read()),
        (seen) => seen === 'ok',
        120_000,
      );
    },
  };
}

async function end(
  child: ChildProcess,
  signal: NodeJS.Signals,
  exited: Promise<number | null>,
): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) child.kill(signal);
  return exited;
}

async function readiness(log: string): Promise<string> {
  const port = /"health":(\d+)/.exec(log)?.[1];
  if (port === undefined) return log.slice(-2_000);
  const response = await fetch(`http://127.0.0.1:${port}/readyz`);
  return (await response.text()).trim();
}
