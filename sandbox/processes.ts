import { spawn } from 'node:child_process';
import {
  closeSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { hasCode, SandboxError } from './errors.ts';
import { until } from './until.ts';

/** A process that cannot be mistaken for a later one with the same number. */
export interface ProcessIdentity {
  pid: number;
  /** Clock ticks since boot at which it started, as /proc/PID/stat prints them. */
  startTime: string;
}

export interface Launch {
  command: string;
  args: readonly string[];
  /** The whole environment of the process; nothing is inherited. */
  env: Record<string, string>;
  /** File that standard output and error are appended to. */
  log: string;
  /** File that receives the ProcessIdentity as JSON. */
  pidFile: string;
}

/**
 * Starts a process in a session of its own, so that it outlives us and our terminal. Throws SandboxError when the
 * command cannot be run.
 */
export function launch(what: Launch): ProcessIdentity {
  const log = openSync(what.log, 'a', 0o600);
  const child = spawn(what.command, what.args, {
    detached: true,
    env: what.env,
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  child.on('error', () => {}); // said below, where the caller hears it
  if (child.pid === undefined) {
    throw new SandboxError(`Cannot run ${what.command}: is it an executable for this machine?`);
  }
  child.unref();
  const identity = identify(child.pid) ?? { pid: child.pid, startTime: 'gone' };
  mkdirSync(dirname(what.pidFile), { recursive: true });
  writeFileSync(what.pidFile, JSON.stringify(identity), { mode: 0o600 });
  return identity;
}

/** The identity in a pid file; undefined when there is none or it was cut short. */
export function readPidFile(file: string): ProcessIdentity | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ProcessIdentity;
  } catch {
    return undefined;
  }
}

/**
 * The living process of that number. A zombie is not one, unless threads of it are still on their way out: until the last
 * has left, its ports are taken.
 */
export function identify(pid: number): ProcessIdentity | undefined {
  const stat = readProc(pid, 'stat');
  if (stat === undefined) return undefined;
  // The command's name is in parentheses and may contain anything: count fields behind the last one (proc(5)).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, threads, startTime] = [fields[0], fields[17], fields[19]];
  if (state === undefined || startTime === undefined) return undefined;
  if ('ZX'.includes(state) && Number(threads) <= 1) return undefined;
  return { pid, startTime };
}

export function isAlive(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.startTime === identity.startTime;
}

/** Sends a signal, unless the process is gone. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): void {
  if (!isAlive(identity)) return;
  try {
    process.kill(identity.pid, signal);
  } catch {
    // Gone between the look and the signal.
  }
}

/** SIGTERM, after `grace` milliseconds SIGKILL; returns when the process is really gone. */
export async function terminate(identity: ProcessIdentity, grace: number): Promise<void> {
  signalProcess(identity, 'SIGTERM');
  try {
    await untilGone(identity, grace);
  } catch {
    signalProcess(identity, 'SIGKILL');
    await untilGone(identity, killedWithin);
  }
}

export async function kill(identity: ProcessIdentity): Promise<void> {
  signalProcess(identity, 'SIGKILL');
  await untilGone(identity, killedWithin);
}

async function untilGone(identity: ProcessIdentity, within: number): Promise<void> {
  await until(`the end of process ${identity.pid}`, () => (isAlive(identity) ? 'alive' : undefined), {
    within,
  });
}

/** Every process of this user whose environment carries `NAME=value`, whoever started it. */
export function findByEnvironment(name: string, value: string): ProcessIdentity[] {
  const entry = `\0${name}=${value}\0`;
  return readdirSync('/proc')
    .filter((file) => /^\d+$/.test(file))
    .map(Number)
    .filter((pid) => `\0${readProc(pid, 'environ') ?? ''}`.includes(entry))
    .flatMap((pid) => identify(pid) ?? []);
}

/** The command's name of a process, for messages. */
export function commandName(pid: number): string {
  return readProc(pid, 'comm')?.trim() ?? 'unknown';
}

/** Ours for as long as this process lives, without a file that has to be cleared up after a crash. */
export interface Lock {
  release(): void;
}

/** Takes the lock, or says who has it. A holder that died does not count. */
export function tryLock(file: string): Lock | { holder: ProcessIdentity } {
  const self = identify(process.pid);
  if (!self) throw new SandboxError('The sandbox needs Linux: it reads /proc');
  // A link appears whole or not at all: nobody can take a lock that is being written for a stale one.
  const claim = `${file}.${self.pid}`;
  writeFileSync(claim, JSON.stringify(self), { mode: 0o600 });
  try {
    return claimLock(claim, file);
  } finally {
    rmSync(claim, { force: true });
  }
}

function claimLock(claim: string, file: string): Lock | { holder: ProcessIdentity } {
  for (;;) {
    try {
      linkSync(claim, file);
      return { release: () => rmSync(file, { force: true }) };
    } catch (error) {
      if (!hasCode(error, 'EEXIST')) throw error;
    }
    const holder = readPidFile(file);
    if (holder && isAlive(holder)) return { holder };
    rmSync(file, { force: true });
  }
}

function readProc(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return undefined;
  }
}

/** Milliseconds in which the kernel clears away a killed process, a swapping machine included. */
const killedWithin = 20_000;
