import type { KubeObject } from '../api/core.ts';
import { rest, unlessAborted } from './abort.ts';
import { backOffMs } from './backOff.ts';
import type { Kube } from './client.ts';
import { isKubeError, KubeErrorKind, wordsOf } from './errors.ts';
import type { Log } from './log.ts';
import { fullNameOf, type Resource } from './resources.ts';
import { withoutManagedFields } from './slim.ts';
import { type Change, type Indexes, keyOf, Store } from './store.ts';
import { type WatchEvent, watchEvents } from './watch.ts';

export type { Change } from './store.ts';

interface CommonOptions<T extends KubeObject> {
  readonly kube: Kube;
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  readonly indexes?: Indexes<T>;
  /** A watch that brings nothing for so long is taken for dead. Default 80 s: bookmarks come about every minute. */
  readonly silenceMs?: number;
  readonly log: Log;
}

/** Keeps the objects as they come, without their managedFields. */
export interface InformerOptions<T extends KubeObject> extends CommonOptions<T> {
  readonly resource: Resource<T>;
}

export interface SlimInformerOptions<Raw extends KubeObject, T extends KubeObject> extends CommonOptions<T> {
  readonly resource: Resource<Raw>;
  /** Cuts an object down to what is kept in memory; it must keep name, namespace, uid and resourceVersion. */
  readonly transform: (raw: Raw) => T;
}

/** Consumers share the objects with the informer and with each other: copy to change. */
export type ChangeHandler<T> = (change: Change<Readonly<T>>) => void;

const slowestRetryMs = 5_000;
const defaultSilenceMs = 80_000;
const shortestWatchSeconds = 300;
/** Before the next watch when one ended without having brought anything. */
const restlessness = { firstMs: 100, capMs: 100 };

/**
 * A copy of a collection that follows the apiserver. Contract:
 *
 * 1. It never gives up: until the signal aborts it lists, watches, and starts again, with back-off and jitter.
 * 2. A watch that ended, by whichever side and however abruptly, is resumed from the last resourceVersion that was
 *    seen. That loses nothing: the apiserver either sends every later event or answers 410, and only then, or when
 *    it does not know that version (its data were restored), everything is listed again. An apiserver that cuts
 *    slow watches, which it does under load, therefore costs one request and not a list of all pods.
 * 3. What a list no longer contains was deleted, and is reported so. A namesake with another UID is reported as
 *    Deleted, then Added.
 * 4. Handlers run synchronously, in the order of the changes, after the store has changed; one that throws is
 *    logged and hinders nobody.
 * 5. One log line each time the error changes, one when contact is back; none per attempt.
 */
export class Informer<T extends KubeObject, Raw extends KubeObject = T> {
  readonly #options: CommonOptions<T> & { readonly resource: Resource };
  readonly #keep: (raw: KubeObject) => T;
  readonly #store: Store<T>;
  readonly #handlers = new Set<ChangeHandler<T>>();
  readonly #firstSync = Promise.withResolvers<void>();
  #nextChange = Promise.withResolvers<void>();
  #started = false;
  #synced = false;
  #lastContact: Date | undefined;
  #resourceVersion: string | undefined;
  #failures = 0;
  #reported: string | undefined;

  constructor(options: InformerOptions<T>);
  constructor(options: SlimInformerOptions<Raw, T>);
  constructor(options: InformerOptions<T> & { readonly transform?: (raw: T) => T }) {
    this.#options = options;
    this.#keep = (options.transform ?? withoutManagedFields) as (raw: KubeObject) => T;
    this.#store = new Store(options.indexes ?? {});
  }

