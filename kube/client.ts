import type { Readable } from 'node:stream';
import type { KubeObject } from '../api/core.ts';
import { type KubeConfigChoice, loadKubeConfig } from './config.ts';
import { isKubeError, KubeError, KubeErrorKind, type RequestName } from './errors.ts';
import type { Log } from './log.ts';
import { apiVersionOf, fullNameOf, type ObjectKey, pathOf, type Resource, resources } from './resources.ts';
import { type Guard, type HttpRequest, type RequestObservation, Transport } from './transport.ts';

export interface ConnectOptions extends KubeConfigChoice {
  /** Requests in flight at once, watches aside. Default 64. */
  readonly maxInFlight?: number;
  readonly userAgent: string;
  readonly log: Log;
  readonly onRequest?: (observation: RequestObservation) => void;
  /** What the apiserver, or an admission webhook, wants whoever asked to know. */
  readonly onWarning?: (text: string) => void;
}

/** Every method takes these. Without `timeoutMs` an attempt may take 30 s. */
export interface RequestOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
  /** Skips the line of waiting requests: for leader election. */
  readonly urgent?: boolean | undefined;
}

/** Narrows a list or a watch. Selectors are in kubectl's notation. */
export interface Selection {
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

export interface WriteOptions extends RequestOptions {
  readonly fieldManager?: string | undefined;
  /** Everything but the storing: admission and validation answer as they would. */
  readonly dryRun?: boolean | undefined;
}

export interface PatchOptions extends WriteOptions {
  readonly subresource?: string | undefined;
}

export interface ApplyOptions extends RequestOptions {
  readonly fieldManager: string;
  /** Takes fields over from other managers instead of answering Conflict. */
  readonly force?: boolean;
  readonly subresource?: string | undefined;
}

export interface DeleteOptions extends RequestOptions {
  /** The object that is meant: a namesake with another UID is left alone. */
  readonly uid: string;
  /** The version that was judged: one that was written since is left alone, and rejects as Conflict. */
  readonly resourceVersion?: string | undefined;
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
  /** For a pod, in place of its own; 0 removes it at once, whatever still runs. */
  readonly gracePeriodSeconds?: number | undefined;
}

export interface JsonPatchOperation {
  readonly op: 'add' | 'remove' | 'replace' | 'test' | 'move' | 'copy';
  readonly path: string;
  readonly value?: unknown;
  readonly from?: string;
}

export interface ObjectList<T> {
  readonly items: T[];
  readonly resourceVersion: string;
}

export interface EvictionTarget {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

export type EvictionOutcome =
  | { readonly kind: 'Evicted' }
  /** The pod is no more; one of the same name may be another pod. */
  | { readonly kind: 'Gone' }
  /** A PodDisruptionBudget forbids it now; the message has its name and numbers. */
  | { readonly kind: 'Refused'; readonly message: string; readonly retryAfterSeconds?: number | undefined }
  /** More than one PodDisruptionBudget covers the pod: no eviction succeeds until someone changes that. */
  | { readonly kind: 'Misconfigured'; readonly message: string };

const pageSize = 500;
const listAttempts = 3;

/** A client for the cluster that the kubeconfig names. Throws an Error of one line when it names none. */
export function connectKube(options: ConnectOptions): Kube {
  const config = loadKubeConfig(options);
  const transport = new Transport({
    config,
    userAgent: options.userAgent,
    maxInFlight: options.maxInFlight ?? 64,
    onRequest: options.onRequest,
    onWarning: options.onWarning,
  });
  const server = config.getCurrentCluster()?.server;
  options.log.debug('Kubernetes client configured', { server, context: config.getCurrentContext() });
  return new Kube(transport);
}

/**
 * The Kubernetes API, object by object, as raw JSON. Methods reject with KubeError; aborting the signal rejects with
 * the signal's reason. Made by connectKube.
 */
export class Kube {
  readonly #transport: Transport;
  readonly #guard: Guard | undefined;

  constructor(transport: Transport, guard?: Guard) {
    this.#transport = transport;
    this.#guard = guard;
  }

  /** The same client, over the same connections, whose requests are sent only if the guard has no objection then. */
  guardedBy(guard: Guard): FencedKube {
    return new FencedKube(this.#transport, guard);
  }

  /** Undefined when there is no such object; rejects when the cluster does not know the kind. */
  async get<T extends KubeObject>(
    resource: Resource<T>,
    key: ObjectKey,
    options: RequestOptions = {},
  ): Promise<T | undefined> {
    try {
      const name = nameOf('get', resource, key);
      return await this.#json<T>({ name, method: 'GET', path: pathOf(resource, key), ...carried(options) });
    } catch (error) {
      if (isMissingObject(error)) return undefined;
      throw error;
    }
  }

  /** All objects, read in pages; starts over when the pages expire under way. */
  async list<T extends KubeObject>(
    resource: Resource<T>,
    selection: Selection & RequestOptions = {},
  ): Promise<ObjectList<T>> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#listPages(resource, selection);
      } catch (error) {
        if (!isKubeError(error, KubeErrorKind.Expired) || attempt === listAttempts) throw error;
      }
    }
  }

