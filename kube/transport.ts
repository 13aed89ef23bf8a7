import type { Readable } from 'node:stream';
import { createSecureContext } from 'node:tls';
import type { KubeConfig } from '@kubernetes/client-node';
import { Agent, type Dispatcher, ProxyAgent, Socks5ProxyAgent } from 'undici';
import { Deadline, sleep, abortable } from './abort.ts';
import { CredentialSource, type TlsOptions } from './config.ts';
import {
  errorOf,
  isKubeError,
  KubeError,
  KubeErrorKind,
  type RequestName,
  unavailable,
  errorMessage,
} from './errors.ts';
import { Semaphore } from './semaphore.ts';

/** Reported to metrics after every request; `status` is undefined without a response. Requests that a guard rejects are not reported. */
export interface RequestObservation {
  readonly verb: string;
  readonly resource: string;
  readonly status: number | undefined;
  readonly seconds: number;
}

export interface TransportOptions {
  readonly config: KubeConfig;
  /** Reads the configuration again, for credentials that are renewed in its file. */
  readonly reload?: (() => KubeConfig) | undefined;
  readonly userAgent: string;
  /** Requests in flight at once; watches and urgent requests do not count. */
  readonly maxInFlight: number;
  readonly onRequest?: ((observation: RequestObservation) => void) | undefined;
  /** Receives the warnings of the apiserver and of admission webhooks. */
  readonly onWarning?: ((text: string) => void) | undefined;
}

export interface HttpRequest {
  /** The name of the request in errors and metrics. */
  readonly name: RequestName;
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: Record<string, string | undefined> | undefined;
  readonly contentType?: string | undefined;
  /** The representation that is asked for. JSON unless given. */
  readonly accept?: string | undefined;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Timeout of one attempt, from the time it is sent. */
  readonly timeoutMs?: number | undefined;
  /** Bypasses the queue of waiting requests: leader election must not lose its Lease under load. */
  readonly urgent?: boolean | undefined;
  /** Receives the warnings of this request instead of that of the transport. */
  readonly onWarning?: ((text: string) => void) | undefined;
  readonly guard?: Guard | undefined;
}

/** Returns why requests must not be sent, if so. Called immediately before each request is written to its connection. */
export type Guard = () => string | undefined;

const requestTimeoutMs = 30_000;
/** Connections beyond maxInFlight, for urgent requests. */
const spareConnections = 4;
/** Below the apiserver's 90 s, so that the client closes idle connections and no request is sent on a closed one. */
const idleConnectionMs = 60_000;
const maxThrottledAttempts = 10;
const maxBrokenAttempts = 3;

interface Dispatchers {
  readonly tls: TlsOptions;
  readonly requests: Dispatcher;
  readonly watches: Dispatcher;
}

/** The common part of all requests with the current credentials. */
interface Prepared {
  readonly headers: Readonly<Record<string, string>>;
  readonly dispatchers: Dispatchers;
  /** When the request got the credentials, as performance.now() returned it. */
  readonly usedMs: number;
}

const unauthorized = 401;

interface Sending {
  readonly pool: 'requests' | 'watches';
  readonly signal: AbortSignal;
}

/**
 * An HTTP transport to one apiserver. Contract:
 *
 * 1. At most `maxInFlight` requests are in flight; the others wait in a queue and leave it when their signal aborts.
 * 2. Watches have their own connections, which requests can neither starve nor slow down.
 * 3. HTTP/1.1 on purpose: a dead connection costs one request or one watch, not all of them, and the number of
 *    connections limits the load that one process puts on the apiserver. HTTP/2 was measured and is not faster here.
 * 4. A status of 400 and above, a timeout and a broken connection reject with KubeError; an abort rejects with its reason.
 * 5. Throttled requests (429 of priority and fairness) are retried within bounds. Rejected credentials are reloaded once.
 *    Reads are retried if the connection broke. Nothing else is retried: callers know what is safe.
 * 6. A request that its guard rejects is never written to a connection, however long it waited for one, and rejects with
 *    KubeError NotSent.
 */
