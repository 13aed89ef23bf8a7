import type { KubeObject } from '../api/core.ts';
import { rest } from './abort.ts';
import { backOffMs } from './backOff.ts';
import type { Kube } from './client.ts';
import { isKubeError, KubeErrorKind, wordsOf } from './errors.ts';
import type { Log } from './log.ts';
import { type KubeEvent, type ObjectReference, resources } from './resources.ts';
import { Semaphore } from './semaphore.ts';

/** What an Event is about: a reference, or the object itself as the apiserver sent it. */
export type EventSubject = Readonly<ObjectReference> | Readonly<KubeObject>;

/** A pod as its informer keeps it: without apiVersion and kind. */
export function aboutPod({ metadata }: Pick<KubeObject, 'metadata'>): EventSubject {
  return { apiVersion: 'v1', kind: 'Pod', metadata };
}

export interface EventContent {
  readonly type: 'Normal' | 'Warning';
  /** CamelCase, for machines. */
  readonly reason: string;
  /** A sentence for people; cut to 1024 characters. */
  readonly message: string;
  readonly related?: EventSubject | undefined;
}

export interface EventRecorderOptions {
  readonly kube: Kube;
  /** Shown by kubectl as the source, e.g. `node-maintenance`. */
  readonly component: string;
  readonly log: Log;
  /** Written at most this often in the long run; 20 unless given. */
  readonly perSecond?: number;
}

/** One Event object, and how much of it the apiserver knows. */
interface Entry {
  readonly subject: ObjectReference;
  readonly content: EventContent;
  readonly first: Date;
  last: Date;
  count: number;
  writtenCount: number;
  name: string | undefined;
}

const sameEventMs = 10 * 60_000;
const longestMessage = 1024;
const longestName = 253;
/** Events that wait to be written or may still be repeated; the oldest go first. */
const mostEntries = 2_000;
/** Milliseconds. */
const sayDroppedEvery = 60_000;
const writesAtOnce = 4;
const writeAttempts = 3;
/** Of a timer. Milliseconds. */
const longestTimeout = 2 ** 31 - 1;
/** A burst of this many writes, then this many a second: Events must never crowd out the work itself. */
const burst = 100;
const writesPerSecond = 20;

/**
 * Writes core/v1 Events. Contract:
 *
 * 1. `record` returns at once and never throws; what cannot be written is logged.
 * 2. The same type, reason and message about the same object within ten minutes is one Event with a count.
 * 3. What happens while an Event waits for its turn is written with it, in one request.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #unwritten = new Set<Entry>();
  readonly #slots = new Semaphore(writesAtOnce);
  readonly #tokens: TokenBucket;
  #writing: Promise<void> | undefined;
  #dropped = 0;
  #droppedSaidAt = 0;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#tokens = new TokenBucket(burst, options.perSecond ?? writesPerSecond);
  }

  record(about: EventSubject, content: EventContent): void {
    try {
      this.#remember(referenceOf(about), { ...content, message: content.message.slice(0, longestMessage) });
    } catch (error) {
      this.#options.log.warn('Event was not recorded', { reason: content.reason, error: wordsOf(error) });
    }
  }

  /** Resolves when everything recorded so far was written, or given up: all that is left after `withinMs`. */
  async flush(withinMs = Number.POSITIVE_INFINITY): Promise<void> {
    const giveUp = setTimeout(() => this.#unwritten.clear(), Math.min(withinMs, longestTimeout));
    while (this.#writing !== undefined) await this.#writing;
    clearTimeout(giveUp);
  }

  #remember(subject: ObjectReference, content: EventContent): void {
    const now = this.#options.kube.now();
    const key = JSON.stringify([subject, content.type, content.reason, content.message]);
    const known = this.#entries.get(key);
    const isRepeated = known !== undefined && now.getTime() - known.last.getTime() < sameEventMs;
    const entry = isRepeated ? known : fresh(subject, content, now);
    entry.count++;
    entry.last = now;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    this.#unwritten.add(entry);
    this.#dropOldest();
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
  }

  #dropOldest(): void {
    if (this.#entries.size <= mostEntries) return;
    const [oldest] = this.#entries;
    if (oldest === undefined) return;
    this.#entries.delete(oldest[0]);
    if (this.#unwritten.delete(oldest[1])) this.#countDropped();
  }

  /** One line for many: where thousands of pods leave, thousands may be dropped. */
  #countDropped(): void {
    this.#dropped += 1;
    if (Date.now() - this.#droppedSaidAt < sayDroppedEvery) return;
    this.#options.log.warn('Events were dropped, too many are waiting', { dropped: this.#dropped });
    this.#dropped = 0;
    this.#droppedSaidAt = Date.now();
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
      await this.#tryToWrite(entry, 1);
    } catch (error) {
      const { kind, namespace, name } = entry.subject;
      log.warn('Event could not be written', { kind, namespace, name, reason, error: wordsOf(error) });
    }
  }

  async #tryToWrite(entry: Entry, attempt: number): Promise<void> {
    const count = entry.count;
    if (count === entry.writtenCount) return;
    try {
      if (entry.name === undefined) await this.#create(entry, count);
      else await this.#recount(entry, entry.name, count);
      entry.writtenCount = count;
    } catch (error) {
      if (!isWorthAnotherTry(error) || attempt === writeAttempts) throw error;
      if (isKubeError(error, KubeErrorKind.NotFound)) entry.name = undefined;
      await rest(backOffMs(attempt, { firstMs: 200, capMs: 5_000 }));
      await this.#tryToWrite(entry, attempt + 1);
    }
  }

  async #create(entry: Entry, count: number): Promise<void> {
    const event = eventOf(entry, count, this.#options.component);
    const { name } = event.metadata;
    await this.#options.kube.create(resources.events, event, { fieldManager: this.#options.component });
    entry.name = name;
  }

  async #recount(entry: Entry, name: string, count: number): Promise<void> {
    const key = { namespace: namespaceOf(entry.subject), name };
    const body = { count, lastTimestamp: wholeSeconds(entry.last) };
    await this.#options.kube.mergePatch(resources.events, key, body, {
      fieldManager: this.#options.component,
    });
  }
}

