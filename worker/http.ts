import { createServer, type Server } from 'node:http';
import type { AddressInfo, Server as NetServer } from 'node:net';
import type { Port } from './config.ts';

export interface Answer {
  status: number;
  type: string;
  body: string;
}

/** Path -> answer. */
export type Routes = Record<string, () => Promise<Answer> | Answer>;

/** Serves the routes; resolves with the port. */
export async function serve(
  routes: Routes,
  port: Port,
  flag: string,
): Promise<{ port: number; server: Server }> {
  const server = createServer((request, response) => {
    const route = routes[new URL(request.url ?? '/', 'http://localhost').pathname];
    const answer = async (): Promise<Answer> =>
      (await route?.()) ?? { status: 404, type: 'text/plain', body: 'not found\n' };
    answer()
      .catch((error: unknown) => ({ status: 500, type: 'text/plain', body: `${String(error)}\n` }))
      .then(({ status, type, body }) => response.writeHead(status, { 'content-type': type }).end(body))
      .catch(() => response.destroy());
  });
  return { port: await listenOn(server, port, flag), server };
}

/**
 * Resolves with the port that is listened on. One that was not asked for by name gives way to a free one, so that two
 * workers run side by side on one host. Throws an Error that names flag and remedy when one that was asked for is taken.
 */
export async function listenOn(server: NetServer, { number, named }: Port, flag: string): Promise<number> {
  try {
    await listen(server, number);
  } catch (error) {
    if (!isTaken(error)) throw error;
    if (named)
      throw new Error(
        `${flag}: port ${number} is taken; choose another, or leave the flag out to use a free one`,
        { cause: error },
      );
    await listen(server, 0);
  }
  return (server.address() as AddressInfo).port;
}

function listen(server: NetServer, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function isTaken(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
}

/** A port that is free now, on the loopback interface. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
