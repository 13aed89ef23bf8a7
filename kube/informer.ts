import type { KubeObject } from '../api/core.ts';
import { sleep, abortable } from './abort.ts';
import { backOffMs } from './backOff.ts';
import type { Kube, Selection } from './client.ts';
import { isKubeError, KubeErrorKind, errorMessage } from './errors.ts';
import type { Log } from './log.ts';
import { fullNameOf, isAtLeast, type Resource } from './resources.ts';
import { withoutManagedFields } from './transform.ts';
import { type Change, type Indexes, keyOf, Store } from './store.ts';
import { type WatchEvent, streamWatchEvents } from './watch.ts';

export type { Change } from './store.ts';

interface CommonOptions<T extends KubeObject> {
  readonly kube: Kube;
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  readonly indexes?: Indexes<T>;
  /**
   * Name of the feature that needs the permission to list the collection. While the permission is missing, the collection counts as synced and is
   * listed again at intervals.
   */
  readonly optionalFor?: string;
  /**
   * The apiserver may not serve the kind, or stop serving it. While it does not, the collection is empty and counts as synced, and the apiserver
   * is asked again at intervals.
   */
  readonly mayBeUnserved?: boolean;
  /** A watch without any event for this long is considered dead. Default 80 s: bookmarks arrive about every minute. */
  readonly idleTimeoutMs?: number;
  /** Interval of requests for an optional collection that the apiserver forbids or does not serve. Default 10 s. */
  readonly optionalRetryMs?: number;
  readonly log: Log;
}

/** Options of an informer that stores the objects without their managedFields. */
export interface InformerOptions<T extends KubeObject> extends CommonOptions<T> {
  readonly resource: Resource<T>;
}

export interface TransformInformerOptions<Raw extends KubeObject, T extends KubeObject>
  extends CommonOptions<T> {
  readonly resource: Resource<Raw>;
  /** Reduces an object to the fields that are stored; must keep name, namespace, uid and resourceVersion. */
  readonly transform: (raw: Raw) => T;
}

/** Objects are shared with the informer and other consumers: copy an object to change it. */
export type ChangeHandler<T> = (change: Change<Readonly<T>>) => void;

const maxRetryDelayMs = 5_000;
const defaultOptionalRetryMs = 10_000;
const defaultIdleTimeoutMs = 80_000;
const minWatchSeconds = 300;
/** Events that a resumed watch has missed arrive within this time after it was accepted. */
const catchUpMs = 250;
/** Delay before the next watch after one that ended without any event. */
const emptyWatchBackOff = { firstMs: 100, capMs: 100 };
/** A watch that was silent for this long may wait for a version that the apiserver does not have. */
const suspiciousSilenceMs = 10_000;

/**
 * A local copy of a collection that follows the apiserver. Contract:
 *
 * 1. It never gives up: until the signal aborts it lists, watches, and starts again, with back-off and jitter.
 * 2. A watch that ended, whichever side closed it, resumes from the last known resourceVersion. That loses nothing: the
 *    apiserver either sends every later event or responds with 410. Only then, or if its data was restored to an earlier
 *    version, everything is listed again. An apiserver that closes slow watches, which it does under load, therefore costs
 *    one request and not a list of all pods.
 * 3. An object that a new list does not contain was deleted, and is reported as Deleted. An object of the same name with
 *    another UID is reported as Deleted, then Added.
 * 4. Handlers run synchronously, in the order of the changes, after the store has changed; an error of a handler is
 *    logged and does not affect the others.
 * 5. A missing permission for an optional collection is no error: the informer counts as synced and keeps its objects until it is granted.
 * 6. If its kind may not be served, a cluster that does not serve it has none of its objects; stored ones are reported as Deleted.
 * 7. It logs one line each time the error changes and one when the connection is restored, none per attempt.
 */
export class Informer<T extends KubeObject, Raw extends KubeObject = T> {
  readonly #options: CommonOptions<T> & { readonly resource: Resource };
  readonly #transformRaw: (raw: KubeObject) => T;
  readonly #store: Store<T>;
  readonly #handlers = new Set<ChangeHandler<T>>();
  readonly #firstSync = Promise.withResolvers<void>();
  #nextChange = Promise.withResolvers<void>();
  #started = false;
  #synced = false;
  #served = false;
  /** Time since which the store follows the apiserver, by performance.now(); undefined while it does not. */
  #followsFrom: number | undefined;
  #lastResponseAt: Date | undefined;
  #resourceVersion: string | undefined;
  #failures = 0;
  #reported: string | undefined;

