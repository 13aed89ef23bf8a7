import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { oneLine as oneLineOf } from '../domain/common/text.ts';
import type { ConnectionSettings } from './connection.ts';

/**
 * Calls Temporal. Rejects with an Error of one line that names the wrong setting and the remedy. The SDK reports a failed handshake as
 * "Failed to connect before the deadline" or as a transport error, so the handshake is repeated to find the cause.
 */
export async function explainFailure<T>(settings: ConnectionSettings, attempt: () => Promise<T>): Promise<T> {
  try {
    return await attempt();
  } catch (error) {
    const reason = rejection(settings, error) ?? (await connectionProblem(settings));
    throw reason === undefined ? error : new Error(reason, { cause: error });
  }
}

/** Status codes of gRPC. */
export const Code = {
  InvalidArgument: 3,
  DeadlineExceeded: 4,
  NotFound: 5,
  PermissionDenied: 7,
  Unimplemented: 12,
  Unavailable: 14,
  Unauthenticated: 16,
} as const;

/** Finds the gRPC status in an error of the SDK or one of its causes. */
export function grpcStatusOf(error: unknown): { code: number; details: string } | undefined {
  const { code, details, cause } = (error ?? {}) as { code?: unknown; details?: unknown; cause?: unknown };
  if (typeof code === 'number') return { code, details: typeof details === 'string' ? details : '' };
  return cause === undefined ? undefined : grpcStatusOf(cause);
}

const maxLineLength = 1_000;

/** Returns the message of the server if there is one, else that of the error, as one line. */
export function oneLine(error: unknown): string {
  const details = grpcStatusOf(error)?.details ?? '';
  const message = error instanceof Error ? error.message : String(error);
  const [line = ''] = (details === '' ? message : details).split('\n');
  return oneLineOf(line, maxLineLength);
}

/** Explains why the server rejected the request. Returns undefined if there is no such status. */
function rejection(
  { connectionOptions, namespace, address }: ConnectionSettings,
  error: unknown,
): string | undefined {
  const status = grpcStatusOf(error);
  if (status === undefined) return undefined;
  const details = status.details === '' ? '' : ` (${status.details})`;
  switch (status.code) {
    case Code.NotFound:
      return `namespace (TEMPORAL_NAMESPACE): ${address} has no namespace "${namespace}"${details}: correct it, or create it with npm run temporal-config -- apply`;
    case Code.PermissionDenied:
    case Code.Unauthenticated:
      return connectionOptions.apiKey === undefined
        ? `api_key (TEMPORAL_API_KEY): ${address} requires credentials${details}, and no key is set: set one that may use namespace "${namespace}"`
        : `api_key (TEMPORAL_API_KEY): ${address} rejects the key${details}: set a valid key that may use namespace "${namespace}", or correct the namespace`;
    default:
      return undefined;
  }
}

const answerTimeoutMs = 5_000;

/** Connection preface of HTTP/2 (RFC 9113, 3.4) with empty settings; a server that supports HTTP/2 answers with its own. */
const preface = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);

/** First byte of a TLS alert, which is the answer of a server that expected TLS. */
const tlsAlert = 0x15;

/** Returns one line that names the setting and the remedy; undefined if the server accepts the connection. */
async function connectionProblem({
  connectionOptions,
  address,
}: ConnectionSettings): Promise<string | undefined> {
  const { tls } = connectionOptions;
  if (tls === undefined || tls === null || tls === false) return plainProblem(address);
  const tlsOptions = tls === true ? {} : tls;
  const { host, port } = hostAndPort(address);
  const { crt, key } = tlsOptions.clientCertPair ?? {};
  const serverName = tlsOptions.serverNameOverride ?? (isIP(host) === 0 ? host : undefined);
  const probed = await probe(
    connectTls({
      host,
      port,
      ...(serverName !== undefined && { servername: serverName }),
      ALPNProtocols: ['h2'],
      ...(tlsOptions.serverRootCACertificate && { ca: Buffer.from(tlsOptions.serverRootCACertificate) }),
      ...(crt && key && { cert: Buffer.from(crt), key: Buffer.from(key) }),
    }),
    'secureConnect',
  );
  if (probed.kind === 'Answer') return undefined;
  return tlsProblem(probed, address, crt !== undefined);
}

