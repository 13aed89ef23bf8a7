import { readFileSync } from 'node:fs';
import { serverNames } from '../sandbox/layout.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

/**
 * Seconds of CPU time that each process has used since it started; `machine` is the sum over all processes so far, `children`
 * that of the child processes of this one that have ended.
 */
export type CpuTimes = Record<string, number> & { machine: number };

/** Clock ticks of /proc in a second: a constant of the Linux ABI. */
const ticksPerSecond = 100;

/** Returns the process ids of the servers of a sandbox, by name. */
export function serverProcesses(sandbox: Pick<Sandbox, 'server'>): Record<string, number | undefined> {
  return Object.fromEntries(serverNames.map((name) => [name, sandbox.server(name).pid()]));
}

/** Reads the CPU time of processes, given by name and process id. Omits processes that do not run. */
export function readCpu(processes: Readonly<Record<string, number | undefined>>): CpuTimes {
  const children = processFields(process.pid);
  const times: CpuTimes = {
    machine: machineSeconds(),
    children: children === undefined ? 0 : childSeconds(children),
  };
  for (const [name, pid] of Object.entries(processes)) {
    const fields = pid === undefined ? undefined : processFields(pid);
    if (fields !== undefined) times[name] = ownSeconds(fields);
  }
  return times;
}

/**
 * Returns the seconds of CPU time by process between two readings, most first. `elsewhere` is the time that other programs
 * used; a run with much of it is not comparable.
 */
export function cpuBetween(before: CpuTimes, after: CpuTimes): Record<string, number> {
  const { machine, ...used } = Object.fromEntries(
    Object.entries(after).map(([name, seconds]) => [name, seconds - (before[name] ?? 0)]),
  );
  const known = Object.values(used).reduce((sum, seconds) => sum + seconds, 0);
  const sorted = Object.entries(used).toSorted((a, b) => b[1] - a[1]);
  return { ...Object.fromEntries(sorted), elsewhere: Math.max(0, (machine ?? 0) - known) };
}

/** Returns the cores that each process used on average, from the seconds of CPU time that it used in `seconds`. */
export function coresOf(used: Readonly<Record<string, number>>, seconds: number): Record<string, number> {
  return Object.fromEntries(Object.entries(used).map(([name, busy]) => [name, busy / seconds]));
}

/** user, nice, system, idle, iowait, irq, softirq, steal, ... (proc(5)) */
function machineSeconds(): number {
  const [, , ...fields] = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').split(' ').map(Number);
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = fields;
  return (user + nice + system + irq + softirq) / ticksPerSecond;
}

/** utime and stime. */
function ownSeconds(fields: readonly string[]): number {
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** cutime and cstime. */
function childSeconds(fields: readonly string[]): number {
  return (Number(fields[13]) + Number(fields[14])) / ticksPerSecond;
}

function processFields(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the command is in parentheses and may contain anything: count fields after the last one (proc(5)).
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined; // The process has ended.
  }
}
