import type { Lease } from '../api/core.ts';
import { Deadline, sleep } from './abort.ts';
import type { FencedKube, Kube } from './client.ts';
import { completeTiming, type ElectionTiming } from './electionTiming.ts';
import { isKubeError, KubeErrorKind, errorMessage } from './errors.ts';
import { type LeaseChange, LeaseObserver } from './leaseObserver.ts';
import { currentInstant, elapsedMs, type Instant } from './monotonicTime.ts';
import { type Candidate, heldSpec, nextLeaseAction, releasedSpec, type Wait } from './leaseRecord.ts';
import type { Log } from './log.ts';
import { isAtLeast, resources } from './resources.ts';

export interface LeaderElectionOptions extends ElectionTiming {
  readonly kube: Kube;
  /** Name of the Lease, whose namespace must exist. */
  readonly name: string;
  readonly namespace: string;
  /** Unique among all candidates at all times: two candidates with the same identity would both lead. */
  readonly identity: string;
  /** Has observed this Lease for some time. Default: one that starts now. */
  readonly observer?: LeaseObserver;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly metrics?: LeaderElectionMetrics | undefined;
}

/** Source of the metrics of an election; `election` is the name of its Lease. */
export interface LeaderElectionMetrics {
  /** This process takes part. */
  joined(election: string): void;
  /** This process has become the leader. */
  acquired(election: string): void;
  /** This process, which was the leader, may not write any more. */
  ended(election: string): void;
}

/** `fenced` is the client of the options, restricted to the time in which this process leads. */
type Lead = (signal: AbortSignal, fenced: FencedKube) => Promise<void>;

/**
 * Runs `lead` while this process is the leader, as client-go's leaderelection does. Contract:
 *
 * 1. Two candidates never lead at once, provided that `lead` returns within leaseDuration - renewDeadline after its signal aborts.
 * 2. The signal of `lead` aborts if the Lease is lost, could not be renewed within the deadline, or `signal` aborts. A Lease that a user
 *    deletes, clears or gives to another holder is lost at once: other candidates see it at the same time, and acquire it. The next
 *    attempt to lead starts after `lead` has returned; until then the Lease is renewed if it is still held. A process that was
 *    stopped and resumes later receives its signal only after some of its pending work has run; `fenced` therefore checks
 *    the clock before each request and sends none after the deadline.
 * 3. When `lead` has returned, the Lease is released, and a waiting candidate acquires it immediately.
 * 4. It returns when `signal` aborts or when `lead` returns by itself. An error of `lead` is logged, and the next leader
 *    starts `lead` again. Errors of the apiserver are retried.
 * 5. A holder that does not renew is waited for as long as its Lease demands, possibly decades; that is logged once.
 * 6. A candidate determines that by its own monotonic clock: the Lease is free when it has not changed for its duration since it was observed.
 *    It waits only for what is left of that, and asks the apiserver again before it acquires the Lease: its watch may be dead.
 */
export async function runWhenLeader(options: LeaderElectionOptions, lead: Lead): Promise<void> {
  const ended = new AbortController();
  options.metrics?.joined(options.name);
  try {
    const observer = options.observer ?? new LeaseObserver({ ...options, signal: ended.signal });
    const elector = new Elector(options, observer);
    while (!options.signal.aborted) {
      if (!(await elector.acquire())) return;
      if ((await elector.leadOnce(lead)) === 'Finished') return;
      await elector.waitForRetry();
    }
  } finally {
    ended.abort();
  }
}

interface ElectionRequest {
  readonly signal?: AbortSignal;
  readonly timeoutMs: number;
  readonly urgent: true;
}

/** A holder that did not renew for this many lease durations is presumed dead, even if its Lease demands more. */
const silentDurations = 5;

class Elector {
  readonly #options: LeaderElectionOptions;
  readonly #observer: LeaseObserver;
  readonly #candidate: Candidate;
  readonly #retryMs: number;
  readonly #deadlineMs: number;
  readonly #key: { namespace: string; name: string };
  /** The Lease as this process wrote it last. */
  #written: Lease | undefined;
  /** Start of the last successful attempt to acquire or renew. */
  #renewedAt: Instant | undefined;
  /** The signal of the current or last `lead` was aborted because the Lease is lost. */
  #isLost = false;
  #reportedError: string | undefined;
  /** Version of the Lease that was logged as not renewed. */
  #silentVersion: string | undefined;

  constructor(options: LeaderElectionOptions, observer: LeaseObserver) {
    const { identity, namespace, name } = options;
    const { leaseDurationSeconds, renewDeadlineSeconds, retryPeriodSeconds } = completeTiming(options);
    this.#options = options;
    this.#observer = observer;
    this.#candidate = { identity, leaseDurationSeconds };
    this.#key = { namespace, name };
    this.#retryMs = retryPeriodSeconds * 1000;
    this.#deadlineMs = renewDeadlineSeconds * 1000;
    if (renewDeadlineSeconds >= leaseDurationSeconds || retryPeriodSeconds >= renewDeadlineSeconds) {
      throw new Error(
        'leader election needs retryPeriodSeconds < renewDeadlineSeconds < leaseDurationSeconds: change one of them',
      );
    }
  }

