import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAlive, kill, launch, type ProcessIdentity, terminate } from '../sandbox/processes.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

/** A Node.js program that runs in addition to the sandbox. */
export interface Program {
  /** Name of the program. Its log is logs/NAME.log. */
  name: string;
  /** Arguments of Node.js. */
  args: readonly string[];
  /** Path of the kubeconfig. */
  kubeconfig: string;
}

/** A process of a program. */
export interface DemoProcess {
  name: string;
  pid: number;
  /** Path of the log file. */
  log: string;
  isAlive(): boolean;
  /** True once `kill` was called. */
  readonly wasKilled: boolean;
  /** Sends SIGKILL, so that the process cannot clean up. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

/** A process that has not exited this long after SIGTERM is killed. */
const stopTimeoutMs = 5_000;

export function startProgram(sandbox: Sandbox, { name, args, kubeconfig }: Program): DemoProcess {
  const log = join(sandbox.dir, 'logs', `${name}.log`);
  const process = launch({
    command: globalThis.process.execPath,
    args,
    // Excludes the environment of the caller: its TEMPORAL_... variables may point to another Temporal server.
    env: { ...sandbox.env, KUBECONFIG: kubeconfig, HOME: sandbox.dir },
    log,
    pidFile: join(sandbox.dir, 'run', `${name}.pid`),
  });
  return processOf(process, name, log);
}

function processOf(process: ProcessIdentity, name: string, log: string): DemoProcess {
  let wasKilled = false;
  return {
    name,
    pid: process.pid,
    log,
    isAlive: () => isAlive(process),
    get wasKilled() {
      return wasKilled;
    },
    kill: () => {
      wasKilled = true;
      return kill(process);
    },
    stop: () => terminate(process, stopTimeoutMs),
  };
}

/** Returns the log line that explains why a process exited: the last error, or the last line. */
export function lastLogLine({ log }: DemoProcess): string {
  const lines = readFileSync(log, 'utf8').trim().split('\n');
  const relevant = lines.findLast((line) => /error|fatal/i.test(line)) ?? lines.at(-1);
  return relevant?.trim().slice(0, 500) || 'its log is empty';
}