  create<T extends KubeObject>(resource: Resource<T>, object: T, options: WriteOptions = {}): Promise<T> {
    const { namespace, name } = object.metadata;
    return this.#json<T>({
      name: nameOf('create', resource, { namespace, name: name ?? object.metadata.generateName }),
      method: 'POST',
      path: pathOf(resource, { namespace }),
      query: { fieldManager: options.fieldManager, dryRun: dryRunOf(options) },
      body: typed(resource, object),
      ...carried(options),
    });
  }

  /** Server-side apply: `object` holds exactly the fields that `fieldManager` wants to own. */
  apply<T extends KubeObject>(resource: Resource<T>, object: KubeObject, options: ApplyOptions): Promise<T> {
    const key = { namespace: object.metadata.namespace, name: object.metadata.name };
    return this.#json<T>({
      name: nameOf('apply', resource, key),
      method: 'PATCH',
      path: pathOf(resource, key, options.subresource),
      query: { fieldManager: options.fieldManager, force: options.force === true ? 'true' : undefined },
      contentType: 'application/apply-patch+yaml',
      body: typed(resource, object),
      ...carried(options),
    });
  }

  /** RFC 6902: a failed `test` operation rejects as Invalid. */
  jsonPatch<T extends KubeObject>(
    resource: Resource<T>,
    key: ObjectKey,
    operations: readonly JsonPatchOperation[],
    options: PatchOptions = {},
  ): Promise<T> {
    return this.#patch(
      resource,
      key,
      { contentType: 'application/json-patch+json', body: operations },
      options,
    );
  }

  /** RFC 7386: with `metadata.resourceVersion` in the body, another writer in between rejects as Conflict. */
  mergePatch<T extends KubeObject>(
    resource: Resource<T>,
    key: ObjectKey,
    body: Record<string, unknown>,
    options: PatchOptions = {},
  ): Promise<T> {
    return this.#patch(resource, key, { contentType: 'application/merge-patch+json', body }, options);
  }

  /** `Deleted` once the apiserver accepted it, finalizers may hold it longer; `Gone` when that object is no more. */
  async delete(resource: Resource, key: ObjectKey, options: DeleteOptions): Promise<'Deleted' | 'Gone'> {
    const { uid, resourceVersion, propagationPolicy, gracePeriodSeconds } = options;
    try {
      await this.#send({
        name: nameOf('delete', resource, key),
        method: 'DELETE',
        path: pathOf(resource, key),
        body: {
          apiVersion: 'v1',
          kind: 'DeleteOptions',
          preconditions: { uid, resourceVersion },
          propagationPolicy,
          gracePeriodSeconds,
        },
        ...carried(options),
      });
      return 'Deleted';
    } catch (error) {
      if (await this.#isGone(error, resource, { ...key, uid }, options)) return 'Gone';
      throw error;
    }
  }

  /** Asks for an eviction once. Being throttled is waited out; being refused by a budget is an outcome. */
  async evict(target: EvictionTarget, options: RequestOptions = {}): Promise<EvictionOutcome> {
    const { namespace, name, uid } = target;
    try {
      await this.#send({
        name: nameOf('evict', resources.pods, { namespace, name }),
        method: 'POST',
        path: pathOf(resources.pods, { namespace, name }, 'eviction'),
        body: {
          apiVersion: 'policy/v1',
          kind: 'Eviction',
          metadata: { namespace, name },
          deleteOptions: { preconditions: { uid } },
        },
        ...carried(options),
      });
      return { kind: 'Evicted' };
    } catch (error) {
      if (await this.#isGone(error, resources.pods, target, options)) return { kind: 'Gone' };
      return refusalOrThrow(error);
    }
  }

  /** E.g. `v1.37.1`. */
  async serverVersion(options: RequestOptions = {}): Promise<string> {
    const name = { verb: 'get', resource: '/version' };
    const version = await this.#json<{ gitVersion: string }>({
      name,
      method: 'GET',
      path: '/version',
      ...carried(options),
    });
    return version.gitVersion;
  }

  /** Whether the apiserver knows this kind, in this version of its group. */
  async serves({ group, version, plural }: Resource, options: RequestOptions = {}): Promise<boolean> {
    const path = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
    const name = { verb: 'get', resource: path };
    try {
      const found = await this.#json<{ resources: { name: string }[] }>({
        name,
        method: 'GET',
        path,
        ...carried(options),
      });
      return found.resources.some((one) => one.name === plural);
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return false;
      throw error;
    }
  }

  /** The apiserver's clock, as of its last answer; this machine's before the first. */
  now(): Date {
    return this.#transport.now();
  }

  /** Cuts every connection, watches too. */
  close(): Promise<void> {
    return this.#transport.close();
  }

  /** The raw lines of a watch, for kube/watch.ts; ends when the signal aborts. */
  openWatch(
    resource: Resource,
    selection: Selection,
    parameters: Record<string, string> & { resourceVersion: string },
    signal: AbortSignal,
  ): Promise<Readable> {
    return this.#transport.open({
      name: nameOf('watch', resource, { namespace: selection.namespace }),
      method: 'GET',
      path: pathOf(resource, { namespace: selection.namespace }),
      query: { ...selectorsOf(selection), ...parameters, watch: 'true' },
      signal,
      guard: this.#guard,
    });
  }

  async #listPages<T extends KubeObject>(
    resource: Resource<T>,
    selection: Selection & RequestOptions,
  ): Promise<ObjectList<T>> {
    const items: T[] = [];
    let next: string | undefined;
    let resourceVersion = '';
    do {
      const page: ListBody<T> = await this.#json<ListBody<T>>({
        name: nameOf('list', resource, { namespace: selection.namespace }),
        method: 'GET',
        path: pathOf(resource, { namespace: selection.namespace }),
        query: { ...selectorsOf(selection), limit: String(pageSize), continue: next },
        ...carried(selection),
      });
      for (const item of page.items ?? []) items.push(typed(resource, item));
      resourceVersion ||= page.metadata.resourceVersion;
      next = page.metadata.continue || undefined;
    } while (next !== undefined);
    return { items, resourceVersion };
  }

  #patch<T extends KubeObject>(
    resource: Resource<T>,
    key: ObjectKey,
    patch: { contentType: string; body: unknown },
    options: PatchOptions,
  ): Promise<T> {
    return this.#json<T>({
      name: nameOf('patch', resource, key),
      method: 'PATCH',
      path: pathOf(resource, key, options.subresource),
      query: { fieldManager: options.fieldManager, dryRun: dryRunOf(options) },
      ...patch,
      ...carried(options),
    });
  }

  /** A 409 may also be a lost race of the apiserver with itself: look who lives under the name now. */
  async #isGone(
    error: unknown,
    resource: Resource,
    target: ObjectKey & { uid: string },
    options: RequestOptions,
  ): Promise<boolean> {
    if (isMissingObject(error)) return true;
    if (!isKubeError(error, KubeErrorKind.Conflict)) return false;
    const living = await this.get(resource, { namespace: target.namespace, name: target.name }, options);
    return living?.metadata.uid !== target.uid;
  }

  async #json<T>(request: HttpRequest): Promise<T> {
    return JSON.parse(await this.#send(request)) as T;
  }

  #send(request: HttpRequest): Promise<string> {
    return this.#transport.send({ ...request, guard: this.#guard });
  }
}