  /** Follows the collection until `signal` aborts; call it once. */
  start(signal: AbortSignal): void {
    if (this.#started) throw new Error(`informer of ${this.#name} was started twice: start it once`);
    this.#started = true;
    void this.#run(signal);
  }

  /** Resolves when the first list is in the store and was reported. */
  synced(signal?: AbortSignal): Promise<void> {
    return unlessAborted(this.#firstSync.promise, signal);
  }

  get hasSynced(): boolean {
    return this.#synced;
  }

  /** When the apiserver last said something: a list, an event or a bookmark. For health checks. */
  get lastContact(): Date | undefined {
    return this.#lastContact;
  }

  /** Why there is no contact at the moment, in the apiserver's words. */
  get lostBecause(): string | undefined {
    return this.#reported;
  }

  get size(): number {
    return this.#store.size;
  }

  /** By `namespace/name`, or by `name` for cluster-scoped objects. */
  get(key: string): Readonly<T> | undefined {
    return this.#store.get(key);
  }

  list(): Readonly<T>[] {
    return this.#store.list();
  }

  /** Throws for an index that the options do not declare. */
  byIndex(index: string, value: string): Readonly<T>[] {
    return this.#store.byIndex(index, value);
  }

  /** Reports what is known already as Added, then every change. Returns the function that ends it. */
  subscribe(handler: ChangeHandler<T>): () => void {
    this.#handlers.add(handler);
    for (const object of this.#store.list())
      this.#tell(handler, { type: 'Added', key: keyOf(object), object });
    return () => this.#handlers.delete(handler);
  }

  /** Resolves at the next change, whichever it is. */
  changed(signal?: AbortSignal): Promise<void> {
    return unlessAborted(this.#nextChange.promise, signal);
  }

  get #name(): string {
    return fullNameOf(this.#options.resource);
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (this.#resourceVersion === undefined) await this.#list(signal);
        else await this.#watch(this.#resourceVersion, signal);
      } catch (error) {
        if (signal.aborted) return;
        await this.#recover(error, signal);
      }
    }
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { kube, resource, namespace, labelSelector, fieldSelector } = this.#options;
    const list = await kube.list(resource, { namespace, labelSelector, fieldSelector, signal });
    signal.throwIfAborted();
    this.#resourceVersion = list.resourceVersion;
    this.#contact();
    this.#publish(this.#store.replace(list.items.flatMap((raw) => this.#transform(raw) ?? [])));
    if (this.#synced) return;
    this.#synced = true;
    this.#firstSync.resolve();
  }

  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { kube, resource, namespace, labelSelector, fieldSelector } = this.#options;
    const started = performance.now();
    const batches = watchEvents({
      kube,
      resource,
      selection: { namespace, labelSelector, fieldSelector },
      resourceVersion,
      timeoutSeconds: Math.round(shortestWatchSeconds * (1 + Math.random())),
      silenceMs: this.#options.silenceMs ?? defaultSilenceMs,
      signal,
    });
    let isFruitless = true;
    for await (const batch of batches) {
      isFruitless = false;
      for (const event of batch) this.#take(event);
      this.#contact();
    }
    const seconds = Math.round((performance.now() - started) / 1000);
    this.#options.log.debug('Watch ended by the server', { resource: this.#name, seconds });
    if (isFruitless) await rest(backOffMs(0, restlessness), signal);
  }

  #take(event: WatchEvent<KubeObject>): void {
    this.#resourceVersion = event.object.metadata.resourceVersion ?? this.#resourceVersion;
    if (event.type === 'BOOKMARK') return;
    const object = this.#transform(event.object);
    if (event.type === 'DELETED') this.#publish(this.#store.remove(keyOf(event.object), object));
    else if (object !== undefined) this.#publish(this.#store.put(object));
  }

  /** Undefined, and one line in the log, for an object that the transform cannot read. */
  #transform(raw: KubeObject): T | undefined {
    try {
      return this.#keep(raw);
    } catch (error) {
      this.#options.log.error('Object was skipped', {
        resource: this.#name,
        key: keyOf(raw),
        error: wordsOf(error),
      });
      return undefined;
    }
  }

  #publish(changes: readonly Change<T>[]): void {
    if (changes.length === 0) return;
    for (const change of changes) {
      for (const handler of this.#handlers) this.#tell(handler, change);
    }
    const { resolve } = this.#nextChange;
    this.#nextChange = Promise.withResolvers<void>();
    resolve();
  }

  #tell(handler: ChangeHandler<T>, change: Change<T>): void {
    try {
      handler(change);
    } catch (error) {
      const fields = { resource: this.#name, key: change.key, change: change.type, error: wordsOf(error) };
      this.#options.log.error('Handler of a change failed', fields);
    }
  }

  #contact(): void {
    this.#lastContact = new Date();
    this.#failures = 0;
    if (this.#reported === undefined) return;
    this.#reported = undefined;
    this.#options.log.info('Contact with the apiserver was regained', { resource: this.#name });
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    if (isKubeError(error, KubeErrorKind.Expired) || isUnknownVersion(error)) {
      this.#resourceVersion = undefined;
      this.#options.log.debug('Watch expired, listing again', { resource: this.#name });
      if (this.#failures++ === 0) return;
    } else {
      this.#failures++;
      this.#report(wordsOf(error));
    }
    await rest(backOffMs(this.#failures, { firstMs: 100, capMs: slowestRetryMs }), signal);
  }

  #report(error: string): void {
    if (this.#reported === error) return;
    this.#reported = error;
    this.#options.log.warn('Contact with the apiserver was lost, trying again', {
      resource: this.#name,
      error,
    });
  }
}

/** The apiserver's data are older than what we saw: it was restored from a backup, or its cache lags far behind. */
function isUnknownVersion(error: unknown): boolean {
  return (
    isKubeError(error) &&
    error.details?.causes?.some(({ reason }) => reason === 'ResourceVersionTooLarge') === true
  );
}
