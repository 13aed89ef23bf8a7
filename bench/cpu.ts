import { readFileSync } from 'node:fs';

/** Seconds of CPU time that each process has used since it started; `machine` is the sum over all processes so far. */
export type CpuTimes = Record<string, number> & { machine: number };

/** Clock ticks of /proc in a second: a constant of the Linux ABI. */
const ticksPerSecond = 100;

/** Reads the CPU time of processes, given by name and process id. Omits processes that do not run. */
export function readCpu(processes: Readonly<Record<string, number | undefined>>): CpuTimes {
  const times: CpuTimes = { machine: machineSeconds() };
  for (const [name, pid] of Object.entries(processes)) {
    const seconds = pid === undefined ? undefined : processSeconds(pid);
    if (seconds !== undefined) times[name] = seconds;
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

/** user, nice, system, idle, iowait, irq, softirq, steal, ... (proc(5)) */
function machineSeconds(): number {
  const [, , ...fields] = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').split(' ').map(Number);
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = fields;
  return (user + nice + system + irq + softirq) / ticksPerSecond;
}

function processSeconds(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the command is in parentheses and may contain anything: count fields after the last one (proc(5)).
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
  } catch {
    return undefined; // The process has ended.
  }
}
