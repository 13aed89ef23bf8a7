import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAlive, kill, launch, type ProcessIdentity, terminate } from '../sandbox/processes.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

/** Something that is run by Node beside the sandbox. */
export interface Program {
  /** What people call it; its log is logs/NAME.log. */
  name: string;
  /** Of Node. */
  args: readonly string[];
  /** Path. */
  kubeconfig: string;
}

/** A process of it. */
export interface DemoProcess {
  name: string;
  pid: number;
  /** File with its log. */
  log: string;
  isAlive(): boolean;
  /** Whether `kill` was called. */
  readonly wasKilled: boolean;
  /** SIGKILL: no last word, no clean-up. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

/** Milliseconds that a process has to leave by itself. */
const grace = 5_000;

export function startProgram(sandbox: Sandbox, { name, args, kubeconfig }: Program): DemoProcess {
  const log = join(sandbox.dir, 'logs', `${name}.log`);
  const process = launch({
    command: globalThis.process.execPath,
    args,
    // Nothing of the caller's: TEMPORAL_... of another Temporal would lead the worker astray.
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
    stop: () => terminate(process, grace),
  };
}

/** The line of a process's log that says why it ended by itself. */
export function lastWords({ log }: DemoProcess): string {
  const lines = readFileSync(log, 'utf8').trim().split('\n');
  const telling = lines.findLast((line) => /error|fatal/i.test(line)) ?? lines.at(-1);
  return telling?.trim().slice(0, 500) || 'it said nothing';
}
