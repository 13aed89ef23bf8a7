import type { Lease } from '../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { leaseStateOf } from '../domain/leases/lease.ts';
import { Deadline, sleep, abortable } from '../kube/abort.ts';
import { backOffMs } from '../kube/backOff.ts';
import type { Kube } from '../kube/client.ts';
import { errorMessage } from '../kube/errors.ts';
import { Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { currentInstant, elapsedMs, type Instant } from '../kube/monotonicTime.ts';
import { resources } from '../kube/resources.ts';
import { type Loss, lossOf, NodeLeaseLostError } from './lost.ts';
import { isRetryable, NodeHeldError, typedError } from './errors.ts';
import type { NodeLeases } from './nodeLeases.ts';
import type { Acquisition, HoldOptions, WhileHeld } from './types.ts';

interface HoldParts {
  readonly kube: Kube;
  readonly leases: NodeLeases;
  readonly node: string;
  readonly log: Log;
  /** Rejects if RBAC permissions are missing. */
  readonly requirePermissions: (signal: AbortSignal | undefined) => Promise<void>;
  /** The remedy for a Forbidden error. */
  readonly remedy: string;
}

const retries = { firstMs: 200, capMs: 10_000 };
/** A Lease is read again after this time even without an event: timers cannot wait until the year 9999. */
const maxWaitMs = 60_000;
/** The minimum timeout of a renewal. It leaves time for another attempt, on a new connection. */
const minAttemptMs = 1_000;
/** The release is best effort: without it other clients wait until the Lease expires. */
const releaseTimeoutMs = 10_000;

/**
 * Holds one node for the duration of one call. Contract:
 *
 * 1. The function runs only while the Lease is ours: until the end of its duration, counted from before the request was sent, without
 *    the 3 s of clock drift that other clients allow. It is not called if that time is over already, or if the caller's signal has
 *    aborted.
 * 2. Its signal aborts with a NodeLeaseLostError as soon as the Lease is observed to be released or held by another client, and at
 *    the end of the duration at the latest. A process that was stopped notices the loss with its next timer after it continues.
 * 3. The next call for the same node waits until the function has ended, even after an abort.
 * 4. Errors of the apiserver are retried: without limit before the Lease is acquired, then until it expires. Permanent errors reject.
 * 5. The Lease is always released at the end if it is still ours.
 */
export class Hold {
  readonly #parts: HoldParts;
  #mayHoldLease = false;

  constructor(parts: HoldParts) {
    this.#parts = parts;
  }

  get #durationMs(): number {
    return this.#parts.leases.leaseDurationSeconds * 1_000;
  }

  async run<T>(act: WhileHeld<T>, options: HoldOptions): Promise<T> {
    const { signal } = options;
    try {
      const acquiredAt = await this.#acquire(options);
      signal?.throwIfAborted();
      return await this.#runGuarded(act, acquiredAt, signal);
    } finally {
      if (this.#mayHoldLease) await this.#release();
    }
  }

  /** Waits for the Lease. Resolves with the time from which its duration counts. */
  async #acquire({ signal, onWaiting, wait = true }: HoldOptions): Promise<Instant> {
    const { node, log } = this.#parts;
    let reportedHolder: string | undefined;
    for (let failures = 0; ; ) {
      const startedAt = currentInstant();
      const acquisition = await this.#tryToAcquire(signal, wait);
      if (acquisition?.kind === 'Held') {
        if (elapsedMs(startedAt) < this.#durationMs) return startedAt;
        log.warn('Lease expired before the response arrived, trying again', { node });
        continue;
      }
      if (acquisition === undefined) {
        await sleep(backOffMs(failures++, retries), signal);
        signal?.throwIfAborted();
        continue;
      }
      failures = 0;
      const { holder, until } = acquisition;
      if (!wait) throw new NodeHeldError(node, holder, until);
      if (holder !== reportedHolder) onWaiting?.({ node, holder, until });
      reportedHolder = holder;
      await this.#untilChanged(acquisition, signal);
    }
  }

  /** Resolves with undefined after an error that is retried. */
  async #tryToAcquire(signal: AbortSignal | undefined, mayRetry: boolean): Promise<Acquisition | undefined> {
    const { leases, node, log, requirePermissions, remedy } = this.#parts;
    signal?.throwIfAborted();
    try {
      await requirePermissions(signal);
      this.#mayHoldLease = true;
      const acquisition = await leases.acquire(node, { signal });
      this.#mayHoldLease = acquisition.kind === 'Held';
      return acquisition;
    } catch (error) {
      // An aborted or unanswered request may still have been executed by the apiserver.
      signal?.throwIfAborted();
      if (!isRetryable(error)) this.#mayHoldLease = false;
      if (!mayRetry || !isRetryable(error)) throw typedError(error, node, remedy);
      log.warn('Lease could not be acquired, trying again', { node, error: errorMessage(error) });
      return undefined;
    }
  }

  /** Waits until the watch or the clock shows that the Lease may be free or has another holder. */
  async #untilChanged(
    { holder, until }: { readonly holder: string; readonly until: Date | undefined },
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { kube } = this.#parts;
    const changed = Promise.withResolvers<void>();
    const remainingMs = until === undefined ? maxWaitMs : until.getTime() - kube.now().getTime() + 1;
    const timer = setTimeout(changed.resolve, Math.max(0, Math.min(remainingMs, maxWaitMs)));
    const stop = this.#watch((lease) => {
      const state = leaseStateOf(lease, kube.now().getTime());
      const isHeld = state.kind === 'Held' || state.kind === 'HeldByAdministrator';
      if (!isHeld || state.holder !== holder) changed.resolve();
    });
    try {
      await abortable(changed.promise, signal);
    } finally {
      clearTimeout(timer);
      stop();
    }
  }

  async #runGuarded<T>(act: WhileHeld<T>, acquiredAt: Instant, signal: AbortSignal | undefined): Promise<T> {
    const acting = new AbortController();
    const stop = () => acting.abort(signal?.reason);
    signal?.addEventListener('abort', stop, { once: true });
    const guard = this.#guard(acquiredAt, (lost) => acting.abort(lost));
    try {
      const result = await act(acting.signal);
      const lost = guard.lost();
      if (lost !== undefined) throw lost;
      return result;
    } catch (error) {
      const lost = guard.lost();
      throw lost !== undefined && isAbort(error) ? lost : error;
    } finally {
      signal?.removeEventListener('abort', stop);
      await guard.end();
    }
  }

  /** Renews and watches the Lease. `lost` also checks the clock. */
  #guard(acquiredAt: Instant, onLost: (lost: NodeLeaseLostError) => void) {
    const { leases, node, log } = this.#parts;
    const ended = new AbortController();
    const leaseDeadline = new LeaseDeadline(acquiredAt, this.#durationMs);
    let lost: NodeLeaseLostError | undefined;
    const markLost = (loss: Loss | undefined) => {
      if (lost !== undefined || loss === undefined || ended.signal.aborted) return;
      lost = new NodeLeaseLostError(node, loss);
      log.warn('Lease was lost', { node, ...loss });
      ended.abort();
      onLost(lost);
    };
    const stopWatch = this.#watch((lease) => markLost(lossOf(lease, leases.holder)));
    const renewing = this.#renew(leaseDeadline, ended.signal).then(markLost);
    return {
      lost: () => {
        if (leaseDeadline.remainingMs <= 0) markLost(leaseDeadline.expired());
        return lost;
      },
      end: async () => {
        stopWatch();
        ended.abort();
        await renewing;
      },
    };
  }

  /** Resolves with the reason when the Lease is lost, or with undefined when `ended` aborts. Never rejects. */
  async #renew(leaseDeadline: LeaseDeadline, ended: AbortSignal): Promise<Loss | undefined> {
    for (;;) {
      await sleep(leaseDeadline.nextAttemptMs, ended);
      if (ended.aborted) return undefined;
      if (leaseDeadline.remainingMs <= 0) return leaseDeadline.expired();
      const loss = await this.#tryToRenew(leaseDeadline, ended);
      if (loss !== undefined) return loss;
    }
  }

  async #tryToRenew(leaseDeadline: LeaseDeadline, ended: AbortSignal): Promise<Loss | undefined> {
    const { leases, node, log } = this.#parts;
    const startedAt = currentInstant();
    const deadline = new Deadline(leaseDeadline.attemptMs, 'the apiserver did not answer', ended);
    try {
      const renewal = await leases.renew(node, { signal: deadline.signal, urgent: true });
      if (renewal.kind === 'HeldByAnother') return { kind: 'Taken', by: renewal.holder };
      // Without another holder, the Lease is ours but its duration was changed so that it expired.
      if (renewal.kind === 'Lost') return lossOf(renewal.lease, leases.holder) ?? leaseDeadline.expired();
      leaseDeadline.renewed(startedAt);
    } catch (error) {
      if (ended.aborted) return undefined;
      leaseDeadline.failed(errorMessage(error));
      log.warn('Lease could not be renewed', { node, error: errorMessage(error) });
    } finally {
      deadline.dispose();
    }
    return undefined;
  }

  /** Calls `onLease` with the current Lease and after every change. Returns a function that stops the watch. */
  #watch(onLease: (lease: Readonly<Lease> | undefined) => void): () => void {
    const { kube, node, log } = this.#parts;
    const watching = new AbortController();
    const informer = new Informer({
      kube,
      resource: resources.leases,
      namespace: NODE_LEASE_NAMESPACE,
      fieldSelector: `metadata.name=${node}`,
      log,
    });
    const unsubscribe = informer.subscribe(({ type, object }) =>
      onLease(type === 'Deleted' ? undefined : object),
    );
    informer.start(watching.signal);
    informer.synced(watching.signal).then(
      () => informer.size === 0 && onLease(undefined),
      () => undefined,
    );
    return () => {
      unsubscribe();
      watching.abort();
    };
  }

  async #release(): Promise<void> {
    const { leases, node, log } = this.#parts;
    const deadline = new Deadline(releaseTimeoutMs, 'the apiserver did not answer', undefined);
    try {
      await leases.release(node, { signal: deadline.signal, urgent: true });
    } catch (error) {
      log.warn('Lease could not be released, it expires by itself', { node, error: errorMessage(error) });
    } finally {
      deadline.dispose();
    }
  }
}

