import type { Server as HttpServer } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { KeyPair } from '../../admission/keyPair.ts';
import { issueAuthority, issueClient, issueServing } from '../../admission/issue.ts';
import {
  createHttpServer,
  createHttpsServer,
  defaultLimits,
  type Limits,
  type Rejection,
  type Route,
  type ServerOptions,
} from '../../http/server.ts';
import { closeGracefully } from '../../http/closing.ts';
import { recordedLog, type LogRecorder } from '../kube/fixtures.ts';
import { eventually } from '../kit/eventually.ts';
import { malformedRequests } from '../kit/malformedRequests.ts';
import { connectRaw, exchange, type RawConnection, statusesOf } from '../kit/rawConnection.ts';
import { servingCertificate } from '../kit/servingCertificate.ts';

/** Not reached by the tests that are not about it. */
const limits: Limits = {
  ...defaultLimits,
  maxBodyBytes: 1_000_000,
  maxBufferedBytes: 10_000_000,
  headersTimeoutMs: 60_000,
  requestTimeoutMs: 60_000,
  responseTimeoutMs: 60_000,
  idleTimeoutMs: 60_000,
};

/** A request that is answered when the test says so. */
interface Pending {
  signal: AbortSignal;
  answer(): void;
}

let log: LogRecorder;
let rejected: Rejection[];
let pending: Pending[];
let port: number;
let certificate: { cert: string; key: string };
const close: (() => void)[] = [];

const page = (body: string) => ({ status: 200, type: 'text/plain', body });

const routes: Record<string, Route> = {
  '/page': { method: 'GET', respond: () => page('hello') },
  '/large': { method: 'GET', respond: () => page('x'.repeat(50_000_000)) },
  '/echo': { method: 'POST', respond: (body) => page(body) },
  '/later': {
    method: 'GET',
    respond: (_body, signal) =>
      new Promise((resolve) => pending.push({ signal, answer: () => resolve(page('at last')) })),
  },
  '/throws': {
    method: 'GET',
    respond: () => {
      throw new Error('secret');
    },
  },
  '/rejects': { method: 'GET', respond: () => Promise.reject(new Error('secret')) },
};

beforeAll(async () => {
  const { serving } = await servingCertificate();
  certificate = { cert: serving.certificate, key: serving.key };
});

afterEach(() => {
  for (const end of close.splice(0)) end();
});

async function serve(differs: Partial<Limits> = {}, over: 'tcp' | 'tls' = 'tcp'): Promise<void> {
  if (over === 'tcp') return listen(createHttpServer(optionsOf(differs)));
  const server = createHttpsServer(optionsOf(differs));
  server.setSecureContext(certificate);
  return listen(server);
}

function optionsOf(differs: Partial<Limits>): ServerOptions {
  log = recordedLog();
  rejected = [];
  pending = [];
  const onRejection = (_server: string, reason: Rejection) => void rejected.push(reason);
  return { name: 'test', routes, limits: { ...limits, ...differs }, log, onRejection };
}

async function listen(server: HttpServer | HttpsServer): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ({ port } = server.address() as AddressInfo);
  close.push(() => {
    server.close();
    server.closeAllConnections();
  });
}

const open = async (
  ...args: Parameters<typeof connectRaw> extends [number, ...infer Rest] ? Rest : never
) => {
  const connection = await connectRaw(port, ...args);
  close.push(() => connection.socket.destroy());
  return connection;
};

const get = (path: string, ...headers: string[]) => request(`GET ${path} HTTP/1.1`, ...headers);
const request = (line: string, ...headers: string[]) => [line, 'Host: x', ...headers, '', ''].join('\r\n');
const post = (body: string, length = body.length) =>
  `${request('POST /echo HTTP/1.1', 'Content-Type: application/json', `Content-Length: ${length}`)}${body}`;

/** Proves that the server still serves. */
async function expectPage(options?: Parameters<typeof open>[0]): Promise<void> {
  // On a busy machine this request, too, may arrive after the timeout of a test.
  await eventually('the page', async () => {
    const connection = await open(options);
    expect(await statusesOf(connection, get('/page', 'Connection: close'))).toEqual([200]);
    expect(await connection.closed).toContain('hello');
  });
}

