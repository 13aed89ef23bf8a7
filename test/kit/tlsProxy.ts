import { once } from 'node:events';
import {
  connect,
  constants,
  createSecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { KeyPair } from '../../admission/keyPair.ts';

/** The gRPC status of a denied call. */
export interface Denial {
  code: number;
  message: string;
}

export interface TlsProxy {
  /** `localhost` and its port. */
  address: string;
  /** Headers of every call that was forwarded. */
  calls: IncomingHttpHeaders[];
  /** Paths of the calls with each client certificate, by its serial number. */
  callsOf(serialNumber: string): readonly string[];
  /** Ends the connections of a client certificate, and accepts none any more, as if it had expired. */
  revoke(serialNumber: string): void;
  close(): Promise<void>;
}

interface TlsProxyOptions {
  /** Address of the Temporal server behind it, without TLS. */
  target: string;
  serving: KeyPair;
  /** If set, clients need a certificate of this authority. */
  clientAuthority?: string;
  denies?: (headers: IncomingHttpHeaders) => Denial | undefined;
}

/**
 * Starts a proxy that adds TLS to a development server, which has none. It terminates TLS as a load balancer does, checks the
 * real HTTP/2 headers of each call, and forwards what it does not deny.
 */
export async function startTlsProxy({
  target,
  serving,
  clientAuthority,
  denies,
}: TlsProxyOptions): Promise<TlsProxy> {
  const calls: IncomingHttpHeaders[] = [];
  const server = createSecureServer({
    cert: serving.certificate,
    key: serving.key,
    ...(clientAuthority !== undefined && {
      ca: clientAuthority,
      requestCert: true,
      rejectUnauthorized: true,
    }),
  });
  const behind = connect(`http://${target}`);
  const sessions = new Set<{ destroy(): void }>([behind]);
  const callsOf = new Map<string, string[]>();
  const revoked = new Set<string>();
  // Tests break off handshakes and connections on purpose.
  behind.on('error', () => undefined);
  server.on('sessionError', () => undefined);
  server.on('session', (session) => {
    sessions.add(session);
    if (revoked.has(serialNumberOf(session.socket))) session.destroy();
  });
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    const serialNumber = serialNumberOf(stream.session?.socket);
    callsOf.set(serialNumber, [...(callsOf.get(serialNumber) ?? []), headers[':path'] ?? '']);
    const denial = denies?.(headers);
    if (denial !== undefined) {
      const status = { 'grpc-status': String(denial.code), 'grpc-message': denial.message };
      stream.respond({ ':status': 200, 'content-type': 'application/grpc', ...status }, { endStream: true });
      return;
    }
    calls.push(headers);
    // The server behind has closed the connection: the client tries again.
    if (behind.destroyed) return stream.close();
    forward(stream, behind.request({ ...headers, ':scheme': 'http' }));
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  return {
    address: `localhost:${(server.address() as AddressInfo).port}`,
    calls,
    callsOf: (serialNumber) => callsOf.get(serialNumber) ?? [],
    revoke: (serialNumber) => {
      revoked.add(serialNumber);
      for (const session of sessions)
        if ('socket' in session && serialNumberOf(session.socket) === serialNumber) session.destroy();
    },
    close: async () => {
      for (const session of sessions) session.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Returns '' for a client without a certificate. */
function serialNumberOf(socket: unknown): string {
  // The socket of an HTTP/2 session is a proxy, which may be asked for the certificate only while it is open.
  try {
    return (socket as TLSSocket | undefined)?.getPeerCertificate?.()?.serialNumber ?? '';
  } catch {
    return '';
  }
}

function forward(stream: ServerHttp2Stream, onward: ReturnType<ReturnType<typeof connect>['request']>): void {
  let trailers: IncomingHttpHeaders = {};
  for (const end of [stream, onward]) end.on('error', () => undefined);
  onward.on('response', (headers, flags) => {
    if (stream.destroyed) return;
    const isAll = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    stream.respond(headers, isAll ? { endStream: true } : { waitForTrailers: true });
  });
  onward.on('trailers', (last) => (trailers = last));
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  stream.on('close', () => onward.close());
  stream.pipe(onward);
  onward.pipe(stream);
}
