import { setTimeout as pause } from 'node:timers/promises';

/** Waits, or less when the signal aborts; never throws. */
export async function rest(ms: number, signal?: AbortSignal): Promise<void> {
  await pause(Math.max(ms, 0), undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
}

/** What the promise gives, or a rejection with the signal's reason as soon as it aborts. Leaves no listener behind. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/**
 * A signal that aborts with the first of these, until `done`. AbortSignal.any would do the same, but keep a trace on a signal
 * that lives as long as the process.
 */
export function firstOf(...signals: readonly (AbortSignal | undefined)[]): {
  readonly signal: AbortSignal;
  done(): void;
} {
  const controller = new AbortController();
  const followed = signals.map((signal) => {
    const onAbort = () => controller.abort(signal?.reason);
    if (signal?.aborted) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
    return () => signal?.removeEventListener('abort', onAbort);
  });
  return {
    signal: controller.signal,
    done: () => {
      for (const leave of followed) leave();
    },
  };
}

/**
 * A signal that aborts with the caller's, or when the time is up. AbortSignal.any and AbortSignal.timeout would do
 * the same, but keep a trace on a caller's signal that lives as long as the process.
 */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #onAbort = () => this.#controller.abort(this.#caller?.reason);

  /** `words` is the message of the reason when the time is up. */
  constructor(ms: number, words: string, caller: AbortSignal | undefined) {
    this.#caller = caller;
    this.#timer = setTimeout(() => this.#controller.abort(new Error(words)), ms);
    if (caller?.aborted) this.#onAbort();
    else caller?.addEventListener('abort', this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The time starts anew. */
  extend(): void {
    this.#timer.refresh();
  }

  done(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener('abort', this.#onAbort);
  }

  /** Done, and whoever still listens to the signal shall stop. */
  abandon(): void {
    this.done();
    this.#controller.abort(new Error('abandoned'));
  }
}
