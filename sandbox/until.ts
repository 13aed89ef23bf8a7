import { setTimeout as sleep } from 'node:timers/promises';
import { SandboxError } from './errors.ts';

export interface WaitOptions {
  timeoutMs: number;
  signal?: AbortSignal | undefined;
  /** Time between two probes, for probes that cost much. */
  intervalMs?: number;
}

/**
 * Calls `probe` until it returns undefined, which means that the condition holds. Any other result describes what the probe
 * observed instead; the SandboxError that is thrown at the timeout ends with the last one.
 */
export async function until(
  condition: string,
  probe: () => Promise<string | undefined> | string | undefined,
  options: WaitOptions,
): Promise<void> {
  const deadline = performance.now() + options.timeoutMs;
  for (;;) {
    options.signal?.throwIfAborted();
    const observed = await probe();
    if (observed === undefined) return;
    if (performance.now() > deadline) {
      throw new SandboxError(
        `Timed out after ${options.timeoutMs / 1000} s waiting for ${condition}; last observed: ${observed}`,
      );
    }
    await sleep(options.intervalMs ?? defaultIntervalMs);
  }
}

/** Short, because most conditions of a sandbox hold after some tenths of a second. */
const defaultIntervalMs = 40;
