import type { KubeObject } from '../api/core.ts';
import type { EventReason } from '../api/eventReasons.ts';
import { logFieldOf } from '../api/names.ts';
import { oneLine } from '../domain/common/text.ts';
import { maxTimeoutMs, sleep } from './abort.ts';
import { backOffMs } from './backOff.ts';
import type { Kube } from './client.ts';
import { isKubeError, KubeErrorKind, errorMessage } from './errors.ts';
import type { Log } from './log.ts';
import { type KubeEvent, type ObjectReference, resources } from './resources.ts';
import { Semaphore } from './semaphore.ts';

/** The object of an Event: a reference, or the object itself as the apiserver returned it. */
export type EventSubject = Readonly<ObjectReference> | Readonly<KubeObject>;

/** Returns the subject for a pod of an informer, which has no apiVersion and kind. */
export function aboutPod({ metadata }: Pick<KubeObject, 'metadata'>): EventSubject {
  return { apiVersion: 'v1', kind: 'Pod', metadata };
}

export interface EventContent {
  readonly type: 'Normal' | 'Warning';
  /** Registered in api/eventReasons.ts. */
  readonly reason: EventReason;
  /** Human-readable; becomes one line of at most 1024 characters. */
  readonly message: string;
  readonly related?: EventSubject | undefined;
  /** Name of the node that it is about: a pod that is gone cannot be asked for it any more. */
  readonly node?: string | undefined;
}

export interface EventRecorderOptions {
  readonly kube: Kube;
  /** Source of the Events, for example `node-maintenance`. */
  readonly component: string;
  readonly log: Log;
  /** Maximum sustained rate of writes. Default 20. */
  readonly perSecond?: number;
}

/** Holds no object of the cluster: thousands of Events are kept, and each may be about another version of an object of a megabyte. */
type RecordedContent = Omit<EventContent, 'related'> & { readonly related: ObjectReference | undefined };

/** One Event object and the count that was written to the apiserver. */
interface Entry {
  readonly subject: ObjectReference;
  readonly content: RecordedContent;
  readonly first: Date;
  last: Date;
  count: number;
  writtenCount: number;
  name: string | undefined;
}

const sameEventMs = 10 * 60_000;
const maxMessageLength = 1024;
const maxNameLength = 253;
/** Events that wait to be written or can still be repeated; the oldest are dropped first. */
const maxEntries = 2_000;
const droppedLogIntervalMs = 60_000;
const maxConcurrentWrites = 4;
const maxWriteAttempts = 3;
/** Burst and sustained rate of writes: Events must not delay other requests. */
const burst = 100;
const writesPerSecond = 20;

/**
 * Records core/v1 Events. Contract:
 *
 * 1. `record` returns immediately and never throws; an Event that cannot be written is logged.
 * 2. Events of the same type, reason, message and object within ten minutes are one Event with a count.
 * 3. Repetitions while an Event waits to be written are written with it, in one request.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #unwritten = new Set<Entry>();
  readonly #slots = new Semaphore(maxConcurrentWrites);
  readonly #tokens: TokenBucket;
  #writing: Promise<void> | undefined;
  /** Ends the requests of Events that are discarded. */
  #discarded = new AbortController();
  #dropped = 0;
  #droppedLoggedAt = 0;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#tokens = new TokenBucket(burst, options.perSecond ?? writesPerSecond);
  }

  /** The number of Events that are kept, because they wait to be written or can still be repeated. */
  get size(): number {
    return this.#entries.size;
  }

  record(about: EventSubject, content: EventContent): void {
    try {
      this.#enqueue(referenceOf(about), {
        ...content,
        message: oneLine(content.message, maxMessageLength),
        related: content.related && referenceOf(content.related),
      });
    } catch (error) {
      this.#options.log.warn('Event was not recorded', {
        reason: content.reason,
        error: errorMessage(error),
      });
    }
  }

  /** Resolves when all recorded Events are written; Events that are unwritten after `withinMs` are discarded, even if their requests have been sent. */
  async flush(withinMs = Number.POSITIVE_INFINITY): Promise<void> {
    const discardTimer = setTimeout(() => this.#discard(), Math.min(withinMs, maxTimeoutMs));
    while (this.#writing !== undefined) await this.#writing;
    clearTimeout(discardTimer);
  }

  #discard(): void {
    this.#unwritten.clear();
    this.#discarded.abort(new Error('discarded: it was not written in time'));
    this.#discarded = new AbortController();
  }

  #enqueue(subject: ObjectReference, content: RecordedContent): void {
    const now = this.#options.kube.now();
    const key = JSON.stringify([subject, content.type, content.reason, content.message]);
    const known = this.#entries.get(key);
    const isRepeated = known !== undefined && isRepeatable(known, now);
    const entry = isRepeated ? known : newEntry(subject, content, now);
    entry.count++;
    entry.last = now;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    this.#unwritten.add(entry);
    this.#dropOldest(now);
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
  }

  /** The entries are in the order of their last repetitions. */
  #dropOldest(now: Date): void {
    for (const [key, entry] of this.#entries) {
      const isNeeded = isRepeatable(entry, now) || this.#unwritten.has(entry);
      if (isNeeded && this.#entries.size <= maxEntries) return;
      this.#entries.delete(key);
      if (this.#unwritten.delete(entry)) this.#countDropped();
    }
  }

  /** Logs one line for many Events: an evacuation of thousands of pods can drop thousands of Events. */
  #countDropped(): void {
    this.#dropped += 1;
    if (Date.now() - this.#droppedLoggedAt < droppedLogIntervalMs) return;
    this.#options.log.warn('Events were dropped because too many are waiting', { dropped: this.#dropped });
    this.#dropped = 0;
    this.#droppedLoggedAt = Date.now();
  }

  async #writeAll(): Promise<void> {
    const writes = new Set<Promise<void>>();
    while (this.#unwritten.size > 0 || writes.size > 0) {
      const [entry] = this.#unwritten;
      if (entry === undefined) {
        await Promise.race(writes);
        continue;
      }
      await this.#tokens.take();
      const release = await this.#slots.acquire();
      this.#unwritten.delete(entry);
      const write: Promise<void> = this.#write(entry).finally(() => {
        release();
        writes.delete(write);
      });
      writes.add(write);
    }
  }

  async #write(entry: Entry): Promise<void> {
    const { log } = this.#options;
    const { reason } = entry.content;
    try {
      await this.#tryToWrite(entry, 1, this.#discarded.signal);
    } catch (error) {
      const { kind, namespace, name } = entry.subject;
      const fields = { ...logFieldOf(entry.subject), kind, namespace, name, reason };
      log.warn('Event could not be written', { ...fields, error: errorMessage(error) });
    }
  }

  async #tryToWrite(entry: Entry, attempt: number, signal: AbortSignal): Promise<void> {
    const count = entry.count;
    if (count === entry.writtenCount) return;
    try {
      if (entry.name === undefined) await this.#create(entry, count, signal);
      else await this.#recount(entry, entry.name, { count, signal });
      entry.writtenCount = count;
    } catch (error) {
      if (!shouldRetry(error) || attempt === maxWriteAttempts || signal.aborted) throw error;
      if (isKubeError(error, KubeErrorKind.NotFound)) entry.name = undefined;
      await sleep(backOffMs(attempt, { firstMs: 200, capMs: 5_000 }), signal);
      await this.#tryToWrite(entry, attempt + 1, signal);
    }
  }

  async #create(entry: Entry, count: number, signal: AbortSignal): Promise<void> {
    const event = eventOf(entry, count, this.#options.component);
    const { name } = event.metadata;
    await this.#options.kube.create(resources.events, event, {
      fieldManager: this.#options.component,
      signal,
    });
    entry.name = name;
  }

  async #recount(
    entry: Entry,
    name: string,
    { count, signal }: { count: number; signal: AbortSignal },
  ): Promise<void> {
    const key = { namespace: namespaceOf(entry.subject), name };
    const body = { count, lastTimestamp: wholeSeconds(entry.last) };
    await this.#options.kube.mergePatch(resources.events, key, body, {
      fieldManager: this.#options.component,
      signal,
    });
  }
}

