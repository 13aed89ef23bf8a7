import { type AddressInfo, createServer, type Server as NetServer } from 'node:net';
import { type Answer, createHttpServer, defaultLimits, type ServerOptions } from '../http/server.ts';
import type { Config, Port } from './config.ts';

/** Pages of the process about itself. */
export interface Pages {
  healthz: () => Answer;
  readyz: () => Answer;
  metrics: () => Promise<Answer>;
}

interface Listening {
  /** The ports, by server. */
  ports: { health: number; metrics: number };
  close(): void;
}

/** Serves health and metrics on their own ports. */
export async function serve(
  { healthz, readyz, metrics }: Pages,
  { healthPort, metricsPort }: Pick<Config, 'healthPort' | 'metricsPort'>,
  options: Pick<ServerOptions, 'log' | 'onRejection'>,
): Promise<Listening> {
  const limits = defaultLimits;
  const get = (respond: () => Promise<Answer> | Answer) => ({ method: 'GET' as const, respond });
  const probes = { '/healthz': get(healthz), '/readyz': get(readyz) };
  const health = createHttpServer({ ...options, limits, name: 'health', routes: probes });
  const pages = { '/metrics': get(shared(metrics)) };
  const prometheus = createHttpServer({ ...options, limits, name: 'metrics', routes: pages });
  const ports = {
    health: await listenOn(health, healthPort, 'health'),
    metrics: await listenOn(prometheus, metricsPort, 'metrics'),
  };
  return {
    ports,
    close: () => {
      for (const server of [health, prometheus]) server.close();
    },
  };
}

/** Returns a function whose concurrent calls share one result, so that many scrapes at once cost as much as one. */
function shared<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => {
    running ??= work().finally(() => {
      running = undefined;
    });
    return running;
  };
}

/**
 * Listens and resolves with the port. If a default port is taken, a free one replaces it, so that two workers can run on one host.
 * Throws an Error with flag and remedy if the user asked for a port that is taken, or for an address that this host does not have.
 */
export async function listenOn(
  server: NetServer,
  { number, isExplicit, address }: Port,
  name: string,
): Promise<number> {
  try {
    await listen(server, number, address);
  } catch (error) {
    const remedy = remedyOf(error, { number, address, name });
    if (remedy === undefined) throw error;
    if (isExplicit || !isTaken(error)) throw new Error(remedy, { cause: error });
    await listen(server, 0, address);
  }
  return (server.address() as AddressInfo).port;
}

function listen(server: NetServer, port: number, host: string | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function remedyOf(
  error: unknown,
  { number, address, name }: { number: number; address: string | undefined; name: string },
): string | undefined {
  switch ((error as NodeJS.ErrnoException).code) {
    case 'EADDRINUSE':
      return `--${name}-port: port ${number} is taken; choose another port, or omit the flag to use a free one`;
    case 'EADDRNOTAVAIL':
      return `--${name}-bind-address: this host has no address ${address}; choose one that it has, or omit the flag to use all`;
    case 'EACCES':
      return `--${name}-port: port ${number} needs privileges; choose a port of 1024 or above`;
    default:
      return undefined;
  }
}

function isTaken(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
}

/** Finds a port of the loopback interface that is free now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
