import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { TruncatingRelay } from './truncatingRelay.ts';

const answer = 'a'.repeat(1_000);

let server: Server;
let proxy: Awaited<ReturnType<typeof TruncatingRelay.beforePort>>;

beforeAll(async () => {
  // Answers each request, but resets the connection when the request is `reset`.
  server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (request) => {
      if (request.toString() === 'reset') socket.resetAndDestroy();
      else socket.end(answer);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  proxy = await TruncatingRelay.beforePort((server.address() as AddressInfo).port);
});
afterAll(async () => {
  await proxy?.close();
  server?.close();
});

function dialled() {
  return connect(Number(proxy.address.split(':')[1]), '127.0.0.1');
}

async function received(): Promise<string> {
  const socket = dialled();
  socket.write('request');
  return (await buffer(socket)).toString();
}

describe('a relay that truncates', () => {
  test('forwards whole answers', async () => expect(await received()).toBe(answer));

  test('ends answers anywhere, and forwards whole ones again', async () => {
    proxy.relay.begin();
    const parts = await Promise.all(Array.from({ length: 20 }, received));
    for (const part of parts) expect(answer.startsWith(part) && part.length < answer.length).toBe(true);
    expect(new Set(parts.map(({ length }) => length)).size).toBeGreaterThan(1);
    proxy.relay.end();
    expect(await received()).toBe(answer);
  });

  test('resets a connection that is reset behind it', async () => {
    const socket = dialled();
    socket.write('reset');
    const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toBe('ECONNRESET');
  });
});
