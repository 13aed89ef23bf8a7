import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, RequestOptions, ServerResponse } from 'node:http';
import { Agent, createServer, request as send, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'yaml';
import type { KeyPair } from '../../admission/keyPair.ts';
import { issueAuthority, issueServing } from '../../admission/issue.ts';
import { changedKubeconfig } from '../kube/fixtures.ts';
import type { ApiserverFault } from './fault.ts';
import { Overlapping } from './overlapping.ts';

/** The fault that the proxy causes now; undefined: it forwards. `Cut` and `CutWatches` happen once. */
type Mode = Exclude<ApiserverFault, 'Cut' | 'CutWatches'> | undefined;

const delayMs = 500;
const hourMs = 3_600_000;

/** Certificates that the proxy presents to the workers, usually and while its certificate has expired. */
interface Certificates {
  valid: KeyPair;
  expired: KeyPair;
}

/**
 * A proxy in front of an apiserver. It terminates TLS, so that it can answer, lose, truncate and repeat single requests; connections can be
 * refused, cut, delayed and frozen, too.
 */
export class UnreliableApiserver {
  readonly #server: Server;
  readonly #certificates: Certificates;
  readonly #upstream: URL;
  readonly #agent: Agent;
  readonly #sockets = new Set<Socket>();
  /** Remote port -> the connection below TLS, which is the one that can be reset. */
  readonly #connections = new Map<number, Socket>();
  /** Connections that carry a watch. */
  readonly #watches = new Set<Socket>();
  /** Connections that forward nothing any more, and stay open. */
  readonly #frozen = new Set<Socket>();
  #mode: Mode;
  readonly #faults = new Overlapping<NonNullable<Mode>>((mode) => this.#setMode(mode));
  #evictionAnswer: StatusAnswer | undefined;

  private constructor(server: Server, certificates: Certificates, upstream: URL, agent: Agent) {
    this.#server = server;
    this.#certificates = certificates;
    this.#upstream = upstream;
    this.#agent = agent;
    server.on('connection', (socket: Socket) => {
      socket.on('error', () => undefined);
      if (this.#mode === 'Refuse') socket.resetAndDestroy();
      else this.#accepted(socket);
    });
    server.on('secureConnection', (socket) => this.#connected(socket));
    server.on(
      'request',
      (incoming, outgoing) => void this.#serve(incoming, outgoing).catch(() => outgoing.destroy()),
    );
    server.on('tlsClientError', () => undefined);
  }

  /** Starts a proxy in front of the apiserver of a kubeconfig, and returns it with a kubeconfig that uses it. */
  static async before(
    kubeconfig: string,
  ): Promise<{ apiserver: UnreliableApiserver; kubeconfig: string; close: () => Promise<void> }> {
    const { clusters } = parse(readFileSync(kubeconfig, 'utf8')) as {
      clusters: [{ cluster: { server: string; 'certificate-authority-data': string } }];
    };
    const [{ cluster }] = clusters;
    const now = Date.now();
    const validity = { notBefore: now - 2 * hourMs, notAfter: now + 24 * hourMs };
    const authority = await issueAuthority(validity);
    const issue = (notAfter: number) => issueServing(authority, ['127.0.0.1'], { ...validity, notAfter });
    const certificates = { valid: await issue(validity.notAfter), expired: await issue(now - hourMs) };
    const server = createServer(contextOf(certificates.valid));
    const ca = Buffer.from(cluster['certificate-authority-data'], 'base64');
    const agent = new Agent({ keepAlive: true, ca });
    const apiserver = new UnreliableApiserver(server, certificates, new URL(cluster.server), agent);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const authorityData = Buffer.from(authority.certificate).toString('base64');
    const changed = { server: `https://127.0.0.1:${port}`, 'certificate-authority-data': authorityData };
    const copy = await changedKubeconfig(kubeconfig, { cluster: changed });
    const close = async () => {
      apiserver.#cut(apiserver.#sockets);
      server.close();
      agent.destroy();
      await copy.remove();
    };
    return { apiserver, kubeconfig: copy.path, close };
  }

  /** Begins a fault, and returns what ends it. */
  begin(fault: ApiserverFault): () => void {
    if (fault === 'Cut' || fault === 'CutWatches') {
      this.#cut(fault === 'Cut' ? this.#sockets : this.#watches);
      return () => undefined;
    }
    const end = this.#faults.begin(fault);
    if (fault === 'Refuse' || fault === 'ExpiredCertificate') this.#cut(this.#sockets);
    if (fault === 'Freeze') for (const socket of this.#sockets) this.#frozen.add(socket);
    return () => {
      end();
      // What was frozen or swallowed stays silent.
      this.#cut(this.#frozen);
    };
  }

  #setMode(mode: Mode): void {
    const { valid, expired } = this.#certificates;
    const isChanged = (mode === 'ExpiredCertificate') !== (this.#mode === 'ExpiredCertificate');
    this.#mode = mode;
    if (isChanged) this.#server.setSecureContext(contextOf(mode === 'ExpiredCertificate' ? expired : valid));
  }

  /** Answers evictions with this Status until all faults end. */
  answerEvictions(answer: StatusAnswer): void {
    this.#evictionAnswer = answer;
  }

  /** Ends all faults, and closes the connections that are frozen. */
  end(): void {
    this.#faults.end();
    this.#evictionAnswer = undefined;
    this.#cut(this.#frozen);
  }

  #cut(sockets: ReadonlySet<Socket>): void {
    for (const { remotePort = 0 } of sockets) this.#connections.get(remotePort)?.resetAndDestroy();
  }

  #accepted(socket: Socket): void {
    const { remotePort = 0 } = socket;
    this.#connections.set(remotePort, socket);
    socket.on('close', () => this.#connections.delete(remotePort));
  }

  #connected(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      for (const sockets of [this.#sockets, this.#watches, this.#frozen]) sockets.delete(socket);
    });
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { socket, url = '' } = incoming;
    for (const end of [incoming, outgoing]) end.on('error', () => undefined);
    const body = await buffer(incoming);
    if (this.#mode === 'Swallow') this.#frozen.add(socket);
    if (this.#frozen.has(socket)) return;
    if (url.includes('watch=')) {
      this.#watches.add(socket);
      outgoing.on('close', () => this.#watches.delete(socket));
    }
    if (this.#evictionAnswer !== undefined && url.endsWith('/eviction')) {
      sendStatus(outgoing, this.#evictionAnswer);
      return;
    }
    const status = statusOf(this.#mode, incoming);
    if (status !== undefined) {
      answerWith(outgoing, status);
      return;
    }
    if (this.#mode === 'Delay') await sleep(delayMs);
    if (this.#mode === 'Repeat' && isRepeatable(incoming)) await buffer(await this.#forward(incoming, body));
    const answer = await this.#forward(incoming, body);
    outgoing.on('close', () => answer.destroy());
    if (this.#mode === 'LoseAnswers') outgoing.destroy();
    else await this.#relay(answer, outgoing, socket);
  }

  async #relay(answer: IncomingMessage, outgoing: ServerResponse, socket: Socket): Promise<void> {
    outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
    outgoing.flushHeaders();
    for await (const part of answer as AsyncIterable<Buffer>) {
      // It is closed when the fault ends.
      if (this.#frozen.has(socket)) return;
      if (this.#mode === 'Delay') await sleep(delayMs);
      if (this.#mode === 'Truncate') {
        outgoing.write(part.subarray(0, part.length / 2), () => outgoing.destroy());
        return;
      }
      if (outgoing.destroyed) return;
      outgoing.write(part);
    }
    outgoing.end();
  }

  #forward({ method, url = '', headers }: IncomingMessage, body: Buffer): Promise<IncomingMessage> {
    const options: RequestOptions = {
      method,
      headers: { ...headers, host: this.#upstream.host },
      agent: this.#agent,
    };
    return new Promise((resolve, reject) => {
      const request = send(new URL(url, this.#upstream), options, (answer) => {
        answer.on('error', () => undefined);
        resolve(answer);
      });
      request.once('error', reject);
      request.end(body);
    });
  }
}

function contextOf({ certificate, key }: KeyPair): { cert: string; key: string } {
  return { cert: certificate, key };
}

/** Returns the status with which a request is answered; undefined if it is forwarded. No read is answered with a conflict. */
function statusOf(mode: Mode, { method }: IncomingMessage): number | undefined {
  const [, status] = /^Answer(\d+)$/.exec(mode ?? '') ?? [];
  const isImpossible = status === undefined || (status === '409' && method === 'GET');
  return isImpossible ? undefined : Number(status);
}

/** Answers as the apiserver does: with a Status, and if it is overloaded with the time after which to try again. */
function answerWith(outgoing: ServerResponse, code: number): void {
  const reasons: Record<number, string> = {
    401: 'Unauthorized',
    409: 'Conflict',
    429: 'TooManyRequests',
    500: 'InternalError',
    503: 'ServiceUnavailable',
  };
  sendStatus(outgoing, { code, reason: reasons[code], message: 'injected by a test' });
}

/** Fields of the Status that the apiserver answers with if a request fails. */
interface StatusAnswer {
  code: number;
  reason?: string | undefined;
  message: string;
  details?: object;
}

function sendStatus(outgoing: ServerResponse, answer: StatusAnswer): void {
  outgoing.writeHead(answer.code, {
    'content-type': 'application/json',
    ...(answer.code === 429 && { 'retry-after': '1' }),
  });
  outgoing.end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', ...answer }));
}

/** A second eviction would be one that the proxy, and not the worker, asks for. */
function isRepeatable({ url = '' }: IncomingMessage): boolean {
  return !url.includes('watch=') && !url.endsWith('/eviction');
}
