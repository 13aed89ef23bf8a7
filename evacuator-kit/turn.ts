import type { Evacuation } from '../api/evacuation.ts';
import { rest } from '../kube/abort.ts';
import { backOffMs } from '../kube/backOff.ts';
import type { JsonPatchOperation, Kube } from '../kube/client.ts';
import { isKubeError, wordsOf } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';

/** Why an evacuator is to stop before it is done. */
export const StopReason = {
  /** The Evacuation was withdrawn: the pod stays, so undo what was done. */
  Cancelled: 'Cancelled',
  /** Another evacuator acts now, because this one reported no progress for the deadline: leave all as it is. */
  TurnLost: 'TurnLost',
  /** There is nothing left to evacuate. */
  PodGone: 'PodGone',
  /** This process ends, or is no longer the leader: the function is called again by the next one. */
  Stopping: 'Stopping',
} as const;
export type StopReason = (typeof StopReason)[keyof typeof StopReason];

/** The reason of an aborted `progress.signal`. */
export class EvacuationStopped extends Error {
  override readonly name = 'EvacuationStopped';
  readonly reason: StopReason;

  constructor(reason: StopReason) {
    super(`the evacuation was stopped: ${reason}`);
    this.reason = reason;
  }
}

export interface ProgressReport {
  /** One sentence for people: what is done, what is left. */
  readonly message: string;
  /** When the pod is expected to be gone; without it, or when it is no date (a rate of 0), the last one holds. */
  readonly expectedFinishTime?: Date;
}

/** What an evacuator tells of its work, and is told. */
export interface Progress {
  /**
   * Something went ahead. This alone keeps the deadline away (`spec.progressDeadlineSeconds`), so say it only when it is
   * so. Returns at once; of many reports within a second the last is written.
   */
  report(report: ProgressReport): void;
  /** Says what is waited for, and leaves the deadline where it is. */
  note(message: string): void;
  /**
   * From here on the evacuation cannot be cancelled. Resolves when the Evacuation says so; rejects when it is too late:
   * then do not go past the point of no return.
   */
  forbidCancellation(): Promise<void>;
  allowCancellation(): Promise<void>;
  /** Aborts with an EvacuationStopped; what is reported after that is not written. */
  readonly signal: AbortSignal;
}

interface TurnOptions {
  kube: Kube;
  evacuation: Evacuation;
  evacuatorClass: string;
  log: Log;
}

interface News {
  message?: string;
  at?: Date;
  expectedFinishTime?: Date;
}

/** Milliseconds between two reports that are written. */
const writeEvery = 1_000;
/** The last that the apiserver can store. */
const latest = Date.parse('9999-12-31T23:59:59Z');
const retries = { firstMs: 500, capMs: 30_000 };
/** Longest name of a field manager. */
const longestManager = 128;
const notWithdrawn = { op: 'test', path: '/metadata/deletionTimestamp', value: null } as const;

/**
 * One call of an evacuator for one Evacuation. Every write is guarded by the Evacuation's UID and by whose turn it is, so
 * that whoever has lost the turn cannot overwrite what the next one says.
 */
export class Turn implements Progress {
  readonly #options: TurnOptions;
  readonly #stop = new AbortController();
  #forbidsCancellation: boolean;
  #news: News | undefined;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<unknown> | undefined;
  #lastWrite = Number.NEGATIVE_INFINITY;
  #isOver = false;