export class Transport {
  readonly #credentials: CredentialSource;
  readonly #server: URL;
  readonly #proxyUrl: string | undefined;
  readonly #slots: Semaphore;
  readonly #options: TransportOptions;
  #dispatchers: Dispatchers | undefined;
  #clockOffsetMs: number | undefined;
  #closed = false;

  constructor(options: TransportOptions) {
    const cluster = options.config.getCurrentCluster();
    if (cluster === null) throw new Error('the kubeconfig names no cluster: load it with loadKubeConfig');
    this.#options = options;
    this.#server = new URL(cluster.server);
    this.#proxyUrl = cluster.proxyUrl;
    this.#credentials = new CredentialSource(options.config, undefined, options.reload);
    this.#slots = new Semaphore(options.maxInFlight);
  }

  /** Returns the body of a successful response. */
  async send(request: HttpRequest): Promise<string> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt(request);
      } catch (error) {
        const waitMs = this.#retryDelayMs(error, request, attempt);
        if (waitMs === undefined) throw error;
        await sleep(waitMs, request.signal);
        request.signal?.throwIfAborted();
      }
    }
  }

  /** Returns the body of a successful response as a stream, which ends when `signal` aborts. Only opening it can time out. */
  async open(request: HttpRequest & { signal: AbortSignal }): Promise<Readable> {
    const started = performance.now();
    let status: number | undefined;
    let isSent = true;
    try {
      const prepared = await this.#prepare(request);
      const response = await this.#dispatch(request, prepared, { pool: 'watches', signal: request.signal });
      status = response.statusCode;
      if (status >= 400) throw await responseError(request.name, response);
      return response.body;
    } catch (error) {
      isSent = !isKubeError(error, KubeErrorKind.NotSent);
      request.signal.throwIfAborted();
      throw error instanceof KubeError ? error : unavailable(request.name, error);
    } finally {
      if (isSent) this.#observe(request.name, status, started);
    }
  }

  /** Returns the time of the apiserver's clock, from the Date header of its responses; the local time before the first response. */
  now(): Date {
    return new Date(Date.now() + (this.#clockOffsetMs ?? 0));
  }

  /** Closes every connection; requests in progress reject. */
  async close(): Promise<void> {
    this.#closed = true;
    const dispatchers = this.#dispatchers;
    this.#dispatchers = undefined;
    await Promise.all([dispatchers?.requests.destroy(), dispatchers?.watches.destroy()]);
  }

  async #attempt(request: HttpRequest): Promise<string> {
    const release = request.urgent === true ? undefined : await this.#slots.acquire(request.signal);
    const started = performance.now();
    const timeoutMs = request.timeoutMs ?? requestTimeoutMs;
    let deadline: Deadline | undefined;
    let status: number | undefined;
    let isSent = true;
    try {
      const prepared = await this.#prepare(request);
      deadline = new Deadline(timeoutMs, `timed out after ${timeoutMs / 1000} s`, request.signal);
      const response = await this.#dispatch(request, prepared, { pool: 'requests', signal: deadline.signal });
      status = response.statusCode;
      if (status >= 400) throw await responseError(request.name, response);
      return await response.body.text();
    } catch (error) {
      isSent = !isKubeError(error, KubeErrorKind.NotSent);
      request.signal?.throwIfAborted();
      throw error instanceof KubeError ? error : unavailable(request.name, error);
    } finally {
      deadline?.dispose();
      release?.();
      if (isSent) this.#observe(request.name, status, started);
    }
  }

  async #dispatch(
    request: HttpRequest,
    { headers, dispatchers, usedMs }: Prepared,
    { pool, signal }: Sending,
  ) {
    const options: GuardedRequest = {
      guardedBy: request,
      origin: this.#server.origin,
      path: this.#pathOf(request),
      method: request.method,
      headers: {
        ...headers,
        accept: request.accept ?? 'application/json',
        'user-agent': this.#options.userAgent,
        ...(request.body === undefined ? {} : { 'content-type': request.contentType ?? 'application/json' }),
      },
      body: request.body === undefined ? null : JSON.stringify(request.body),
      // By default undici closes the connection after every DELETE that has a body.
      reset: false,
      signal,
    };
    const sentAtMs = Date.now();
    // undici ignores the signal while it connects, and drops aborted requests once it has a connection.
    const response = await abortable(dispatchers[pool].request(options), signal);
    if (response.statusCode === unauthorized) this.#credentials.forget(usedMs);
    this.#readClock(response.headers['date'], sentAtMs);
    const onWarning = request.onWarning ?? this.#options.onWarning;
    for (const text of warningsOf(response.headers['warning'])) onWarning?.(text);
    return response;
  }

  #pathOf({ path, query = {} }: HttpRequest): string {
    const parameters = Object.entries(query).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    );
    const prefix = this.#server.pathname.replace(/\/$/, '');
    return prefix + path + (parameters.length === 0 ? '' : `?${new URLSearchParams(parameters).toString()}`);
  }

  /** Reads the credentials, which may take as long as a user needs to log in. */
  async #prepare({ name, signal }: Pick<HttpRequest, 'name' | 'signal'>): Promise<Prepared> {
    if (this.#closed) throw new Error('the connection to the cluster was closed');
    const { headers, tls } = await abortable(this.#credentials.current(), signal).catch((cause: unknown) => {
      signal?.throwIfAborted();
      const apiMessage = `no credentials: ${credentialProblem(cause)}: check the user in the kubeconfig`;
      throw new KubeError({ kind: KubeErrorKind.Unauthorized, request: name, apiMessage, cause });
    });
    return { headers, dispatchers: this.#dispatchersFor(tls), usedMs: performance.now() };
  }

  /** Opens new connections after a rotation of the client certificate or the CA; the previous ones close when idle. */
  #dispatchersFor(tls: TlsOptions): Dispatchers {
    const current = this.#dispatchers;
    if (current !== undefined && sameTls(current.tls, tls)) return current;
    const next = {
      tls,
      requests: this.#dispatcher(tls, { connections: this.#options.maxInFlight + spareConnections }),
      watches: this.#dispatcher(tls, { headersTimeout: requestTimeoutMs }),
    };
    this.#dispatchers = next;
    void current?.requests.close();
    void current?.watches.close();
    return next;
  }

  /** Composes a dispatcher with the guards once: one that is composed for a single request is a fifth of its cost. */
  #dispatcher(tls: TlsOptions, limits: { connections?: number; headersTimeout?: number }): Dispatcher {
    return this.#connections(tls, limits).compose(withGuards);
  }

  #connections(tls: TlsOptions, limits: { connections?: number; headersTimeout?: number }): Dispatcher {
    const connect = {
      ...tls,
      // Otherwise every connection parses the certificates again.
      secureContext: createSecureContext(tls),
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
      timeout: 10_000,
    };
    const options = {
      allowH2: false,
      keepAliveTimeout: idleConnectionMs,
      headersTimeout: 0,
      bodyTimeout: 0,
      ...limits,
    };
    if (this.#proxyUrl === undefined) return new Agent({ ...options, connect });
    if (this.#proxyUrl.startsWith('socks')) {
      return new Socks5ProxyAgent(this.#proxyUrl, { ...options, requestTls: connect });
    }
    return new ProxyAgent({ ...options, uri: this.#proxyUrl, requestTls: connect });
  }

  #retryDelayMs(error: unknown, request: HttpRequest, attempt: number): number | undefined {
    if (this.#closed || !(error instanceof KubeError)) return undefined;
    if (error.kind === KubeErrorKind.Throttled && attempt < maxThrottledAttempts) {
      const backOffMs = Math.min(100 * 2 ** attempt, 5_000);
      return Math.max(backOffMs, (error.retryAfterSeconds ?? 0) * 1000) * (1 + Math.random() / 2);
    }
    if (isKubeError(error, KubeErrorKind.Unauthorized) && attempt === 1) return 0;
    if (isBroken(error) && request.method === 'GET' && attempt < maxBrokenAttempts) return 50 * attempt;
    return undefined;
  }

  /**
   * The Date header is truncated to seconds, so it is up to one second late: the largest offset is the best estimate, unless a response seems to be older
   * than its request: then one of the clocks was set. A process that was suspended reads responses long after they were sent.
   */
  #readClock(date: string | string[] | undefined, sentAtMs: number): void {
    const serverMs = Date.parse(String(date));
    if (Number.isNaN(serverMs)) return;
    const offsetMs = serverMs - Date.now();
    const known = this.#clockOffsetMs;
    const wasSet = known !== undefined && serverMs < sentAtMs + known - 2_000;
    if (known === undefined || offsetMs > known || wasSet) this.#clockOffsetMs = offsetMs;
  }

  #observe({ verb, resource }: RequestName, status: number | undefined, started: number): void {
    this.#options.onRequest?.({ verb, resource, status, seconds: (performance.now() - started) / 1000 });
  }
}

