import type { AddressInfo } from 'node:net';
import { createHttpServer, defaultLimits } from '../http/server.ts';
import { aborted } from '../kube/abort.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import type { AgentConfig } from './config.ts';
import { type AgentState, metricsText } from './metrics.ts';

/** Serves liveness and metrics until the signal aborts, if a port is configured. Rejects with an Error that names the setting if it is taken. */
export async function serveHealth(
  health: AgentConfig['health'],
  state: AgentState,
  { log, signal }: { readonly log: Log; readonly signal: AbortSignal },
): Promise<void> {
  if (health === undefined) return aborted(signal);
  const page = (type: string, body: () => string) => ({
    method: 'GET' as const,
    respond: () => ({ status: 200, type, body: body() }),
  });
  const routes = {
    '/healthz': page('text/plain', () => 'ok\n'),
    '/metrics': page('text/plain; version=0.0.4', () => metricsText(state)),
  };
  const server = createHttpServer({
    name: 'health',
    routes,
    limits: defaultLimits,
    log,
    onRejection: () => undefined,
  });
  const { port, address } = health;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) =>
      reject(new Error(`--health-port: ${address} port ${port} cannot be opened: ${errorMessage(error)}`)),
    );
    server.listen({ port, host: address }, resolve);
  });
  log.info('Health is served', { address, port: (server.address() as AddressInfo).port });
  await aborted(signal);
  server.close();
}