function fresh(subject: ObjectReference, content: EventContent, now: Date): Entry {
  return { subject, content, first: now, last: now, count: 0, writtenCount: 0, name: undefined };
}

/** The Event itself was removed (the apiserver keeps it an hour), or the apiserver is away for a moment. */
function isWorthAnotherTry(error: unknown): boolean {
  return isKubeError(error, KubeErrorKind.NotFound, KubeErrorKind.Unavailable, KubeErrorKind.Throttled);
}

function eventOf({ subject, content, first, last }: Entry, count: number, component: string): KubeEvent {
  return {
    metadata: { namespace: namespaceOf(subject), name: eventName(subject.name) },
    involvedObject: subject,
    ...(content.related === undefined ? {} : { related: referenceOf(content.related) }),
    type: content.type,
    reason: content.reason,
    message: content.message,
    count,
    firstTimestamp: wholeSeconds(first),
    lastTimestamp: wholeSeconds(last),
    source: { component },
    reportingComponent: component,
    reportingInstance: component,
  };
}

/** As client-go names them: `<object>.<unique hexadecimal>`. */
function eventName(objectName: string): string {
  const suffix = `.${crypto.randomUUID().replaceAll('-', '').slice(0, 16)}`;
  return objectName.slice(0, longestName - suffix.length).replace(/[-.]+$/, '') + suffix;
}

/** Events about cluster-scoped objects live in `default`, where kubectl looks for them. */
function namespaceOf(subject: ObjectReference): string {
  return subject.namespace ?? 'default';
}

function referenceOf(about: EventSubject): ObjectReference {
  const { apiVersion, kind } = about;
  if (apiVersion === undefined || kind === undefined) {
    throw new Error('the object of an Event lacks apiVersion or kind: pass a reference that has them');
  }
  const { name, namespace, uid } = 'metadata' in about ? about.metadata : about;
  return { apiVersion, kind, name, namespace, uid };
}

/** metav1.Time has no fractions of a second. */
function wholeSeconds(time: Date): string {
  return time.toISOString().replace(/\.\d+Z$/, 'Z');
}

/** A full bucket at first; tokens come back one by one. */
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
    if (this.#tokens < 0) await rest((-this.#tokens / this.#perSecond) * 1000);
  }
}
