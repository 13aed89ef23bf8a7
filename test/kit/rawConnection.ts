import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { KeyPair } from '../../admission/keyPair.ts';
import { eventuallyHolds } from './eventually.ts';

/** A connection whose bytes the test chooses. */
export interface RawConnection {
  readonly socket: Socket;
  /** Returns what has arrived. */
  received(): string;
  /** Resolves with everything that arrived, when the connection is closed by either side. */
  readonly closed: Promise<string>;
  isClosed(): boolean;
}

interface RawOptions {
  over?: 'tcp' | 'tls';
  /** The address to connect from. */
  from?: string;
  /** The certificate of the client, over TLS. */
  client?: KeyPair | undefined;
}

/** Resolves when the connection is open, or closed again. */
export async function connectRaw(
  port: number,
  { over = 'tcp', from = '127.0.0.1', client }: RawOptions = {},
): Promise<RawConnection> {
  const options = { host: '127.0.0.1', port, localAddress: from };
  const pair = client && { cert: client.certificate, key: client.key };
  const socket =
    over === 'tls' ? connectTls({ ...options, ...pair, rejectUnauthorized: false }) : connect(options);
  // A reset ends it as an orderly end does.
  socket.on('error', () => undefined);
  let received = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    received += text;
  });
  const closed = new Promise<string>((resolve) => {
    socket.once('close', () => resolve(received));
  });
  await Promise.race([
    closed,
    new Promise<void>((resolve) => {
      socket.once(over === 'tls' ? 'secureConnect' : 'connect', () => resolve());
    }),
  ]);
  return { socket, received: () => received, closed, isClosed: () => socket.closed };
}

/** Sends the bytes on a connection of their own, ends its own side, and resolves with everything that arrived when it is closed. */
export async function exchange(
  port: number,
  bytes: string | Uint8Array,
  options?: RawOptions,
): Promise<string> {
  const connection = await connectRaw(port, options);
  connection.socket.end(bytes);
  return connection.closed;
}

/** Sends the text, and waits until so many responses have started. Returns their status codes. */
export async function statusesOf(
  { socket, received }: RawConnection,
  text: string,
  count = 1,
): Promise<number[]> {
  socket.write(text);
  const statuses = () => [...received().matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
  return eventuallyHolds(`${count} responses`, statuses, ({ length }) => length >= count);
}