/** Tracks the time until which we hold the Lease, since its last renewal. */
class LeaseDeadline {
  readonly #durationMs: number;
  #renewedAt: Instant;
  #failures = 0;
  #lastError: string | undefined;

  constructor(acquiredAt: Instant, durationMs: number) {
    this.#renewedAt = acquiredAt;
    this.#durationMs = durationMs;
  }

  get remainingMs(): number {
    return this.#durationMs - elapsedMs(this.#renewedAt);
  }

  /** The time until the next attempt, after a third of the duration or with back-off after a failure; at most until the expiry. */
  get nextAttemptMs(): number {
    const untilThirdMs = this.remainingMs - (this.#durationMs * 2) / 3;
    const capMs = Math.min(this.#durationMs / 10, retries.capMs);
    const retryMs = backOffMs(this.#failures, { firstMs: Math.min(retries.firstMs, capMs), capMs });
    return Math.min(this.#failures === 0 ? untilThirdMs : retryMs, this.remainingMs);
  }

  /** The timeout of one attempt. */
  get attemptMs(): number {
    return Math.min(Math.max(minAttemptMs, this.remainingMs / 3), this.remainingMs);
  }

  renewed(at: Instant): void {
    this.#renewedAt = at;
    this.#failures = 0;
    this.#lastError = undefined;
  }

  failed(lastError: string): void {
    this.#failures++;
    this.#lastError = lastError;
  }

  expired(): Loss {
    return { kind: 'Expired', lastError: this.#lastError };
  }
}

/** Reports whether an error was thrown because of an aborted signal. Functions of Node.js throw an AbortError. */
function isAbort(error: unknown): boolean {
  return error instanceof NodeLeaseLostError || (error as Error | undefined)?.name === 'AbortError';
}
