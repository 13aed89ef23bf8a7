import { type BackOff, backOffMs } from './backOff.ts';
import { wordsOf } from './errors.ts';
import type { Log } from './log.ts';

export interface RunOptions {
  /** How many keys are worked on at once. */
  readonly workers: number;
  /**
   * Looks at the world and makes it as it should be; a throw is logged and tried again, later each time. So is `BackOff`, without
   * a word.
   */
  readonly reconcile: (key: string, signal: AbortSignal) => Promise<Requeue | 'BackOff' | void>;
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** Look again after this time, even if nothing happens. */
export interface Requeue {
  readonly requeueAfterMs: number;
}

const defaultBackOff: BackOff = { firstMs: 5, capMs: 60_000 };

/**
 * Keys to work on, as in client-go. Contract:
 *
 * 1. A key that waits is in the queue once, however often it is added.
 * 2. A key is never worked on twice at the same time; added meanwhile, it comes again when the first is done.
 * 3. Failures of a key delay its next turn, from 5 ms up to a minute, unless it is added; a success forgets them.
 * 4. After an abort no key is started; `run` resolves when the last one under way has ended.
 */
export class WorkQueue {
  readonly #backOff: BackOff;
  readonly #waiting = new Set<string>();
  readonly #working = new Set<string>();
  readonly #addedWhileWorking = new Set<string>();
  readonly #failures = new Map<string, number>();
  readonly #timers = new Map<string, { dueAt: number; timer: NodeJS.Timeout }>();
  #wake = Promise.withResolvers<void>();

  constructor(backOff: BackOff = defaultBackOff) {
    this.#backOff = backOff;
  }

  /** Keys that wait for a worker; those that wait for a time are not counted. */
  get length(): number {
    return this.#waiting.size;
  }

  add(key: string): void {
    if (this.#working.has(key)) {
      this.#addedWhileWorking.add(key);
      return;
    }
    this.#waiting.add(key);
    this.#wakeWorkers();
  }

  /** Of several times for one key the earliest counts. */
  addAfter(key: string, ms: number): void {
    if (ms <= 0) {
      this.add(key);
      return;
    }
    const dueAt = performance.now() + ms;
    const planned = this.#timers.get(key);
    if (planned !== undefined && planned.dueAt <= dueAt) return;
    clearTimeout(planned?.timer);
    this.#timers.set(key, { dueAt, timer: setTimeout(() => this.#due(key), ms) });
  }

  /** Adds a key that failed: the more often it did, the later. */
  addRateLimited(key: string): void {
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    this.addAfter(key, backOffMs(failures, this.#backOff));
  }

  /** The key is well again: its next failure counts as the first. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** Works until the signal aborts. */
  async run(options: RunOptions): Promise<void> {
    const onAbort = () => this.#wakeWorkers();
    options.signal.addEventListener('abort', onAbort, { once: true });
    try {
      await Promise.all(Array.from({ length: options.workers }, () => this.#work(options)));
    } finally {
      options.signal.removeEventListener('abort', onAbort);
      this.#dropTimers();
    }
  }

  async #work(options: RunOptions): Promise<void> {
    while (!options.signal.aborted) {
      const [key] = this.#waiting;
      if (key === undefined) {
        await this.#wake.promise;
        continue;
      }
      this.#waiting.delete(key);
      this.#working.add(key);
      await this.#reconcile(key, options);
      this.#working.delete(key);
      if (this.#addedWhileWorking.delete(key)) this.add(key);
    }
  }

  async #reconcile(key: string, { reconcile, signal, log }: RunOptions): Promise<void> {
    try {
      const again = await reconcile(key, signal);
      if (again === 'BackOff') {
        this.addRateLimited(key);
        return;
      }
      this.forget(key);
      if (again) this.addAfter(key, again.requeueAfterMs);
    } catch (error) {
      if (signal.aborted) return;
      log.warn('Reconciliation failed, trying again', {
        key,
        failures: (this.#failures.get(key) ?? 0) + 1,
        error: wordsOf(error),
      });
      this.addRateLimited(key);
    }
  }

  #due(key: string): void {
    this.#timers.delete(key);
    this.add(key);
  }

  #wakeWorkers(): void {
    const { resolve } = this.#wake;
    this.#wake = Promise.withResolvers<void>();
    resolve();
  }

  #dropTimers(): void {
    for (const { timer } of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}
