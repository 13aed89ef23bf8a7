import { readFileSync } from 'node:fs';

/** Returns the resident memory of a process in MB: its peak (VmHWM) or the current one. Undefined when it has ended. */
export function readMemoryMb(pid: number | undefined, field: 'VmHWM' | 'VmRSS'): number | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const kilobytes = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes) / 1024;
  } catch {
    return undefined;
  }
}