  constructor(options: InformerOptions<T>);
  constructor(options: TransformInformerOptions<Raw, T>);
  constructor(options: InformerOptions<T> & { readonly transform?: (raw: T) => T }) {
    this.#options = options;
    this.#transformRaw = (options.transform ?? withoutManagedFields) as (raw: KubeObject) => T;
    this.#store = new Store(options.indexes ?? {});
  }

  /** Follows the collection until `signal` aborts; call it once. */
  start(signal: AbortSignal): void {
    if (this.#started) throw new Error(`informer of ${this.#name} is already running: call start once`);
    this.#started = true;
    void this.#run(signal);
  }

  /** Resolves when the first list is in the store and was reported to the handlers, or cannot be read: contract 5 and 6. */
  synced(signal?: AbortSignal): Promise<void> {
    return abortable(this.#firstSync.promise, signal);
  }

  get hasSynced(): boolean {
    return this.#synced;
  }

  /** Whether the collection could be read: false before the first list, and while it is forbidden or not served. */
  get isServed(): boolean {
    return this.#served;
  }

  /** Time of the last list, event or bookmark of the apiserver. For health checks. */
  get lastResponseAt(): Date | undefined {
    return this.#lastResponseAt;
  }

  /**
   * Whether the store follows the apiserver at this moment: not while a watch has ended and the next one has not been accepted, nor until that one has
   * delivered what was missed. A watch that only hangs is not noticed.
   */
  get isFollowing(): boolean {
    return this.#followsFrom !== undefined && performance.now() >= this.#followsFrom;
  }

  /** The current connection error, or undefined while connected. */
  get lastError(): string | undefined {
    return this.#reported;
  }

  /** The version of the collection that the store contains; undefined before the first list, and after the watch has expired. */
  get resourceVersion(): string | undefined {
    return this.#resourceVersion;
  }

  get size(): number {
    return this.#store.size;
  }

  /** Returns an object by `namespace/name`, or by `name` if it is cluster-scoped. */
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

  /** Reports the stored objects as Added, then every change. Returns the function that unsubscribes. */
  subscribe(handler: ChangeHandler<T>): () => void {
    this.#handlers.add(handler);
    for (const object of this.#store.list())
      this.#notify(handler, { type: 'Added', key: keyOf(object), object });
    return () => this.#handlers.delete(handler);
  }

  /** Resolves at the next change of any object. */
  changed(signal?: AbortSignal): Promise<void> {
    return abortable(this.#nextChange.promise, signal);
  }

  get #name(): string {
    return fullNameOf(this.#options.resource);
  }

  get #selection(): Selection {
    const { namespace, labelSelector, fieldSelector } = this.#options;
    return { namespace, labelSelector, fieldSelector };
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
    const { kube, resource } = this.#options;
    const startedAt = performance.now();
    const list = await kube.listReduced(resource, { ...this.#selection, signal }, (raw) =>
      this.#transform(raw),
    );
    signal.throwIfAborted();
    this.#resourceVersion = list.resourceVersion;
    this.#served = true;
    this.#markConnected();
    // The pages of a long list are all of the version of the first one.
    if (performance.now() - startedAt < catchUpMs) this.#followsFrom = performance.now();
    this.#publish(this.#store.replace(list.items));
    this.#markSynced();
  }

  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { kube, resource } = this.#options;
    const idleTimeoutMs = this.#options.idleTimeoutMs ?? defaultIdleTimeoutMs;
    const started = performance.now();
    let isAccepted = false;
    // The watch after a short list has missed nothing.
    const behindMs = this.isFollowing ? 0 : catchUpMs;
    this.#followsFrom = undefined;
    const batches = streamWatchEvents({
      kube,
      resource,
      selection: this.#selection,
      resourceVersion,
      timeoutSeconds: Math.round(minWatchSeconds * (1 + Math.random())),
      idleTimeoutMs,
      onOpen: () => {
        isAccepted = true;
        this.#followsFrom = performance.now() + behindMs;
      },
      signal,
    });
    let isEmpty = true;
    const wasSilent = () =>
      isAccepted && isEmpty && performance.now() - started >= Math.min(idleTimeoutMs, suspiciousSilenceMs);
    try {
      for await (const batch of batches) {
        isEmpty = false;
        for (const event of batch) this.#apply(event);
        this.#markConnected();
      }
    } catch (error) {
      if (signal.aborted || !wasSilent()) throw error;
    }
    this.#followsFrom = undefined;
    if (wasSilent()) await this.#compareVersion(resourceVersion, signal);
    const seconds = Math.round((performance.now() - started) / 1000);
    this.#options.log.debug('Watch ended', { resource: this.#name, seconds });
    if (isEmpty) await sleep(backOffMs(0, emptyWatchBackOff), signal);
  }

  /**
   * The apiserver accepts a watch of a version that it does not have, and sends nothing until it does: its data may have been restored from a backup. A
   * quiet collection is as silent where etcd reports its progress rarely.
   */
  async #compareVersion(known: string, signal: AbortSignal): Promise<void> {
    const { kube, resource, log } = this.#options;
    const current = await kube.versionOf(resource, { ...this.#selection, signal });
    if (isAtLeast(current, known)) return this.#markConnected();
    this.#resourceVersion = undefined;
    log.warn('The data of the apiserver was restored to an earlier version, listing again', {
      resource: this.#name,
    });
  }

  #apply(event: WatchEvent<KubeObject>): void {
    this.#resourceVersion = event.object.metadata.resourceVersion ?? this.#resourceVersion;
    if (event.type === 'BOOKMARK') return;
    const object = this.#transform(event.object);
    if (event.type === 'DELETED') this.#publish(this.#store.remove(keyOf(event.object), object));
    else if (object !== undefined) this.#publish(this.#store.put(object));
  }

  /** Returns undefined and logs a line if the transform fails. */
  #transform(raw: KubeObject): T | undefined {
    try {
      return this.#transformRaw(raw);
    } catch (error) {
      this.#options.log.error('Object was skipped', {
        resource: this.#name,
        key: keyOf(raw),
        error: errorMessage(error),
      });
      return undefined;
    }
  }

