/**
 * A counting semaphore with at most `limit` holders, served in FIFO order. A caller whose signal aborts while it waits
 * leaves the queue.
 */
export class Semaphore {
  readonly #waiting = new Set<() => void>();
  readonly #limit: number;
  #free: number;

  constructor(limit: number) {
    this.#limit = limit;
    this.#free = limit;
  }

  /** True if no slot is in use. */
  get isIdle(): boolean {
    return this.#free === this.#limit;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Resolves to the function that releases the slot; rejects with the signal's reason. */
  async acquire(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#enqueue(signal);
    return this.#releaser();
  }

  #enqueue(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = () => {
        signal?.removeEventListener('abort', abort);
        resolve();
      };
      const abort = () => {
        this.#waiting.delete(enter);
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', abort, { once: true });
      this.#waiting.add(enter);
    });
  }

  #releaser(): () => void {
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const [next] = this.#waiting;
      if (next === undefined) {
        this.#free++;
        return;
      }
      this.#waiting.delete(next);
      next();
    };
  }
}