  /** Returns true once the Lease is held, false if the signal aborts before. */
  async acquire(): Promise<boolean> {
    const { signal } = this.#options;
    while (!signal.aborted) {
      const outcome = await this.#try(signal, this.#deadlineMs, (request) => this.#acquire(request));
      if (outcome === 'Held') return true;
      await (outcome === undefined ? this.waitForRetry() : this.#untilExpired(outcome));
    }
    return false;
  }

  /** Leads until `lead` has returned, then releases the Lease if it is still held. */
  async leadOnce(lead: Lead): Promise<'Finished' | 'Lost'> {
    const { kube, name, log, signal, metrics } = this.#options;
    const leading = new AbortController();
    const ended = new AbortController();
    const stop = () => leading.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    this.#isLost = false;
    log.info('Leadership was acquired', this.#fields);
    metrics?.acquired(name);
    const fenced = kube.guardedBy(() => this.#fence(leading, ended.signal));
    const unsubscribe = this.#observer.subscribe((change) => {
      if (this.#isTakenAway(change)) this.#lose(leading);
    });
    const work = this.#lead(lead, leading.signal, fenced).finally(() => ended.abort());
    const renewal = this.#renewUntil(leading, ended.signal);
    const [outcome] = await Promise.all([work, renewal]);
    metrics?.ended(name);
    unsubscribe();
    signal.removeEventListener('abort', stop);
    await this.#release();
    return outcome;
  }

  /** Waits between attempts, with jitter so that candidates do not synchronize. */
  async waitForRetry(): Promise<void> {
    await sleep(this.#retryMs * (1 + Math.random() / 5), this.#options.signal);
  }

  /**
   * Waits until the Lease has no holder, or has not changed for as long as it lasts, but only for the duration that this candidate would
   * write: without a watch, only a request shows that a Lease of a long duration was released.
   */
  async #untilExpired({ forMs }: Wait): Promise<void> {
    const { signal } = this.#options;
    const longestMs = this.#candidate.leaseDurationSeconds * 1000;
    let pauseMs = Math.min(forMs, longestMs);
    while (await this.#observer.changesWithin(pauseMs, signal)) {
      const { holderIdentity, leaseDurationSeconds = 0 } = this.#observer.current?.spec ?? {};
      if (!holderIdentity) return;
      pauseMs = Math.min(leaseDurationSeconds * 1000, longestMs);
    }
  }

  /** Returns whether another client has changed the holder after the last write of this process. */
  #isTakenAway({ holder, resourceVersion }: LeaseChange): boolean {
    if (holder === this.#candidate.identity) return false;
    return isAtLeast(resourceVersion, this.#written?.metadata.resourceVersion);
  }

  get #fields() {
    return { lease: `${this.#key.namespace}/${this.#key.name}`, identity: this.#candidate.identity };
  }

  async #lead(lead: Lead, leading: AbortSignal, fenced: FencedKube): Promise<'Finished' | 'Lost'> {
    try {
      await lead(leading, fenced);
      return leading.aborted && !this.#options.signal.aborted ? 'Lost' : 'Finished';
    } catch (error) {
      if (!leading.aborted) {
        this.#options.log.error('Leader failed', {
          ...this.#fields,
          error: errorMessage(error),
        });
      }
      return 'Lost';
    }
  }

