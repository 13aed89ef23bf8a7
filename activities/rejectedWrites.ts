/**
 * Why the apiserver rejected writes, by the name or the UID of the object that was to be written. A rejection concerns this object alone: the others are
 * written, and this one is tried again after a time.
 */
export class RejectedWrites<Reason = string> {
  readonly #retryAfterMs: number;
  readonly #nowMs: () => number;
  readonly #byKey = new Map<string, { reason: Reason; atMs: number }>();

  constructor(retryAfterMs: number, nowMs: () => number = () => performance.now()) {
    this.#retryAfterMs = retryAfterMs;
    this.#nowMs = nowMs;
  }

  /** Why the last write was rejected; undefined if it was not. */
  reasonOf(key: string): Reason | undefined {
    return this.#byKey.get(key)?.reason;
  }

  /** Returns true unless the write was rejected a moment ago. */
  isDue(key: string): boolean {
    const rejected = this.#byKey.get(key);
    return rejected === undefined || this.#nowMs() - rejected.atMs >= this.#retryAfterMs;
  }

  /** The objects that are not due yet, each with the reason. */
  waiting(): Map<string, Reason> {
    const waiting = [...this.#byKey].filter(([key]) => !this.isDue(key));
    return new Map(waiting.map(([key, { reason }]) => [key, reason]));
  }

  /** The objects of which a write was rejected, also those that are due again. */
  known(): Set<string> {
    return new Set(this.#byKey.keys());
  }

  reject(key: string, reason: Reason): void {
    this.#byKey.set(key, { reason, atMs: this.#nowMs() });
  }

  /** The write was accepted. */
  accept(key: string): void {
    this.#byKey.delete(key);
  }

  /** One write was accepted, so that what prevented the others may have ended, too. */
  acceptAll(): void {
    this.#byKey.clear();
  }
}
