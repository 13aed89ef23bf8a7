import type { Readable } from 'node:stream';
import type { KubeObject } from '../api/core.ts';
import { type KubeConfigChoice, loadKubeConfig } from './config.ts';
import { isKubeError, KubeError, KubeErrorKind, type RequestName } from './errors.ts';
import type { Log } from './log.ts';
import {
  apiVersionOf,
  fullNameOf,
  type ObjectKey,
  type ObjectReference,
  pathOf,
  type Resource,
  resources,
} from './resources.ts';
import { type Guard, type HttpRequest, type RequestObservation, Transport } from './transport.ts';

export interface ConnectOptions extends KubeConfigChoice {
  /** Maximum number of requests in flight, without watches. Default 64. */
  readonly maxInFlight?: number;
  readonly userAgent: string;
  /** The credentials in the kubeconfig are renewed while this process runs: its file is read again every few seconds. */
  readonly reloads?: boolean;
  readonly log: Log;
  readonly onRequest?: (observation: RequestObservation) => void;
  /** Receives the warnings of the apiserver and of admission webhooks. */
  readonly onWarning?: (text: string) => void;
}

/** Options of every method. The default of `timeoutMs`, the timeout of one attempt, is 30 s. */
export interface RequestOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
  /** Bypasses the queue of waiting requests: for leader election. */
  readonly urgent?: boolean | undefined;
}

/** Restricts a list or a watch. Selectors use the syntax of kubectl. */
export interface Selection {
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

export interface WriteOptions extends RequestOptions {
  readonly fieldManager?: string | undefined;
  /** Runs admission and validation without persisting the object. */
  readonly dryRun?: boolean | undefined;
  /** Receives the warnings of the apiserver and of admission webhooks about this request. */
  readonly onWarning?: ((text: string) => void) | undefined;
}

export interface PatchOptions extends WriteOptions {
  readonly subresource?: string | undefined;
}

export interface ApplyOptions extends RequestOptions {
  readonly fieldManager: string;
  /** Takes ownership of fields from other managers instead of rejecting as Conflict. */
  readonly force?: boolean;
  readonly subresource?: string | undefined;
}

export interface DeleteOptions extends RequestOptions {
  /** UID precondition: another object of the same name is not deleted. */
  readonly uid: string;
  /** Version precondition: an object that was changed since rejects as Conflict. */
  readonly resourceVersion?: string | undefined;
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
  /** Takes a conflict for `Gone` without reading the object: the caller decides again from its informer. */
  readonly ignoresConflicts?: boolean;
  /** Overrides the grace period of a pod; 0 removes it immediately, even if containers still run. */
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
  /** The pod no longer exists. A pod of the same name is another pod. */
  | { readonly kind: 'Gone' }
  /** A PodDisruptionBudget does not allow it now; the message has its name and numbers. */
  | { readonly kind: 'Rejected'; readonly message: string; readonly retryAfterSeconds?: number | undefined }
  /** More than one PodDisruptionBudget covers the pod: no eviction succeeds until a user changes that. */
  | { readonly kind: 'Misconfigured'; readonly message: string };

type ListOptions = Selection & RequestOptions & { readonly metadataOnly?: boolean };

const metadataListType = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
const pageSize = 500;
const maxListAttempts = 3;

/** Creates a client for the cluster of the kubeconfig. Throws a one-line Error if it names none. */
export function connectKube(options: ConnectOptions): Kube {
  const config = loadKubeConfig(options);
  const transport = new Transport({
    config,
    reload: options.reloads === true ? () => loadKubeConfig(options) : undefined,
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
 * A client of the Kubernetes API that reads and writes raw JSON objects. Methods reject with KubeError; aborting the
 * signal rejects with the signal's reason. Created by connectKube.
 */
export class Kube {
  readonly #transport: Transport;
  readonly #guard: Guard | undefined;

  constructor(transport: Transport, guard?: Guard) {
    this.#transport = transport;
    this.#guard = guard;
  }

  /** Returns a client over the same connections that sends a request only if the guard returns no reason against it. */
  guardedBy(guard: Guard): FencedKube {
    return new FencedKube(this.#transport, guard);
  }

  /** Returns undefined if the object does not exist; rejects if the cluster does not serve the kind. */
  async get<T extends KubeObject>(
    resource: Resource<T>,
    key: ObjectKey,
    options: RequestOptions = {},
  ): Promise<T | undefined> {
    try {
      const name = nameOf('get', resource, key);
      return await this.#json<T>({
        name,
        method: 'GET',
        path: pathOf(resource, key),
        ...requestOptionsOf(options),
      });
    } catch (error) {
      if (isMissingObject(error)) return undefined;
      throw error;
    }
  }

  /** Lists all objects, page by page; restarts if the continue token expires. */
  list<T extends KubeObject>(resource: Resource<T>, selection: ListOptions = {}): Promise<ObjectList<T>> {
    return this.listReduced(resource, selection, (object: T) => object);
  }

  /**
   * Lists like `list`, but keeps only what `reduce` returns for each object, so that no more than one page of whole objects is in memory. Objects for which
   * it returns undefined are left out.
   */
  async listReduced<T extends KubeObject, Reduced extends object>(
    resource: Resource<T>,
    selection: ListOptions,
    reduce: (object: T) => Reduced | undefined,
  ): Promise<ObjectList<Reduced>> {
    for (let attempt = 1; ; attempt++) {
      try {
        const items: Reduced[] = [];
        const resourceVersion = await this.forEachPage(resource, selection, (page) => {
          for (const object of page) {
            const reduced = reduce(object);
            if (reduced !== undefined) items.push(reduced);
          }
        });
        return { items, resourceVersion };
      } catch (error) {
        if (!isKubeError(error, KubeErrorKind.Expired) || attempt === maxListAttempts) throw error;
      }
    }
  }

  /** Lists the metadata of all objects: a fraction of the size, for kinds whose objects are large. */
  listMetadata(
    resource: Resource,
    selection: Selection & RequestOptions = {},
  ): Promise<ObjectList<KubeObject>> {
    return this.list<KubeObject>(resource, { ...selection, metadataOnly: true });
  }

  /** Returns the current version of a collection, by a list of one object. */
  async versionOf(resource: Resource, selection: Selection & RequestOptions): Promise<string> {
    const { metadata } = await this.#json<ListBody<KubeObject>>({
      name: nameOf('list', resource, { namespace: selection.namespace }),
      method: 'GET',
      path: pathOf(resource, { namespace: selection.namespace }),
      query: { ...selectorsOf(selection), limit: '1' },
      accept: metadataListType,
      ...requestOptionsOf(selection),
    });
    return metadata.resourceVersion;
  }

  create<T extends KubeObject>(resource: Resource<T>, object: T, options: WriteOptions = {}): Promise<T> {
    const { namespace, name } = object.metadata;
    return this.#json<T>({
      name: nameOf('create', resource, { namespace, name: name ?? object.metadata.generateName }),
      method: 'POST',
      path: pathOf(resource, { namespace }),
      query: { fieldManager: options.fieldManager, dryRun: dryRunOf(options) },
      body: withTypeMeta(resource, object),
      onWarning: options.onWarning,
      ...requestOptionsOf(options),
    });
  }

