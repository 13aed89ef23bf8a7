import { maxTimeoutMs } from './abort.ts';
import { type BackOff, backOffMs } from './backOff.ts';
import { errorMessage, isKubeError } from './errors.ts';
import type { Log } from './log.ts';

export interface RunOptions {
  /** Number of keys that are reconciled concurrently. */
  readonly workers: number;
  /**
   * Reconciles one key. An error is logged and retried with back-off. A result of `BackOff` is retried in the same way but not
   * logged. A Conflict is retried after a second, and logged only if it persists.
   */
  readonly reconcile: (key: string, signal: AbortSignal) => Promise<Requeue | 'BackOff' | void>;
  readonly signal: AbortSignal;
  readonly log: Log;
  /** Returns what log lines about a key contain in addition to the key. */
  readonly fieldsOf?: ((key: string) => Record<string, unknown>) | undefined;
  /** Observes the queue while it runs. */
  readonly observer?: WorkQueueObserver | undefined;
}

/** Source of the metrics of a queue, as in client-go. */
export interface WorkQueueObserver {
  /** Called when a queue begins to run. Returns what to call when it has ended. */
  started(queue: ObservedQueue): () => void;
  /** A worker has taken a key, which waited for this long. */
  taken(queue: string, waitedSeconds: number): void;
  /** A worker is done with a key. */
  done(queue: string, workSeconds: number): void;
  /** A key has failed, and is retried. */
  retried(queue: string): void;
}

/** A queue that runs. */
export interface ObservedQueue {
  readonly name: string;
  /** Number of keys that wait for a worker. */
  readonly length: number;
  /** Returns how long each key in progress has been in progress. */
  workingSeconds(): number[];
}

/** Reconciles the key again after this time, even if nothing changes. */
export interface Requeue {
  readonly requeueAfterMs: number;
}

const defaultBackOff: BackOff = { firstMs: 5, capMs: 60_000 };
/** The watch shows the object that another client has written first, usually before this. It need not concern the key. */
const conflictRetryMs = 1_000;
/** Maximum number of conflicts in a row: the next one is a failure like others. */
const maxConflicts = 3;

/**
 * A queue of keys, as in client-go. Contract:
 *
 * 1. A waiting key is in the queue once, however often it is added.
 * 2. A key is never reconciled twice at the same time; if it is added while in progress, it is reconciled again afterwards.
 * 3. Failures of a key delay its next reconciliation, from 5 ms up to a minute, unless it is added; a success resets the delay. A
 *    Conflict delays it by a second.
 * 4. After an abort no key is started; `run` resolves when the last key in progress has finished.
 */
export class WorkQueue {
  /** Names the loop in the metrics. */
  readonly name: string;
  readonly #backOff: BackOff;
  /** Key -> since when it waits. The oldest key comes first. */
  readonly #waiting = new Map<string, number>();
  /** Key -> since when it is in progress. */
  readonly #working = new Map<string, number>();
  readonly #addedWhileWorking = new Set<string>();
  readonly #failures = new Map<string, number>();
  readonly #timers = new Map<string, { dueAt: number; timer: NodeJS.Timeout }>();
  /** Starts a worker unless there are as many as allowed. Undefined while the queue does not run. */
  #startWorker: (() => void) | undefined;
  /** Number of workers. One that finds no key ends. */
  #workers = 0;

  constructor(name: string, backOff: BackOff = defaultBackOff) {
    this.name = name;
    this.#backOff = backOff;
  }

  /** Number of keys that wait for a worker. Keys with a pending delay do not count. */
  get length(): number {
    return this.#waiting.size;
  }

  /** True while a key waits for a worker, or is in progress. */
  get isBusy(): boolean {
    return this.#waiting.size > 0 || this.#working.size > 0;
  }

