import { execFileSync, spawn } from 'node:child_process';
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
import { dirname, join } from 'node:path';
import { hasCode, SandboxError } from './errors.ts';
import { until } from './until.ts';

/** Identifies a process, even if a later one has the same number. */
export interface ProcessIdentity {
  pid: number;
  /** Its start in clock ticks since boot, as /proc/PID/stat prints it. */
  startTime: string;
}

export interface Launch {
  command: string;
  args: readonly string[];
  /** The complete environment of the process; it inherits nothing. */
  env: Record<string, string>;
  /** File to which standard output and error are appended. */
  log: string;
  /** File that receives the ProcessIdentity as JSON. */
  pidFile: string;
}

/** Starts a process in its own session, so that it outlives this process and the terminal. Throws SandboxError. */
export function launch(what: Launch): ProcessIdentity {
  const log = openSync(what.log, 'a', 0o600);
  const child = spawn(what.command, what.args, {
    detached: true,
    env: what.env,
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  child.on('error', () => {}); // thrown below
  if (child.pid === undefined) {
    throw new SandboxError(`Cannot run ${what.command}: is it an executable for this machine?`);
  }
  child.unref();
  const identity = identify(child.pid) ?? { pid: child.pid, startTime: 'gone' };
  mkdirSync(dirname(what.pidFile), { recursive: true });
  writeFileSync(what.pidFile, JSON.stringify(identity), { mode: 0o600 });
  return identity;
}

/** Reads the identity in a pid file. Returns undefined when the file is missing or incomplete. */
export function readPidFile(file: string): ProcessIdentity | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ProcessIdentity;
  } catch {
    return undefined;
  }
}

/**
 * Returns the identity of a running process. A zombie counts as running while it still has threads: its ports are taken until
 * the last one has ended.
 */
export function identify(pid: number): ProcessIdentity | undefined {
  const stat = readProc(pid, 'stat');
  if (stat === undefined) return undefined;
  // The name of the command is in parentheses and may contain anything: count fields after the last one (proc(5)).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, threads, startTime] = [fields[0], fields[17], fields[19]];
  if (state === undefined || startTime === undefined) return undefined;
  if ('ZX'.includes(state) && Number(threads) <= 1) return undefined;
  return { pid, startTime };
}

export function isAlive(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.startTime === identity.startTime;
}

/** Sends a signal, unless the process has ended. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): void {
  if (!isAlive(identity)) return;
  try {
    process.kill(identity.pid, signal);
  } catch {
    // It ended between the check and the signal.
  }
}

/** Makes writes beyond this length of a file fail in a running process (EFBIG, RLIMIT_FSIZE); undefined: no longer. */
export function limitFileSize(identity: ProcessIdentity, bytes: number | undefined): void {
  if (!isAlive(identity)) return;
  // Only the soft limit, which the owner of the process may raise again.
  const limit = `--fsize=${bytes ?? 'unlimited'}:`;
  try {
    execFileSync('prlimit', [`--pid=${identity.pid}`, limit], { stdio: 'pipe' });
  } catch (error) {
    if (isAlive(identity)) throw error;
  }
}

/** Sends SIGTERM, and SIGKILL after the grace period; returns when the process has ended. */
export async function terminate(identity: ProcessIdentity, gracePeriodMs: number): Promise<void> {
  signalProcess(identity, 'SIGTERM');
  try {
    await untilEnded(identity, gracePeriodMs);
  } catch {
    await kill(identity);
  }
}

export async function kill(identity: ProcessIdentity): Promise<void> {
  signalProcess(identity, 'SIGKILL');
  await untilEnded(identity, killTimeoutMs);
}

async function untilEnded(identity: ProcessIdentity, timeoutMs: number): Promise<void> {
  const running = () => (isAlive(identity) ? 'it is running' : undefined);
  await until(`process ${identity.pid} to end`, running, { timeoutMs });
}

/** Returns every process of this user whose environment contains `NAME=value`. */
export function findByEnvironment(name: string, value: string): ProcessIdentity[] {
  const entry = `\0${name}=${value}\0`;
  return readdirSync('/proc')
    .filter((file) => /^\d+$/.test(file))
    .map(Number)
    .filter((pid) => `\0${readProc(pid, 'environ') ?? ''}`.includes(entry))
    .flatMap((pid) => identify(pid) ?? []);
}

/** Returns the processes that a process with one thread has started and that run. */
export function childrenOf(pid: number): number[] {
  const children = readProc(pid, join('task', String(pid), 'children')) ?? '';
  return children.split(' ').filter(Boolean).map(Number);
}

/** Returns the name of a process's command, for messages. */
export function commandName(pid: number): string {
  return readProc(pid, 'comm')?.trim() ?? 'unknown';
}

/** A lock that ends with this process: after a crash there is no file to clean up. */
export interface Lock {
  release(): void;
}

/** Takes the lock, or returns its holder. A process that has ended holds no lock. */
export function tryLock(file: string): Lock | { holder: ProcessIdentity } {
  const self = identify(process.pid);
  if (!self) throw new SandboxError('The sandbox needs Linux: it reads /proc');
  // A link is created atomically, so no process can mistake a lock that is being written for a stale one.
  const lockCandidate = `${file}.${self.pid}`;
  writeFileSync(lockCandidate, JSON.stringify(self), { mode: 0o600 });
  try {
    return claimLock(lockCandidate, file);
  } finally {
    rmSync(lockCandidate, { force: true });
  }
}

function claimLock(lockCandidate: string, file: string): Lock | { holder: ProcessIdentity } {
  for (;;) {
    try {
      linkSync(lockCandidate, file);
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

/** Time for the kernel to remove a killed process, even on a machine that swaps. */
const killTimeoutMs = 20_000;
