import type { Lease } from '../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { leaseStateOf } from '../domain/lease.ts';
import { Deadline, rest, unlessAborted } from '../kube/abort.ts';
import { backOffMs } from '../kube/backOff.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError, wordsOf } from '../kube/errors.ts';
import { Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { elapsedMs, type Moment, moment } from '../kube/moment.ts';
import { resources } from '../kube/resources.ts';
import { type Loss, lossOf, NodeLeaseLostError } from './lost.ts';
import type { Acquisition, NodeLeases } from './nodeLeases.ts';
import { remedied } from './remedy.ts';

/** Who has a node that is waited for. */
export interface Waiting {
  readonly node: string;
  readonly holder: string;
  /** When it is free unless it is renewed; missing for an administrator's hold, which does not expire. */
  readonly until: Date | undefined;
}

export interface HoldOptions {
  /** Ends the wait, and tells the function to stop. */
  readonly signal?: AbortSignal | undefined;
  /** Called when the node is somebody else's, again whenever the holder changes. */
  readonly onWaiting?: ((waiting: Waiting) => void) | undefined;
}

/** What is done while the Lease is held; its signal aborts when it is to stop. */
export type WhileHeld<T> = (signal: AbortSignal) => Promise<T> | T;

interface HoldParts {
  readonly kube: Kube;
  readonly leases: NodeLeases;
  readonly node: string;
  readonly log: Log;
  /** Rejects when RBAC does not allow what is needed. */
  readonly requireRights: (signal: AbortSignal | undefined) => Promise<void>;
  /** What to do about an apiserver that forbids something. */
  readonly remedy: string;
}

const retries = { firstMs: 200, capMs: 10_000 };
/** Without any event a Lease is looked at again after this long; a timer cannot wait for a Lease of the year 9999. */
const longestWaitMs = 60_000;
/** An attempt to renew that has no answer leaves time for another one, which has a connection of its own. */
const shortestAttemptMs = 1_000;
/** The release is a courtesy: without it the others wait until the Lease runs out. */
const releaseWithinMs = 10_000;

/**
 * One node, held for the time of one call. Contract:
 *
 * 1. The function runs only while the Lease is ours, by the clock that is stricter for us: from before it was written
 *    until its duration is over, without the drift that the others allow for. It is not begun when that is over already, nor
 *    when whoever asked for it has had enough.
 * 2. Its signal aborts with a NodeLeaseLostError as soon as the Lease is seen to be another's or nobody's, and at the end of
 *    the duration at the latest. A process that was stopped meanwhile sees that when it goes on, at its next timer.
 * 3. The next call waits until the function has ended, whatever its signal says: nobody else can end it.
 * 4. Errors of the apiserver are waited out: before the Lease is ours for as long as it takes, then until it runs out. What
 *    waiting does not mend rejects.
 * 5. Whatever happens, the Lease is released at the end if it is still ours.
 */
export class Hold {
  readonly #parts: HoldParts;
  #mayBeOurs = false;

  constructor(parts: HoldParts) {
    this.#parts = parts;
  }

  get #durationMs(): number {
    return this.#parts.leases.leaseDurationSeconds * 1_000;
  }

  async run<T>(act: WhileHeld<T>, { signal, onWaiting }: HoldOptions): Promise<T> {
    try {
      const acquiredAt = await this.#acquired(signal, onWaiting);
      signal?.throwIfAborted();
      return await this.#guarded(act, acquiredAt, signal);
    } finally {
      if (this.#mayBeOurs) await this.#release();
    }
  }

  /** Resolves with the moment from which the Lease's duration counts. */
  async #acquired(signal: AbortSignal | undefined, onWaiting: HoldOptions['onWaiting']): Promise<Moment> {
    const { node, log } = this.#parts;
    let told: string | undefined;
    for (let failures = 0; ; ) {
      const began = moment();
      const seen = await this.#tryToAcquire(signal);
      if (seen?.kind === 'Held') {
        if (elapsedMs(began) < this.#durationMs) return began;
        log.warn('Lease was over when its answer came, trying again', { node });
        continue;
      }
      if (seen === undefined) {
        await rest(backOffMs(failures++, retries), signal);
        signal?.throwIfAborted();
        continue;
      }
      failures = 0;
      const { holder, until } = seen;
      if (holder !== told) onWaiting?.({ node, holder, until });
      told = holder;
      await this.#untilChanged(seen, signal);
    }
  }

  /** Undefined when it is worth another attempt. */
  async #tryToAcquire(signal: AbortSignal | undefined): Promise<Acquisition | undefined> {
    const { leases, node, log, requireRights, remedy } = this.#parts;
    signal?.throwIfAborted();
    try {
      await requireRights(signal);
      this.#mayBeOurs = true;
      const seen = await leases.acquire(node, { signal });
      this.#mayBeOurs = seen.kind === 'Held';
      return seen;
    } catch (error) {
      // A request that was cut short or had no answer may have been written all the same.
      signal?.throwIfAborted();
      if (!isPassing(error)) {
        this.#mayBeOurs = false;
        throw remedied(error, remedy);
      }
      log.warn('Lease could not be acquired, trying again', { node, error: wordsOf(error) });
      return undefined;
    }
  }

  /** Waits until the Lease may be free or has another holder, as far as a watch and the clock tell. */
  async #untilChanged(
    { holder, until }: { readonly holder: string; readonly until: Date | undefined },
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { kube } = this.#parts;
    const changed = Promise.withResolvers<void>();
    const leftMs = until === undefined ? longestWaitMs : until.getTime() - kube.now().getTime() + 1;
    const timer = setTimeout(changed.resolve, Math.max(0, Math.min(leftMs, longestWaitMs)));
    const stop = this.#watch((lease) => {
      const state = leaseStateOf(lease, kube.now().getTime());
      const isHeld = state.kind === 'Held' || state.kind === 'HeldByAdministrator';
      if (!isHeld || state.holder !== holder) changed.resolve();
    });
    try {
      await unlessAborted(changed.promise, signal);
    } finally {
      clearTimeout(timer);
      stop();
    }
  }

  async #guarded<T>(act: WhileHeld<T>, acquiredAt: Moment, signal: AbortSignal | undefined): Promise<T> {
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

  /** Renews the Lease and watches it; `lost` looks at the clock, too. */
  #guard(acquiredAt: Moment, onLost: (lost: NodeLeaseLostError) => void) {
    const { leases, node, log } = this.#parts;
    const ended = new AbortController();
    const term = new Term(acquiredAt, this.#durationMs);
    let lost: NodeLeaseLostError | undefined;
    const lose = (loss: Loss | undefined) => {
      if (lost !== undefined || loss === undefined || ended.signal.aborted) return;
      lost = new NodeLeaseLostError(node, loss);
      log.warn('Lease was lost', { node, ...loss });
      ended.abort();
      onLost(lost);
    };
    const stopWatch = this.#watch((lease) => lose(lossOf(lease, leases.holder)));
    const renewing = this.#renew(term, ended.signal).then(lose);
    return {
      lost: () => {
        if (term.leftMs <= 0) lose(term.ranOut());
        return lost;
      },
      end: async () => {
        stopWatch();
        ended.abort();
        await renewing;
      },
    };
  }

  /** Resolves with how the Lease was lost; undefined once it is `ended`. Never rejects. */
  async #renew(term: Term, ended: AbortSignal): Promise<Loss | undefined> {
    for (;;) {
      await rest(term.restMs, ended);
      if (ended.aborted) return undefined;
      if (term.leftMs <= 0) return term.ranOut();
      const loss = await this.#tryToRenew(term, ended);
      if (loss !== undefined) return loss;
    }
  }

  async #tryToRenew(term: Term, ended: AbortSignal): Promise<Loss | undefined> {
    const { leases, node, log } = this.#parts;
    const began = moment();
    const deadline = new Deadline(term.attemptMs, 'the apiserver did not answer', ended);
    try {
      const renewal = await leases.renew(node, { signal: deadline.signal, urgent: true });
      if (renewal.kind === 'HeldByAnother') return { kind: 'Taken', by: renewal.holder };
      // One that has no other holder is ours, and was made to run out.
      if (renewal.kind === 'Lost') return lossOf(renewal.lease, leases.holder) ?? term.ranOut();
      term.renewed(began);
    } catch (error) {
      if (ended.aborted) return undefined;
      term.failed(wordsOf(error));
      log.warn('Lease could not be renewed', { node, error: wordsOf(error) });
    } finally {
      deadline.done();
    }
    return undefined;
  }

  /** Tells how the Lease is, at first and after every change. Returns the function that ends it. */
  #watch(look: (lease: Readonly<Lease> | undefined) => void): () => void {
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
      look(type === 'Deleted' ? undefined : object),
    );
    informer.start(watching.signal);
    informer.synced(watching.signal).then(
      () => informer.size === 0 && look(undefined),
      () => undefined,
    );
    return () => {
      unsubscribe();
      watching.abort();
    };
  }

  async #release(): Promise<void> {
    const { leases, node, log } = this.#parts;
    const deadline = new Deadline(releaseWithinMs, 'the apiserver did not answer', undefined);
    try {
      await leases.release(node, { signal: deadline.signal, urgent: true });
    } catch (error) {
      log.warn('Lease could not be released; it runs out by itself', { node, error: wordsOf(error) });
    } finally {
      deadline.done();
    }
  }
}

