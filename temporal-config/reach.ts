import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { TemporalSettings } from './connection.ts';

/**
 * What the attempt to talk to Temporal gives; rejects with an Error of one line that names the setting which is wrong and the remedy.
 * The SDK's own words for a failed handshake are "Failed to connect before the deadline", or a transport error: the handshake is made
 * once more, to see why.
 */
export async function explained<T>(settings: TemporalSettings, attempt: () => Promise<T>): Promise<T> {
  try {
    return await attempt();
  } catch (error) {
    const reason = refusal(settings, error) ?? (await unreachable(settings));
    throw reason === undefined ? error : new Error(reason, { cause: error });
  }
}

/** Of gRPC. */
export const Code = { NotFound: 5, PermissionDenied: 7, Unimplemented: 12, Unauthenticated: 16 } as const;

/** The code of gRPC and the words of the server, as the SDK wraps them. */
export function answerIn(error: unknown): { code: number; details: string } | undefined {
  const { code, details, cause } = (error ?? {}) as { code?: unknown; details?: unknown; cause?: unknown };
  if (typeof code === 'number') return { code, details: typeof details === 'string' ? details : '' };
  return cause === undefined ? undefined : answerIn(cause);
}

/** What went wrong, in the words of whoever knows best: the server, where it answered. */
export function oneLine(error: unknown): string {
  const details = answerIn(error)?.details ?? '';
  const words = error instanceof Error ? error.message : String(error);
  const [line = ''] = (details === '' ? words : details).split('\n');
  return line;
}

/** What a server that answers has against us. */
function refusal(
  { connectionOptions, namespace, address }: TemporalSettings,
  error: unknown,
): string | undefined {
  const answer = answerIn(error);
  if (answer === undefined) return undefined;
  const words = answer.details === '' ? '' : ` (${answer.details})`;
  switch (answer.code) {
    case Code.NotFound:
      return `namespace (TEMPORAL_NAMESPACE): ${address} has no namespace "${namespace}"${words}: correct it, or make it by npm run temporal-config -- apply`;
    case Code.PermissionDenied:
    case Code.Unauthenticated:
      return connectionOptions.apiKey === undefined
        ? `api_key (TEMPORAL_API_KEY): ${address} wants credentials${words}, and no key is given: give one that may use namespace "${namespace}"`
        : `api_key (TEMPORAL_API_KEY): ${address} refuses the key${words}: give one that is valid and may use namespace "${namespace}", or correct the namespace`;
    default:
      return undefined;
  }
}

/** Milliseconds. */
const answersWithin = 5_000;

/** HTTP/2's first words to a server (RFC 9113, 3.4), with empty settings: one that speaks it answers with its own. */
const preface = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);

/** First byte of what a server says that expected TLS: an alert. */
const tlsAlert = 0x15;

/** In one line that names the setting and the remedy; undefined when the server takes the connection. */
async function unreachable({ connectionOptions, address }: TemporalSettings): Promise<string | undefined> {
  const { tls } = connectionOptions;
  if (tls === undefined || tls === null || tls === false) return plainProblem(address);
  const given = tls === true ? {} : tls;
  const { host, port } = hostAndPort(address);
  const { crt, key } = given.clientCertPair ?? {};
  const serverName = given.serverNameOverride ?? (isIP(host) === 0 ? host : undefined);
  const heard = await hear(
    connectTls({
      host,
      port,
      ...(serverName !== undefined && { servername: serverName }),
      ALPNProtocols: ['h2'],
      ...(given.serverRootCACertificate && { ca: Buffer.from(given.serverRootCACertificate) }),
      ...(crt && key && { cert: Buffer.from(crt), key: Buffer.from(key) }),
    }),
    'secureConnect',
  );
  if (heard.kind === 'Answer') return undefined;
  return tlsProblem(heard, address, crt !== undefined);
}

async function plainProblem(address: string): Promise<string | undefined> {
  const heard = await hear(connectPlain(hostAndPort(address)), 'connect');
  if (heard.kind === 'Answer' && heard.first !== tlsAlert) return undefined;
  if (!heard.connected) return nobodyAnswers(address, heard);
  return `tls: ${address} does not speak plainly, and probably wants TLS: add a table tls to the profile, or set TEMPORAL_TLS=true`;
}

type Heard = { connected: boolean } & (
  | { kind: 'Answer'; first: number | undefined }
  | { kind: 'Silence' }
  | { kind: 'Error'; code: string; message: string }
);

/** What a server says to the preface. A client certificate is refused only after the handshake, as the client sees it. */
function hear(socket: Socket | TLSSocket, connectedOn: 'connect' | 'secureConnect'): Promise<Heard> {
  return new Promise((resolve) => {
    let connected = false;
    const end = (heard: { kind: 'Silence' } | { kind: 'Answer'; first: number | undefined }) => {
      resolve({ connected, ...heard });
      socket.destroy();
    };
    socket.setTimeout(answersWithin, () => end({ kind: 'Silence' }));
    socket.once(connectedOn, () => {
      connected = true;
      socket.write(preface);
    });
    socket.once('data', (data: Buffer) => end({ kind: 'Answer', first: data[0] }));
    socket.once('close', () => end({ kind: 'Silence' }));
    socket.once('error', ({ code = '', message }: NodeJS.ErrnoException) => {
      resolve({ connected, kind: 'Error', code, message });
      socket.destroy();
    });
  });
}

function tlsProblem(
  heard: Exclude<Heard, { kind: 'Answer' }>,
  address: string,
  isCertified: boolean,
): string {
  const { code, message } = heard.kind === 'Error' ? heard : { code: '', message: '' };
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `tls.server_name (TEMPORAL_TLS_SERVER_NAME): ${message}: correct the address, or name the server as its certificate does`;
  if (code === 'CERT_HAS_EXPIRED') return `the certificate of ${address} has expired: renew it at the server`;
  if (untrusted.has(code))
    return `tls.server_ca_cert_path (TEMPORAL_TLS_SERVER_CA_CERT_PATH): no authority that is trusted here has signed the certificate of ${address} (${code}): give the one that has`;
  if (message.includes('wrong version number'))
    return `tls: ${address} does not speak TLS: remove tls and api_key from the profile, or set TEMPORAL_TLS=false`;
  // Whoever breaks off without a word after the handshake did not like the certificate, or its absence.
  if (heard.connected || message.includes('alert'))
    return isCertified
      ? `tls.client_cert_path (TEMPORAL_TLS_CLIENT_CERT_PATH): ${address} refuses the certificate${alertIn(message)}: give one that its authority has signed`
      : `tls.client_cert_path (TEMPORAL_TLS_CLIENT_CERT_PATH): ${address} wants the certificate of a client${alertIn(message)}, and none is given: give it and its key`;
  return nobodyAnswers(address, heard);
}

/** Of OpenSSL, as node names them. */
const untrusted = new Set([
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'CERT_SIGNATURE_FAILURE',
]);

/** `... alert certificate required ...` in the words of OpenSSL. */
function alertIn(message: string): string {
  const [, alert] = /alert ([a-z ]+)/.exec(message) ?? [];
  return alert === undefined ? '' : ` (${alert.trim()})`;
}

function nobodyAnswers(address: string, heard: Heard): string {
  const reason = heard.kind === 'Error' ? heard.code || heard.message : 'no answer';
  return `address (TEMPORAL_ADDRESS): nobody answers at ${address} (${reason}): correct it, or start Temporal there`;
}

function hostAndPort(address: string): { host: string; port: number } {
  const [, host = address, port = '7233'] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(address) ?? [];
  return { host, port: Number(port) };
}
