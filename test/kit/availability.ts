import type { Outage, TemporalAvailability } from '../../controllers/temporalAvailability.ts';

/** Availability of Temporal as a test says; available unless given. */
export class SettableAvailability implements TemporalAvailability {
  readonly #handlers = new Set<() => void>();
  #outage: Outage | undefined;

  constructor(outage?: Outage) {
    this.#outage = outage;
  }

  outage(): Outage | undefined {
    return this.#outage;
  }

  subscribe(handler: () => void): () => void {
    this.#handlers.add(handler);
    return () => void this.#handlers.delete(handler);
  }

  /** Begins an outage that has lasted for a while. */
  down(reason = 'no response from temporal:7233 (ECONNREFUSED)', sinceMs = Date.now() - 60_000): void {
    this.#set({ reason, sinceMs });
  }

  up(): void {
    this.#set(undefined);
  }

  #set(outage: Outage | undefined): void {
    this.#outage = outage;
    for (const handler of this.#handlers) handler();
  }
}