async function plainProblem(address: string): Promise<string | undefined> {
  const probed = await probe(connectPlain(hostAndPort(address)), 'connect');
  if (probed.kind === 'Answer' && probed.first !== tlsAlert) return undefined;
  if (!probed.connected || probed.kind === 'Timeout') return noResponse(address, probed);
  return `tls: ${address} does not accept unencrypted connections, and probably requires TLS: add a table tls to the profile, or set TEMPORAL_TLS=true`;
}

type ProbeResult = { connected: boolean } & (
  | { kind: 'Answer'; first: number | undefined }
  /** The server closed the connection. */
  | { kind: 'Closed' }
  /** The server keeps the connection and does not respond: one that expects TLS, or a certificate, would close it. */
  | { kind: 'Timeout' }
  | { kind: 'Error'; code: string; message: string }
);

/** Sends the preface and waits for the answer. A client sees the rejection of its certificate only after the handshake. */
function probe(socket: Socket | TLSSocket, connectedOn: 'connect' | 'secureConnect'): Promise<ProbeResult> {
  return new Promise((resolve) => {
    let connected = false;
    const end = (result: { kind: 'Closed' | 'Timeout' } | { kind: 'Answer'; first: number | undefined }) => {
      resolve({ connected, ...result });
      socket.destroy();
    };
    socket.setTimeout(answerTimeoutMs, () => end({ kind: 'Timeout' }));
    socket.once(connectedOn, () => {
      connected = true;
      socket.write(preface);
    });
    socket.once('data', (data: Buffer) => end({ kind: 'Answer', first: data[0] }));
    socket.once('close', () => end({ kind: 'Closed' }));
    socket.once('error', ({ code = '', message }: NodeJS.ErrnoException) => {
      resolve({ connected, kind: 'Error', code, message });
      socket.destroy();
    });
  });
}

function tlsProblem(
  probed: Exclude<ProbeResult, { kind: 'Answer' }>,
  address: string,
  hasCertificate: boolean,
): string {
  const { code, message } = probed.kind === 'Error' ? probed : { code: '', message: '' };
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `tls.server_name (TEMPORAL_TLS_SERVER_NAME): ${message}: correct the address, or set the name that the certificate is valid for`;
  if (code === 'CERT_HAS_EXPIRED') return `the certificate of ${address} has expired: renew it at the server`;
  if (untrusted.has(code))
    return `tls.server_ca_cert_path (TEMPORAL_TLS_SERVER_CA_CERT_PATH): the certificate of ${address} is not signed by a trusted CA (${code}): set the CA that signed it`;
  if (message.includes('wrong version number'))
    return `tls: ${address} does not support TLS: remove tls and api_key from the profile, or set TEMPORAL_TLS=false`;
  if (probed.kind === 'Timeout') return noResponse(address, probed);
  // A server that closes the connection after the handshake rejects the certificate, or requires one.
  if (probed.connected || message.includes('alert'))
    return hasCertificate
      ? `tls.client_cert_path (TEMPORAL_TLS_CLIENT_CERT_PATH): ${address} rejects the certificate${alertIn(message)}: use one that its CA has signed`
      : `tls.client_cert_path (TEMPORAL_TLS_CLIENT_CERT_PATH): ${address} requires a client certificate${alertIn(message)}, and none is set: set the certificate and its key`;
  return noResponse(address, probed);
}

/** Error codes of OpenSSL in Node.js. */
const untrusted = new Set([
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'CERT_SIGNATURE_FAILURE',
]);

/** Extracts the alert from a message of OpenSSL such as `... alert certificate required ...`. */
function alertIn(message: string): string {
  const [, alert] = /alert ([a-z ]+)/.exec(message) ?? [];
  return alert === undefined ? '' : ` (${alert.trim()})`;
}

function noResponse(address: string, probed: ProbeResult): string {
  const reason = probed.kind === 'Error' ? probed.code || probed.message : 'timeout';
  return `address (TEMPORAL_ADDRESS): no response from ${address} (${reason}): correct the address, or start Temporal there`;
}

function hostAndPort(address: string): { host: string; port: number } {
  const [, host = address, port = '7233'] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(address) ?? [];
  return { host, port: Number(port) };
}
