import type { LifecycleEviction, ResponderStatus } from '../api/lifecycle.ts';
import { MIN_RESPONDER_HEARTBEAT_SECONDS } from '../api/names.ts';
import {
  assignmentOf,
  replacedResponder,
  withCompletion,
  withHeartbeat,
  withMessage,
} from '../domain/evictionRequests/report.ts';
import { sleep } from '../kube/abort.ts';
import { backOffMs } from '../kube/backOff.ts';
import type { Kube } from '../kube/client.ts';
import { errorMessage, isKubeError } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { EvacuationStopped, type ProgressReport, type StopReason } from './progress.ts';
import type { Session } from './protocol.ts';

interface SessionOptions {
  readonly kube: Kube;
  readonly eviction: LifecycleEviction;
  readonly responderName: string;
  readonly log: Log;
}

/** A report that is not written yet. Progress is a heartbeat, too; a message alone does not extend the deadline. */
type Pending =
  | { readonly kind: 'Heartbeat'; readonly message: string; readonly expectedFinishTime?: Date }
  | { readonly kind: 'Message'; readonly message: string };

/** A function that has reported nothing this long after it was called is reported as started. */
const responseDelayMs = 2_000;
/** "Responders should avoid heartbeats more frequent than 20 seconds": also messages, which are writes, too. */
const writeIntervalMs = MIN_RESPONDER_HEARTBEAT_SECONDS * 1_000;
const retries = { firstMs: 500, capMs: 30_000 };
const maxFieldManagerLength = 128;

/**
 * One call of a responder for one Eviction. Every write reads the Eviction, and is rejected if it has changed since, so that a responder that is no
 * longer active writes nothing.
 */