/** A credential plugin that says nothing, or is ended because it does not answer, fails without a message. */
function credentialProblem(cause: unknown): string {
  const isSilent = cause instanceof Error && cause.message === '';
  return isSilent ? 'the credential plugin failed, or did not answer in time' : errorMessage(cause);
}

/** Returns the texts of Warning headers as the apiserver writes them (RFC 7234): `299 - "text", 299 - "another"`. */
function warningsOf(header: string | string[] | undefined): string[] {
  const all = [header ?? []].flat().join(', ');
  return [...all.matchAll(/299 \S+ "((?:[^"\\]|\\.)*)"/g)].map(([, text = '']) =>
    text.replaceAll(/\\(.)/g, '$1'),
  );
}

/** The options of a request, which undici passes to the interceptors as they are. */
interface GuardedRequest extends Dispatcher.RequestOptions {
  readonly guardedBy: Pick<HttpRequest, 'guard' | 'name'>;
}

/** Calls the guard of a request when it starts, after all waiting for a slot, credentials and a connection. */
function withGuards(dispatch: Dispatcher['dispatch']): Dispatcher['dispatch'] {
  return (options, handler) => {
    const { guard, name } = (options as unknown as GuardedRequest).guardedBy;
    return dispatch(options, guard === undefined ? handler : new GuardedHandler(handler, { guard, name }));
  };
}

