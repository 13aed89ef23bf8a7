import type { Payload, PayloadCodec } from '@temporalio/common';
import {
  type Answer,
  createHttpServer,
  createHttpsServer,
  defaultLimits,
  type Limits,
} from '../../http/server.ts';
import type { Log } from '../../kube/log.ts';
import { DecryptionError } from '../../temporal-config/encryptionCodec.ts';
import { listenOn } from '../http.ts';
import { authorizer } from './authorization.ts';
import { type PayloadJson, parsePayloads } from './payloads.ts';
import type { CodecServerConfig } from './settings.ts';
import { keepCertificate } from './tls.ts';

const mebibyte = 1024 * 1024;

const limits: Limits = {
  ...defaultLimits,
  // Temporal UI asks for the payloads of one event in each request, and for those of many events at once.
  maxConnections: 256,
  maxRequests: 64,
  // Tokens of identity providers can be long.
  maxHeaderBytes: 16 * 1024,
  // Two blobs of the maximum size that Temporal accepts, in base64.
  maxBodyBytes: 8 * mebibyte,
  maxBufferedBytes: 64 * mebibyte,
};

interface CodecServer {
  port: number;
  close(): void;
}

/**
 * Serves the remote codec protocol of Temporal: `POST /encode` and `POST /decode`, below any path, with `{"payloads": [...]}` as the JSON of
 * protobuf.
 */
export async function serveCodec(
  codec: PayloadCodec,
  config: CodecServerConfig,
  log: Log,
): Promise<CodecServer> {
  const { authorization, origins, address, port: number, tls } = config;
  const authorize = authorizer(authorization, log);
  const post = (convert: (payload: Payload) => Promise<Payload[]>) => ({
    method: 'POST' as const,
    ...(authorize && { authorize }),
    respond: (body: string) => converted(body, convert),
  });
  const encode = (payload: Payload) => codec.encode([payload]);
  const decode = (payload: Payload) => codec.decode([payload]).catch((error) => asReceived(payload, error));
  const routes = {
    '/encode': post(encode),
    '/decode': post(decode),
    '/healthz': { method: 'GET' as const, respond: () => text(200, 'ok') },
  };
  const cors = { origins, headers: ['authorization', 'content-type', 'x-namespace'] };
  const onRejection = () => undefined;
  const options = { name: 'codec', routes, hasPrefixes: true, limits, cors, log, onRejection };
  const server = tls === undefined ? createHttpServer(options) : createHttpsServer(options);
  const stopReading = tls && 'setSecureContext' in server ? keepCertificate(server, tls, log) : undefined;
  const port = await listenOn(server, { number, isExplicit: true, address }, 'port');
  return {
    port,
    close: () => {
      stopReading?.();
      server.close();
    },
  };
}

/** The UI and the CLI show a payload that is not decoded, and the others of the same request. The log contains the reason. */
function asReceived(payload: Payload, error: unknown): Payload[] {
  if (!(error instanceof DecryptionError)) throw error;
  return [payload];
}

async function converted(body: string, convert: (payload: Payload) => Promise<Payload[]>): Promise<Answer> {
  const parsed = parsePayloads(body);
  if ('problem' in parsed)
    return text(400, `expected {"payloads": [{"metadata": {...}, "data": ...}]}: ${parsed.problem}`);
  const payloads = await Promise.all(parsed.payloads.map((json) => convertedJson(json, convert)));
  return { status: 200, type: 'application/json', body: JSON.stringify({ payloads }) };
}

async function convertedJson(
  json: PayloadJson,
  convert: (payload: Payload) => Promise<Payload[]>,
): Promise<PayloadJson> {
  const { metadata = {}, data = '' } = json;
  const payload = { metadata: mapValues(metadata, bytesOf), data: bytesOf(data) };
  const [result = payload] = await convert(payload);
  if (result === payload) return json;
  const text64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
  return { metadata: mapValues(result.metadata ?? {}, text64), data: text64(result.data ?? Buffer.alloc(0)) };
}

/** Buffer accepts both alphabets of base64. */
function bytesOf(text64: string): Buffer {
  return Buffer.from(text64, 'base64');
}

function mapValues<From, To>(map: Record<string, From>, convert: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(map).map(([name, value]) => [name, convert(value)]));
}

function text(status: number, line: string): Answer {
  return { status, type: 'text/plain', body: `${line}\n` };
}