  #publish(changes: readonly Change<T>[]): void {
    if (changes.length === 0) return;
    for (const change of changes) {
      for (const handler of this.#handlers) this.#notify(handler, change);
    }
    const { resolve } = this.#nextChange;
    this.#nextChange = Promise.withResolvers<void>();
    resolve();
  }

  #notify(handler: ChangeHandler<T>, change: Change<T>): void {
    try {
      handler(change);
    } catch (error) {
      const fields = {
        resource: this.#name,
        key: change.key,
        change: change.type,
        error: errorMessage(error),
      };
      this.#options.log.error('Change handler failed', fields);
    }
  }

  #markConnected(): void {
    this.#lastResponseAt = new Date();
    this.#failures = 0;
    if (this.#reported === undefined) return;
    this.#reported = undefined;
    this.#options.log.info('Connection to the apiserver was restored', { resource: this.#name });
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    this.#followsFrom = undefined;
    if (this.#options.optionalFor !== undefined && isKubeError(error, KubeErrorKind.Forbidden))
      return this.#awaitPermission(this.#options.optionalFor, error, signal);
    if (this.#options.mayBeUnserved === true && isKubeError(error, KubeErrorKind.NotFound))
      return this.#awaitService(signal);
    if (isKubeError(error, KubeErrorKind.Expired)) {
      this.#resourceVersion = undefined;
      this.#options.log.debug('Watch expired, listing again', { resource: this.#name });
      if (this.#failures++ === 0) return;
    } else {
      this.#failures++;
      this.#report(errorMessage(error));
    }
    await sleep(backOffMs(this.#failures, { firstMs: 100, capMs: maxRetryDelayMs }), signal);
  }

  async #awaitPermission(optionalFor: string, error: Error, signal: AbortSignal): Promise<void> {
    const message = errorMessage(error);
    if (this.#reported !== message) {
      this.#reported = message;
      this.#options.log.info('Permission is missing, waiting for it', {
        resource: this.#name,
        optionalFor,
        error: message,
      });
    }
    this.#served = false;
    this.#markSynced();
    await sleep(this.#options.optionalRetryMs ?? defaultOptionalRetryMs, signal);
  }

  async #awaitService(signal: AbortSignal): Promise<void> {
    this.#resourceVersion = undefined;
    this.#served = false;
    this.#reported = undefined;
    this.#publish(this.#store.replace([]));
    this.#markSynced();
    await sleep(this.#options.optionalRetryMs ?? defaultOptionalRetryMs, signal);
  }

  #markSynced(): void {
    if (this.#synced) return;
    this.#synced = true;
    this.#firstSync.resolve();
  }

  #report(error: string): void {
    if (this.#reported === error) return;
    this.#reported = error;
    this.#options.log.warn('Connection to the apiserver was lost, retrying', {
      resource: this.#name,
      error,
    });
  }
}