describe('a server answers', () => {
  test.each([
    { line: 'GET /page HTTP/1.1', status: 200 },
    { line: 'HEAD /page HTTP/1.1', status: 200 },
    { line: 'GET /page?timeout=10s HTTP/1.1', status: 200 },
    { line: 'GET /page/ HTTP/1.1', status: 404 },
    { line: 'GET / HTTP/1.1', status: 404 },
    { line: 'GET // HTTP/1.1', status: 404 },
    { line: 'GET /// HTTP/1.1', status: 404 },
    { line: 'GET http://[ HTTP/1.1', status: 404 },
    { line: 'GET /%zz HTTP/1.1', status: 404 },
    { line: 'GET /constructor HTTP/1.1', status: 404 },
    { line: 'OPTIONS * HTTP/1.1', status: 404 },
    { line: 'DELETE /page HTTP/1.1', status: 405 },
    { line: 'GET /echo HTTP/1.1', status: 405 },
    { line: 'POST /echo HTTP/1.1', status: 415 },
    { line: 'GET /page HTTP/1.1\0', status: 400 },
    { line: 'nonsense', status: 400 },
  ])('$line with $status', async ({ line, status }) => {
    await serve();
    expect(await statusesOf(await open(), request(line))).toEqual([status]);
    await expectPage();
  });

  test('a wrong method with those that are allowed', async () => {
    await serve();
    expect(await exchange(port, request('PUT /page HTTP/1.1'))).toMatch(/^allow: GET, HEAD\r$/m);
    expect(await exchange(port, request('PUT /echo HTTP/1.1'))).toMatch(/^allow: POST\r$/m);
  });

  test.each(['/throws', '/rejects'])(
    'a failure of the handler of %s with 500, without its details',
    async (path) => {
      await serve();
      const answer = await exchange(port, get(path, 'Connection: close'));
      expect(answer).toMatch(/^HTTP\/1\.1 500 /);
      expect(answer).not.toContain('secret');
      expect(log.lines).toEqual([
        { level: 'error', message: 'Request failed', fields: { server: 'test', path, error: 'secret' } },
      ]);
      expect(rejected).toEqual(['Failed']);
      await expectPage();
    },
  );

  test('after it could not accept a connection', async () => {
    const server = createHttpServer(optionsOf({}));
    await listen(server);
    server.emit('error', new Error('accept EMFILE'));
    expect(log.lines).toEqual([
      {
        level: 'error',
        message: 'Connection could not be accepted',
        fields: { server: 'test', error: 'accept EMFILE' },
      },
    ]);
    await expectPage();
  });

  test('bodies with a length, and in chunks of any size', async () => {
    await serve();
    const text = 'äöü'.repeat(20_000);
    const whole = await open();
    expect(await statusesOf(whole, post(text, Buffer.byteLength(text)))).toEqual([200]);
    const chunked = await open();
    const bytes = [...Buffer.from('{"a":1}')].map((byte) => `1\r\n${String.fromCharCode(byte)}\r\n`).join('');
    const head = request(
      'POST /echo HTTP/1.1',
      'Content-Type: application/json',
      'Transfer-Encoding: chunked',
    );
    expect(await statusesOf(chunked, `${head}${bytes}0\r\n\r\n`)).toEqual([200]);
    await eventually('the echoes', () => {
      expect(Buffer.from(whole.received(), 'latin1').toString()).toContain(text);
      expect(chunked.received()).toContain('{"a":1}');
    });
  });
});

