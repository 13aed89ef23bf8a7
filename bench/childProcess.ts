import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

export function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}

/** Ends a process with SIGTERM, and with SIGKILL after the timeout. Returns when it has ended. */
export async function stopChild(child: ChildProcess, timeoutMs: number): Promise<void> {
  if (!isRunning(child)) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  const exited = new AbortController();
  const kill = sleep(timeoutMs, undefined, { signal: exited.signal }).then(
    () => child.kill('SIGKILL'),
    () => undefined,
  );
  await exit;
  exited.abort();
  await kill;
}

/** Ends a process as a crash does. Returns when it has ended. */
export async function killChild(child: ChildProcess): Promise<void> {
  if (!isRunning(child)) return;
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}