export class ResponderSession implements Session {
  readonly forbidsCancellation = false;
  readonly #options: SessionOptions;
  readonly #stop = new AbortController();
  #pending: Pending | undefined;
  #timer: NodeJS.Timeout | undefined;
  #responseTimer: NodeJS.Timeout | undefined;
  #writing: Promise<unknown> | undefined;
  #nextWriteAtMs: number;
  #hasEnded = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    const { heartbeatTime = '' } = assignmentOf(options.eviction, options.responderName) ?? {};
    const sinceMs = options.kube.now().getTime() - Date.parse(heartbeatTime);
    // An earlier call may have reported a moment ago.
    const waitMs = Number.isNaN(sinceMs) ? 0 : Math.max(0, writeIntervalMs - sinceMs);
    this.#nextWriteAtMs = performance.now() + waitMs;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  get uid(): string {
    return this.#options.eviction.metadata.uid ?? '';
  }

  get namespace(): string {
    return this.#options.eviction.metadata.namespace ?? '';
  }

  get podRef(): { name: string; uid: string } {
    return this.#options.eviction.spec.target.pod;
  }

  respond(): void {
    const message = `${this.#options.responderName} has started`;
    this.#responseTimer = setTimeout(() => this.report({ message }), responseDelayMs);
  }

  report({ message, expectedFinishTime }: ProgressReport): void {
    const isGiven = expectedFinishTime !== undefined && !Number.isNaN(expectedFinishTime.getTime());
    this.#enqueue({ ...this.#heartbeat, kind: 'Heartbeat', message, ...(isGiven && { expectedFinishTime }) });
  }

  reportWaiting(message: string): void {
    const heartbeat = this.#heartbeat;
    this.#enqueue(heartbeat === undefined ? { kind: 'Message', message } : { ...heartbeat, message });
  }

  /** The progress that is not written yet. */
  get #heartbeat(): Extract<Pending, { kind: 'Heartbeat' }> | undefined {
    return this.#pending?.kind === 'Heartbeat' ? this.#pending : undefined;
  }

  /** Rejects: "Active responders are expected to cancel the eviction", whenever all requests are withdrawn. */
  forbidCancellation(): Promise<void> {
    return Promise.reject(new Error('an Eviction of lifecycle.k8s.io can always be cancelled'));
  }

  allowCancellation(): Promise<void> {
    return Promise.resolve();
  }

  stop(reason: StopReason): void {
    if (this.signal.aborted) return;
    this.#clearTimers();
    this.#stop.abort(new EvacuationStopped(reason));
  }

  async complete(message?: string): Promise<{ activatedAt: string | undefined } | undefined> {
    const { kube } = this.#options;
    const written = await this.#end((status) =>
      withCompletion(status, {
        message: message ?? this.#pending?.message ?? status.message ?? 'Completed.',
        now: kube.now(),
      }),
    );
    return written && { activatedAt: written.startTime };
  }

  fail(message: string): Promise<unknown> {
    return this.#end((status) => withMessage(status, message));
  }

  end(): void {
    this.#hasEnded = true;
    this.#clearTimers();
  }

  #clearTimers(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#responseTimer);
  }

  #enqueue(pending: Pending): void {
    if (this.signal.aborted || this.#hasEnded) return;
    clearTimeout(this.#responseTimer);
    this.#pending = pending;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#timer !== undefined || this.#writing !== undefined) return;
    this.#timer = setTimeout(() => this.#flush(), Math.max(0, this.#nextWriteAtMs - performance.now()));
  }

  #flush(): void {
    this.#timer = undefined;
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending === undefined) return;
    this.#nextWriteAtMs = performance.now() + writeIntervalMs;
    this.#writing = this.#write((status) => this.#reported(status, pending))
      .catch((error: unknown) => this.#warn('The apiserver rejected a progress report', error))
      .finally(() => {
        this.#writing = undefined;
        if (this.#pending !== undefined && !this.#hasEnded && !this.signal.aborted) this.#schedule();
      });
  }

  #reported(status: ResponderStatus, pending: Pending): ResponderStatus {
    if (pending.kind === 'Message') return withMessage(status, pending.message);
    const { message, expectedFinishTime } = pending;
    const now = this.#options.kube.now();
    return withHeartbeat(status, { message, expectedCompletionTime: expectedFinishTime, now });
  }

  /** Ends the session with a last write, in place of one that is pending. */
  async #end(change: (status: ResponderStatus) => ResponderStatus): Promise<ResponderStatus | undefined> {
    this.end();
    await this.#writing;
    return this.signal.aborted ? undefined : this.#write(change);
  }

  /** Retries until the change is written. Resolves with undefined when this responder is no longer active. */
  async #write(change: (status: ResponderStatus) => ResponderStatus): Promise<ResponderStatus | undefined> {
    for (let failures = 0; !this.signal.aborted; failures++) {
      try {
        return await this.#writeOnce(change);
      } catch (error) {
        if (isKubeError(error, 'NotFound')) return undefined;
        // Also what a program without types passes, for example a message that is no text: it would fail again.
        if (!isKubeError(error) || isKubeError(error, 'Invalid', 'Forbidden')) throw error;
        if (!isKubeError(error, 'Conflict')) this.#warn('Writing progress failed, trying again', error);
        await sleep(backOffMs(failures, retries), this.signal);
      }
    }
    return undefined;
  }

  async #writeOnce(
    change: (status: ResponderStatus) => ResponderStatus,
  ): Promise<ResponderStatus | undefined> {
    const { kube, eviction, responderName } = this.#options;
    const { name } = eviction.metadata;
    const key = { namespace: this.namespace, name };
    const current = await kube.get(resources.evictions, key);
    const status = current?.metadata.uid === this.uid ? assignmentOf(current, responderName) : undefined;
    if (current === undefined || status === undefined) return undefined;
    const next = change(status);
    const { uid, resourceVersion } = current.metadata;
    const patch = {
      metadata: { uid, resourceVersion },
      status: { responders: replacedResponder(current, next) },
    };
    await kube.mergePatch(resources.evictions, key, patch, {
      subresource: 'status',
      fieldManager: responderName.slice(0, maxFieldManagerLength),
    });
    return next;
  }

  /** Logs a failed write, unless the session was stopped: then a former leader is expected to be fenced. */
  #warn(message: string, error: unknown): void {
    if (this.signal.aborted) return;
    const { eviction, log } = this.#options;
    const { name } = eviction.metadata;
    log.warn(message, { eviction: `${this.namespace}/${name}`, error: errorMessage(error) });
  }
}