class GuardedHandler implements Dispatcher.DispatchHandler {
  readonly #handler: Dispatcher.DispatchHandler;
  readonly #guarded: { readonly guard: Guard; readonly name: RequestName };

  constructor(handler: Dispatcher.DispatchHandler, guarded: { guard: Guard; name: RequestName }) {
    this.#handler = handler;
    this.#guarded = guarded;
  }

  onRequestStart(...[controller, context]: HandlerArguments<'onRequestStart'>): void {
    const { guard, name } = this.#guarded;
    const rejection = guard();
    if (rejection !== undefined)
      throw new KubeError({ kind: KubeErrorKind.NotSent, request: name, apiMessage: rejection });
    this.#handler.onRequestStart?.(controller, context);
  }

  onResponseStart(...response: HandlerArguments<'onResponseStart'>): void {
    this.#handler.onResponseStart?.(...response);
  }

  onResponseData(...data: HandlerArguments<'onResponseData'>): void {
    this.#handler.onResponseData?.(...data);
  }

  onResponseEnd(...end: HandlerArguments<'onResponseEnd'>): void {
    this.#handler.onResponseEnd?.(...end);
  }

  onResponseError(...error: HandlerArguments<'onResponseError'>): void {
    this.#handler.onResponseError?.(...error);
  }
}

type HandlerArguments<Name extends keyof Dispatcher.DispatchHandler> = Parameters<
  NonNullable<Dispatcher.DispatchHandler[Name]>
>;

async function responseError(name: RequestName, response: Dispatcher.ResponseData): Promise<KubeError> {
  const retryAfter = response.headers['retry-after'];
  return errorOf(name, {
    status: response.statusCode,
    text: await response.body.text(),
    retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter,
  });
}

/** True if the connection broke during the request, for example because the apiserver restarted or closed an idle connection. */
function isBroken(error: KubeError): boolean {
  const code = (error.cause as { code?: unknown } | undefined)?.code;
  return code === 'UND_ERR_SOCKET' || code === 'ECONNRESET' || code === 'EPIPE';
}

function sameTls(a: TlsOptions, b: TlsOptions): boolean {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]) as Set<keyof TlsOptions>;
  return [...names].every((name) => {
    const [left, right] = [a[name], b[name]];
    return Buffer.isBuffer(left) && Buffer.isBuffer(right) ? left.equals(right) : left === right;
  });
}
