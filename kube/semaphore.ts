/**
 * At most `limit` holders at a time, first come, first served. A caller whose signal aborts while it waits leaves
 * the line.
 */
export class Semaphore {
  readonly #waiting = new Set<() => void>();
  readonly #limit: number;
  #free: number;

  constructor(limit: number) {
    this.#limit = limit;
    this.#free = limit;
  }

  /** Nobody has a place, and nobody waits for one. */
  get isIdle(): boolean {
    return this.#free === this.#limit;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Resolves to the function that gives the place back; rejects with the signal's reason. */
  async acquire(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#turn(signal);
    return this.#releaser();
  }

  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = () => {
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      const leave = () => {
        this.#waiting.delete(enter);
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', leave, { once: true });
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
