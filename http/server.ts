import {
  createServer as createHttp,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server as HttpServer,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttps, type Server as HttpsServer } from 'node:https';
import type { Server as NetServer, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { Bodies } from './bodies.ts';
import { closeAfter, Connections, type OpenConnection } from './connections.ts';
import { type Cors, corsHeaders, preflightHeaders } from './cors.ts';

export interface Answer {
  status: number;
  type: string;
  body: string;
  headers?: Readonly<Record<string, string>>;
}

/** A handler of the requests to a path. */
export interface Route {
  /** GET includes HEAD. The body of a POST is JSON. */
  readonly method: 'GET' | 'POST';
  /** Returns the answer to a request that is not allowed, whose body is then not read. */
  readonly authorize?: (headers: IncomingHttpHeaders) => Promise<Answer | undefined>;
  /** The body is empty for GET. The signal aborts when the connection closes, which it does after `responseTimeoutMs` at the latest. */
  readonly respond: (body: string, signal: AbortSignal) => Promise<Answer> | Answer;
}

/** Bounds what peers can make a server spend. Every connection and request ends by them, whatever the peer sends. */
export interface Limits {
  /** A new connection beyond it closes another one; `connectionToClose` says which. */
  readonly maxConnections: number;
  /** Requests that are handled at the same time; further ones are answered with 503. */
  readonly maxRequests: number;
  readonly maxHeaderBytes: number;
  readonly maxBodyBytes: number;
  /** Memory for the bodies of all requests. */
  readonly maxBufferedBytes: number;
  /** Time from the opening of a connection to the end of its TLS handshake, and from there, or from a request's first byte, to its last header. */
  readonly headersTimeoutMs: number;
  /** Time from the first byte of a request to its last. */
  readonly requestTimeoutMs: number;
  /** Time from the last header of a request to the last byte of its response. */
  readonly responseTimeoutMs: number;
  /** Time from a response to the next request. */
  readonly idleTimeoutMs: number;
}

/** Limits for servers of a few small pages. */
export const defaultLimits: Limits = {
  maxConnections: 64,
  maxRequests: 32,
  maxHeaderBytes: 8 * 1024,
  maxBodyBytes: 0,
  maxBufferedBytes: 0,
  headersTimeoutMs: 5_000,
  requestTimeoutMs: 10_000,
  responseTimeoutMs: 30_000,
  idleTimeoutMs: 5_000,
};

/** Why a server closed a connection, or did not handle a request for a path that it serves. */
export const Rejection = {
  ConnectionLimit: 'ConnectionLimit',
  RequestLimit: 'RequestLimit',
  MemoryLimit: 'MemoryLimit',
  SizeLimit: 'SizeLimit',
  Timeout: 'Timeout',
  Malformed: 'Malformed',
  Pipelined: 'Pipelined',
  Tls: 'Tls',
  /** The handler failed. */
  Failed: 'Failed',
} as const;
export type Rejection = (typeof Rejection)[keyof typeof Rejection];

export interface ServerOptions {
  /** Names the server in logs and metrics. */
  readonly name: string;
  /** Routes by path, without a query. */
  readonly routes: Readonly<Record<string, Route>>;
  /** Whether the routes are also found below any other path, such as /decode at /default/decode. */
  readonly hasPrefixes?: boolean;
  /** Undefined: only pages of the same origin may call it. */
  readonly cors?: Cors | undefined;
  readonly limits: Limits;
  readonly log: Log;
  readonly onRejection: (server: string, reason: Rejection) => void;
}

/** How often Node closes connections that exceed the timeouts of headers and requests. */
const timeoutCheckMs = 1_000;

/**
 * Creates a server that no peer can end or exhaust. Contract:
 *
 * 1. Only the methods of the routes are answered; else 404 or 405.
 * 2. A handler that throws is answered with 500, and logged. No error of a connection, of TLS or of accepting ends the process.
 * 3. Every limit holds for every peer, and none of them lets one peer keep out the others (`connectionToClose`, `Bodies`).
 * 4. One request at a time is read from a connection: one that pipelines is closed.
 */
export function createHttpServer(options: ServerOptions): HttpServer {
  const exchanges = new Exchanges(options);
  return exchanges.protect(createHttp(nodeOptions(options), exchanges.onRequest));
}

/** The clients that a server over TLS answers, by their certificates. */
export interface AcceptedClients {
  /** Accepted common names; empty: every name. */
  readonly names: readonly string[];
}

/**
 * Creates the same over TLS. The caller sets the certificate (`setSecureContext`): until then every handshake fails. With `clients`, which
 * need a certificate, it must also set `ca`: otherwise Node accepts those of every public authority.
 */
export function createHttpsServer(options: ServerOptions, clients?: AcceptedClients): HttpsServer {
  const exchanges = new Exchanges(options);
  const handshakeTimeout = options.limits.headersTimeoutMs;
  const isRequired = clients !== undefined;
  const tls = { handshakeTimeout, requestCert: isRequired, rejectUnauthorized: isRequired };
  const server = exchanges.protect(createHttps({ ...nodeOptions(options), ...tls }, exchanges.onRequest));
  if (clients !== undefined) server.on('secureConnection', exchanges.closeOthers(clients));
  return server;
}

function nodeOptions({ limits }: ServerOptions) {
  return {
    maxHeaderSize: limits.maxHeaderBytes,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.idleTimeoutMs,
    connectionsCheckingInterval: Math.min(timeoutCheckMs, limits.headersTimeoutMs),
  };
}

class Exchanges {
  readonly #options: ServerOptions;
  readonly #connections: Connections;
  readonly #bodies: Bodies;
  #handled = 0;

  constructor(options: ServerOptions) {
    this.#options = options;
    this.#connections = new Connections(options.limits.maxConnections);
    this.#bodies = new Bodies(options.limits, () => this.#reject(Rejection.MemoryLimit));
  }

  protect<S extends NetServer>(server: S): S {
    const { name, log } = this.#options;
    server.on('connection', (socket: Socket) => {
      if (this.#connections.add(socket)) this.#reject(Rejection.ConnectionLimit);
    });
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) =>
      this.#onClientError(error, socket),
    );
    // Such as too many open files. An error of `listen` is its caller's.
    server.on('error', (error) => {
      if (server.listening)
        log.error('Connection could not be accepted', { server: name, error: error.message });
    });
    return server;
  }

  /** Returns a listener that closes connections of other clients, before a request is read from them. */
  closeOthers({ names }: AcceptedClients): (socket: TLSSocket) => void {
    const { name, log } = this.#options;
    return (socket) => {
      const commonName = socket.getPeerCertificate().subject?.CN;
      const isAccepted = names.length === 0 || (typeof commonName === 'string' && names.includes(commonName));
      if (socket.authorized && isAccepted) return;
      this.#reject(Rejection.Tls);
      log.warn('Client was rejected', { server: name, commonName });
      socket.destroy();
    };
  }

  readonly onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const connection = this.#connections.of(request.socket);
    const isPipelined = connection?.response !== undefined;
    if (connection === undefined || isPipelined) {
      if (isPipelined) this.#reject(Rejection.Pipelined);
      request.socket.destroy();
      return;
    }
    connection.response = response;
    this.#exchange(request, response, connection).catch(() => request.socket.destroy());
  };

  async #exchange(request: IncomingMessage, response: ServerResponse, connection: OpenConnection) {
    const { responseTimeoutMs, idleTimeoutMs, headersTimeoutMs } = this.#options.limits;
    const closed = new AbortController();
    closeAfter(connection, responseTimeoutMs, () => this.#reject(Rejection.Timeout));
    response.once('finish', () => {
      connection.response = undefined;
    });
    response.once('close', () => {
      // Node's own timeout starts again with every byte, also with those that begin no request.
      closeAfter(connection, idleTimeoutMs + headersTimeoutMs);
      closed.abort(new Error('the client closed the connection'));
    });
    // Without these listeners an error that arrives late would end the process.
    for (const stream of [request, response]) stream.on('error', () => request.socket.destroy());
    const answer = await this.#answer(request, connection, closed.signal);
    const { cors } = this.#options;
    send(response, cors === undefined ? answer : withHeaders(answer, corsHeaders(cors, request.headers)));
  }

  async #answer(request: IncomingMessage, connection: OpenConnection, signal: AbortSignal): Promise<Answer> {
    const { cors } = this.#options;
    const path = this.#pathOf(request);
    const route = this.#routeAt(path);
    if (route === undefined) return text(404, 'not found');
    if (cors !== undefined && request.method === 'OPTIONS')
      return withHeaders(text(204, ''), preflightHeaders(cors, route.method));
    const methods = route.method === 'GET' ? ['GET', 'HEAD'] : [route.method];
    if (!methods.includes(request.method ?? ''))
      return withHeaders(text(405, `expected ${methods.join(' or ')}`), { allow: methods.join(', ') });
    const denial = await this.#authorize(route, request, path);
    if (denial !== undefined) return denial;
    if (route.method === 'GET') return this.#handle(connection, path, () => route.respond('', signal));
    if (!/^application\/json\b/.test(request.headers['content-type'] ?? ''))
      return text(415, 'expected content-type application/json');
    const body = await this.#bodies.read(request, signal);
    if (body.kind === 'Whole') return this.#handle(connection, path, () => route.respond(body.text, signal));
    this.#reject(Rejection.SizeLimit);
    return text(413, `expected a body of at most ${this.#options.limits.maxBodyBytes} bytes`);
  }

  #pathOf({ url = '' }: IncomingMessage): string {
    const [path = ''] = url.split('?', 1);
    return this.#options.hasPrefixes ? path.slice(path.lastIndexOf('/')) : path;
  }

  #routeAt(path: string): Route | undefined {
    const { routes } = this.#options;
    return Object.hasOwn(routes, path) ? routes[path] : undefined;
  }

  async #authorize({ authorize }: Route, { headers }: IncomingMessage, path: string) {
    try {
      return await authorize?.(headers);
    } catch (error) {
      return this.#failed(path, error);
    }
  }

  #failed(path: string, error: unknown): Answer {
    const { name, log } = this.#options;
    this.#reject(Rejection.Failed);
    log.error('Request failed', { server: name, path, error: errorMessage(error) });
    return text(500, 'internal error');
  }

  async #handle(
    connection: OpenConnection,
    path: string,
    respond: () => Promise<Answer> | Answer,
  ): Promise<Answer> {
    const { limits } = this.#options;
    if (this.#handled >= limits.maxRequests) {
      this.#reject(Rejection.RequestLimit);
      return withHeaders(text(503, 'too many requests'), { 'retry-after': '1' });
    }
    this.#handled += 1;
    connection.isHandled = true;
    try {
      return await respond();
    } catch (error) {
      return this.#failed(path, error);
    } finally {
      this.#handled -= 1;
      this.#connections.handled(connection);
    }
  }

  /** Answers, if no answer has started. Node passes the errors of the TLS handshake too, which nothing can be answered to. */
  #onClientError({ code = '' }: NodeJS.ErrnoException, socket: Socket): void {
    // Node has closed the connection: the certificate of the client is not one of its authorities.
    if ((socket as Partial<TLSSocket>).authorizationError) return this.#reject(Rejection.Tls);
    const connection = this.#connections.of(socket);
    const { reason, status } = clientErrors[code] ?? clientErrorOf(code);
    if (connection !== undefined && reason !== undefined) this.#reject(reason);
    const isAnswered = connection?.response?.headersSent === true;
    if (status === undefined || isAnswered || !socket.writable) {
      socket.destroy();
      return;
    }
    socket.write(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
    if (connection !== undefined) closeAfter(connection, this.#options.limits.headersTimeoutMs);
    socket.destroySoon();
  }

  #reject(reason: Rejection): void {
    this.#options.onRejection(this.#options.name, reason);
  }
}

