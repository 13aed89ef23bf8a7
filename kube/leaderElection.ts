import type { Lease } from '../api/core.ts';
import { anySignal, sleep } from './abort.ts';
import type { FencedKube, Kube } from './client.ts';
import { isKubeError, KubeErrorKind, errorMessage } from './errors.ts';
import { Informer } from './informer.ts';
import { currentInstant, elapsedMs, type Instant } from './monotonicTime.ts';
import {
  type Candidate,
  nextLeaseAction,
  type Observation,
  observe,
  releasedSpec,
  type Wait,
} from './leaseRecord.ts';
import type { Log } from './log.ts';
import { resources } from './resources.ts';

export interface LeaderElectionOptions {
  readonly kube: Kube;
  /** Name of the Lease, whose namespace must exist. */
  readonly name: string;
  readonly namespace: string;
  /** Unique among all candidates at all times: two candidates with the same identity would both lead. */
  readonly identity: string;
  /** Time that other candidates wait for a leader that stopped renewing. Default 8. */
  readonly leaseDurationSeconds?: number;
  /** Time that a leader without a successful renewal keeps leading; less than leaseDurationSeconds. Default two thirds of it. */
  readonly renewDeadlineSeconds?: number;
  /** Delay between attempts to acquire or renew. Default 2. */
  readonly retryPeriodSeconds?: number;
  readonly log: Log;
  readonly signal: AbortSignal;
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
 */
export async function runWhenLeader(options: LeaderElectionOptions, lead: Lead): Promise<void> {
  const elector = new Elector(options);
  while (!options.signal.aborted) {
    if (!(await elector.acquire())) return;
    if ((await elector.leadOnce(lead)) === 'Finished') return;
    await elector.waitForRetry();
  }
}

/** A Lease that was taken away from its leader must not be renewed, even if it has no holder: that is how a user stops a leader. */
type Purpose = 'Acquire' | 'Renew';

interface LeaseChange {
  /** Undefined if the Lease is deleted or has none. */
  holder: string | undefined;
  resourceVersion: string | undefined;
}

/** Versions of one kind of object are numbers that grow (Kubernetes API Concepts > Resource versions). */
function isAtLeast(version: string | undefined, other: string | undefined): boolean {
  return BigInt(version ?? 0) >= BigInt(other ?? 0);
}

/** A holder that did not renew for this many lease durations is presumed dead, even if its Lease demands more. */
const silentDurations = 5;

class Elector {
  readonly #options: LeaderElectionOptions;
  readonly #candidate: Candidate;
  readonly #retryMs: number;
  readonly #deadlineMs: number;
  readonly #key: { namespace: string; name: string };
  #observed: Observation | undefined;
  /** Start of the last successful attempt to acquire or renew. */
  #renewedAt: Instant | undefined;
  /** The signal of the current or last `lead` was aborted because the Lease is lost. */
  #isLost = false;
  #reportedError: string | undefined;
  /** Version of the Lease that was logged as not renewed. */
  #silentVersion: string | undefined;

  constructor(options: LeaderElectionOptions) {
    const { identity, namespace, name, leaseDurationSeconds = 8 } = options;
    this.#options = options;
    this.#candidate = { identity, leaseDurationSeconds };
    this.#key = { namespace, name };
    this.#retryMs = (options.retryPeriodSeconds ?? 2) * 1000;
    this.#deadlineMs = (options.renewDeadlineSeconds ?? (leaseDurationSeconds * 2) / 3) * 1000;
    if (this.#deadlineMs >= leaseDurationSeconds * 1000 || this.#retryMs >= this.#deadlineMs) {
      throw new Error(
        'leader election needs retryPeriodSeconds < renewDeadlineSeconds < leaseDurationSeconds: change one of them',
      );
    }
  }

  /** Returns true once the Lease is held, false if the signal aborts before. */
  async acquire(): Promise<boolean> {
    const { signal } = this.#options;
    const waiting = new AbortController();
    let released = new AbortController();
    this.#watch(({ holder }) => {
      if (!holder) released.abort();
    }, waiting.signal);
    try {
      while (!signal.aborted) {
        if (await this.#try('Acquire', signal, this.#deadlineMs)) return true;
        await this.waitForRetry(released.signal);
        released = new AbortController();
      }
      return false;
    } finally {
      waiting.abort();
    }
  }

