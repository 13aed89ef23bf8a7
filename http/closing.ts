import { once } from 'node:events';
import type { Server } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';

const idleCheckMs = 50;

/** Accepts no more connections, and resolves when the requests in progress are answered, but within this time: then it closes their connections. */
export async function closeGracefully(server: Server | HttpsServer, withinMs: number): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, 'close');
  server.close();
  // A client that keeps its connection open may send another request on it: the connection is closed once it has none.
  const idle = setInterval(() => server.closeIdleConnections(), idleCheckMs);
  const limit = new AbortController();
  try {
    await Promise.race([closed, sleep(withinMs, undefined, { signal: limit.signal })]);
  } finally {
    limit.abort();
    clearInterval(idle);
    server.closeAllConnections();
  }
}