  /** Applies an object server-side: `object` contains exactly the fields that `fieldManager` owns. */
  apply<T extends KubeObject>(resource: Resource<T>, object: KubeObject, options: ApplyOptions): Promise<T> {
    const key = { namespace: object.metadata.namespace, name: object.metadata.name };
    return this.#json<T>({
      name: nameOf('apply', resource, key),
      method: 'PATCH',
      path: pathOf(resource, key, options.subresource),
      query: { fieldManager: options.fieldManager, force: options.force === true ? 'true' : undefined },
      contentType: 'application/apply-patch+yaml',
      body: withTypeMeta(resource, object),
      ...requestOptionsOf(options),
    });
  }

  /** Applies a JSON patch (RFC 6902). A failed `test` operation rejects as Invalid. */
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

  /** Applies a merge patch (RFC 7386). With `metadata.resourceVersion` in the body, a concurrent write rejects as Conflict. */
  mergePatch<T extends KubeObject>(
    resource: Resource<T>,
    key: ObjectKey,
    body: Record<string, unknown>,
    options: PatchOptions = {},
  ): Promise<T> {
    return this.#patch(resource, key, { contentType: 'application/merge-patch+json', body }, options);
  }

  /** Returns `Deleted` once the apiserver accepted the deletion (finalizers can delay the removal), `Gone` if the object does not exist. */
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
        ...requestOptionsOf(options),
      });
      return 'Deleted';
    } catch (error) {
      if (options.ignoresConflicts === true && isKubeError(error, KubeErrorKind.Conflict)) return 'Gone';
      if (await this.#isDeletedOrReplaced(error, resource, { ...key, uid }, options)) return 'Gone';
      throw error;
    }
  }

  /**
   * Deletes what a namespace contained at a version of the collection, and nothing that was created since. Rejects as Expired if the
   * apiserver does not have that version any more.
   */
  async deleteCollection(
    resource: Resource,
    { namespace, resourceVersion }: { namespace: string; resourceVersion: string },
    options: RequestOptions = {},
  ): Promise<void> {
    await this.#send({
      name: nameOf('deletecollection', resource, { namespace }),
      method: 'DELETE',
      path: pathOf(resource, { namespace }),
      query: { resourceVersion, resourceVersionMatch: 'Exact' },
      // Without a body the apiserver takes the version for a precondition of each object.
      body: { apiVersion: 'v1', kind: 'DeleteOptions' },
      ...requestOptionsOf(options),
    });
  }

  /**
   * Requests an eviction once. Throttling is retried; a rejection by a PodDisruptionBudget is an outcome. `isRepeated`: an earlier request may have been
   * performed; nothing is sent for a pod that is terminating, and rejects as Conflict if the pod has changed since it was read for that.
   */
  async evict(
    target: EvictionTarget,
    { isRepeated = false, ...options }: RequestOptions & { isRepeated?: boolean } = {},
  ): Promise<EvictionOutcome> {
    const { namespace, name, uid } = target;
    const read = isRepeated ? await this.get(resources.pods, { namespace, name }, options) : undefined;
    if (isRepeated && read?.metadata.uid !== uid) return { kind: 'Gone' };
    if (read?.metadata.deletionTimestamp !== undefined) return { kind: 'Evicted' };
    const resourceVersion = read?.metadata.resourceVersion;
    try {
      await this.#send({
        name: nameOf('evict', resources.pods, { namespace, name }),
        method: 'POST',
        path: pathOf(resources.pods, { namespace, name }, 'eviction'),
        body: {
          apiVersion: 'policy/v1',
          kind: 'Eviction',
          metadata: { namespace, name },
          deleteOptions: { preconditions: { uid, ...(resourceVersion && { resourceVersion }) } },
        },
        ...requestOptionsOf(options),
      });
      return { kind: 'Evicted' };
    } catch (error) {
      if (await this.#isDeletedOrReplaced(error, resources.pods, target, options)) return { kind: 'Gone' };
      return rejectionOrThrow(error);
    }
  }

  /** Requests a token of a ServiceAccount that ends with the node. Rejects with a KubeError. */
  async requestNodeToken(
    { namespace, name }: { namespace: string; name: string },
    { node, expirationSeconds }: { node: ObjectReference; expirationSeconds: number },
    options: RequestOptions = {},
  ): Promise<string> {
    const key = { namespace, name };
    const { apiVersion, kind, name: nodeName, uid } = node;
    const answer = await this.#json<{ status: { token: string } }>({
      name: { verb: 'create', resource: 'serviceaccounts/token', ...key },
      method: 'POST',
      path: pathOf(resources.serviceAccounts, key, 'token'),
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { expirationSeconds, boundObjectRef: { apiVersion, kind, name: nodeName, uid } },
      },
      ...requestOptionsOf(options),
    });
    return answer.status.token;
  }

  /** Returns the version of the apiserver, for example `v1.37.1`. */
  async serverVersion(options: RequestOptions = {}): Promise<string> {
    const name = { verb: 'get', resource: '/version' };
    const version = await this.#json<{ gitVersion: string }>({
      name,
      method: 'GET',
      path: '/version',
      ...requestOptionsOf(options),
    });
    return version.gitVersion;
  }

  /** Returns true if the apiserver serves this kind in this version of its group. */
  async serves({ group, version, plural }: Resource, options: RequestOptions = {}): Promise<boolean> {
    const path = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
    const name = { verb: 'get', resource: path };
    try {
      const found = await this.#json<{ resources: { name: string }[] }>({
        name,
        method: 'GET',
        path,
        ...requestOptionsOf(options),
      });
      return found.resources.some((one) => one.name === plural);
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return false;
      throw error;
    }
  }

  /** Returns the time of the apiserver's clock, estimated from its responses; the local time before the first response. */
  now(): Date {
    return this.#transport.now();
  }

  /** Closes every connection, including watches. */
  close(): Promise<void> {
    return this.#transport.close();
  }

  /** Opens a watch and returns its raw lines, for kube/watch.ts; ends when the signal aborts. */
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

  /**
   * Passes the objects on page by page, so that a large collection need not fit into memory at once. Resolves with the version of the
   * collection; rejects as Expired if that takes longer than the apiserver keeps it.
   */
  async forEachPage<T extends KubeObject>(
    resource: Resource<T>,
    selection: ListOptions,
    visit: (page: T[]) => void,
  ): Promise<string> {
    let next: string | undefined;
    let resourceVersion = '';
    do {
      const page: ListBody<T> = await this.#json<ListBody<T>>({
        name: nameOf('list', resource, { namespace: selection.namespace }),
        method: 'GET',
        path: pathOf(resource, { namespace: selection.namespace }),
        query: { ...selectorsOf(selection), limit: String(pageSize), continue: next },
        accept: selection.metadataOnly === true ? metadataListType : undefined,
        ...requestOptionsOf(selection),
      });
      visit((page.items ?? []).map((item) => withTypeMeta(resource, item)));
      resourceVersion ||= page.metadata.resourceVersion;
      next = page.metadata.continue || undefined;
    } while (next !== undefined);
    return resourceVersion;
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
      ...requestOptionsOf(options),
    });
  }

  /**
   * Compares the UID of the current object of that name: a 409 can also be a write conflict within the apiserver, and a 404 about the
   * PodDisruptionBudget of a pod that is evicted, which was deleted in the meantime.
   */
  async #isDeletedOrReplaced(
    error: unknown,
    resource: Resource,
    target: ObjectKey & { uid: string },
    options: RequestOptions,
  ): Promise<boolean> {
    if (isMissingObject(error) && error.details?.kind === resource.plural) return true;
    if (!isMissingObject(error) && !isKubeError(error, KubeErrorKind.Conflict)) return false;
    const current = await this.get(resource, { namespace: target.namespace, name: target.name }, options);
    return current?.metadata.uid !== target.uid;
  }

  async #json<T>(request: HttpRequest): Promise<T> {
    return JSON.parse(await this.#send(request)) as T;
  }

  #send(request: HttpRequest): Promise<string> {
    return this.#transport.send({ ...request, guard: this.#guard });
  }
}