  /** Returns how long each key in progress has been in progress. */
  workingSeconds(): number[] {
    return [...this.#working.values()].map(secondsSince);
  }

  add(key: string): void {
    if (this.#working.has(key)) {
      this.#addedWhileWorking.add(key);
      return;
    }
    if (this.#waiting.has(key)) return;
    this.#waiting.set(key, performance.now());
    this.#startWorker?.();
  }

  /** Adds a key after a delay, or after the longest of a timer (24 days). If several delays are pending for a key, the earliest applies. */
  addAfter(key: string, delayMs: number): void {
    if (delayMs <= 0) {
      this.add(key);
      return;
    }
    const ms = Math.min(delayMs, maxTimeoutMs);
    const dueAt = performance.now() + ms;
    const pending = this.#timers.get(key);
    if (pending !== undefined && pending.dueAt <= dueAt) return;
    clearTimeout(pending?.timer);
    this.#timers.set(key, { dueAt, timer: setTimeout(() => this.#due(key), ms) });
  }

  /** Adds a key that failed, with a delay that grows with the number of its failures. */
  addRateLimited(key: string): void {
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    this.addAfter(key, backOffMs(failures, this.#backOff));
  }

  /** Resets the failures of a key: its next failure counts as the first. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** Reconciles keys until the signal aborts. */
  async run(options: RunOptions): Promise<void> {
    const { workers, signal, observer } = options;
    if (this.#startWorker !== undefined) throw new Error(`queue ${this.name} runs already`);
    const ended = observer?.started(this);
    const running = new Set<Promise<void>>();
    const { promise: stopped, resolve: stop, reject: fail } = Promise.withResolvers<void>();
    const onAbort = () => stop();
    this.#startWorker = () => {
      if (signal.aborted || this.#workers >= workers) return;
      this.#workers += 1;
      const worker = this.#work(options);
      running.add(worker);
      worker.then(() => running.delete(worker), fail);
    };
    for (const _ of this.#waiting) this.#startWorker();
    if (signal.aborted) stop();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await stopped;
      await Promise.all(running);
    } finally {
      this.#startWorker = undefined;
      signal.removeEventListener('abort', onAbort);
      this.#dropTimers();
      ended?.();
    }
  }

  /** Reconciles one key after the other until none waits. */
  async #work(options: RunOptions): Promise<void> {
    // The caller of add() does not wait for the reconciliation to begin.
    await Promise.resolve();
    try {
      while (!options.signal.aborted) {
        const [next] = this.#waiting;
        if (next === undefined) return;
        await this.#process(...next, options);
      }
    } finally {
      this.#workers -= 1;
    }
  }

  async #process(key: string, addedAt: number, options: RunOptions): Promise<void> {
    const { observer } = options;
    this.#waiting.delete(key);
    observer?.taken(this.name, secondsSince(addedAt));
    const takenAt = performance.now();
    this.#working.set(key, takenAt);
    await this.#reconcile(key, options);
    this.#working.delete(key);
    observer?.done(this.name, secondsSince(takenAt));
    if (this.#addedWhileWorking.delete(key)) this.add(key);
  }

  async #reconcile(key: string, options: RunOptions): Promise<void> {
    const { reconcile, signal, log, fieldsOf, observer } = options;
    try {
      const result = await reconcile(key, signal);
      if (result === 'BackOff') {
        observer?.retried(this.name);
        this.addRateLimited(key);
        return;
      }
      this.forget(key);
      if (result) this.addAfter(key, result.requeueAfterMs);
    } catch (error) {
      if (signal.aborted) return;
      const failures = this.#failures.get(key) ?? 0;
      observer?.retried(this.name);
      if (isKubeError(error, 'Conflict') && failures < maxConflicts) {
        this.#failures.set(key, failures + 1);
        this.addAfter(key, conflictRetryMs);
        return;
      }
      log.warn('Reconciliation failed, retrying', {
        ...fieldsOf?.(key),
        queue: this.name,
        key,
        failures: failures + 1,
        error: errorMessage(error),
      });
      this.addRateLimited(key);
    }
  }

  #due(key: string): void {
    this.#timers.delete(key);
    this.add(key);
  }

  #dropTimers(): void {
    for (const { timer } of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}

function secondsSince(time: number): number {
  return (performance.now() - time) / 1_000;
}
