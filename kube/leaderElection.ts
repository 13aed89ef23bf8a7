import type { Lease } from '../api/core.ts';
import { firstOf, rest } from './abort.ts';
import type { FencedKube, Kube } from './client.ts';
import { isKubeError, KubeErrorKind, wordsOf } from './errors.ts';
import { Informer } from './informer.ts';
import { elapsedMs, type Moment, moment } from './moment.ts';
import { type Candidate, nextMove, type Observation, observe, released, type Wait } from './leaseRecord.ts';
import type { Log } from './log.ts';
import { resources } from './resources.ts';

export interface LeaderElectionOptions {
  readonly kube: Kube;
  /** Of the Lease; its namespace must exist. */
  readonly name: string;
  readonly namespace: string;
  /** Unique among all candidates, at all times: two with the same one would both lead. */
  readonly identity: string;
  /** How long others wait for a leader that went silent. Default 8. */
  readonly leaseDurationSeconds?: number;
  /** How long a leader that cannot renew goes on; less than the duration. Default two thirds of it. */
  readonly renewDeadlineSeconds?: number;
  /** Between two attempts to take or to renew. Default 2. */
  readonly retryPeriodSeconds?: number;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** `fenced` is the client of the options, for all that only the leader may ask for. */
type Lead = (signal: AbortSignal, fenced: FencedKube) => Promise<void>;

/**
 * Runs `lead` while this process is the leader, as client-go's leaderelection does. Contract:
 *
 * 1. Two never lead at once, as long as `lead` ends within leaseDuration - renewDeadline of its signal's abort.
 * 2. The signal of `lead` aborts when the Lease is lost, or could not be renewed within the deadline, or `signal`
 *    aborts. The next attempt to lead waits until `lead` has ended; meanwhile, if still ours, the Lease is renewed.
 *    A process that was stopped, and goes on later, is told by its signal only after some of what waited for it; `fenced`
 *    looks at the clock before each request, and sends none when the deadline has passed.
 * 3. Whenever `lead` has ended the Lease is given back, and whoever waits for it sees that and leads at once.
 * 4. Returns when `signal` aborts or when `lead` returns by itself. A `lead` that throws is logged and started again
 *    by whoever leads next. Errors of the apiserver are waited out.
 * 5. A holder that does not renew is waited for as long as its Lease says, which may be decades; that is logged once.
 */
export async function runWhenLeader(options: LeaderElectionOptions, lead: Lead): Promise<void> {
  const elector = new Elector(options);
  while (!options.signal.aborted) {
    if (!(await elector.acquire())) return;
    if ((await elector.leadOnce(lead)) === 'Finished') return;
    await elector.rest();
  }
}

/** A holder that did not renew for so many of our own durations does not live, whatever its Lease says. */
const patience = 5;

class Elector {
  readonly #options: LeaderElectionOptions;
  readonly #candidate: Candidate;
  readonly #retryMs: number;
  readonly #deadlineMs: number;
  readonly #key: { namespace: string; name: string };
  #seen: Observation | undefined;
  /** When the last attempt began after which the Lease was ours. */
  #renewed: Moment | undefined;
  /** The current `lead`, or the last one, was told that the Lease is lost. */
  #isLost = false;
  #reported: string | undefined;
  /** Version of the Lease of which it was told that nobody renews it. */
  #told: string | undefined;

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