interface ClientError {
  /** Undefined: the peer closed the connection. */
  reason?: Rejection;
  status?: string;
}

const clientErrors: Readonly<Record<string, ClientError>> = {
  ERR_HTTP_REQUEST_TIMEOUT: { reason: Rejection.Timeout, status: '408 Request Timeout' },
  ERR_TLS_HANDSHAKE_TIMEOUT: { reason: Rejection.Timeout },
  HPE_HEADER_OVERFLOW: { reason: Rejection.SizeLimit, status: '431 Request Header Fields Too Large' },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { reason: Rejection.SizeLimit, status: '413 Payload Too Large' },
};

function clientErrorOf(code: string): ClientError {
  if (code.startsWith('HPE_')) return { reason: Rejection.Malformed, status: '400 Bad Request' };
  return /^ERR_(SSL|TLS)_/.test(code) ? { reason: Rejection.Tls } : {};
}

function text(status: number, line: string): Answer {
  return { status, type: 'text/plain', body: line === '' ? '' : `${line}\n` };
}

function withHeaders(answer: Answer, headers: Readonly<Record<string, string>>): Answer {
  return { ...answer, headers: { ...answer.headers, ...headers } };
}

function send(response: ServerResponse, { status, type, body, headers }: Answer): void {
  if (response.destroyed) return;
  const content = body === '' ? {} : { 'content-type': type };
  response.writeHead(status, { ...content, ...headers }).end(body);
}
