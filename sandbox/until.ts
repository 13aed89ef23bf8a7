import { setTimeout as sleep } from 'node:timers/promises';
import { SandboxError } from './errors.ts';

export interface Patience {
  /** Milliseconds until giving up. */
  within: number;
  signal?: AbortSignal | undefined;
  /** Milliseconds between two looks, if they cost much. */
  every?: number;
}

/**
 * Looks until `probe` answers undefined, which means that the fact holds; anything else is a few words on what was
 * seen instead. Throws SandboxError with the last of those when the time is up.
 */
export async function until(
  fact: string,
  probe: () => Promise<string | undefined> | string | undefined,
  patience: Patience,
): Promise<void> {
  const deadline = performance.now() + patience.within;
  for (;;) {
    patience.signal?.throwIfAborted();
    const seen = await probe();
    if (seen === undefined) return;
    if (performance.now() > deadline) {
      throw new SandboxError(`Waited ${patience.within / 1000} s in vain for ${fact}; last seen: ${seen}`);
    }
    await sleep(patience.every ?? lookEvery);
  }
}

/** Milliseconds between two looks: short, because everything waited for here comes in tenths of a second. */
const lookEvery = 40;