/** A client with a guard, as runWhenLeader makes it: what only a leader runs takes no other. */
export class FencedKube extends Kube {
  /** So that the types differ. */
  readonly isFenced = true;
}

interface ListBody<T> {
  items: T[] | null;
  metadata: { resourceVersion: string; continue?: string };
}

function refusalOrThrow(error: unknown): EvictionOutcome {
  if (!(error instanceof KubeError)) throw error;
  const { apiMessage: message, retryAfterSeconds } = error;
  if (isOverbooked(error)) return { kind: 'Misconfigured', message };
  if (error.kind === KubeErrorKind.DisruptionRefused || isBudgetForbidding(error)) {
    return { kind: 'Refused', message, retryAfterSeconds };
  }
  throw error;
}

/** The only refusal that the apiserver marks by nothing but its words: a bare 500 without a reason. */
function isOverbooked({ status, reason, apiMessage }: KubeError): boolean {
  return status === 500 && reason === undefined && apiMessage.includes('more than one PodDisruptionBudget');
}

/** A 403 about the budget, not about us: too many of its evictions are not yet confirmed by its controller. */
function isBudgetForbidding({ kind, details }: KubeError): boolean {
  return kind === KubeErrorKind.Forbidden && details?.kind === 'poddisruptionbudget';
}

/** The apiserver says in a Status that the object is missing; an unknown kind is a plain 404 page. */
function isMissingObject(error: unknown): boolean {
  return isKubeError(error, KubeErrorKind.NotFound) && error.reason === 'NotFound';
}

/** Items of a list come without apiVersion and kind; what people write may, too. */
function typed<T extends KubeObject>(resource: Resource, object: T): T {
  if (object.apiVersion !== undefined && object.kind !== undefined) return object;
  return { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object };
}

function nameOf(
  verb: string,
  resource: Resource,
  key: { namespace?: string | undefined; name?: string | undefined },
): RequestName {
  return { verb, resource: fullNameOf(resource), namespace: key.namespace, name: key.name };
}

function dryRunOf({ dryRun = false }: WriteOptions): string | undefined {
  return dryRun ? 'All' : undefined;
}

function selectorsOf({ labelSelector, fieldSelector }: Selection) {
  return { labelSelector, fieldSelector };
}

function carried({ signal, timeoutMs, urgent }: RequestOptions): RequestOptions {
  return { signal, timeoutMs, urgent };
}