  /** Leads until `lead` has returned, then releases the Lease if it is still held. */
  async leadOnce(lead: Lead): Promise<'Finished' | 'Lost'> {
    const { kube, log, signal } = this.#options;
    const leading = new AbortController();
    const ended = new AbortController();
    const stop = () => leading.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    this.#isLost = false;
    log.info('Leadership was acquired', this.#fields);
    const fenced = kube.guardedBy(() => this.#fence(leading, ended.signal));
    this.#watch((change) => {
      if (this.#isTakenAway(change)) this.#lose(leading);
    }, ended.signal);
    const work = this.#lead(lead, leading.signal, fenced).finally(() => ended.abort());
    const renewal = this.#renewUntil(leading, ended.signal);
    const [outcome] = await Promise.all([work, renewal]);
    signal.removeEventListener('abort', stop);
    await this.#release();
    return outcome;
  }

  /** Waits between attempts, with jitter so that candidates do not synchronize. */
  async waitForRetry(released?: AbortSignal): Promise<void> {
    const wake = anySignal(this.#options.signal, released);
    await sleep(this.#retryMs * (1 + Math.random() / 5), wake.signal);
    wake.dispose();
  }

  /** Calls back with every change of the Lease until the signal aborts. */
  #watch(onChange: (change: LeaseChange) => void, signal: AbortSignal): void {
    const { kube, log } = this.#options;
    const { namespace, name } = this.#key;
    const fieldSelector = `metadata.name=${name}`;
    const informer = new Informer({ kube, resource: resources.leases, namespace, fieldSelector, log });
    informer.subscribe(({ type, object }) => {
      const holder = type === 'Deleted' ? undefined : object.spec.holderIdentity;
      onChange({ holder: holder || undefined, resourceVersion: object.metadata.resourceVersion });
    });
    informer.start(signal);
  }

  /** Returns whether somebody else has changed the holder after the last write of this process. */
  #isTakenAway({ holder, resourceVersion }: LeaseChange): boolean {
    if (holder === this.#candidate.identity || this.#observed === undefined) return false;
    return isAtLeast(resourceVersion, this.#observed.resourceVersion);
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
      if (!ended.aborted && this.#remainingMs > 0) await this.#try('Renew', ended, this.#remainingMs);
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
    if (this.#remainingMs > 0) return undefined;
    this.#lose(leading);
    return `the Lease ${this.#fields.lease} was lost`;
  }

  #lose(leading: AbortController): void {
    if (this.#isLost) return;
    this.#isLost = true;
    // Not to be renewed any more: another candidate may hold it already.
    this.#renewedAt = undefined;
    const holder = this.#observed?.spec.holderIdentity;
    this.#options.log.warn('Leadership was lost', { ...this.#fields, holder });
    leading.abort(new Error(`the Lease ${this.#fields.lease} was lost`));
  }

  /** Tries once to acquire or renew. Never throws. */
  async #try(purpose: Purpose, signal: AbortSignal, timeoutMs: number): Promise<boolean> {
    // Other candidates measure from the time at which they observe this write, which is later.
    const startedAt = currentInstant();
    try {
      const held = await this.#acquireOrRenew(purpose, { signal, timeoutMs, urgent: true });
      this.#renewedAt = held ? startedAt : undefined;
      this.#reportedError = undefined;
      return held;
    } catch (error) {
      if (!signal.aborted && !isKubeError(error, KubeErrorKind.Conflict, KubeErrorKind.AlreadyExists)) {
        this.#report(errorMessage(error));
      }
      return false;
    }
  }

  async #acquireOrRenew(
    purpose: Purpose,
    request: { signal: AbortSignal; timeoutMs: number; urgent: true },
  ): Promise<boolean> {
    const { kube } = this.#options;
    const current = await kube.get(resources.leases, this.#key, request);
    this.#observed = current === undefined ? undefined : observe(this.#observed, current, performance.now());
    if (purpose === 'Renew' && current?.spec.holderIdentity !== this.#candidate.identity) return false;
    const action = nextLeaseAction(this.#observed, this.#candidate, {
      now: kube.now(),
      nowMs: performance.now(),
    });
    if (action.kind === 'Wait') {
      this.#logIfSilent(action);
      return false;
    }
    const written = await this.#write(current, action.spec, request);
    this.#observed = observe(undefined, written, performance.now());
    return true;
  }

  /** Creates the Lease, or updates it if it still has the version that was read. */
  #write(current: Lease | undefined, spec: Lease['spec'], request: object): Promise<Lease> {
    const { kube } = this.#options;
    if (current === undefined) return kube.create(resources.leases, { metadata: this.#key, spec }, request);
    const { resourceVersion } = current.metadata;
    return kube.mergePatch(resources.leases, this.#key, { metadata: { resourceVersion }, spec }, request);
  }

  /**
   * Releases the Lease. Best effort: if it fails, the others wait for the Lease to expire. Reads the Lease again because
   * an aborted renewal may have been written.
   */
  async #release(): Promise<void> {
    const { kube, log } = this.#options;
    const request = { timeoutMs: this.#deadlineMs, urgent: true };
    this.#observed = undefined;
    try {
      const lease = await kube.get(resources.leases, this.#key, request);
      if (lease?.spec.holderIdentity !== this.#candidate.identity) return;
      await this.#write(lease, releasedSpec(lease.spec, kube.now()), request);
      log.info('Leadership was released', this.#fields);
    } catch (error) {
      log.warn('Leadership could not be released', { ...this.#fields, error: errorMessage(error) });
    }
  }

  #logIfSilent({ holder, forMs, silentForMs }: Wait): void {
    const version = this.#observed?.resourceVersion;
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
