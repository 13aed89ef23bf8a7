import { once } from 'node:events';
import {
  connect,
  constants,
  createSecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { KeyPair } from '../../admission/certificates.ts';

/** What a front has against a call of gRPC: its code, and words. */
export interface Denial {
  code: number;
  words: string;
}

export interface TlsFront {
  /** `localhost` and its port. */
  address: string;
  /** Headers of every call that was let through. */
  calls: IncomingHttpHeaders[];
  close(): Promise<void>;
}

interface FrontOptions {
  /** Address of the Temporal server behind it, which speaks plainly. */
  target: string;
  serving: KeyPair;
  /** Where clients must have a certificate: of this authority. */
  clientAuthority?: string;
  denies?: (headers: IncomingHttpHeaders) => Denial | undefined;
}

/**
 * TLS before a development server, which has none of its own: ends it as a load balancer does, judges each call by its real
 * HTTP/2 headers, and hands on what is let through.
 */
export async function tlsFront({
  target,
  serving,
  clientAuthority,
  denies,
}: FrontOptions): Promise<TlsFront> {
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
  // Whoever breaks off a handshake or a connection is the test.
  behind.on('error', () => undefined);
  server.on('sessionError', () => undefined);
  server.on('session', (session) => sessions.add(session));
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    const denial = denies?.(headers);
    if (denial !== undefined) {
      const status = { 'grpc-status': String(denial.code), 'grpc-message': denial.words };
      stream.respond({ ':status': 200, 'content-type': 'application/grpc', ...status }, { endStream: true });
      return;
    }
    calls.push(headers);
    handOn(stream, behind.request({ ...headers, ':scheme': 'http' }));
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  return {
    address: `localhost:${(server.address() as AddressInfo).port}`,
    calls,
    close: async () => {
      for (const session of sessions) session.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function handOn(stream: ServerHttp2Stream, onward: ReturnType<ReturnType<typeof connect>['request']>): void {
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