describe('a server closes a connection', () => {
  test('that sends nothing, with 408', async () => {
    await serve({ headersTimeoutMs: 100 });
    expect(await (await open()).closed).toMatch(/^HTTP\/1\.1 408 /);
    expect(rejected).toEqual(['Timeout']);
    await expectPage();
  });

  test('whose headers do not end, with 408', async () => {
    await serve({ headersTimeoutMs: 300 });
    const { socket, closed } = await open();
    socket.write('GET /page HTTP/1.1\r\nHost: x\r\n');
    const slow = setInterval(() => socket.write('X-Slow: x\r\n'), 20);
    expect(await closed).toMatch(/^HTTP\/1\.1 408 /);
    clearInterval(slow);
    await expectPage();
  });

  test('whose body does not end, with 408', async () => {
    await serve({ headersTimeoutMs: 100, requestTimeoutMs: 300 });
    const { socket, closed } = await open();
    socket.write(post('{', 1_000));
    const slow = setInterval(() => socket.write(' '), 20);
    expect(await closed).toMatch(/^HTTP\/1\.1 408 /);
    clearInterval(slow);
    await expectPage();
  });

  test('that is idle after a response', async () => {
    await serve({ idleTimeoutMs: 100 });
    const { socket, closed } = await open();
    socket.write(get('/page'));
    expect(await closed).toMatch(/^HTTP\/1\.1 200 /);
  });

  test('that sends bytes after a response, but no request', async () => {
    await serve({ idleTimeoutMs: 300, headersTimeoutMs: 300 });
    const { socket, closed } = await open();
    socket.write(get('/page'));
    const slow = setInterval(() => socket.write('\r\n'), 20);
    expect(await closed).toMatch(/^HTTP\/1\.1 200 /);
    clearInterval(slow);
  });

  test('whose request is not answered in time, and aborts its handler', async () => {
    await serve({ responseTimeoutMs: 300 });
    const { socket, closed } = await open();
    socket.write(get('/later'));
    expect(await closed).toBe('');
    await eventually('the handler to be aborted', () =>
      expect(pending.map(({ signal }) => signal.aborted)).toEqual([true]),
    );
    expect(rejected).toEqual(['Timeout']);
  });

  test('that does not take its response in time', async () => {
    await serve({ responseTimeoutMs: 300 });
    const { socket, closed } = await open();
    socket.pause();
    socket.write(get('/large'));
    await eventually('the connection to be closed', () => expect(rejected).toEqual(['Timeout']));
    socket.resume();
    expect((await closed).length).toBeLessThan(50_000_000);
  });

  test('whose headers are too large, with 431', async () => {
    await serve();
    const answer = await exchange(port, get('/page', `X: ${'x'.repeat(limits.maxHeaderBytes)}`));
    expect(answer).toMatch(/^HTTP\/1\.1 431 /);
    expect(rejected).toEqual(['SizeLimit']);
    await expectPage();
  });

  test('that pipelines, so that one connection is one request at a time', async () => {
    await serve();
    expect(await exchange(port, get('/page').repeat(10_000))).toBe('');
    expect(rejected).toEqual(['Pipelined']);
    await expectPage();
  });

  test('whose peer has gone, and aborts its handler', async () => {
    await serve();
    const { socket } = await open();
    socket.write(get('/later'));
    await eventually('the request', () => expect(pending).toHaveLength(1));
    socket.resetAndDestroy();
    await eventually('the handler to be aborted', () => expect(pending[0]?.signal.aborted).toBe(true));
    pending[0]?.answer();
    await expectPage();
    expect(rejected).toEqual([]);
  });
});

describe('the size of bodies is limited:', () => {
  test('one with a larger length is answered with 413 before it is sent', async () => {
    await serve({ maxBodyBytes: 100 });
    expect(await statusesOf(await open(), post('', 101))).toEqual([413]);
    expect(rejected).toEqual(['SizeLimit']);
  });

  test('one in chunks is answered with 413, and the rest is discarded', async () => {
    await serve({ maxBodyBytes: 100 });
    const head = request(
      'POST /echo HTTP/1.1',
      'Content-Type: application/json',
      'Transfer-Encoding: chunked',
    );
    const chunk = `ffff\r\n${'x'.repeat(0xffff)}\r\n`;
    expect(await statusesOf(await open(), `${head}${chunk.repeat(50)}0\r\n\r\n`)).toEqual([413]);
    expect(await statusesOf(await open(), post('x'.repeat(100)))).toEqual([200]);
  });

  test('when all together are too large, the largest that is not complete is given up', async () => {
    await serve({ maxBufferedBytes: 400_000 });
    const bodyOf = async (bytes: number) => {
      const connection = await open();
      connection.socket.write(post('x'.repeat(bytes), 1_000_000));
      return connection;
    };
    const large = await bodyOf(200_000);
    const small = await open();
    small.socket.write(post('x'.repeat(20_000), 20_001));
    expect(large.isClosed()).toBe(false);
    const other = await bodyOf(90_000);
    expect(await large.closed).toBe('');
    expect(rejected).toEqual(['MemoryLimit']);
    expect(await statusesOf(small, 'x')).toEqual([200]);
    expect(other.isClosed()).toBe(false);
  });
});

describe('the number of requests is limited:', () => {
  test('further ones are answered with 503, until one has ended', async () => {
    await serve({ maxRequests: 2 });
    const [first, second, third] = [await open(), await open(), await open()];
    for (const { socket } of [first, second]) socket.write(get('/later'));
    await eventually('two requests', () => expect(pending).toHaveLength(2));
    expect(await statusesOf(third, get('/page'))).toEqual([503]);
    expect(third.received()).toContain('retry-after: 1');
    expect(rejected).toEqual(['RequestLimit']);
    pending[0]?.answer();
    await eventually('the first response', () => expect(first.received()).toContain('at last'));
    expect(await statusesOf(third, get('/page'), 2)).toEqual([503, 200]);
  });
});

