import { sleep } from '../kube/abort.ts';

/** Why Temporal cannot be used, and since when, in milliseconds since the epoch. */
export interface Outage {
  readonly reason: string;
  readonly sinceMs: number;
}

/**
 * Whether Temporal can be used. During an outage, control loops send nothing to it: the names of this cluster may belong to another one
 * (ADR 37), and every request would only delay its recovery.
 */
export interface TemporalAvailability {
  /** Returns undefined if Temporal can be used. */
  outage(): Outage | undefined;
  /** Calls back at the beginning and the end of each outage. Returns a function that unsubscribes. */
  subscribe(handler: () => void): () => void;
}

/** Resolves as soon as Temporal can be used, or when the signal aborts. */
export async function untilAvailable(availability: TemporalAvailability, signal: AbortSignal): Promise<void> {
  while (availability.outage() !== undefined && !signal.aborted) {
    const changed = new AbortController();
    const stop = () => changed.abort();
    const unsubscribe = availability.subscribe(stop);
    signal.addEventListener('abort', stop, { once: true });
    await sleep(maxWaitMs, changed.signal);
    unsubscribe();
    signal.removeEventListener('abort', stop);
  }
}

/** The end of an outage ends the wait. */
const maxWaitMs = 60_000;

/** Average time between two objects that are reconciled after an outage. */
const recoveryPaceMs = 20;

/** Returns the delay after which an object is reconciled after an outage, at random: a thousand of them must not burden a server that has just started. */
export function recoveryDelayMs(objects: number): number {
  return Math.random() * objects * recoveryPaceMs;
}
