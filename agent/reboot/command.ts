import { type ChildProcess, spawn } from 'node:child_process';
import { oneLine } from '../../domain/common/text.ts';

/** A command that does not end is no reboot. */
const defaultTimeoutMs = 300_000;
const maxMessageLength = 256;
const maxOutputLength = 4_096;

/**
 * Runs a command of the administrator of the host in a shell. Returns undefined if it succeeded, or else why it failed. What a failed command has
 * started ends with it: it must not reboot a node that is uncordoned since. Only processes in a session of their own (setsid) escape that.
 */
export function runCommand(
  command: string,
  { timeoutMs = defaultTimeoutMs }: { readonly timeoutMs?: number } = {},
): Promise<string | undefined> {
  // A process group of its own.
  const child = spawn('/bin/sh', ['-c', command], { detached: true, stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr.setEncoding('utf8');
  child.stderr.on('data', (text: string) => {
    output = `${output}${text}`.slice(0, maxOutputLength);
  });
  return new Promise((resolve) => {
    const end = (problem: string | undefined) => {
      clearTimeout(timer);
      if (problem !== undefined) killGroup(child);
      // Its other end may be open in a process that has escaped.
      child.stderr.destroy();
      const said = oneLine(output, maxMessageLength);
      resolve(problem === undefined || said === '' ? problem : `${problem}: ${said}`);
    };
    const timer = setTimeout(() => end(`it did not end within ${timeoutMs / 1_000} s`), timeoutMs);
    child.once('error', (error) => end(error.message));
    // After its output was read.
    child.once('close', (code, signal) => end(code === 0 ? undefined : exitOf(code, signal)));
  });
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function exitOf(code: number | null, signal: NodeJS.Signals | null): string {
  return signal === null ? `exit code ${code}` : `signal ${signal}`;
}