describe('the number of connections is limited:', () => {
  const openAll = async (count: number, options?: Parameters<typeof open>[0]) => {
    const all: RawConnection[] = [];
    for (let index = 0; index < count; index += 1) all.push(await open(options));
    return all;
  };

  test('a new one is served, and closes the one that has waited longest', async () => {
    await serve({ maxConnections: 3 });
    const [first, second, third] = await openAll(3);
    expect(await statusesOf(first as RawConnection, get('/page'))).toEqual([200]);
    await expectPage();
    await second?.closed;
    expect([first, third].map((one) => one?.isClosed())).toEqual([false, false]);
    expect(rejected).toEqual(['ConnectionLimit']);
  });

  test('peers with few keep theirs while one opens thousands', async () => {
    await serve({ maxConnections: 10 });
    const [idle, sending] = await openAll(2);
    sending?.socket.write('GET /page HTTP/1.1\r\n');
    const strangers = await openAll(1_000, { from: '127.0.0.2' });
    expect(await statusesOf(sending as RawConnection, 'Host: x\r\n\r\n')).toEqual([200]);
    expect(await statusesOf(idle as RawConnection, get('/page'))).toEqual([200]);
    await expectPage();
    expect(strangers.filter((one) => !one.isClosed()).length).toBeLessThanOrEqual(8);
  });

  test('one whose request is being handled stays', async () => {
    await serve({ maxConnections: 2 });
    const [waiting] = await openAll(1);
    waiting?.socket.write(get('/later'));
    await eventually('the request', () => expect(pending).toHaveLength(1));
    await openAll(5);
    pending[0]?.answer();
    await eventually('the response', () => expect(waiting?.received()).toContain('at last'));
  });
});

describe('a server over TLS', () => {
  test.each([
    { sends: 'nothing', bytes: '' },
    { sends: 'a request without TLS', bytes: get('/page') },
    { sends: 'the start of a handshake', bytes: '\x16\x03\x01\x02\x00\x01' },
    { sends: 'anything', bytes: '\0'.repeat(1_000) },
  ])('closes a connection that sends $sends, and serves others', async ({ bytes }) => {
    await serve({ headersTimeoutMs: 200 }, 'tls');
    const { socket, closed } = await open();
    socket.write(bytes, 'latin1');
    await closed;
    await expectPage({ over: 'tls' });
  });

  test('fails handshakes while it has no certificate', async () => {
    const server = createHttpsServer(optionsOf({}));
    await listen(server);
    expect((await open({ over: 'tls' })).socket.destroyed).toBe(true);
    expect(rejected).toEqual(['Tls']);
    server.setSecureContext(certificate);
    await expectPage({ over: 'tls' });
  });

  test('answers slow headers with 408, and limits connections as another one does', async () => {
    await serve({ headersTimeoutMs: 500, maxConnections: 4 }, 'tls');
    const { socket, closed } = await open({ over: 'tls' });
    socket.write('GET /page HTTP/1.1\r\n');
    for (let index = 0; index < 20; index += 1) await open({ from: '127.0.0.2' });
    await expectPage({ over: 'tls' });
    expect(await closed).toMatch(/^HTTP\/1\.1 408 /);
    expect(rejected).toContain('ConnectionLimit');
  });
});