  /** Renews until `ended`; aborts `leading` if the Lease is lost or the deadline has passed. */
  async #renewUntil(leading: AbortController, ended: AbortSignal): Promise<void> {
    while (!ended.aborted) {
      await sleep(Math.min(this.#retryMs, this.#remainingMs), ended);
      if (!ended.aborted && this.#remainingMs > 0)
        await this.#try(ended, this.#remainingMs, (request) => this.#renew(request));
      if (ended.aborted) return;
      if (this.#remainingMs === 0) return this.#lose(leading);
    }
  }

  /** Time for which no other candidate can lead, unless the Lease is released. */
  get #remainingMs(): number {
    return this.#renewedAt === undefined ? 0 : Math.max(0, this.#deadlineMs - elapsedMs(this.#renewedAt));
  }

  /** Returns why `lead` must not send requests any more, if so. */
  #fence(leading: AbortController, ended: AbortSignal): string | undefined {
    if (ended.aborted) return 'this process is no longer the leader';
    if (this.#remainingMs > 0 && !this.#isLost) return undefined;
    this.#lose(leading);
    return `the Lease ${this.#fields.lease} was lost`;
  }

  #lose(leading: AbortController): void {
    if (this.#isLost) return;
    this.#isLost = true;
    // Not to be renewed any more: another candidate may hold it already.
    this.#renewedAt = undefined;
    this.#options.metrics?.ended(this.#options.name);
    const holder = this.#observer.current?.spec.holderIdentity;
    this.#options.log.warn('Leadership was lost', { ...this.#fields, holder });
    leading.abort(new Error(`the Lease ${this.#fields.lease} was lost`));
  }

  /** Tries once to acquire or renew. Resolves with undefined if the request failed. */
  async #try<T>(
    signal: AbortSignal,
    timeoutMs: number,
    attempt: (request: ElectionRequest) => Promise<'Held' | T>,
  ): Promise<'Held' | T | undefined> {
    // Other candidates measure from the time at which they observe this write, which is later.
    const startedAt = currentInstant();
    try {
      const outcome = await within(timeoutMs, signal, attempt);
      this.#renewedAt = outcome === 'Held' ? startedAt : undefined;
      this.#reportedError = undefined;
      return outcome;
    } catch (error) {
      if (!signal.aborted && !isKubeError(error, KubeErrorKind.Conflict, KubeErrorKind.AlreadyExists)) {
        this.#report(errorMessage(error));
      }
      return undefined;
    }
  }

  async #acquire(request: ElectionRequest): Promise<'Held' | Wait> {
    const { kube } = this.#options;
    const current = await this.#read(request);
    const action = nextLeaseAction(this.#observer.current, this.#candidate, {
      now: kube.now(),
      nowMs: performance.now(),
    });
    if (action.kind === 'Write') {
      await this.#write(current, action.spec, request);
      return 'Held';
    }
    this.#logIfSilent(action);
    return action;
  }

  /**
   * Renews the Lease, which is read only if another client has changed it. One that was taken away is not renewed, even if it has no holder: that
   * is how a user stops a leader.
   */
  async #renew(request: ElectionRequest): Promise<'Held' | 'TakenAway'> {
    const { kube } = this.#options;
    const renew = async (lease: Lease) => {
      await this.#write(lease, heldSpec(lease.spec, this.#candidate, kube.now()), request);
      return 'Held' as const;
    };
    const last = this.#written;
    const unchanged = last && (await renew(last).catch(ignoreChanged));
    if (unchanged !== undefined) return unchanged;
    const current = await this.#read(request);
    return current?.spec.holderIdentity === this.#candidate.identity ? renew(current) : 'TakenAway';
  }

  async #read(request: ElectionRequest): Promise<Lease | undefined> {
    const lease = await this.#options.kube.get(resources.leases, this.#key, request);
    this.#observer.record(lease);
    return lease;
  }

  /** Creates the Lease, or updates it if it still has the version that was read. */
  async #write(current: Lease | undefined, spec: Lease['spec'], request: ElectionRequest): Promise<void> {
    const { kube } = this.#options;
    const resourceVersion = current?.metadata.resourceVersion;
    this.#written =
      current === undefined
        ? await kube.create(resources.leases, { metadata: this.#key, spec }, request)
        : await kube.mergePatch(
            resources.leases,
            this.#key,
            { metadata: { resourceVersion }, spec },
            request,
          );
    this.#observer.record(this.#written);
  }

  /**
   * Releases the Lease. Best effort: if it fails, the others wait for the Lease to expire. Reads the Lease again because
   * an aborted renewal may have been written.
   */
  async #release(): Promise<void> {
    const { kube, log } = this.#options;
    const release = async (request: ElectionRequest) => {
      const lease = await this.#read(request);
      if (lease?.spec.holderIdentity !== this.#candidate.identity) return;
      await this.#write(lease, releasedSpec(lease.spec, kube.now()), request);
      log.info('Leadership was released', this.#fields);
    };
    await within(this.#deadlineMs, undefined, release).catch((error: unknown) =>
      log.warn('Leadership could not be released', { ...this.#fields, error: errorMessage(error) }),
    );
  }

  #logIfSilent({ holder, forMs, silentForMs }: Wait): void {
    const version = this.#observer.current?.resourceVersion;
    const isSilent = silentForMs > silentDurations * this.#candidate.leaseDurationSeconds * 1_000;
    if (!isSilent || this.#silentVersion === version) return;
    this.#silentVersion = version;
    const freeInSeconds = Math.ceil(forMs / 1_000);
    const message = 'Lease has not been renewed for a long time: delete it if its holder no longer exists';
    this.#options.log.warn(message, { ...this.#fields, holder, freeInSeconds });
  }

  #report(error: string): void {
    if (this.#reportedError === error) return;
    this.#reportedError = error;
    this.#options.log.warn('Lease could not be read or written, retrying', { ...this.#fields, error });
  }
}

/** The Lease has another version than the one that was written, or is gone. */
function ignoreChanged(error: unknown): undefined {
  if (!isKubeError(error, KubeErrorKind.Conflict, KubeErrorKind.NotFound)) throw error;
}

/** Sends requests that end together within the time: a throttled one is repeated for longer than its own timeout. */
async function within<T>(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  send: (request: ElectionRequest) => Promise<T>,
): Promise<T> {
  const deadline = new Deadline(timeoutMs, `no answer within ${timeoutMs} ms`, signal);
  try {
    return await send({ signal: deadline.signal, timeoutMs, urgent: true });
  } finally {
    deadline.dispose();
  }
}