  constructor(options: TurnOptions) {
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

  report({ message, expectedFinishTime }: ProgressReport): void {
    const finish = expectedFinishTime?.getTime() ?? Number.NaN;
    const isKnown = finish >= 0 && finish <= latest;
    const at = this.#options.kube.now();
    this.#tell({ message, at, ...(isKnown && { expectedFinishTime: new Date(finish) }) });
  }

  note(message: string): void {
    this.#tell({ message });
  }

  async forbidCancellation(): Promise<void> {
    // A withdrawn Evacuation may live on for its finalizers: it is too late for that one.
    await this.#setPolicy('Forbid', [notWithdrawn]);
  }

  async allowCancellation(): Promise<void> {
    await this.#setPolicy('Allow');
  }

  stop(reason: StopReason): void {
    if (this.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#stop.abort(new EvacuationStopped(reason));
  }

  /** The Evacuation as it is then; undefined when it is no longer this evacuator's. Throws a KubeError when it is refused. */
  complete(message?: string): Promise<Evacuation | undefined> {
    const completed = { op: 'add', path: '/status/activeEvacuatorCompleted', value: true } as const;
    return this.#conclude(message === undefined ? {} : { message }, [completed]);
  }

  fail(message: string): Promise<Evacuation | undefined> {
    return this.#conclude({ message }, []);
  }

  /** No report counts any more. */
  end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  #tell(news: News): void {
    if (this.signal.aborted || this.#isOver) return;
    this.#news = { ...this.#news, ...news };
    this.#schedule();
  }

  #schedule(): void {
    if (this.#timer !== undefined || this.#writing !== undefined) return;
    const dueIn = Math.max(0, this.#lastWrite + writeEvery - performance.now());
    this.#timer = setTimeout(() => this.#writeNews(), dueIn);
  }

  #writeNews(): void {
    this.#timer = undefined;
    const news = this.#news ?? {};
    this.#news = undefined;
    this.#lastWrite = performance.now();
    this.#writing = this.#write(operationsOf(news))
      .catch((error: unknown) => this.#warn('Progress was refused', error))
      .finally(() => {
        this.#writing = undefined;
        if (this.#news !== undefined && !this.#isOver && !this.signal.aborted) this.#schedule();
      });
  }

  /** The last words, with whatever was not written yet. */
  async #conclude(news: News, operations: JsonPatchOperation[]): Promise<Evacuation | undefined> {
    this.end();
    await this.#writing;
    if (this.signal.aborted) return undefined;
    return this.#write([...operationsOf({ ...this.#news, ...news }), ...operations]);
  }

  async #setPolicy(policy: 'Allow' | 'Forbid', guards: JsonPatchOperation[] = []): Promise<void> {
    this.signal.throwIfAborted();
    const path = '/status/evacuationCancellationPolicy';
    const written = await this.#write([...guards, { op: 'add', path, value: policy }]);
    this.signal.throwIfAborted();
    if (written === undefined) throw new Error(`evacuationCancellationPolicy ${policy} came too late`);
    this.#forbidsCancellation = policy === 'Forbid';
  }

  /** Tries until it is written, or until it is another's turn: then undefined. Throws what the apiserver refuses to take. */
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
          fieldManager: evacuatorClass.slice(0, longestManager),
        });
      } catch (error) {
        // Tests that fail are answered like a schema that does.
        const isRefused = isKubeError(error, 'Invalid');
        if (isRefused && (await this.#isOurs(operations))) throw error;
        if (isRefused || isKubeError(error, 'NotFound', 'Conflict')) return undefined;
        this.#warn('Progress could not be written, trying again', error);
        await rest(backOffMs(failures, retries), this.signal);
      }
    }
    return undefined;
  }

  /** Whether all that a write tests is so. */
  async #isOurs(operations: readonly JsonPatchOperation[]): Promise<boolean> {
    const { kube, evacuation, evacuatorClass } = this.#options;
    const { name, namespace = '' } = evacuation.metadata;
    const found = await kube.get(resources.evacuations, { namespace, name });
    if (found?.metadata.uid !== this.uid || found.status?.activeEvacuatorClass !== evacuatorClass)
      return false;
    return !operations.includes(notWithdrawn) || found.metadata.deletionTimestamp === undefined;
  }

  /** Once it was stopped nothing of it is written: by then the leader's fence may keep it back. */
  #warn(message: string, error: unknown): void {
    if (this.signal.aborted) return;
    const { evacuation, log } = this.#options;
    const { name, namespace } = evacuation.metadata;
    log.warn(message, { evacuation: `${namespace}/${name}`, error: wordsOf(error) });
  }
}

function operationsOf({ message, at, expectedFinishTime }: News): JsonPatchOperation[] {
  const fields = {
    message,
    evacuationProgressTimestamp: at?.toISOString(),
    expectedEvacuationFinishTime: expectedFinishTime?.toISOString(),
  };
  return Object.entries(fields).flatMap(([field, value]) =>
    value === undefined ? [] : [{ op: 'add', path: `/status/${field}`, value } as const],
  );
}