/** The time for which a Lease was last written to be ours. */
class Term {
  readonly #durationMs: number;
  #renewedAt: Moment;
  #failures = 0;
  #because: string | undefined;

  constructor(acquiredAt: Moment, durationMs: number) {
    this.#renewedAt = acquiredAt;
    this.#durationMs = durationMs;
  }

  get leftMs(): number {
    return this.#durationMs - elapsedMs(this.#renewedAt);
  }

  /** Until the next attempt, at a third of the duration or after a failure, or until the end. */
  get restMs(): number {
    const untilThirdMs = this.leftMs - (this.#durationMs * 2) / 3;
    const capMs = Math.min(this.#durationMs / 10, retries.capMs);
    const retryMs = backOffMs(this.#failures, { firstMs: Math.min(retries.firstMs, capMs), capMs });
    return Math.min(this.#failures === 0 ? untilThirdMs : retryMs, this.leftMs);
  }

  /** How long one attempt may take. */
  get attemptMs(): number {
    return Math.min(Math.max(shortestAttemptMs, this.leftMs / 3), this.leftMs);
  }

  renewed(began: Moment): void {
    this.#renewedAt = began;
    this.#failures = 0;
    this.#because = undefined;
  }

  failed(because: string): void {
    this.#failures++;
    this.#because = because;
  }

  ranOut(): Loss {
    return { kind: 'RanOut', because: this.#because };
  }
}

/** An error that another attempt may not meet with. */
function isPassing(error: unknown): boolean {
  return isKubeError(error, 'Unavailable', 'Throttled', 'Conflict', 'AlreadyExists');
}

/** What node's own functions throw when their signal aborts; the reason is in its cause, if at all. */
function isAbort(error: unknown): boolean {
  return error instanceof NodeLeaseLostError || (error as Error | undefined)?.name === 'AbortError';
}