function newEntry(subject: ObjectReference, content: RecordedContent, now: Date): Entry {
  return { subject, content, first: now, last: now, count: 0, writtenCount: 0, name: undefined };
}

function isRepeatable({ last }: Entry, now: Date): boolean {
  return now.getTime() - last.getTime() < sameEventMs;
}

/** The Event expired (the apiserver keeps Events for an hour), or the apiserver is temporarily unavailable. */
function shouldRetry(error: unknown): boolean {
  return isKubeError(error, KubeErrorKind.NotFound, KubeErrorKind.Unavailable, KubeErrorKind.Throttled);
}

function eventOf({ subject, content, first, last }: Entry, count: number, component: string): KubeEvent {
  return {
    metadata: { namespace: namespaceOf(subject), name: eventName(subject.name) },
    involvedObject: subject,
    ...(content.related && { related: content.related }),
    type: content.type,
    reason: content.reason,
    message: content.message,
    count,
    firstTimestamp: wholeSeconds(first),
    lastTimestamp: wholeSeconds(last),
    source: { component, ...(content.node !== undefined && { host: content.node }) },
    reportingComponent: component,
    reportingInstance: component,
  };
}

/** Returns a name in the format of client-go: `<object>.<unique hexadecimal>`. */
function eventName(objectName: string): string {
  const suffix = `.${crypto.randomUUID().replaceAll('-', '').slice(0, 16)}`;
  return objectName.slice(0, maxNameLength - suffix.length).replace(/[-.]+$/, '') + suffix;
}

/** Events of cluster-scoped objects are in `default`, where kubectl searches for them. */
function namespaceOf(subject: ObjectReference): string {
  return subject.namespace ?? 'default';
}

function referenceOf(about: EventSubject): ObjectReference {
  const { apiVersion, kind } = about;
  if (apiVersion === undefined || kind === undefined) {
    throw new Error('the object of an Event has no apiVersion or kind: pass a reference that has both');
  }
  const { name, namespace, uid } = 'metadata' in about ? about.metadata : about;
  return { apiVersion, kind, name, namespace, uid };
}

/** Formats a metav1.Time, which has no fractions of a second. */
function wholeSeconds(time: Date): string {
  return time.toISOString().replace(/\.\d+Z$/, 'Z');
}

/** A token bucket that starts full. */
class TokenBucket {
  readonly #size: number;
  readonly #perSecond: number;
  #tokens: number;
  #filledAtMs = performance.now();

  constructor(size: number, perSecond: number) {
    this.#size = size;
    this.#perSecond = perSecond;
    this.#tokens = size;
  }

  async take(): Promise<void> {
    const nowMs = performance.now();
    const returned = ((nowMs - this.#filledAtMs) / 1000) * this.#perSecond;
    this.#tokens = Math.min(this.#size, this.#tokens + returned) - 1;
    this.#filledAtMs = nowMs;
    if (this.#tokens < 0) await sleep((-this.#tokens / this.#perSecond) * 1000);
  }
}