/** A client with a guard, created by runWhenLeader. Code that only a leader runs accepts no other client. */
export class FencedKube extends Kube {
  /** Distinguishes the type from Kube. */
  readonly isFenced = true;
}

interface ListBody<T> {
  items: T[] | null;
  metadata: { resourceVersion: string; continue?: string };
}

function rejectionOrThrow(error: unknown): EvictionOutcome {
  if (!(error instanceof KubeError)) throw error;
  const { apiMessage: message, retryAfterSeconds } = error;
  if (hasSeveralBudgets(error)) return { kind: 'Misconfigured', message };
  if (error.kind === KubeErrorKind.DisruptionRejected || isBudgetForbidding(error)) {
    return { kind: 'Rejected', message, retryAfterSeconds };
  }
  throw error;
}

/** The apiserver identifies this rejection by its message only: a 500 without a reason. */
function hasSeveralBudgets({ status, reason, apiMessage }: KubeError): boolean {
  return status === 500 && reason === undefined && apiMessage.includes('more than one PodDisruptionBudget');
}

/** A 403 about the PodDisruptionBudget, not about our permissions: its controller has not yet confirmed too many evictions. */
function isBudgetForbidding({ kind, details }: KubeError): boolean {
  return kind === KubeErrorKind.Forbidden && details?.kind === 'poddisruptionbudget';
}

/** A missing object is a 404 with a Status body; an unknown kind is a 404 without one. */
function isMissingObject(error: unknown): error is KubeError {
  return isKubeError(error, KubeErrorKind.NotFound) && error.reason === 'NotFound';
}

/** Adds apiVersion and kind, which the items of a list do not have. */
function withTypeMeta<T extends KubeObject>(resource: Resource, object: T): T {
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

function requestOptionsOf({ signal, timeoutMs, urgent }: RequestOptions): RequestOptions {
  return { signal, timeoutMs, urgent };
}