  /** True once the Lease is ours; false when the signal aborted before. */
  async acquire(): Promise<boolean> {
    const { signal } = this.#options;
    const waiting = new AbortController();
    let freed = new AbortController();
    this.#watch(() => freed.abort(), waiting.signal);
    try {
      while (!signal.aborted) {
        if (await this.#try(signal, this.#deadlineMs)) return true;
        await this.rest(freed.signal);
        freed = new AbortController();
      }
      return false;
    } finally {
      waiting.abort();
    }
  }

  /** Leads until it is over, one way or another; the Lease is given back if it is still ours. */
  async leadOnce(lead: Lead): Promise<'Finished' | 'Lost'> {
    const { kube, log, signal } = this.#options;
    const leading = new AbortController();
    const ended = new AbortController();
    const stop = () => leading.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    this.#isLost = false;
    log.info('Leadership was taken', this.#fields);
    const fenced = kube.guardedBy(() => this.#objection(leading, ended.signal));
    const work = this.#lead(lead, leading.signal, fenced).finally(() => ended.abort());
    const renewal = this.#keep(leading, ended.signal);
    const [outcome] = await Promise.all([work, renewal]);
    signal.removeEventListener('abort', stop);
    await this.#release();
    return outcome;
  }

  /** Between attempts, with jitter, so that candidates do not move in step. */
  async rest(freed?: AbortSignal): Promise<void> {
    const ends = firstOf(this.#options.signal, freed);
    await rest(this.#retryMs * (1 + Math.random() / 5), ends.signal);
    ends.done();
  }

  /** Tells whenever the Lease is seen to be nobody's, until the signal aborts. */
  #watch(onFree: () => void, signal: AbortSignal): void {
    const { kube, log } = this.#options;
    const { namespace, name } = this.#key;
    const fieldSelector = `metadata.name=${name}`;
    const informer = new Informer({ kube, resource: resources.leases, namespace, fieldSelector, log });
    informer.subscribe(({ type, object }) => {
      if (type === 'Deleted' || !object.spec.holderIdentity) onFree();
    });
    informer.start(signal);
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
        this.#options.log.error('What the leader ran failed', { ...this.#fields, error: wordsOf(error) });
      }
      return 'Lost';
    }
  }

  /** Renews until `ended`; aborts `leading` when the Lease is lost or the deadline passed. */
  async #keep(leading: AbortController, ended: AbortSignal): Promise<void> {
    while (!ended.aborted) {
      await rest(Math.min(this.#retryMs, this.#leftMs), ended);
      if (!ended.aborted && this.#leftMs > 0) await this.#try(ended, this.#leftMs);
      if (ended.aborted) return;
      if (this.#leftMs === 0) return this.#lose(leading);
    }
  }

  /** How long nobody else can lead, unless we give the Lease back. */
  get #leftMs(): number {
    return this.#renewed === undefined ? 0 : Math.max(0, this.#deadlineMs - elapsedMs(this.#renewed));
  }

  /** Why what is led must not ask anything of the apiserver now, if so. */
  #objection(leading: AbortController, ended: AbortSignal): string | undefined {
    if (ended.aborted) return 'it is no longer led by this process';
    if (this.#leftMs > 0) return undefined;
    this.#lose(leading);
    return `the Lease ${this.#fields.lease} was lost`;
  }

  #lose(leading: AbortController): void {
    if (this.#isLost) return;
    this.#isLost = true;
    const holder = this.#seen?.spec.holderIdentity;
    this.#options.log.warn('Leadership was lost', { ...this.#fields, holder });
    leading.abort(new Error(`the Lease ${this.#fields.lease} was lost`));
  }

  /** One attempt to take or to renew. Never throws. */
  async #try(signal: AbortSignal, timeoutMs: number): Promise<boolean> {
    // Others count from when they see what is written now, which is later.
    const began = moment();
    try {
      const held = await this.#takeOrRenew({ signal, timeoutMs, urgent: true });
      this.#renewed = held ? began : undefined;
      this.#reported = undefined;
      return held;
    } catch (error) {
      if (!signal.aborted && !isKubeError(error, KubeErrorKind.Conflict, KubeErrorKind.AlreadyExists)) {
        this.#report(wordsOf(error));
      }
      return false;
    }
  }

  async #takeOrRenew(request: { signal: AbortSignal; timeoutMs: number; urgent: true }): Promise<boolean> {
    const { kube } = this.#options;
    const current = await kube.get(resources.leases, this.#key, request);
    this.#seen = current === undefined ? undefined : observe(this.#seen, current, performance.now());
    const move = nextMove(this.#seen, this.#candidate, { now: kube.now(), nowMs: performance.now() });
    if (move.kind === 'Wait') {
      this.#tellIfSilent(move);
      return false;
    }
    const written = await this.#write(current, move.spec, request);
    this.#seen = observe(undefined, written, performance.now());
    return true;
  }

  /** Creates the Lease, or replaces exactly the version that was read. */
  #write(current: Lease | undefined, spec: Lease['spec'], request: object): Promise<Lease> {
    const { kube } = this.#options;
    if (current === undefined) return kube.create(resources.leases, { metadata: this.#key, spec }, request);
    const { resourceVersion } = current.metadata;
    return kube.mergePatch(resources.leases, this.#key, { metadata: { resourceVersion }, spec }, request);
  }

  /**
   * Best effort: without it the others wait for the Lease to run out. Reads it again, since a renewal that was cut
   * short may have been written.
   */
  async #release(): Promise<void> {
    const { kube, log } = this.#options;
    const request = { timeoutMs: this.#deadlineMs, urgent: true };
    this.#seen = undefined;
    try {
      const lease = await kube.get(resources.leases, this.#key, request);
      if (lease?.spec.holderIdentity !== this.#candidate.identity) return;
      await this.#write(lease, released(lease.spec, kube.now()), request);
      log.info('Leadership was given back', this.#fields);
    } catch (error) {
      log.warn('Leadership could not be given back', { ...this.#fields, error: wordsOf(error) });
    }
  }

  #tellIfSilent({ holder, forMs, silentForMs }: Wait): void {
    const version = this.#seen?.resourceVersion;
    const isSilent = silentForMs > patience * this.#candidate.leaseDurationSeconds * 1_000;
    if (!isSilent || this.#told === version) return;
    this.#told = version;
    const freeInSeconds = Math.ceil(forMs / 1_000);
    const message = 'Lease was not renewed for long and is waited for: delete it if its holder is gone';
    this.#options.log.warn(message, { ...this.#fields, holder, freeInSeconds });
  }

  #report(error: string): void {
    if (this.#reported === error) return;
    this.#reported = error;
    this.#options.log.warn('Lease could not be read or written, trying again', { ...this.#fields, error });
  }
}
