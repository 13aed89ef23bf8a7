import { setTimeout as pause } from 'node:timers/promises';

/** Longest delay of a timer of Node.js: one with a longer delay ends at once. */
export const maxTimeoutMs = 2 ** 31 - 1;

/** Resolves after the time, or earlier when the signal aborts. Never rejects. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await pause(Math.max(ms, 0), undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
}

/** Resolves when the signal aborts. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

/** Settles as the promise does, or rejects with the signal's reason as soon as it aborts. Removes its listener. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  const abort = Promise.withResolvers<never>();
  const onAbort = () => abort.reject(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promise, abort.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/**
 * Returns a signal that aborts with the first of these, until `dispose` is called. AbortSignal.any does the same, but leaks
 * a reference on a signal that lives as long as the process.
 */
export function anySignal(...signals: readonly (AbortSignal | undefined)[]): {
  readonly signal: AbortSignal;
  dispose(): void;
} {
  const controller = new AbortController();
  const subscriptions = signals.map((signal) => {
    const onAbort = () => controller.abort(signal?.reason);
    if (signal?.aborted) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
    return () => signal?.removeEventListener('abort', onAbort);
  });
  return {
    signal: controller.signal,
    dispose: () => {
      for (const unsubscribe of subscriptions) unsubscribe();
    },
  };
}

/**
 * Provides a signal that aborts with the caller's signal or when the time is up. AbortSignal.any and AbortSignal.timeout do
 * the same, but leak a reference on a caller's signal that lives as long as the process.
 */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #onAbort = () => this.#controller.abort(this.#caller?.reason);

  /** `message` is the text of the abort reason when the time is up. */
  constructor(ms: number, message: string, caller: AbortSignal | undefined) {
    this.#caller = caller;
    this.#timer = setTimeout(() => this.#controller.abort(new Error(message)), ms);
    if (caller?.aborted) this.#onAbort();
    else caller?.addEventListener('abort', this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Restarts the timer. */
  extend(): void {
    this.#timer.refresh();
  }

  dispose(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener('abort', this.#onAbort);
  }

  /** Disposes of the deadline and aborts the signal, so that remaining listeners stop. */
  cancel(): void {
    this.dispose();
    this.#controller.abort(new Error('cancelled'));
  }
}
