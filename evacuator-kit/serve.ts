import type { Server } from 'node:http';
import { type Answer, createHttpServer, defaultLimits, type Route } from '../http/server.ts';
import type { Log } from '../kube/log.ts';
import type { EvacuatorMetrics } from './metrics.ts';

/** State of a process for its probes. */
export interface Health {
  /** Whether the cluster was checked and everything that the evacuator observes was listed. */
  isReady: boolean;
}

export interface Ports {
  readonly healthPort: number | undefined;
  readonly metricsPort: number | undefined;
}

interface Served {
  readonly health: Readonly<Health>;
  readonly metrics: EvacuatorMetrics;
  readonly log: Log;
}

/** Serves what has a port. Resolves with a function that closes the servers. Throws an Error with the option for a port that is taken or invalid. */
export async function serve(ports: Ports, { health, metrics, log }: Served): Promise<() => void> {
  const servers: Server[] = [];
  const close = () => {
    for (const server of servers) server.close();
  };
  const listenOn = async (option: keyof Ports, routes: Record<string, Route>) => {
    const port = ports[option];
    if (port === undefined) return;
    requirePort(option, port);
    const name = option === 'healthPort' ? 'health' : 'metrics';
    const server = createHttpServer({
      name,
      routes,
      limits: defaultLimits,
      log,
      onRejection: (_server, reason) => log.debug('A connection was closed', { server: name, reason }),
    });
    servers.push(server);
    await listen(server, option, port);
  };
  try {
    await listenOn('healthPort', {
      '/healthz': get(() => plain(200, 'ok\n')),
      '/readyz': get(() => (health.isReady ? plain(200, 'ok\n') : plain(503, 'not ready\n'))),
    });
    await listenOn('metricsPort', {
      '/metrics': get(async () => ({ status: 200, type: metrics.contentType, body: await metrics.text() })),
    });
    return close;
  } catch (error) {
    close();
    throw error;
  }
}

function get(respond: Route['respond']): Route {
  return { method: 'GET', respond };
}

function plain(status: number, body: string): Answer {
  return { status, type: 'text/plain; charset=utf-8', body };
}

function requirePort(option: keyof Ports, port: number): void {
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return;
  throw new Error(`${option}: expected a port from 1 to 65535 (got ${port})`);
}

function listen(server: Server, option: keyof Ports, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) =>
      reject(
        cause.code === 'EADDRINUSE'
          ? new Error(`${option}: port ${port} is taken; choose another one`, { cause })
          : cause,
      ),
    );
    server.listen(port, () => resolve());
  });
}
