import type { Evacuation } from '../api/evacuation.ts';
import { cut } from '../domain/common/text.ts';
import { sleep } from '../kube/abort.ts';
import { backOffMs } from '../kube/backOff.ts';
import type { JsonPatchOperation, Kube } from '../kube/client.ts';
import { errorMessage, isKubeError } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { EvacuationStopped, type ProgressReport, type StopReason } from './progress.ts';
import type { Session } from './protocol.ts';

interface SessionOptions {
  kube: Kube;
  evacuation: Evacuation;
  evacuatorClass: string;
  log: Log;
}

/** A change of the status that is not written yet. */
interface StatusUpdate {
  message?: string;
  progressedAt?: Date;
  expectedFinishTime?: Date;
}

/** A function that has reported nothing this long after it was called is reported as started. */
const responseDelayMs = 2_000;
/** Shortest time between two writes. */
const writeIntervalMs = 1_000;
/** The latest time that the apiserver can store. */
const latestTimeMs = Date.parse('9999-12-31T23:59:59Z');
const retries = { firstMs: 500, capMs: 30_000 };
const maxFieldManagerLength = 128;
const notCancelled = { op: 'test', path: '/metadata/deletionTimestamp', value: null } as const;

/**
 * One call of an evacuator for one Evacuation. Every write tests the UID and the active evacuator class, so that an evacuator
 * that is no longer active cannot overwrite the status of its successor.
 */
export class EvacuationSession implements Session {
  readonly #options: SessionOptions;
  readonly #stop = new AbortController();
  #forbidsCancellation: boolean;
  #pending: StatusUpdate | undefined;
  #timer: NodeJS.Timeout | undefined;
  #responseTimer: NodeJS.Timeout | undefined;
  #writing: Promise<unknown> | undefined;
  #lastWriteMs = Number.NEGATIVE_INFINITY;
  #hasEnded = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#forbidsCancellation = options.evacuation.status?.evacuationCancellationPolicy === 'Forbid';
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  get uid(): string {
    return this.#options.evacuation.metadata.uid ?? '';
  }

  get namespace(): string {
    return this.#options.evacuation.metadata.namespace ?? '';
  }

  get podRef(): Evacuation['spec']['podRef'] {
    return this.#options.evacuation.spec.podRef;
  }

  get forbidsCancellation(): boolean {
    return this.#forbidsCancellation;
  }

