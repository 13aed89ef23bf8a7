import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { isAlive, kill, launch, type ProcessIdentity, terminate } from '../sandbox/processes.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { workerArguments } from '../scripts/tools.ts';

/** One process of `npm start`, with the permissions of deploy/worker-rbac.yaml. */
export interface DemoWorker {
  pid: number;
  /** How Temporal's history names it: PID@HOST. */
  identity: string;
  /** File with its log. */
  log: string;
  isAlive(): boolean;
  /** Whether `kill` was called. */
  readonly wasKilled: boolean;
  /** SIGKILL: no last word, no clean-up. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

/** Milliseconds that a worker has to leave by itself. */
const grace = 5_000;

/** Starts worker `number`, counted from 1. */
export function startWorker(sandbox: Sandbox, number: number): DemoWorker {
  const log = join(sandbox.dir, 'logs', `worker-${number}.log`);
  const process = launch({
    command: globalThis.process.execPath,
    args: workerArguments(),
    // Nothing of the caller's: TEMPORAL_... of another Temporal would lead the worker astray.
    env: { ...sandbox.env, KUBECONFIG: sandbox.workerKubeconfig, HOME: sandbox.dir },
    log,
    pidFile: join(sandbox.dir, 'run', `worker-${number}.pid`),
  });
  return workerOf(process, log);
}

function workerOf(process: ProcessIdentity, log: string): DemoWorker {
  let wasKilled = false;
  return {
    pid: process.pid,
    identity: `${process.pid}@${hostname()}`,
    log,
    isAlive: () => isAlive(process),
    get wasKilled() {
      return wasKilled;
    },
    kill: () => {
      wasKilled = true;
      return kill(process);
    },
    stop: () => terminate(process, grace),
  };
}

/** The line of a worker's log that says why it ended by itself. */
export function lastWords({ log }: DemoWorker): string {
  const lines = readFileSync(log, 'utf8').trim().split('\n');
  const telling = lines.findLast((line) => /error|fatal/i.test(line)) ?? lines.at(-1);
  return telling?.trim().slice(0, 500) || 'it said nothing';
}