describe('a server over TLS that authenticates its clients', () => {
  const validity = { notBefore: Date.now() - 3_600_000, notAfter: Date.now() + 3_600_000 };
  const expired = { notBefore: Date.now() - 7_200_000, notAfter: Date.now() - 3_600_000 };
  let ca: KeyPair;
  let foreign: KeyPair;

  beforeAll(async () => {
    [ca, foreign] = await Promise.all([issueAuthority(validity), issueAuthority(validity)]);
  });

  const serveTo = async (...names: string[]) => {
    const server = createHttpsServer(optionsOf({}), { names });
    server.setSecureContext({ ...certificate, ca: ca.certificate });
    await listen(server);
    return server;
  };

  test('answers clients of its authority', async () => {
    await serveTo();
    await expectPage({ over: 'tls', client: await issueClient(ca, 'anyone', validity) });
    expect(rejected).toEqual([]);
  });

  test('answers no other client, and counts it', async () => {
    const clients = {
      'no certificate': undefined,
      'one of another authority': await issueClient(foreign, 'apiserver', validity),
      'one that it signed itself': foreign,
      'one that has expired': await issueClient(ca, 'apiserver', expired),
      'one for servers': await issueServing(ca, ['127.0.0.1'], validity),
    };
    for (const [which, client] of Object.entries(clients)) {
      await serveTo();
      expect([which, await exchange(port, get('/page'), { over: 'tls', client })]).toEqual([which, '']);
      await eventually(`the rejection of ${which}`, () => expect(rejected).toEqual(['Tls']));
    }
  });

  test('answers the names that are accepted only', async () => {
    await serveTo('apiserver', 'other-apiserver');
    await expectPage({ over: 'tls', client: await issueClient(ca, 'other-apiserver', validity) });
    const client = await issueClient(ca, 'a-kubelet', validity);
    expect(await exchange(port, get('/page'), { over: 'tls', client })).toBe('');
    expect(rejected).toEqual(['Tls']);
    expect(log.lines).toEqual([
      { level: 'warn', message: 'Client was rejected', fields: { server: 'test', commonName: 'a-kubelet' } },
    ]);
  });

  test('resumes no session of a client whose authority was removed', async () => {
    const server = await serveTo();
    const client = await issueClient(ca, 'apiserver', validity);
    const first = await resumed(port, get('/page', 'Connection: close'), { client });
    expect(first).toMatchObject({ received: expect.stringContaining('hello'), session: expect.any(Buffer) });
    const { session } = first;
    const again = await resumed(port, get('/page', 'Connection: close'), { session });
    expect(again).toMatchObject({ received: expect.stringContaining('hello'), isReused: true });
    server.setSecureContext({ ...certificate, ca: foreign.certificate });
    expect(await resumed(port, get('/page'), { session })).toMatchObject({ received: '', isReused: false });
  });
});

/** Sends a request on a connection that resumes a session, or has a certificate. Also returns the session that the server offers. */
function resumed(
  to: number,
  text: string,
  { client, session }: { client?: KeyPair; session?: Buffer | undefined },
): Promise<{ received: string; session: Buffer | undefined; isReused: boolean }> {
  return new Promise((resolve) => {
    const pair = client && { cert: client.certificate, key: client.key };
    const socket = connectTls({ host: '127.0.0.1', port: to, rejectUnauthorized: false, session, ...pair });
    let received = '';
    let offered: Buffer | undefined;
    let isReused = false;
    socket.once('secureConnect', () => {
      isReused = socket.isSessionReused();
    });
    socket.on('error', () => undefined);
    socket.on('session', (next) => {
      offered = next;
    });
    socket.setEncoding('latin1').on('data', (part: string) => {
      received += part;
    });
    socket.once('close', () => resolve({ received, session: offered, isReused }));
    socket.write(text);
  });
}

describe('any bytes', () => {
  test.each(['tcp', 'tls'] as const)('over %s end no server', async (over) => {
    await serve({ headersTimeoutMs: 500, requestTimeoutMs: 500, idleTimeoutMs: 200 }, over);
    const attack = async (batch: Uint8Array[]) => {
      await Promise.all(batch.map((bytes) => exchange(port, bytes, { over })));
      await expectPage({ over });
    };
    await fc.assert(fc.asyncProperty(fc.array(malformedRequests, { minLength: 20, maxLength: 20 }), attack), {
      numRuns: 25,
    });
    expect(log.lines).toEqual([]);
  });
});

describe('a server that is closed', () => {
  async function inProgress() {
    const server = createHttpServer(optionsOf({}));
    await listen(server);
    const [idle, busy] = [await open(), await open()];
    await statusesOf(idle, get('/page'));
    busy.socket.write(get('/later'));
    await eventually('the request', () => expect(pending).toHaveLength(1));
    return { server, idle, busy };
  }

  test('answers the request in progress, closes the other connections, and accepts no more', async () => {
    const { server, idle, busy } = await inProgress();
    const closed = closeGracefully(server, 60_000);
    await idle.closed;
    expect((await open()).isClosed()).toBe(true);
    pending[0]?.answer();
    await closed;
    expect(await busy.closed).toContain('at last');
  });

  test('waits for a request no longer than its limit', async () => {
    const { server, busy } = await inProgress();
    await closeGracefully(server, 100);
    expect(await busy.closed).toBe('');
  });
});