  /** Responds on behalf of a function that reports nothing soon: an evacuator that does not respond is taken for missing. */
  respond(): void {
    this.#responseTimer = setTimeout(() => {
      this.reportWaiting(`${this.#options.evacuatorClass} has started`);
    }, responseDelayMs);
  }

  report({ message, expectedFinishTime }: ProgressReport): void {
    const finishMs = expectedFinishTime?.getTime() ?? Number.NaN;
    const isValid = finishMs >= 0 && finishMs <= latestTimeMs;
    const progressedAt = this.#options.kube.now();
    this.#enqueue({ message, progressedAt, ...(isValid && { expectedFinishTime: new Date(finishMs) }) });
  }

  reportWaiting(message: string): void {
    this.#enqueue({ message });
  }

  async forbidCancellation(): Promise<void> {
    // A cancelled Evacuation may still exist because of its finalizers.
    await this.#setPolicy('Forbid', [notCancelled]);
  }

  async allowCancellation(): Promise<void> {
    await this.#setPolicy('Allow');
  }

  stop(reason: StopReason): void {
    if (this.signal.aborted) return;
    this.#clearTimers();
    this.#stop.abort(new EvacuationStopped(reason));
  }

  /**
   * Marks the evacuator as completed. Resolves with the time at which it became active; with undefined if it is not active any more. Rejects with a
   * KubeError when the apiserver rejects the update.
   */
  async complete(message?: string): Promise<{ activatedAt: string | undefined } | undefined> {
    const completed = { op: 'add', path: '/status/activeEvacuatorCompleted', value: true } as const;
    const written = await this.#end(message === undefined ? {} : { message }, [completed]);
    return written && { activatedAt: written.status?.activeEvacuatorSince };
  }

  fail(message: string): Promise<Evacuation | undefined> {
    return this.#end({ message }, []);
  }

  /** Ignores all further reports. */
  end(): void {
    this.#hasEnded = true;
    this.#clearTimers();
  }

  #clearTimers(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#responseTimer);
  }

  #enqueue(update: StatusUpdate): void {
    if (this.signal.aborted || this.#hasEnded) return;
    clearTimeout(this.#responseTimer);
    this.#pending = { ...this.#pending, ...update };
    this.#schedule();
  }

  #schedule(): void {
    if (this.#timer !== undefined || this.#writing !== undefined) return;
    const delayMs = Math.max(0, this.#lastWriteMs + writeIntervalMs - performance.now());
    this.#timer = setTimeout(() => this.#flush(), delayMs);
  }

  #flush(): void {
    this.#timer = undefined;
    const update = this.#pending ?? {};
    this.#pending = undefined;
    this.#lastWriteMs = performance.now();
    this.#writing = this.#write(operationsOf(update))
      .catch((error: unknown) => this.#warn('The apiserver rejected a progress report', error))
      .finally(() => {
        this.#writing = undefined;
        if (this.#pending !== undefined && !this.#hasEnded && !this.signal.aborted) this.#schedule();
      });
  }

  /** Ends the session with a last write, which includes the updates that are not written yet. */
  async #end(update: StatusUpdate, operations: JsonPatchOperation[]): Promise<Evacuation | undefined> {
    this.end();
    await this.#writing;
    if (this.signal.aborted) return undefined;
    return this.#write([...operationsOf({ ...this.#pending, ...update }), ...operations]);
  }

  async #setPolicy(policy: 'Allow' | 'Forbid', guards: JsonPatchOperation[] = []): Promise<void> {
    this.signal.throwIfAborted();
    const path = '/status/evacuationCancellationPolicy';
    const written = await this.#write([...guards, { op: 'add', path, value: policy }]);
    this.signal.throwIfAborted();
    if (written === undefined)
      throw new Error(
        `evacuationCancellationPolicy cannot be set to ${policy}: the evacuation was cancelled or handed over`,
      );
    this.#forbidsCancellation = policy === 'Forbid';
  }

  /** Retries until the patch is written. Returns undefined when a guard fails, and throws when the apiserver rejects the patch. */
  async #write(operations: JsonPatchOperation[]): Promise<Evacuation | undefined> {
    const { kube, evacuation, evacuatorClass } = this.#options;
    const { name, namespace = '' } = evacuation.metadata;
    const guards: JsonPatchOperation[] = [
      { op: 'test', path: '/metadata/uid', value: this.uid },
      { op: 'test', path: '/status/activeEvacuatorClass', value: evacuatorClass },
    ];
    for (let failures = 0; !this.signal.aborted; failures++) {
      try {
        return await kube.jsonPatch(resources.evacuations, { namespace, name }, [...guards, ...operations], {
          subresource: 'status',
          fieldManager: evacuatorClass.slice(0, maxFieldManagerLength),
        });
      } catch (error) {
        // The apiserver returns the same error for a failed test operation as for a schema violation.
        const isInvalid = isKubeError(error, 'Invalid');
        if (isInvalid && (await this.#guardsHold(operations))) throw error;
        if (isInvalid || isKubeError(error, 'NotFound', 'Conflict')) return undefined;
        this.#warn('Writing progress failed, trying again', error);
        await sleep(backOffMs(failures, retries), this.signal);
      }
    }
    return undefined;
  }

  /** Reports whether the test operations of a write succeed now. */
  async #guardsHold(operations: readonly JsonPatchOperation[]): Promise<boolean> {
    const { kube, evacuation, evacuatorClass } = this.#options;
    const { name, namespace = '' } = evacuation.metadata;
    const found = await kube.get(resources.evacuations, { namespace, name });
    if (found?.metadata.uid !== this.uid || found.status?.activeEvacuatorClass !== evacuatorClass)
      return false;
    return !operations.includes(notCancelled) || found.metadata.deletionTimestamp === undefined;
  }

  /** Logs a failed write, unless the session was stopped: then a former leader is expected to be fenced. */
  #warn(message: string, error: unknown): void {
    if (this.signal.aborted) return;
    const { evacuation, log } = this.#options;
    const { name, namespace } = evacuation.metadata;
    log.warn(message, { evacuation: `${namespace}/${name}`, error: errorMessage(error) });
  }
}

/** The limit of the schema. */
const maxMessageLength = 32_768;

function operationsOf({ message, progressedAt, expectedFinishTime }: StatusUpdate): JsonPatchOperation[] {
  const fields = {
    // The apiserver rejects what a program without types passes.
    message: typeof message === 'string' ? cut(message, maxMessageLength) : message,
    evacuationProgressTimestamp: progressedAt?.toISOString(),
    expectedEvacuationFinishTime: expectedFinishTime?.toISOString(),
  };
  return Object.entries(fields).flatMap(([field, value]) =>
    value === undefined ? [] : [{ op: 'add', path: `/status/${field}`, value } as const],
  );
}
