import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { UnreliableNetwork } from './unreliableNetwork.ts';

const answer = 'a'.repeat(1_000);

let server: Server;
let proxy: Awaited<ReturnType<typeof UnreliableNetwork.beforePort>>;

beforeAll(async () => {
  // Answers each request, but not `wait`.
  server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (request) => {
      if (request.toString() !== 'wait') socket.end(answer);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  proxy = await UnreliableNetwork.beforePort((server.address() as AddressInfo).port);
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

describe('an unreliable network', () => {
  test('forwards whole answers', async () => expect(await received()).toBe(answer));

  test('ends answers anywhere, and forwards whole ones again', async () => {
    proxy.network.truncate();
    const parts = await Promise.all(Array.from({ length: 20 }, received));
    for (const part of parts) expect(answer.startsWith(part) && part.length < answer.length).toBe(true);
    expect(new Set(parts.map(({ length }) => length)).size).toBeGreaterThan(1);
    proxy.network.up();
    expect(await received()).toBe(answer);
  });

  test('resets the connections that it cuts', async () => {
    const connected = once(server, 'connection');
    const socket = dialled();
    socket.write('wait');
    await connected;
    proxy.network.cut();
    const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toBe('ECONNRESET');
  });
});
